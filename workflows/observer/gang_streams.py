"""The streams of gangs that others submitted: their waiting pods, and the objects of their schedulers.

Objects are listed after the pods that may name them, and what stands above them after that, so that a list
leaves what is needed and little has to be read by name. A right that is refused makes what the stream has
brought unknown; the stream begins anew with a list once it is granted.
"""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import structlog

from cluster.errors import ClusterError, NotServed, RequestForbidden
from cluster.kinds import POD
from cluster.watch import Changed, Deleted, Synced
from pools.clusters.kinds import as_kind
from workflows.observer.foreign_usage import OthersFollower
from workflows.observer.inbox import Inbox
from workflows.observer.streams import Connect, Reduce, Source, guarded
from workflows.observer.waiting_gangs import PODS, GangObject, WaitingGangs, WaitingPod
from workflows.values.observation import UnreadableObject

WITHOUT_NODE = "spec.nodeName=,status.phase=Pending"
"""Field selector of pods that wait for a scheduler."""

READ_SECONDS = 1.0
READS = 50
"""Objects that are read by name at a time."""
POLL_SECONDS = 0.1
REFUSED_SECONDS = 60.0
"""Until all are listed again after a read by name was refused: the watch goes on, and nobody else lists."""

log = structlog.get_logger(__name__)


def gang_sources(uid: str, own_label: str, gangs: WaitingGangs) -> Iterator[Source]:
    """The streams of gangs of others in a cluster; what has our label is none of them."""
    source = partial(
        Source,
        cluster_uid=uid,
        namespace="",
        label_selector=own_label.replace("=", "!="),
        recorded=list,
        foreign=True,
        gangs=gangs.name,
    )
    if gangs.has_pods:
        yield source(kind=POD, field_selector=WITHOUT_NODE, reduce=gangs.see_pod)
    for facet in gangs.facets:
        for kind in facet.kinds:
            yield source(kind=as_kind(kind), resource=kind.crd, reduce=partial(gangs.see_object, kind))


def gang_follower(source: Source, *, connect: Connect, inbox: Inbox, gangs: WaitingGangs) -> OthersFollower:
    """The follower of one of them."""
    if source.kind == POD:
        return WaitingPodFollower(source, connect=connect, inbox=inbox, gangs=gangs)
    return GangObjectFollower(source, connect=connect, inbox=inbox, gangs=gangs)


class _GangFollower(OthersFollower):
    stream = PODS

    def __init__(self, source: Source, *, connect: Connect, inbox: Inbox, gangs: WaitingGangs) -> None:
        super().__init__(source, connect=connect, inbox=inbox)
        self._gangs = gangs

    def _remembered(self) -> WaitingGangs:
        return self._gangs

    def _cut(self, error: ClusterError) -> None:
        """After a refusal nothing is known, until all are listed again."""
        if isinstance(error, RequestForbidden | NotServed) and self._watch is not None:
            self._refused(error)
            self._watch.relist()

    def _refused(self, error: ClusterError) -> None:
        self._gangs.refused(self.stream, str(error))


class WaitingPodFollower(_GangFollower):
    """Follows pods without a node."""

    def _reducer_of_lists(self, reduce: Reduce, memory: WaitingGangs) -> Reduce:  # noqa: ARG002 -- as there
        def read(obj: Any) -> object:
            pod = reduce(obj)
            return None if isinstance(pod, WaitingPod) and pod.gang is None else pod

        return read

    def _take_in(self, event: Any, memory: WaitingGangs) -> None:
        match event:
            case Synced():
                memory.pods_listed(pod for pod in event.items if isinstance(pod, WaitingPod))
            case Changed():
                memory.pod_changed(event.item)
            case Deleted():
                memory.pod_deleted(event.item)


class GangObjectFollower(_GangFollower):
    """Follows the objects of a kind, and reads by name those that were passed over."""

    def __init__(self, source: Source, *, connect: Connect, inbox: Inbox, gangs: WaitingGangs) -> None:
        super().__init__(source, connect=connect, inbox=inbox, gangs=gangs)
        self.stream = source.resource
        self._after = gangs.before(self.stream)
        self._reader = threading.Thread(
            target=self._read_on, name=f"{self._thread.name} by name", daemon=True
        )

    def start(self) -> None:
        super().start()
        if self._after:
            self._reader.start()

    def _remembered(self) -> WaitingGangs:
        while self._after and not self._gangs.is_listed(self._after):
            if self._stopped.wait(POLL_SECONDS):
                break
        return self._gangs

    def _reducer_of_lists(self, reduce: Reduce, memory: WaitingGangs) -> Reduce:
        memory.list_begins(self.stream)
        return reduce

    def _refused(self, error: ClusterError) -> None:
        if isinstance(error, NotServed) and self._gangs.may_be_absent(self.stream):
            self._gangs.objects_listed(self.stream, ())
        else:
            super()._refused(error)

    def _take_in(self, event: Any, memory: WaitingGangs) -> None:
        match event:
            case Synced():
                memory.objects_listed(
                    self.stream, (obj for obj in event.items if isinstance(obj, GangObject))
                )
            case Changed(GangObject() as obj):
                memory.object_changed(obj)
            case Deleted(GangObject() as obj):
                memory.object_deleted(obj.key)

    def _read_on(self) -> None:
        while not self._stopped.wait(READ_SECONDS):
            try:
                self._read_unread()
            except RequestForbidden:  # whose text names an object of others
                self._gangs.refused(self.stream, f"The right to get {self.stream} is missing.")
                if not self._stopped.wait(REFUSED_SECONDS) and self._watch is not None:
                    self._watch.stop()
            except ClusterError as error:
                log.warning("gangs_not_read", source=self._thread.name, error=error.code)
            except Exception:  # as in a stream: a fault must not end it while the process lives
                log.exception("gangs_not_read", source=self._thread.name)

    def _read_unread(self) -> None:
        if self._gangs.is_behind(self.stream) and self._watch is not None:
            self._watch.stop()  # it begins anew with a list
            return
        keys = self._gangs.unread(self.stream, most=READS)
        try:
            cluster = self._connect() if keys else None
            if cluster is None or cluster.kube_system_uid() != self._source.cluster_uid:
                return
            reduce = guarded(self._source)
            for _, namespace, name in keys:
                obj = cluster.get(self._source.kind, name, namespace=namespace)
                reduced = reduce(obj) if obj is not None else None
                if isinstance(reduced, UnreadableObject):
                    self._report(reduced, listed=False)
                gang_object = reduced if isinstance(reduced, GangObject) else None
                self._gangs.answered((self.stream, namespace, name), gang_object)
        finally:
            self._gangs.unanswered(keys)
