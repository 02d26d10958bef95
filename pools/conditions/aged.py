"""Conditions that follow from observations, where these are old: Unknown, with what they were."""

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any

from pools.conditions import Condition
from pools.values.freshness import Freshness

SILENT = "ObserverSilent"


def by(freshness: Freshness, condition: Condition) -> Condition:
    """The condition; Unknown where what it follows from is old."""
    if not freshness.is_old or freshness.observed_at is None or condition.status == "Unknown":
        return condition
    was = f"{condition.status} ({condition.reason})"
    message = (
        f"The observer was last heard at {freshness.observed_at:%Y-%m-%d %H:%M} UTC. By what is known from "
        f"then, it was {was}{f': {condition.message}' if condition.message else '.'}"
    )
    return replace(condition, status="Unknown", reason=SILENT, message=message)


def rows(
    freshness: Freshness, written: Iterable[dict[str, Any]], *, types: Container[str]
) -> list[dict[str, Any]]:
    """Conditions as they were written; those of these types Unknown where what they follow from is old."""
    if not freshness.is_old:
        return list(written)
    return [_row(freshness, row) if row["type"] in types else row for row in written]


def _row(freshness: Freshness, row: dict[str, Any]) -> dict[str, Any]:
    fields = ("type", "status", "reason", "message")
    condition = by(freshness, Condition(**{field: row[field] for field in fields}))
    return {**row, **{field: getattr(condition, field) for field in fields}}
