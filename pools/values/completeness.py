"""Whether all objects of a kind that a cluster has are known, in one map of its row.

A kind without an entry is unknown: its rows have no meaning, and an absent row says nothing. An entry says
when all were last listed, or why they cannot be followed. Nothing here says how old that is: changes are
followed since (``freshness``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Func, JSONField, Q, Value

from scheduling.nodes.devices import CLASSES, NOT_SERVED, SLICES, UNLISTED

NODES = "nodes"
OTHERS = "others"
"""The pods of other tenants that use nodes."""
GANGS = "gangs"
"""All gangs that others submitted, of whatever kind. Any other kind is a resource, such as SLICES."""


@dataclass(frozen=True, slots=True)
class Completeness:
    """When all objects of a kind were last listed, or why not; neither before the first try."""

    synced_at: datetime | None = None
    problem: str = ""

    @classmethod
    def of(cls, entries: Mapping[str, Any], kind: str) -> "Completeness":
        """Read a kind's entry in the map of a cluster."""
        entry = entries.get(kind, {})
        synced_at = entry.get("synced_at")
        return cls(datetime.fromisoformat(synced_at) if synced_at else None, entry.get("problem", ""))

    @property
    def is_known(self) -> bool:
        return self.synced_at is not None


def merged(problems: Mapping[str, str | None], *, now: datetime) -> Func:
    """The map with these kinds written anew, as an expression that loses no concurrent write of others.

    By kind: why not all are known, empty if all were listed now, None for unknown.
    """
    listed = {"synced_at": now.isoformat()}
    entries = {
        kind: listed if problem == "" else problem and {"problem": problem}
        for kind, problem in problems.items()
    }
    return Func(
        *(F("completeness"), Value(entries, JSONField())),
        template="jsonb_strip_nulls(%(expressions)s)",
        arg_joiner=" || ",
        output_field=JSONField(),
    )


def where_known(kind: str, *, of: str = "") -> Q:
    """The clusters of which all objects of the kind are known; ``of`` is the path to a row's cluster."""
    return Q(**{f"{of}completeness__{kind}__has_key": "synced_at"})


def is_known(kind: str) -> str:
    """The same in SQL, by a column that no other table has."""
    return f"(completeness #> '{{{kind},synced_at}}' IS NOT NULL)"


def problem_of(kind: str) -> str:
    """Why a kind is not known, in SQL."""
    return f"(completeness #>> '{{{kind},problem}}')"


def devices_problem(entries: Mapping[str, Any]) -> str:
    """Why slices or classes of devices are not known; empty if they are."""
    slices, classes = (Completeness.of(entries, kind) for kind in (SLICES, CLASSES))
    if classes.problem == NOT_SERVED or (slices.is_known and classes.is_known):
        return ""
    return slices.problem or classes.problem or UNLISTED
