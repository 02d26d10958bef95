"""The usage of other tenants' pods, summed by node.

A pod that this installation did not make (a DaemonSet's, another product's, another installation's) uses
capacity that a scheduler counts and our tasks cannot have. For each such pod that is bound and has not ended,
its node and its kind stay in memory, about a hundred bytes each; a kind is a namespace, a usage,
and by what a scheduler may preempt it. A node's sum, with the namespaces that use most of it, is passed on
when it changes.

Two streams feed the sums: pods without our label, and pods with it in namespaces that are not ours, because
anybody may copy a label. A selector cannot say "or"; one stream of all pods would read our own a second time.

Level driven: a complete list replaces the memory, so a lost event leaves a sum wrong until the next list at
the longest.

Rejected: rows for these pods, which would be written as often as other tenants' work changes and which
nothing reads; a list of them for each verdict, since no request lists from a cluster.
"""

import hashlib
import json
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from cluster.errors import ClusterError, RequestForbidden
from cluster.watch import Changed, Deleted, Synced
from scheduling.backends.registry import installed
from scheduling.fit.snapshot import Evictable
from workflows.observer.inbox import Inbox
from workflows.observer.streams import Connect, Follower, Reduce, Source
from workflows.values.observation import ForeignUsageSeen, UnreadableObject
from workflows.values.pod_usage import NO_USAGE, PodUsage, plus, usage_of

BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that use a node."""

MOST_SHARES = 8
"""Of a node, those that use most of it; the others are in its sum alone."""

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ForeignPodKind:
    """All that is kept of another tenant's pod beside its node."""

    namespace: str
    usage: PodUsage
    evictable: Evictable | None = None


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """Another tenant's pod; ``node`` is empty if it uses none."""

    uid: str
    node: str
    kind: ForeignPodKind


def see_foreign_pod(obj: Mapping[str, Any]) -> ForeignPod:
    """Reduce a pod to its usage and its node."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    node = "" if status.get("phase") in _ENDED else spec.get("nodeName") or ""
    metadata = obj["metadata"]
    if not node:
        return ForeignPod(metadata["uid"], "", _NO_KIND)
    kind = ForeignPodKind(str(metadata["namespace"]), usage_of(spec), _evictable(obj))
    return ForeignPod(metadata["uid"], sys.intern(str(node)), _shared(kind))


def _evictable(pod: Mapping[str, Any]) -> Evictable | None:
    facets = (scheduler.foreign for scheduler in installed().values() if scheduler.foreign)
    return next(filter(None, (facet.evictable(pod) for facet in facets)), None)


_NO_KIND = ForeignPodKind("", NO_USAGE)
_KINDS: dict[ForeignPodKind, ForeignPodKind] = {}


def _shared(kind: ForeignPodKind) -> ForeignPodKind:
    """One object for all pods of a kind: there are few kinds."""
    if len(_KINDS) > 10_000:
        _KINDS.clear()
    return _KINDS.setdefault(kind, kind)


class ForeignUsageSums:
    """The usage of other tenants' pods by node; yields the sums that changed.

    ``recorded`` are the sums that the rows have. Whoever shares them between streams holds ``lock`` until the
    sums that changed are passed on.
    """

    def __init__(self, recorded: Iterable[ForeignUsageSeen], *, streams: int = 1) -> None:
        self.lock = threading.Lock()
        self._streams = streams
        self._pods: dict[str, dict[str, ForeignPod]] = {}  # by stream and uid
        self._kinds: dict[str, dict[ForeignPodKind, int]] = {}  # by node: how many pods are so
        self._reported = {sums.node: _mark(sums) for sums in recorded}

    @property
    def complete(self) -> bool:
        """Whether every stream has been listed."""
        return len(self._pods) == self._streams

    def listed(self, pods: Iterable[ForeignPod], *, stream: str = "") -> Iterator[ForeignUsageSeen]:
        """Take a complete list of a stream: a pod that is not in it was deleted."""
        for uid in list(self._pods.setdefault(stream, {})):
            self._remove(uid, stream)
        for pod in pods:
            self._add(pod, stream)
        for node in sorted(self._reported.keys() | self._kinds.keys()):
            yield from self._news(node)

    def changed(self, pod: ForeignPod, *, stream: str = "") -> Iterator[ForeignUsageSeen]:
        before = self._remove(pod.uid, stream)
        self._add(pod, stream)
        for node in {before, pod.node} - {""}:
            yield from self._news(node)

    def deleted(self, pod: ForeignPod, *, stream: str = "") -> Iterator[ForeignUsageSeen]:
        if node := self._remove(pod.uid, stream):
            yield from self._news(node)

    def _add(self, pod: ForeignPod, stream: str) -> None:
        pods = self._pods.setdefault(stream, {})
        if not pod.node or pod.uid in pods:
            return
        pods[pod.uid] = pod
        kinds = self._kinds.setdefault(pod.node, {})
        kinds[pod.kind] = kinds.get(pod.kind, 0) + 1

    def _remove(self, uid: str, stream: str) -> str:
        """Take a pod out; returns its node, empty if it was not counted."""
        pod = self._pods.setdefault(stream, {}).pop(uid, None)
        if pod is None:
            return ""
        kinds = self._kinds[pod.node]
        kinds[pod.kind] -= 1
        if not kinds[pod.kind]:
            del kinds[pod.kind]
        if not kinds:
            del self._kinds[pod.node]
        return pod.node

    def _news(self, node: str) -> Iterator[ForeignUsageSeen]:
        shares = _shares(self._kinds.get(node, {}))
        sums = ForeignUsageSeen(node=node, amounts=_sum(shares.values()), shares=_text(shares))
        if self._reported.get(node) == (mark := _mark(sums)):
            return
        if sums.amounts != NO_USAGE:
            self._reported[node] = mark
        elif self._reported.pop(node, None) is None:
            return
        yield sums


_Share = tuple[str, Evictable | None]


def _shares(kinds: Mapping[ForeignPodKind, int]) -> dict[_Share, PodUsage]:
    """The usage by namespace, and by what the pods may be preempted."""
    shares: dict[_Share, PodUsage] = {}
    for kind, count in kinds.items():
        share = (kind.namespace, kind.evictable)
        shares[share] = _sum(([amount * count for amount in kind.usage], shares.get(share, NO_USAGE)))
    return shares


def _sum(usages: Iterable[Sequence[int]]) -> PodUsage:
    gpu, cpu, memory, storage, pods = NO_USAGE
    for usage in usages:
        gpu, cpu, memory, storage, pods = plus((gpu, cpu, memory, storage, pods), tuple(usage))
    return gpu, cpu, memory, storage, pods


def _text(shares: Mapping[_Share, PodUsage]) -> str:
    """The largest shares as JSON, in one order."""
    rows = sorted(
        (
            (usage, namespace, astuple(evictable) if evictable else ())
            for (namespace, evictable), usage in shares.items()
        ),
        reverse=True,
    )
    entries = [[namespace, evictable or None, *usage] for usage, namespace, evictable in rows[:MOST_SHARES]]
    return json.dumps(entries, separators=(",", ":"))


def _mark(sums: ForeignUsageSeen) -> int:
    """Stands for what a row has: of thousands of nodes this is all that stays in memory."""
    return hash((sums.amounts, sums.shares))


class OthersFollower(Follower):
    """Follows objects of others into a memory that several streams share."""

    _unreadable: Sequence[UnreadableObject] = ()

    def _reducer_of_lists(self, reduce: Reduce, memory: Any) -> Reduce:  # noqa: ARG002 -- as there
        """All that a stream has of an object: a list replaces the memory."""
        return reduce

    def _pass_on(self, event: Any, memory: Any) -> None:
        match event:
            case Synced():
                self._note_unreadable(event.items)
            case Changed(UnreadableObject() as item):
                self._report(item, listed=False)
                return
            case Deleted(UnreadableObject() as item):
                self._report(replace(item, absent=True), listed=False)
                return
        self._take_in(event, memory)

    def _take_in(self, event: Any, memory: Any) -> None:
        """Change the memory by an event."""
        raise NotImplementedError

    def _note_unreadable(self, items: Iterable[Any]) -> None:
        """Report the objects that could not be read, which count nothing, and those that are gone."""
        before = self._unreadable
        self._unreadable = [item for item in items if isinstance(item, UnreadableObject)]
        for item in before:
            self._report(replace(item, absent=True), listed=True)
        for item in self._unreadable:
            self._report(item, listed=True)

    def _report(self, item: UnreadableObject, *, listed: bool) -> None:
        """Name the kind and the fault alone, because names are those of others; a digest tells them apart."""
        digest = hashlib.blake2b(f"{item.namespace}/{item.name}".encode(), digest_size=6).hexdigest()
        fault = item.error.partition(":")[0]
        self._inbox.put(replace(item, namespace="", name=digest, error=fault), listed=listed)


class ForeignPodFollower(OthersFollower):
    """Follows other tenants' pods into their lane of the inbox; without the right, reports it and retries."""

    def __init__(self, source: Source, *, connect: Connect, inbox: Inbox, sums: ForeignUsageSums) -> None:
        super().__init__(source, connect=connect, inbox=inbox)
        self._sums = sums

    def _remembered(self) -> ForeignUsageSums:
        return self._sums

    def _cut(self, error: ClusterError) -> None:
        if isinstance(error, RequestForbidden):
            self._inbox.note_foreign_usage(str(error))

    def _take_in(self, event: Any, memory: ForeignUsageSums) -> None:
        with memory.lock:  # so that the sums arrive in the order in which they were made
            for change in self._news(event, memory):
                self._inbox.put_foreign_usage(change)
            if isinstance(event, Synced) and memory.complete:
                self._inbox.note_foreign_usage("")

    def _news(self, event: Any, memory: ForeignUsageSums) -> Iterable[ForeignUsageSeen]:
        stream = self._source.label_selector
        match event:
            case Synced():
                pods = (pod for pod in event.items if isinstance(pod, ForeignPod))
                return memory.listed(pods, stream=stream)
            case Changed():
                return memory.changed(event.item, stream=stream)
            case Deleted():
                return memory.deleted(event.item, stream=stream)
        return ()
