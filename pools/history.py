"""Reads of the history of configuration, and the view of it that OSMO's clients know.

A ConfigRevision keeps one object as one change left it. OSMO keeps the whole set of a type with every change.
That set is built here on request, in one pass over the revisions between the first and the last shown: each
object at the first of them, then every change after it. Rejected: storing the set with each row, which grows
with the square of the number of pools and would show a caller pools that are not theirs.

A revision that was taken out of the history (``deleted_at``) is shown nowhere, and no rollback reaches it.
Its change still happened, so it counts where a set is built: taking a revision out never alters what the
others show.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml
from django.db.models import Q, QuerySet

from pools.models import ConfigRevision
from pools.selectors import Caller
from scheduling.errors import Fault, InvalidSpec, NotFound
from web.access.rights import grants_of
from web.database.transactions import one_transaction
from web.policy import Action

MAX_OBJECTS = 20_000
"""Objects in all sets of one reply together: a thousand sets of a thousand pools are no reply."""

MAX_PAGE = 1000
MAX_LINES = 5000
"""Of one object that are compared."""

NAMED: Mapping[str, str] = {"POOL": "pool", "BACKEND": "backend"}
"""Types whose objects are resources of their own; all others are ``config/<type>``."""

NOT_KEPT = (
    "BACKEND_TEST",
    "DATASET",
    "GROUP_TEMPLATE",
    "RESOURCE_VALIDATION",
    "ROLE",
    "SERVICE",
)
"""OSMO's other types; a client lists them all, and those that are not kept here have no revisions."""

Contents = Mapping[str, Any]
"""Name -> content: the set of a type."""

METADATA = ("config_type", "revision", "name", "username", "created_at", "description", "tags")
"""The columns of a revision where its content is not wanted."""


def resource_of(config_type: str, name: str) -> str:
    """The resource on which a role must grant ``config:Read`` or ``config:Update`` for this object."""
    kind = NAMED.get(config_type)
    return f"{kind}/{name}" if kind else f"config/{config_type.lower()}"


def known_types() -> tuple[str, ...]:
    return tuple(sorted({*ConfigRevision.Type.values, *NOT_KEPT}))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """The criteria of a list."""

    types: Collection[str] = ()
    name: str = ""
    revision: int | None = None
    tags: Collection[str] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None

    at: datetime | None = None
    """Selects, for each type, the newest revision at that time."""

    newest_first: bool = field(default=False)
    offset: int = 0
    limit: int = 20


def revisions_visible_to(user: Caller) -> QuerySet[ConfigRevision]:
    """The revisions of all objects whose configuration the user may read, without those taken out."""
    return _narrowed(ConfigRevision.objects.filter(deleted_at=None), user)


def page(user: Caller, criteria: HistoryFilter) -> list[ConfigRevision]:
    """One page of the history, without contents: the newest that match, in the requested order."""
    rows = _matching(revisions_visible_to(user), criteria).only(*METADATA)
    if criteria.at:
        newest = rows.filter(created_at__lte=criteria.at).order_by("config_type", "-revision")
        rows_of_page = sorted(newest.distinct("config_type"), key=_age)
    else:
        ordered = rows.order_by("-created_at", "-pk")
        rows_of_page = list(ordered[criteria.offset : criteria.offset + criteria.limit])[::-1]
    return rows_of_page[::-1] if criteria.newest_first else rows_of_page


def _age(row: ConfigRevision) -> tuple[datetime, int]:
    return row.created_at, row.pk


def _matching(rows: QuerySet[ConfigRevision], criteria: HistoryFilter) -> QuerySet[ConfigRevision]:
    if criteria.types:
        rows = rows.filter(config_type__in=criteria.types)
    if criteria.name:
        rows = rows.filter(name=criteria.name)
    if criteria.revision is not None:
        rows = rows.filter(revision=criteria.revision)
    if criteria.tags:
        rows = rows.filter(tags__contains=list(criteria.tags))
    if criteria.created_after:
        rows = rows.filter(created_at__gt=criteria.created_after)
    if criteria.created_before:
        rows = rows.filter(created_at__lt=criteria.created_before)
    return rows


def revision_visible_to(user: Caller, config_type: str, revision: int) -> ConfigRevision:
    """One revision. Raises NotFound if it is absent, was taken out, or is not visible to the user."""
    rows = revisions_visible_to(user).filter(config_type=config_type, revision=revision)
    if row := rows.first():
        return row
    newest = revisions_visible_to(user).filter(config_type=config_type).order_by("-revision")
    last = newest.values_list("revision", flat=True).first()
    hint = f"; the newest is {last}." if last else "; there is none of this type."
    raise NotFound(f"There is no revision {config_type}:{revision}{hint}")


def sets_after(user: Caller, rows: Iterable[ConfigRevision]) -> dict[tuple[str, int], Contents]:
    """For each row, the set of its type after its change, as far as the user may read it.

    Two queries for each type. Raises InvalidSpec if the sets are too large for one reply.
    """
    revisions_by_type: dict[str, list[int]] = {}
    for row in rows:
        revisions_by_type.setdefault(row.config_type, []).append(row.revision)
    sets: dict[tuple[str, int], Contents] = {}
    with one_transaction():
        for config_type, revisions in revisions_by_type.items():
            for revision, contents in _sets(user, config_type, sorted(set(revisions))):
                sets[config_type, revision] = contents
                if sum(map(len, sets.values())) > MAX_OBJECTS:
                    raise _too_much()
    return sets


def _too_much() -> InvalidSpec:
    message = f"The sets of these revisions hold over {MAX_OBJECTS} objects: ask for fewer with limit, or "
    message += "give omit_data=True."
    return InvalidSpec(message, [Fault(("limit",), "too_large", message)])


def _sets(user: Caller, config_type: str, revisions: Sequence[int]) -> Iterable[tuple[int, Contents]]:
    rows = _narrowed(ConfigRevision.objects.filter(config_type=config_type), user)
    first, last = revisions[0], revisions[-1]
    start = rows.filter(revision__lte=first).order_by("name", "-revision").distinct("name")
    contents = {
        name: content for name, content in start.values_list("name", "content") if content is not None
    }
    later = rows.filter(revision__gt=first, revision__lte=last).order_by("revision")
    changes = (
        later.values_list("revision", "name", "content").iterator(chunk_size=200) if last > first else ()
    )
    due = list(revisions)
    for revision, name, content in changes:
        while due[0] < revision:
            yield due.pop(0), dict(contents)
        if content is None:
            contents.pop(name, None)
        else:
            contents[name] = content
    yield from ((revision, dict(contents)) for revision in due)


def _narrowed(rows: QuerySet[ConfigRevision], user: Caller) -> QuerySet[ConfigRevision]:
    """The rows whose objects' configuration the user may read."""
    grants = grants_of(user)
    others = [kind for kind in ConfigRevision.Type.values if kind not in NAMED]
    allowed = [kind for kind in others if grants.allows(Action.CONFIG_READ, resource_of(kind, ""))]
    visible = Q(config_type__in=allowed)
    for config_type, kind in NAMED.items():
        names = grants.names(kind, {Action.CONFIG_READ})
        of_type = Q(config_type=config_type)
        visible |= of_type if names is None else of_type & Q(name__in=names)
    return rows.filter(visible)


def as_set(config_type: str, contents: Contents) -> Any:
    """A set as OSMO writes it: pools under ``pools``, backends as a list, the limits bare, others by name."""
    named = {name: {"name": name, **contents[name]} for name in sorted(contents)} if contents else {}
    if config_type == ConfigRevision.Type.POOL:
        return {"pools": named}
    if config_type == ConfigRevision.Type.BACKEND:
        return list(named.values())
    if config_type == ConfigRevision.Type.WORKFLOW:
        return contents.get("workflow", {})
    return {name: contents[name] for name in sorted(contents)}


def as_yaml(content: Any) -> str:
    """Content as YAML; empty for None."""
    if content is None:
        return ""
    return str(yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True, width=100))


def changed_names(before: Contents, after: Contents) -> list[str]:
    """The names of objects that differ between the sets."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def unified_diff(before: Any, after: Any, *, name: str, was: str, now: str) -> str:
    """The changes of one object as a unified diff of its YAML; empty if there are none."""
    old, new = as_yaml(before).splitlines(), as_yaml(after).splitlines()
    source = f"{name} ({was})" if before is not None else "nothing"
    target = f"{name} ({now})" if after is not None else "nothing"
    if max(len(old), len(new)) > MAX_LINES and old and new:  # comparing may take the square of them
        return f"--- {source}\n+++ {target}\n@@ Over {MAX_LINES} lines, which are not compared @@"
    return "\n".join(difflib.unified_diff(old, new, fromfile=source, tofile=target, lineterm=""))
