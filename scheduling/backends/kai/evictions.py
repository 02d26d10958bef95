"""Why KAI evicted a pod.

KAI deletes a pod without a condition. The cause is in an event on the pod group: a text with the pod's name,
and the action in an annotation, which follows the text in the stored event. Source: events observed on KAI
v0.13 and v0.17; actions preempt, reclaim, consolidation, stalegangeviction.
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


def read_eviction(message: str) -> Eviction:
    """Read the stored message of an event, with its action at the end."""
    match = _ACTION.search(message)
    cause, why = _ACTIONS.get(match[1] if match else "", (EvictionCause.UNKNOWN, ""))
    return Eviction(cause, f"The scheduler evicted it{f' {why}' if why else ''}: {message}")
