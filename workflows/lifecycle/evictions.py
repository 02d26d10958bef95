"""Which of a scheduler's eviction messages are about one absent pod, and what they mean for its task.

KAI deletes plainly and gives the cause in an event on the pod group, with the pod's name in its text and
the action in an annotation, which the observer adds to the text. A pod's name is that of one try, so a
message about an earlier try never counts for a later one. From the tenth like event on, the client that KAI
writes with folds them into one and only the first names stay (client-go's correlator): then messages about
peers count for all. A message that names no pod of ours (another scheduler's wording) counts for all too. A
pod that vanishes while its peers were evicted by name was not evicted: its deletion came from elsewhere.

Pure. Source: KAI v0.13 and v0.17 events as observed; actions preempt, reclaim, consolidation,
stalegangeviction.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from workflows.lifecycle.statuses import TaskStatus

EVICTED_CODE = 3004
PREEMPTED_CODE = 3006
FOLDED_AFTER = 10
STALE = "stalegangeviction"

_POD = re.compile(r"\b[0-9a-f]{32}-[0-9]+\b")  # as scheduling.names.pod makes them
_ACTION = re.compile(r"\(action: ([a-z]+)\)\s*$")
_SENTENCES = {
    STALE: "The scheduler evicted it because too few tasks of its gang were running",
    "preempt": "The scheduler evicted it to make room for work of higher priority",
    "reclaim": "The scheduler evicted it because another queue reclaimed its share",
    "consolidation": "The scheduler evicted it to pack running work closer together",
}


@dataclass(frozen=True, slots=True)
class Eviction:
    """How an eviction ends a task."""

    status: TaskStatus
    code: int
    message: str


def eviction_message(pod: str, *, evictions: Sequence[str], peers: Collection[str]) -> str:
    """The last of ``evictions`` that is about this pod, empty for none.

    ``peers`` are the pods of its group's latest tries.
    """
    pods_in = {message: set(_POD.findall(message)) for message in evictions}
    if about_pod := [message for message in evictions if pod in pods_in[message]]:
        return about_pod[-1]
    if about_all := [message for message in evictions if not pods_in[message]]:
        return about_all[-1]
    about_peers = [message for message in evictions if not pods_in[message].isdisjoint(peers)]
    folded = len(about_peers) >= FOLDED_AFTER or any(
        "combined from similar events" in message for message in about_peers
    )
    return about_peers[-1] if folded else ""


def read_eviction(message: str) -> Eviction:
    """Preemption, reclaim and consolidation are preemption to OSMO; a stale gang is an eviction."""
    match = _ACTION.search(message)
    action = match[1] if match else ""
    text = f"{_SENTENCES.get(action, 'The scheduler evicted it')}: {message}"
    if action == STALE:
        return Eviction(TaskStatus.FAILED_EVICTED, EVICTED_CODE, text)
    return Eviction(TaskStatus.FAILED_PREEMPTED, PREEMPTED_CODE, text)
