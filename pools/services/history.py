"""Writes to the history of configuration: rollback, tags, and removal of a revision.

A rollback restores the one object that a revision changed, as a new revision. It goes through the same
service as every other write, so everything is checked again against the present (schedulers, clusters, living
workflows), and no other object is touched. Rejected: OSMO's way, which writes back the whole set of the type
and so undoes other people's changes to other pools.

A type of configuration takes part by adding its restorer to ``RESTORERS``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from pools.models import ConfigRevision
from pools.services.backends import delete_backend, put_backend
from pools.services.pod_templates import delete_pod_template, put_pod_template
from pools.services.pools import delete_pool, put_pool
from pools.services.recording import MAX_TAGS, ConfigChange
from pools.services.workflow_config import put_workflow_config
from scheduling.errors import Conflict, Fault, InvalidSpec, NotFound
from web.rest.errors import summary


class Restore(Protocol):
    """Write an object as it once was, or delete it (``content`` None), with the checks of every write.

    Raises NotFound for the deletion of an absent object. A write that changes nothing leaves no revision.
    """

    def __call__(self, *, name: str, content: Any, change: ConfigChange, force: bool) -> None: ...


def _restorer(put: Callable[..., object], delete: Callable[..., object]) -> Restore:
    def restore(*, name: str, content: Any, change: ConfigChange, force: bool) -> None:
        if content is None:
            delete(name=name, change=change, force=force)
        else:
            put(name=name, document=content, change=change)

    return restore


def _workflow(*, name: str, content: Any, change: ConfigChange, force: bool) -> None:
    del name, force
    put_workflow_config(document=content, change=change)


RESTORERS: dict[str, Restore] = {
    ConfigRevision.Type.BACKEND: _restorer(put_backend, delete_backend),
    ConfigRevision.Type.POD_TEMPLATE: _restorer(
        put_pod_template, lambda *, name, change, **_: delete_pod_template(name=name, change=change)
    ),
    ConfigRevision.Type.POOL: _restorer(put_pool, delete_pool),
    ConfigRevision.Type.WORKFLOW: _workflow,
}
"""How each type of configuration is written back."""


def roll_back(
    *,
    config_type: str,
    revision: int,
    change: ConfigChange,
    force: bool,
) -> ConfigRevision:
    """Restore the object of a revision to its state after that revision; returns its newest revision.

    A deletion deletes the object again; a missing object is created again. Raises InvalidSpec for what is no
    longer valid, Conflict where something prevents a deletion.
    """
    row = _revision(config_type, revision)
    summary = f"Rolled back to {config_type}:{revision}"
    why = f"{summary}: {change.description}" if change.description else f"{summary}."
    try:
        RESTORERS[config_type](
            name=row.name,
            content=row.content,
            change=replace(change, description=why),
            force=force,
        )
    except InvalidSpec as error:
        raise _no_longer_valid(row, error) from error
    except NotFound:
        if row.content is not None:
            raise  # another object is missing; a repeated deletion is no error
    newest = ConfigRevision.objects.filter(config_type=config_type, name=row.name).order_by("-revision")
    return newest.defer("content")[0]


def _no_longer_valid(row: ConfigRevision, error: InvalidSpec) -> InvalidSpec:
    at = f"{row.config_type}:{row.revision}"
    faults = [replace(fault, path=(at, *fault.path)) for fault in error.faults]
    reasons = summary(error.faults) if error.faults else error.message
    return InvalidSpec(f'{at} of "{row.name}" is no longer valid, and nothing was changed. {reasons}', faults)


def retag(
    *,
    config_type: str,
    revision: int,
    change: ConfigChange,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
) -> ConfigRevision:
    """Add and remove tags of a revision. Raises InvalidSpec for more tags than are kept."""
    with _history_change(change):
        row = _revision(config_type, revision, lock=True)
        remaining = [tag for tag in row.tags if tag not in remove]
        tags = list(dict.fromkeys([*remaining, *add]))
        if len(tags) > MAX_TAGS:
            message = f"A revision has at most {MAX_TAGS} tags; this would make {len(tags)}."
            raise InvalidSpec(message, [Fault(("set_tags",), "too_many", message)])
        row.tags = tags
        row.save(update_fields=["tags"])
    return row


def take_out(*, config_type: str, revision: int, change: ConfigChange) -> ConfigRevision:
    """Take a revision out of the history: it is hidden from now on, and still counts in sets.

    Raises Conflict for the newest revision of an object, which is in force.
    """
    with _history_change(change):
        row = _revision(config_type, revision, lock=True)
        newest = ConfigRevision.objects.filter(config_type=config_type, name=row.name)
        if newest.aggregate(newest=Max("revision"))["newest"] == revision:
            message = (
                f'{config_type}:{revision} is the current state of "{row.name}", so it stays in the history.'
            )
            raise Conflict(message)
        row.deleted_at = timezone.now()
        row.deleted_by = change.username
        row.save(update_fields=["deleted_at", "deleted_by"])
    return row


@contextmanager
def _history_change(change: ConfigChange) -> Iterator[None]:
    """Open a transaction that changes no configuration and is therefore allowed beside a declared file."""
    with transaction.atomic():
        yield
        if change.is_dry_run:
            transaction.set_rollback(True)


def _revision(config_type: str, revision: int, *, lock: bool = False) -> ConfigRevision:
    rows = ConfigRevision.objects.filter(config_type=config_type, revision=revision, deleted_at=None)
    if lock:
        rows = rows.select_for_update()
    if config_type not in RESTORERS or (row := rows.first()) is None:
        raise NotFound(f"There is no revision {config_type}:{revision}.")
    return row
