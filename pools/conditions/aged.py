"""Conditions that follow from observations, where these are old: Unknown, with what they were."""

from dataclasses import replace

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
