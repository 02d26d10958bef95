"""The usage of other tenants' pods, summed by node.

A pod that this installation did not make (a DaemonSet's, another product's, another installation's) uses
capacity that a scheduler counts and our tasks cannot have. For each such pod that is bound and has not ended,
its node and its usage stay in memory, some hundred bytes each. A node's sum is passed on when it changes.

Level driven: a complete list replaces the memory, so a lost event leaves a sum wrong until the next list at
the longest.

Rejected: rows for these pods, which would be written as often as other tenants' work changes and which
nothing reads; a list of them for each verdict, since no request lists from a cluster.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cluster.errors import ClusterError, RequestForbidden
from cluster.watch import Changed, Deleted, Synced
from workflows.observer.pod_usage import NO_USAGE, PodUsage, plus, usage_of
from workflows.observer.streams import Follower
from workflows.values.observation import ForeignUsageSeen, UnreadableObject

BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that use a node."""

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """Another tenant's pod; ``node`` is empty if it uses none."""

    uid: str
    node: str
    usage: PodUsage


def see_foreign_pod(obj: Mapping[str, Any]) -> ForeignPod:
    """Reduce a pod to its usage and its node."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    node = "" if status.get("phase") in _ENDED else spec.get("nodeName") or ""
    return ForeignPod(
        obj["metadata"]["uid"], sys.intern(str(node)), _shared(usage_of(spec)) if node else NO_USAGE
    )


_SIZES: dict[PodUsage, PodUsage] = {}


def _shared(usage: PodUsage) -> PodUsage:
    """One tuple for all pods of a size: there are few sizes."""
    if len(_SIZES) > 10_000:
        _SIZES.clear()
    return _SIZES.setdefault(usage, usage)


class ForeignUsageSums:
    """The usage of other tenants' pods by node; yields the sums that changed.

    ``recorded`` are the sums that the rows have.
    """

    def __init__(self, recorded: Iterable[ForeignUsageSeen]) -> None:
        self._pods: dict[str, ForeignPod] = {}
        self._sums: dict[str, list[int]] = {}
        self._reported: dict[str, PodUsage] = {sums.node: sums.amounts for sums in recorded}

    def listed(self, pods: Iterable[ForeignPod]) -> Iterator[ForeignUsageSeen]:
        """Take a complete list: a pod that is not in it was deleted."""
        self._pods.clear()
        self._sums.clear()
        for pod in pods:
            self._add(pod)
        for node in sorted(self._reported.keys() | self._sums.keys()):
            yield from self._news(node)

    def changed(self, pod: ForeignPod) -> Iterator[ForeignUsageSeen]:
        before = self._remove(pod.uid)
        self._add(pod)
        for node in {before, pod.node} - {""}:
            yield from self._news(node)

    def deleted(self, pod: ForeignPod) -> Iterator[ForeignUsageSeen]:
        if node := self._remove(pod.uid):
            yield from self._news(node)

    def _add(self, pod: ForeignPod) -> None:
        if not pod.node or pod.uid in self._pods:
            return
        self._pods[pod.uid] = pod
        total = self._sums.setdefault(pod.node, list(NO_USAGE))
        for i, amount in enumerate(pod.usage):
            total[i] += amount

    def _remove(self, uid: str) -> str:
        """Take a pod out; returns its node, empty if it was not counted."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return ""
        total = self._sums[pod.node]
        for i, amount in enumerate(pod.usage):
            total[i] -= amount
        if not any(total):
            del self._sums[pod.node]
        return pod.node

    def _news(self, node: str) -> Iterator[ForeignUsageSeen]:
        gpu, cpu, memory, storage, pods = plus(self._sums.get(node, NO_USAGE), NO_USAGE)
        usage = (gpu, cpu, memory, storage, pods)
        if self._reported.get(node, NO_USAGE) == usage:
            return
        if usage == NO_USAGE:
            del self._reported[node]
        else:
            self._reported[node] = usage
        yield ForeignUsageSeen(node=node, amounts=usage)


class ForeignPodFollower(Follower):
    """Follows other tenants' pods into their lane of the inbox; without the right, reports it and retries."""

    _unreadable: Sequence[UnreadableObject] = ()

    def _remembered(self) -> ForeignUsageSums:
        return ForeignUsageSums(self._source.recorded())

    def _cut(self, error: ClusterError) -> None:
        if isinstance(error, RequestForbidden):
            self._inbox.foreign_usage_refused(str(error))

    def _pass_on(self, event: Any, memory: ForeignUsageSums) -> None:
        news: Iterable[ForeignUsageSeen] = ()
        match event:
            case Synced():
                self._note_unreadable(event.items)
                news = memory.listed(pod for pod in event.items if isinstance(pod, ForeignPod))
            case Changed(UnreadableObject() as pod):
                self._inbox.put(pod, listed=False)
            case Deleted(UnreadableObject() as pod):
                self._inbox.put(replace(pod, absent=True), listed=False)
            case Changed():
                news = memory.changed(event.item)
            case Deleted():
                news = memory.deleted(event.item)
        for change in news:
            self._inbox.put_foreign_usage(change)
        if isinstance(event, Synced):
            self._inbox.foreign_usage_complete()

    def _note_unreadable(self, pods: Iterable[ForeignPod | UnreadableObject]) -> None:
        """Report the pods that could not be read, which count nothing, and those that are no longer there."""
        before = self._unreadable
        self._unreadable = [pod for pod in pods if isinstance(pod, UnreadableObject)]
        for pod in before:
            self._inbox.put(replace(pod, absent=True), listed=True)
        for pod in self._unreadable:
            self._inbox.put(pod, listed=True)
