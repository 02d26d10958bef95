"""Waking a waiting Workload, where Kueue does not look at it again by itself.

Up to 0.18.4 Kueue counts pods that are not its own, and does not notice that one has ended: on a quiet
cluster a Workload that waited for it waits for ever. An annotation does not wake it; another
``maximumExecutionTimeSeconds`` does, and the Workload keeps its place in the queue (seen on 0.17.0).

Kueue ends a Workload that has run for so long. So the value begins at more than 60 years. The wakes are
counted on top of it, which bounds them: each needs twice the wait of the one before.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduling.backends.base import Manifest
from scheduling.backends.kueue import reasons
from scheduling.backends.kueue.version import release_at
from scheduling.capabilities import SchedulerVersion

FOREVER = 2_000_000_000
"""Seconds; the field takes 31 bits."""

MOST = 20
FIRST_AFTER = 5.0
"""For how many seconds Kueue must have said that there is no room."""


def wake(workload: Mapping[str, Any], *, version: SchedulerVersion | None, now: datetime) -> Manifest | None:
    """The merge patch that makes Kueue look at the Workload again; None where that is not for the service.

    ``version`` None: it is not known, and Kueue may do it by itself.
    """
    if version is None or release_at(version).sees_foreign_ends:
        return None
    since = _without_room_since(workload)
    spec = workload.get("spec") or {}
    wakes = max(int(spec.get("maximumExecutionTimeSeconds") or 0) - FOREVER, 0)
    if since is None or wakes >= MOST or (now - since).total_seconds() < FIRST_AFTER * 2**wakes:
        return None
    return {"spec": {"maximumExecutionTimeSeconds": FOREVER + wakes + 1}}


def is_unanswered(workload: Mapping[str, Any]) -> bool:
    """Whether the condition ``QuotaReserved`` is of an earlier generation: Kueue is asked again."""
    generation = (workload.get("metadata") or {}).get("generation")
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(
        int(condition.get("observedGeneration") or generation or 0) < int(generation or 0)
        for condition in conditions
        if condition.get("type") == "QuotaReserved"
    )


def _without_room_since(workload: Mapping[str, Any]) -> datetime | None:
    """Since when Kueue says that no domain has room; None if it says something else, or is asked again."""
    if is_unanswered(workload):
        return None
    conditions = (workload.get("status") or {}).get("conditions") or ()
    for condition in conditions:
        if (condition.get("type"), condition.get("status")) != ("QuotaReserved", "False"):
            continue
        if reasons.lacks_room(str(condition.get("message"))):
            return datetime.fromisoformat(str(condition["lastTransitionTime"]))
    return None
