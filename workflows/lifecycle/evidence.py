"""Why a pod that was deleted ended, concluded from what it left behind; no event needs to have arrived.

A scheduler deletes a pod like anybody else: the pod is gone, and its events are mostly dropped. So objects
are asked: the marks that the scheduler put on the pod group, and who stands on the node since. The kind of
evidence is kept with the verdict. A deletion that nothing explains is called that.

Whoever reads a group may not know the groups that took its place, so a verdict names their priority and the
node and never them. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pools.values.recovery import Loss
from web.times import read_instant
from workflows.values.observation import PodSeen

EVICTION_MARK = "eviction_timestamp"
STALE_MARK = "stale_mark"
PLACED_ABOVE = "placed_above"

DISRUPTIONS: Mapping[str, str] = {
    "DeletionByTaintManager": "its node failed, or got a taint that it does not tolerate",
    "DeletionByDeviceTaintManager": "one of its devices got a taint that it does not tolerate",
    "EvictionByEvictionAPI": "somebody evicted it, as when a node is drained",
    "TerminationByKubelet": "its node shut down or ran out of something",
    "DeletionByPodGC": "its node is no longer there",
}
"""What the reasons of ``DisruptionTarget`` mean that are no preemption; each is the node's loss."""

LONGEST_GRACE = 10 * 365 * 86_400.0
"""Seconds; a cluster may write any number."""

AT_ONCE = timedelta(seconds=10)
"""How far the time of an eviction may lie from the request to delete a pod that it was about."""

WITHOUT_REQUEST = timedelta(seconds=120)
"""The same where only the end of the pod is known, which comes after its grace period."""

SECONDS_LATER = timedelta(seconds=30)
"""How long after a pod ended a group may get its node and count as having taken its place."""

RANKS: Mapping[str, int] = {"LOW": 0, "NORMAL": 1, "HIGH": 2}
LOWEST = "LOW"
"""Only work of this priority is ever preempted for work of a higher one."""


@dataclass(frozen=True, slots=True)
class Successor:
    """A pod of another group that has a node: when it got it, and its group's priority."""

    node: str
    placed_at: datetime
    priority: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionTraces:
    """The possible causes of deletions of a group's pods.

    ``evicted_at`` and ``stale_since`` are marks of the scheduler on the pod group; it evicts a gang that is
    below its minimum for ``stale_grace`` seconds, None for never. ``successors`` are on the nodes of pods
    that are gone, and are looked up when they are asked for.
    """

    priority: str = "NORMAL"
    evicted_at: datetime | None = None
    stale_since: datetime | None = None
    stale_grace: float | None = None
    successors: Callable[[], Sequence[Successor]] = field(default=tuple)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The kind of loss, from what it was concluded, and a sentence; ``stale``: it was no preemption."""

    loss: Loss
    evidence: str
    message: str
    stale: bool = False


def conclude(pod: PodSeen, traces: DeletionTraces, *, gone_at: datetime | None) -> Conclusion | None:
    """Why a pod was deleted; None if nothing explains it. ``gone_at`` is when it was first missed."""
    requested_at = deletion_requested(pod)
    if _was_evicted(pod, traces, requested_at, gone_at):
        message = "It was preempted: its scheduler marked the pod group as evicted when it was deleted."
        return Conclusion(Loss.PREEMPTED, EVICTION_MARK, message)
    ended_at = requested_at or gone_at
    if ended_at is not None and _was_stale(traces, ended_at):
        message = "Its scheduler evicted it, because too few tasks of its gang were running for too long."
        return Conclusion(Loss.PREEMPTED, STALE_MARK, message, stale=True)
    if ended_at is not None and (successor := _successor(pod, traces, ended_at, gone_at)):
        seconds = max(0, round((successor.placed_at - (gone_at or ended_at)).total_seconds()))
        later = f"{seconds} second{'' if seconds == 1 else 's'} later" if seconds else "at that moment"
        message = (
            f"It was deleted, most likely preempted: a group of priority {successor.priority} was placed on "
            f"{successor.node} {later}."
        )
        return Conclusion(Loss.PREEMPTED, PLACED_ABOVE, message)
    return None


def deletion_requested(pod: PodSeen) -> datetime | None:
    """When somebody asked for the pod's deletion; None if it was never seen being deleted."""
    deadline = read_instant(pod.digest.get("deletion"))
    if deadline is None:
        return None
    return deadline - timedelta(seconds=min(float(pod.digest.get("grace") or 0), LONGEST_GRACE))


def may_be_preempted(pod: PodSeen, traces: DeletionTraces) -> bool:
    """Whether a group of higher priority may still be placed where the pod stood."""
    return traces.priority == LOWEST and bool(pod.node_name)


def _was_evicted(
    pod: PodSeen, traces: DeletionTraces, requested_at: datetime | None, gone_at: datetime | None
) -> bool:
    """Whether the mark is about this pod: of its own time, and of the time of its deletion."""
    created = read_instant(pod.digest.get("created"))
    if traces.evicted_at is None or created is None or traces.evicted_at < created:
        return False
    if requested_at is not None:
        return abs(requested_at - traces.evicted_at) <= AT_ONCE
    return gone_at is not None and abs(gone_at - traces.evicted_at) <= WITHOUT_REQUEST


def _was_stale(traces: DeletionTraces, ended_at: datetime) -> bool:
    if traces.stale_since is None or traces.stale_grace is None:
        return False
    due = traces.stale_since + timedelta(seconds=traces.stale_grace)
    return due - AT_ONCE <= ended_at <= due + WITHOUT_REQUEST


def _successor(
    pod: PodSeen, traces: DeletionTraces, ended_at: datetime, gone_at: datetime | None
) -> Successor | None:
    """The first pod of a group of higher priority that got the pod's node when it ended."""
    if not may_be_preempted(pod, traces):
        return None
    later = [
        successor
        for successor in traces.successors()
        if successor.node == pod.node_name
        and RANKS.get(successor.priority, 0) > RANKS[traces.priority]
        and ended_at - AT_ONCE <= successor.placed_at <= (gone_at or ended_at) + SECONDS_LATER
    ]
    return min(later, key=lambda successor: successor.placed_at, default=None)
