"""One kind in one namespace of one cluster, followed into the inbox.

A fingerprint of each object that was passed on stays in memory, so a relist of 10,000 unchanged pods, or a
node's heartbeat, writes nothing. A list compares it as soon as an object has been read, and holds the key
alone of an unchanged one: else each relist would need memory for all objects at once. A complete list shows
what was deleted: each object in memory, and at the start each object in the rows, that is not in the list.
"""

import hashlib
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from django.db import DatabaseError, connection

from cluster.errors import ClusterError, NotServed
from cluster.interface import ClusterApi, Obj
from cluster.kinds import NODE, Kind
from cluster.storable import storable_text
from cluster.watch import Changed, Deleted, Disconnected, Reconnected, Synced, Watch, backoff
from pools.values.completeness import NODES
from scheduling.nodes.devices import CLASSES, NOT_SERVED
from workflows import metrics
from workflows.observer.inbox import Inbox, Observation, key_of
from workflows.values.observation import (
    MAX_TEXT,
    EventSeen,
    NodeSeen,
    ObjectSeen,
    PodSeen,
    ResourceSeen,
    UnreadableObject,
)

log = structlog.get_logger(__name__)

Reduce = Callable[[Obj], object]
"""The part of an object that is kept; None for none."""

Connect = Callable[[], ClusterApi]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What to follow."""

    cluster_uid: str
    kind: Kind
    namespace: str
    label_selector: str
    reduce: Reduce

    recorded: Callable[[], Iterable[Any]]
    """Reads the objects in the rows, once, at the start."""

    field_selector: str = ""

    resource: str = ""
    """The resource of objects of the cluster's own; empty: of others."""

    lost_after: tuple[type[ClusterError], ...] = ()
    """The errors after which they are unknown; after others what was passed on is old, not wrong."""

    foreign: bool = False
    """Whether the objects are those of others, which several streams put into a memory that they share."""

    gangs: str = ""
    """The schedulers for whose gangs of others it is followed; empty: it is not."""

    @property
    def completeness(self) -> str:
        """The kind in the cluster's map of completeness; empty: the map does not have it."""
        return NODES if self.kind == NODE else self.resource


def guarded(source: Source) -> Reduce:
    """The source's reducer; an object unreadable to it becomes an UnreadableObject and stops nothing else."""

    def read(obj: Obj) -> object:
        try:
            return source.reduce(obj)
        except Exception as error:
            about = {"cluster": source.cluster_uid, "kind": str(source.kind)}
            if source.foreign:  # whose text, and a value in it, are those of others
                log.warning("object_not_read", error=type(error).__name__, **about)
            else:
                log.exception("object_not_read", **about)
            metadata = obj["metadata"]
            return UnreadableObject(
                kind=source.resource or source.kind.name,
                namespace=str(metadata.get("namespace") or ""),
                name=str(metadata["name"]),
                error=storable_text(f"{type(error).__name__}: {error}"[:MAX_TEXT]),
                resource_version=str(metadata.get("resourceVersion") or ""),
            )

    return read


_EVENT = EventSeen(
    uid="", count=0, kind="", namespace="", name="", group=None, time="", source="", warning=False, reason="",
    message="",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The key of a listed object that is as it was passed on."""

    key: Hashable


class Memory:
    """Fingerprints of the objects that were passed on; tells which objects changed."""

    def __init__(self, recorded: Iterable[Observation]) -> None:
        self._prints: dict[Hashable, tuple[bytes, Observation]] = {}
        for change in recorded:
            self._prints[key_of(change)] = (b"", _slim(change))

    def compared(self, change: Observation) -> Observation | Unchanged:
        """The object, or its key alone if it is as it was passed on; nothing is remembered."""
        key = key_of(change)
        before = self._prints.get(key)
        return Unchanged(key) if before is not None and before[0] == _fingerprint(change) else change

    def changed(self, change: Observation) -> bool:
        key, mark = key_of(change), _fingerprint(change)
        before = self._prints.get(key)
        keeps = before is not None and isinstance(change, UnreadableObject)
        self._prints[key] = (mark, before[1] if before and keeps else _slim(change))
        return before is None or before[0] != mark

    def forget(self, change: Observation) -> Observation:
        """Forget an object; returns it as last read if it cannot be read now."""
        _, before = self._prints.pop(key_of(change), (b"", change))
        return before if isinstance(change, UnreadableObject) else change

    def vanished(self, present: Iterable[Observation | Unchanged]) -> list[Observation]:
        """Remove and return the objects that are not in a complete list."""
        keys = {item.key if isinstance(item, Unchanged) else key_of(item) for item in present}
        missing = [key for key in self._prints if key not in keys]
        return [self._prints.pop(key)[1] for key in missing]


_BEYOND_DELETION: Mapping[type[Observation], Mapping[str, Any]] = {
    NodeSeen: {"labels": {}, "taints": (), "allocatable": {}, "conditions": ()},
    PodSeen: {"digest": {}},
    ObjectSeen: {"digest": {}},
    ResourceSeen: {"reading": {}},
}


def _slim(change: Observation) -> Observation:
    """The part of an object that a deletion needs; of an event none: an API server has those of an hour."""
    if isinstance(change, EventSeen):
        return _EVENT
    return replace(change, **_BEYOND_DELETION.get(type(change), {}))


def _fingerprint(change: Observation) -> bytes:
    """A digest of all of it; reducers fill in fields in one order, so equal ones read alike."""
    return hashlib.blake2b(repr(change).encode(), digest_size=12).digest()


class Follower:
    """A thread that follows one source until stopped; a failure is tried again for ever."""

    def __init__(self, source: Source, *, connect: Connect, inbox: Inbox) -> None:
        self._source = source
        self._connect = connect
        self._inbox = inbox
        self._stopped = threading.Event()
        self._watch: Watch[Any] | None = None
        self._is_listed = False
        self.connected = False
        name = f"{source.kind}/{source.namespace or '*'}"
        self._thread = threading.Thread(
            target=self._run, name=f"{name} of others" if source.foreign else name, daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._watch is not None:
            self._watch.stop()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    @property
    def completeness(self) -> str:
        return self._source.completeness

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        attempt = 0
        while not self._stopped.is_set():
            attempt += 1
            try:
                self._follow()
                attempt = 0
            except (ClusterError, DatabaseError) as error:
                self._restarts("not_begun")
                log.warning("stream_not_begun", source=self._thread.name, error=str(error))
            except Exception:  # a fault in one stream must not end it for ever while the process lives
                self._restarts("failed")
                log.exception("stream_failed", source=self._thread.name)
            finally:
                self.connected = False
                connection.close()
            self._stopped.wait(backoff(max(attempt, 1), spread=0.5))

    def _follow(self) -> None:
        """Follow until cut; then say it is the same cluster before anything is believed again."""
        source = self._source
        cluster = self._connect()
        uid = cluster.kube_system_uid()
        if uid != source.cluster_uid:
            log.error("another_cluster", source=self._thread.name, want=source.cluster_uid, found=uid)
            return
        memory = self._remembered()
        connection.close()  # a thread that waits for a cluster holds no connection to the database
        reduce = guarded(source)
        self._watch = Watch(
            cluster,
            source.kind,
            reduce=reduce,
            reduce_listed=self._reducer_of_lists(reduce, memory),
            namespace=source.namespace,
            label_selector=source.label_selector,
            field_selector=source.field_selector,
        )
        if self._stopped.is_set():
            return
        for event in self._watch.events():
            self.connected = not isinstance(event, Disconnected)
            if isinstance(event, Disconnected):
                self._restarts("cut")
                log.warning("stream_cut", source=self._thread.name, error=str(event.error))
                self._cut(event.error)
            elif isinstance(event, Reconnected) and cluster.kube_system_uid() != source.cluster_uid:
                self._watch.stop()
                return
            else:
                self._count()
                self._pass_on(event, memory)

    def _remembered(self) -> Any:
        """What was passed on before, for ``_pass_on`` to compare with."""
        return Memory(self._source.recorded())

    def _reducer_of_lists(self, reduce: Reduce, memory: Any) -> Reduce:
        """The part of an object that a list has, for ``_pass_on``."""

        def read(obj: Obj) -> object:
            change: Any = reduce(obj)
            return None if change is None else memory.compared(change)

        return read

    def _cut(self, error: ClusterError) -> None:
        """Say that nothing new is recorded for now."""
        if isinstance(error, self._source.lost_after):
            is_absent = self._source.resource == CLASSES and isinstance(error, NotServed)
            self._inbox.incomplete(self._source.completeness, NOT_SERVED if is_absent else str(error))

    def _restarts(self, reason: str) -> None:
        source = self._source
        metrics.WATCH_RESTARTS.labels(source.cluster_uid, str(source.kind), reason).inc()

    def _count(self) -> None:
        uid = self._source.cluster_uid
        self._inbox.note_reachable()
        metrics.WATCH_LAST_EVENT.labels(uid).set_to_current_time()
        metrics.WATCH_EVENTS.labels(uid, str(self._source.kind)).inc()

    def _pass_on(self, event: Any, memory: Any) -> None:
        match event:
            case Synced():
                self._pass_on_list([item for item in event.items if item is not None], memory)
            case Reconnected():
                if self._is_listed and self._source.lost_after and not event.list_follows:
                    self._inbox.complete(self._source.completeness)
            case Changed():
                if event.item is not None and memory.changed(event.item):
                    self._inbox.put(event.item, listed=False)
            case Deleted():
                if event.item is not None:
                    self._put_deleted(memory.forget(event.item), listed=False)

    def _pass_on_list(self, items: Sequence[Any], memory: Any) -> None:
        for change in memory.vanished(items):
            self._put_deleted(change, listed=True)
        for item in items:
            if not isinstance(item, Unchanged) and memory.changed(item):
                self._inbox.put(item, listed=True)
        self._is_listed = True
        if kind := self._source.completeness:
            self._inbox.complete(kind)

    def _put_deleted(self, change: Observation, *, listed: bool) -> None:
        if not isinstance(change, EventSeen):  # one that expired is no news
            self._inbox.put(replace(change, absent=True), listed=listed)
