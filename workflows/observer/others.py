"""What other tenants' pods hold of each node: the sum is kept, not the pods.

A pod that this installation did not make (a DaemonSet's, another product's, another installation's) takes
room that a scheduler counts and tasks cannot have. Of those that are bound and not at their end their node
and what they hold is remembered, some hundred bytes each; of a node whose sum has changed the sum is passed
on.

Level driven as all of it: a complete list replaces what was remembered, so no lost event leaves a node
too full or too empty for longer than until the next one.

Rejected: rows for these pods, which would be written at the pace of others' work and are asked for by nobody;
a list of them for each verdict, since no request lists from a cluster.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.errors import ClusterError, RequestForbidden
from cluster.watch import Changed, Deleted, Synced
from workflows.observer.requests import NOTHING, Held, held_by, plus
from workflows.observer.streams import Follower
from workflows.values.observation import ForeignUsageSeen

BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that hold something."""

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class OtherPod:
    """A pod of somebody else; ``node`` is empty if it holds nothing."""

    uid: str
    node: str
    held: Held


def see_other(obj: Mapping[str, Any]) -> OtherPod:
    """Reduce a pod to what it holds, and where."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    node = "" if status.get("phase") in _ENDED else spec.get("nodeName") or ""
    return OtherPod(
        obj["metadata"]["uid"], sys.intern(str(node)), _shared(held_by(spec)) if node else NOTHING
    )


_SIZES: dict[Held, Held] = {}


def _shared(held: Held) -> Held:
    """One tuple for all pods of a size: most are one of few."""
    if len(_SIZES) > 10_000:
        _SIZES.clear()
    return _SIZES.setdefault(held, held)


class Tally:
    """What other tenants' pods hold, by node; says which nodes' sums are news.

    ``known`` are the sums that the rows show.
    """

    def __init__(self, known: Iterable[ForeignUsageSeen]) -> None:
        self._pods: dict[str, OtherPod] = {}
        self._sums: dict[str, list[int]] = {}
        self._told: dict[str, Held] = {one.node: one.amounts for one in known}

    def listed(self, pods: Iterable[OtherPod]) -> Iterator[ForeignUsageSeen]:
        """A complete list: what is not in it is gone."""
        self._pods.clear()
        self._sums.clear()
        for pod in pods:
            self._add(pod)
        for node in sorted(self._told.keys() | self._sums.keys()):
            yield from self._news(node)

    def changed(self, pod: OtherPod) -> Iterator[ForeignUsageSeen]:
        before = self._remove(pod.uid)
        self._add(pod)
        for node in {before, pod.node} - {""}:
            yield from self._news(node)

    def gone(self, pod: OtherPod) -> Iterator[ForeignUsageSeen]:
        if node := self._remove(pod.uid):
            yield from self._news(node)

    def _add(self, pod: OtherPod) -> None:
        if not pod.node or pod.uid in self._pods:
            return
        self._pods[pod.uid] = pod
        total = self._sums.setdefault(pod.node, list(NOTHING))
        for i, amount in enumerate(pod.held):
            total[i] += amount

    def _remove(self, uid: str) -> str:
        """Take a pod out; returns its node, empty if it was not counted."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return ""
        total = self._sums[pod.node]
        for i, amount in enumerate(pod.held):
            total[i] -= amount
        if not any(total):
            del self._sums[pod.node]
        return pod.node

    def _news(self, node: str) -> Iterator[ForeignUsageSeen]:
        gpu, cpu, memory, storage, pods = plus(self._sums.get(node, NOTHING), NOTHING)
        held = (gpu, cpu, memory, storage, pods)
        if self._told.get(node, NOTHING) == held:
            return
        if held == NOTHING:
            del self._told[node]
        else:
            self._told[node] = held
        yield ForeignUsageSeen(node=node, amounts=held)


class OthersFollower(Follower):
    """Follows other tenants' pods into their lane of the inbox; without the right, reports it and retries."""

    def _remembered(self) -> Tally:
        return Tally(self._source.known())

    def _cut(self, error: ClusterError) -> None:
        if isinstance(error, RequestForbidden):
            self._inbox.others_refused(self._source.cluster_uid, str(error))

    def _pass_on(self, event: Any, memory: Tally) -> None:
        uid = self._source.cluster_uid
        news: Iterable[ForeignUsageSeen] = ()
        match event:
            case Synced():
                news = memory.listed(event.items)
            case Changed():
                news = memory.changed(event.item)
            case Deleted():
                news = memory.gone(event.item)
        for change in news:
            self._inbox.others(uid, change)
        if isinstance(event, Synced):
            self._inbox.others_complete(uid)
