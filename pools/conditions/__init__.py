"""Conditions: what is known about an object, in the shape Kubernetes users expect.

A condition is ``{type, status, reason, message, lastTransitionTime, observedRevision}``; status is "True",
"False" or "Unknown". ``lastTransitionTime`` moves only with the status, so it says since when the status
holds. Times are naive UTC as in the rest of the API.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from web.times import naive_utc

Status = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One fact. ``reason`` is one CamelCase word, ``message`` a sentence for people."""

    type: str
    status: Status
    reason: str
    message: str = ""


def upsert(
    conditions: Sequence[dict[str, Any]],
    news: Iterable[Condition],
    *,
    now: datetime,
    observed_revision: int,
) -> list[dict[str, Any]]:
    """Replace or add each condition, sorted by type; the others stay as they are."""
    by_type = {entry["type"]: entry for entry in conditions}
    for condition in news:
        before = by_type.get(condition.type, {})
        unchanged = before.get("status") == condition.status
        by_type[condition.type] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": before["lastTransitionTime"]
            if unchanged
            else naive_utc(now, precision="seconds"),
            "observedRevision": observed_revision,
        }
    return [by_type[key] for key in sorted(by_type)]


def differs(conditions: Iterable[dict[str, Any]], condition: Condition) -> bool:
    """Whether a condition says something else than the recorded one of its type, or is the first."""
    before = find(conditions, condition.type) or {}
    return any(before.get(field) != getattr(condition, field) for field in ("status", "reason", "message"))


def without(conditions: Sequence[dict[str, Any]], kinds: Iterable[str]) -> list[dict[str, Any]]:
    """The conditions except those of these types."""
    excluded = set(kinds)
    return [entry for entry in conditions if entry["type"] not in excluded]


def find(conditions: Iterable[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    """The condition of this type, or None if it was never set."""
    return next((entry for entry in conditions if entry["type"] == kind), None)


def status_of(conditions: Iterable[dict[str, Any]], kind: str) -> str | None:
    """The status of a condition, or None if it was never set."""
    entry = find(conditions, kind)
    return str(entry["status"]) if entry else None
