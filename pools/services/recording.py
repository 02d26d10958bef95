"""The transaction in which configuration is checked and written, and the history it leaves.

Configuration changes one at a time. The checks span rows (a backend's scheduler must hold the keys of every
pool on it, a name must be free), changes are rare, and a second one waits for milliseconds. The lock is the
installation's row. The pools and backends that a change depends on are locked as well, for readers that must
not see them move, such as a submission that freezes its configuration. So the counter of revisions needs no
lock of its own. Rejected: serializable isolation, whose failures every caller would have to repeat.

Pools are locked before backends, in the order in which a submission locks them; work that locks no pool locks
one backend at a time. Periodic work writes to other rows than the installation's, so it waits for no change.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeVar

import structlog
from celery import current_app
from django.conf import settings
from django.db import transaction
from django.db.models import F, Max
from kombu.exceptions import KombuError

from pools import selectors
from pools.documents.yaml_text import INLINE_CHARACTERS
from pools.models import (
    Backend,
    Cluster,
    ConfigRevision,
    Installation,
    Platform,
    PodTemplate,
    Pool,
    ServiceConfig,
)
from scheduling.errors import (
    Conflict,
    Fault,
    Forbidden,
    InvalidSpec,
    Notice,
    Path,
    PreconditionFailed,
    in_order,
)
from web.limits.turns import short_turn, turn
from web.policy import Action, Grants, refusal
from web.rest.errors import summary

log = structlog.get_logger(__name__)

T = TypeVar("T")

MAX_TAGS = 32
MAX_OBJECTS = 1_000
"""Objects of a kind that a caller writes at once: each is some milliseconds, in which all others wait."""

INLINE_PLATFORMS = 16
"""So many platforms, each as large as may be, are checked and written in a few hundredths of a second."""

INLINE_OBJECTS = 16
"""As INLINE_PLATFORMS, of pools and templates: each takes a few statements, however small its document."""


class WriteMode(Enum):
    """The fate of a change once it is checked and written."""

    COMMIT = "commit"
    """It stays; refused where a file is the source of configuration."""
    DECLARED = "declared"
    """It stays; it is what the declared file says."""
    DRY_RUN = "dry run"
    """It is undone: no row, no revision and no message is left. Allowed where a file is the source, too."""
    NESTED = "nested"
    """It is part of an open change, which decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """Who changes configuration, why, and whether the change stays. Every writer is given one.

    ``grants`` are the rights of the caller behind it; None is the operator, who has the declared file or the
    command line. A change that points a pool at a backend, or widens what the pool lets its users do there,
    needs ``config:Update`` on that backend, whichever door it comes through.
    """

    username: str
    grants: Grants | None = None
    description: str = ""
    tags: tuple[str, ...] = ()
    mode: WriteMode = WriteMode.COMMIT

    expected_revision: int | None = None
    """The one that the author read of the object that is changed; 0: there was none; None: any."""

    @property
    def is_dry_run(self) -> bool:
        return self.mode is WriteMode.DRY_RUN

    def may_use(self, backend: str) -> bool:
        """Whether the caller may hand out what the backend's cluster has."""
        return self.grants is None or self.grants.allows(Action.CONFIG_UPDATE, f"backend/{backend}")

    def may_write(self, pool: str) -> bool:
        """Whether the caller may write the pool."""
        return self.grants is None or self.grants.allows(Action.CONFIG_UPDATE, f"pool/{pool}")

    def knows(self, backend: str) -> bool:
        """Whether the caller may know that the backend exists."""
        if self.grants is None:
            return True
        return any(
            self.grants.allows(action, f"backend/{backend}")
            for action in (Action.CONFIG_READ, Action.CONFIG_UPDATE)
        )


@dataclass(frozen=True, slots=True)
class Saved(Generic[T]):
    """The saved object, with notices for its author."""

    value: T
    notices: tuple[Notice, ...] = ()


def refuse_unless_may_use(change: ConfigChange, backend: str, *, why: str) -> None:
    """Raise Forbidden unless the caller may hand out what the backend's cluster has."""
    if not change.may_use(backend):
        raise Forbidden(f'{why} This needs {Action.CONFIG_UPDATE} on "backend/{backend}".')


def refuse_unless_may_read(change: ConfigChange, pool: str) -> None:
    """Raise Forbidden unless the caller may read the pool's workflows, of which targets get news."""
    resource = f"pool/{pool}"
    if change.grants is not None and not change.grants.allows(Action.WORKFLOW_READ, resource):
        raise refusal(Action.WORKFLOW_READ, resource)


@contextmanager
def configuration_change(
    change: ConfigChange, *, written: Any = None, pools: Sequence[str] = (), objects: int = 1
) -> Iterator[ConfigChange]:
    """Open the transaction of one change of configuration; other changes wait for its end.

    ``written`` is the document of so many ``objects`` that a caller sent, ``pools`` are pools that are read
    and written whole: a large change takes the caller's turn, and so does a small one beside many. Yields the
    change for writers that take part in it. Raises Conflict where a file is the source of configuration, Busy
    where a caller has too many changes.
    """
    if change.mode is WriteMode.NESTED:
        with transaction.atomic():
            yield change
        return
    refuse_declared(change)
    with _turn_of(change, written, pools, objects):
        selectors.installation()
        with transaction.atomic():
            Installation.objects.select_for_update().get()
            yield replace(change, mode=WriteMode.NESTED)
            if change.is_dry_run:
                transaction.set_rollback(True)


def refuse_many(documents: Mapping[str, Any], *, change: ConfigChange, path: Path = ()) -> None:
    """Raise InvalidSpec if a caller, who is no operator, writes too many objects of a kind at once."""
    if change.grants is None or len(documents) <= MAX_OBJECTS:
        return
    message = f"At most {MAX_OBJECTS:,} objects are written at once, not {len(documents):,}."
    raise InvalidSpec(message, [Fault(path, "too_many_objects", message, allowed=(str(MAX_OBJECTS),))])


def _turn_of(
    change: ConfigChange, written: Any, pools: Sequence[str], objects: int
) -> AbstractContextManager[None]:
    """The caller's turn for a change that may take long, or beside many others; operators have no turns."""
    if change.grants is None:
        return nullcontext()
    is_long = objects > INLINE_OBJECTS or _is_large(written) or _are_large(pools)
    return turn(change.username) if is_long else short_turn(change.username)


def _is_large(written: Any) -> bool:
    """Whether a document has more characters and values than are read in a few hundredths of a second."""
    size, left = 0, [written]
    while left and size <= INLINE_CHARACTERS:
        value = left.pop()
        size += 1
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, Mapping):
            left += value.keys()
            left += value.values()
        elif isinstance(value, list):
            left += value
    return size > INLINE_CHARACTERS


def _are_large(pools: Sequence[str]) -> bool:
    """Whether pools have so many platforms that any change of them takes long."""
    return Platform.objects.filter(pool__name__in=pools).count() > INLINE_PLATFORMS if pools else False


def declared_file() -> str:
    """The file that is the source of configuration; empty where the database is."""
    return str(settings.ENV.topology_config_file)


def refuse_declared(change: ConfigChange) -> None:
    """Raise Conflict where a file is the source of configuration and the change would stay beside it."""
    if declared_file() and change.mode is WriteMode.COMMIT:
        raise Conflict(
            f"Configuration is declared in the file {declared_file()} and cannot be changed here: edit the "
            "file, or unset OSMO_TOPOLOGY_CONFIG_FILE."
        )


def record(*, config_type: ConfigRevision.Type, name: str, content: Any, change: ConfigChange) -> int:
    """Write the history of one object and return its revision. Only inside ``configuration_change``."""
    newest = ConfigRevision.objects.filter(config_type=config_type).aggregate(newest=Max("revision"))
    revision = (newest["newest"] or 0) + 1
    ConfigRevision.objects.create(
        config_type=config_type,
        revision=revision,
        name=name,
        username=change.username,
        description=change.description,
        tags=list(change.tags),
        content=content,
    )
    Cluster.objects.update(changes=F("changes") + 1)  # conditions follow from configuration too
    return revision


def expect(row: Backend | Pool | PodTemplate | ServiceConfig | None, change: ConfigChange) -> None:
    """Raise PreconditionFailed unless the row is at the revision that the change expects."""
    present, revision = row.revision if row else 0, change.expected_revision
    if revision is not None and present != revision:
        state = f"at revision {present}" if present else "not there"
        expected = f"at revision {revision}" if revision else "absent"
        raise PreconditionFailed(f"It is {state}, not {expected} as expected: read it again.")


def refuse(faults: Sequence[Fault]) -> None:
    """Raise InvalidSpec if there is any fault."""
    if faults:
        ordered = in_order(faults)
        raise InvalidSpec(f"The configuration was not changed. {summary(ordered)}", ordered)


def enqueue(task: str, *arguments: Any) -> None:
    """Send a message once this transaction is committed. A lost one costs time, not correctness."""
    transaction.on_commit(lambda: _send(task, arguments), robust=True)


def _send(task: str, arguments: tuple[Any, ...]) -> None:
    try:
        current_app.send_task(task, args=arguments, retry=False)
    except (KombuError, OSError) as error:
        log.warning("notification_not_sent", task=task, error=str(error))
