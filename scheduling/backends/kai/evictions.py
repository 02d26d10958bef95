"""Why KAI evicted a pod.

KAI deletes a pod without a condition. The cause is in an event on the pod group: a text with the pod's name,
and the action in an annotation, which follows the text in the stored event. From the tenth similar event on,
client-go merges events and drops the annotation; the text has an action of its own, so it is read then.
Source: events observed on KAI v0.13 and v0.17; actions preempt, reclaim, consolidation, stalegangeviction;
the text of reclaim by the source.
"""

import re
from collections.abc import Mapping

from scheduling.backends.base import Eviction, EvictionCause

ACTION_ANNOTATION = "evictor-action-type"
EVICTED_ANNOTATION = "kai.scheduler/last-eviction-timestamp"
"""On a pod group, from v0.17 on: when its pods were last evicted, but for being too few."""

_ACTION = re.compile(r"\(action: ([a-z]+)\)\s*$")
_ACTIONS: Mapping[str, tuple[EvictionCause, str]] = {
    "stalegangeviction": (EvictionCause.STALE_GANG, "because too few tasks of its gang were running"),
    "preempt": (EvictionCause.PREEMPTION, "to make room for work of higher priority"),
    "reclaim": (EvictionCause.RECLAIM, "because another queue reclaimed its share"),
    "consolidation": (EvictionCause.CONSOLIDATION, "to pack running work closer together"),
}


_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"was preempted by higher priority workload "), "preempt"),
    (re.compile(r"was preempted by workload "), "reclaim"),
    (re.compile(r"was preempted and rescheduled due to bin packing"), "consolidation"),
    (re.compile(r"Workload doesn't (?:have|meet) the minimum required number of pods"), "stalegangeviction"),
)


def read_eviction(message: str) -> Eviction:
    """Read the stored message of an event, which has its action at the end unless it was merged."""
    cause, why = _ACTIONS.get(_action(message), (EvictionCause.UNKNOWN, ""))
    if not why:
        return Eviction(cause, f"It was evicted by KAI, cause unknown: {message}")
    return Eviction(cause, f"The scheduler evicted it {why}: {message}")


def _action(message: str) -> str:
    """The action in an event's annotation, else in its text; empty if neither has one that is known."""
    if match := _ACTION.search(message):
        return match[1]
    return next((action for pattern, action in _TEXTS if pattern.search(message)), "")
