"""A cluster in memory that keeps the promises of ``cluster.interface.ClusterApi``.

It passes the contract tests of ``tests/cluster/test_contract.py``, which the real gateway passes on a
real API server too. What it knows: resource versions, uids, finalizers and deletionTimestamp, the four
meanings of 404 and 409, preconditions, selectors, server-side apply with ownership by field, garbage
collection by ownerReferences, pods that end in their own time, watches with bookmarks and 410.

It has no scheduler, kubelet or controller. ``players`` are: callables that run after each write until
none of them changes anything more (see ``tests.fakes.players``). What it does not know: admission,
validation, defaults and quotas. A test that depends on those belongs to the real API server.
"""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cluster import errors
from cluster.clock import boot_seconds
from cluster.errors import ClusterError, ClusterUnreachable, DeadlinePassed
from cluster.interface import (
    FIELD_MANAGER,
    DeleteTarget,
    Deletion,
    Listing,
    Obj,
    WriteOutcome,
    WriteResult,
)
from cluster.kinds import ALL, CRD, NAMESPACE, POD, REVIEW_GROUPS, Kind
from cluster.storable import storable
from tests.fakes import semantics
from tests.fakes.kinds import FURTHER
from tests.fakes.semantics import copy_json
from tests.fakes.streams import FakeLog, FakeStream

Key = tuple[Kind, str, str]  # kind, namespace, name
Player = Callable[["FakeCluster"], None]
SYSTEM = ("metadata", "kind", "apiVersion")
ROUNDS = 100  # of players after one write; more means that two of them undo each other's work


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it arrived, in order; ``verb`` is the method's name without ``_many``."""

    verb: str
    kind: Kind
    namespace: str
    name: str


@dataclass(slots=True)
class Fault:
    """Something that goes wrong once ``after`` matching calls have passed, ``times`` times."""

    error: ClusterError
    verb: str | None
    kind: Kind | None
    name: str | None
    after: int
    times: int
    applied: bool


@dataclass(frozen=True, slots=True)
class Removal:
    kind: Kind
    at: int  # place in the order of calls and removals


class FakeCluster:
    def __init__(
        self,
        *,
        players: Sequence[Player] = (),
        namespaces: Sequence[str] = ("default", "osmo", "kube-system"),
        unserved: Sequence[Kind] = (),
        further: Sequence[Kind] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        first_uid: int = 1,
    ) -> None:
        self.players = list(players)
        self.unserved = set(unserved)
        self.known = (*ALL, *FURTHER, *further)
        self.calls: list[Call] = []
        self.version = "v1.37.2"
        self._now = now
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._store: dict[Key, Obj] = {}
        self._owners: dict[str, dict[semantics.Path, tuple[str, str]]] = {}  # uid: leaf: manager, operation
        self._faults: list[Fault] = []
        self._clock = itertools.count(first_uid)
        self._version = 1
        self._oldest = 1
        self._events: list[tuple[int, Kind, str, Obj]] = []
        self._removals: list[Removal] = []
        self._deletes: list[Removal] = []
        self._streams: set[FakeStream] = set()
        self._playing = False
        for name in namespaces:
            self.put(NAMESPACE, {"metadata": {"name": name}})
        self._seeded = set(self._store)

    # What a test asks and does

    @property
    def objects(self) -> dict[tuple[str, str, str], Obj]:
        """(kind, namespace, name) -> object, without the namespaces that were there from the start."""
        with self._lock:
            return {
                (kind.name, namespace, name): copy_json(obj)
                for (kind, namespace, name), obj in self._store.items()
                if (kind, namespace, name) not in self._seeded
            }

    def kinds(self) -> set[str]:
        return {kind for kind, _, _ in self.objects}

    def names(self, kind: Kind) -> list[str]:
        with self._lock:
            return sorted(name for found, _, name in self._store if found == kind)

    def deleted_before(self, first: str, then: str) -> bool:
        """Whether the last ``first`` was gone before the first delete of a ``then`` was asked for."""
        gone = [removal.at for removal in self._removals if removal.kind.name == first]
        asked = [delete.at for delete in self._deletes if delete.kind.name == then]
        left = any(kind.name == first for kind, _, _ in self._store)
        return bool(gone) and bool(asked) and not left and max(gone) < min(asked)

    def put(self, kind: Kind, obj: Obj) -> Obj:
        """Write as somebody else would (a controller, another user): no call, no fault; merges status.

        Creates the object or replaces it whole; a missing namespace or uid is filled in.
        """
        with self._lock:
            name = obj["metadata"]["name"]
            namespace = obj["metadata"].get("namespace", "") if kind.namespaced else ""
            before = self._store.get((kind, namespace, name))
            fresh = copy_json(obj)
            if before is None:
                self._stamp_new(kind, fresh)
                self._save(kind, fresh, "ADDED")
            else:
                kept = ("uid", "creationTimestamp", "resourceVersion", "generation", "deletionTimestamp")
                for field in kept:
                    if field in before["metadata"]:
                        fresh["metadata"].setdefault(field, before["metadata"][field])
                fresh = {"apiVersion": kind.api_version, "kind": kind.name} | fresh
                self._change(kind, before, fresh, manager=("somebody", "Update"))
            self._play()
            return copy_json(self._store.get((kind, namespace, name), fresh))

    def edit(self, kind: Kind, name: str, change: Callable[[Obj], None], *, namespace: str = "") -> None:
        """Let ``change`` alter a copy of an object, and write it back as somebody else would."""
        with self._lock:
            obj = copy_json(self._store[kind, namespace, name])
            change(obj)
            self.put(kind, obj)

    def remove(self, kind: Kind, name: str, *, namespace: str = "") -> None:
        """Take an object away at once, finalizers or not."""
        with self._lock:
            self._drop((kind, namespace, name))
            self._play()

    def all(self, kind: Kind) -> list[Obj]:
        with self._lock:
            return [copy_json(obj) for _, obj in self._sorted(kind)]

    def fail(
        self,
        error: ClusterError,
        *,
        verb: str | None = None,
        kind: Kind | None = None,
        name: str | None = None,
        after: int = 0,
        times: int = 1,
        applied: bool = False,
    ) -> None:
        """Answer a coming call with ``error``; with ``applied`` only after doing what was asked.

        ``verb`` is get, list, watch, create, apply, patch, delete, logs or None for any; ``after`` lets
        that many matching calls pass first.
        """
        self._faults.append(Fault(error, verb, kind, name, after, times, applied))

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Answer nothing at all, and cut what is being watched."""
        fault = Fault(ClusterUnreachable("no connection: refused"), None, None, None, 0, 10**9, applied=False)
        self._faults.insert(0, fault)
        self.cut_watches()
        try:
            yield
        finally:
            self._faults.remove(fault)

    def cut_watches(self) -> None:
        """Break every stream, as a restarted load balancer does."""
        with self._news:
            for stream in self._streams:
                stream.cut = True
            self._news.notify_all()

    def compact(self) -> None:
        """Forget history: a watch from any version up to now gets 410."""
        with self._news:
            self._version += 1
            self._oldest = self._version
            self._events.clear()

    # The interface

    @property
    def call_seconds(self) -> float:
        return 23.0

    def get(self, kind: Kind, name: str, *, namespace: str = "") -> Obj | None:
        with self._call("get", kind, namespace, name) as key:
            return storable(self._store.get(key))

    def list(
        self, kind: Kind, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing[Obj]:
        return self.scan(
            kind,
            lambda obj: obj,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    def scan(self, kind, reduce, *, namespace="", label_selector="", field_selector="", metadata_only=False):
        part = _metadata_of if metadata_only else dict
        with self._call("list", kind, namespace, ""):
            chosen = [
                reduce(part(storable(obj)))
                for key, obj in self._sorted(kind)
                if namespace in ("", key[1]) and _selected(obj, label_selector, field_selector)
            ]
            return Listing(tuple(chosen), str(self._version))

    def watch(
        self,
        kind: Kind,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
    ) -> FakeStream:
        with self._call("watch", kind, namespace, ""):
            stream = FakeStream(
                self,
                kind,
                int(resource_version),
                lambda obj: (
                    namespace in ("", obj["metadata"].get("namespace", ""))
                    and _selected(obj, label_selector, field_selector)
                ),
                time.monotonic() + timeout_seconds,
            )
            self._streams.add(stream)
            return stream

    def create(self, kind: Kind, obj: Obj, *, dry_run: bool = False) -> Obj:
        if kind.group in REVIEW_GROUPS:  # everything is allowed here, and reviews are not kept
            user = {"username": "administrator"}
            return {**obj, "status": {"allowed": True, "userInfo": user}}
        obj = json.loads(json.dumps(obj))
        namespace = _namespace_of(kind, obj)
        with self._call("create", kind, namespace, obj["metadata"]["name"]) as key:
            self._need_namespace(kind, namespace)
            if key in self._store:
                raise errors.AlreadyExists(
                    f'{kind.plural} "{key[2]}" already exists', status=409, reason="AlreadyExists"
                )
            self._stamp_new(kind, obj)
            if not dry_run:
                self._own(obj, (FIELD_MANAGER, "Update"), {}, obj)
                self._save(kind, obj, "ADDED")
            return storable(obj)

    def create_many(self, kind: Kind, objs: Sequence[Obj], *, deadline: float) -> Sequence[WriteOutcome]:
        named = [(_namespace_of(kind, obj), obj["metadata"]["name"], obj) for obj in objs]
        return self._many(
            [(ns, name, lambda obj=obj: self.create(kind, obj)) for ns, name, obj in named], deadline
        )

    def apply(self, kind: Kind, obj: Obj) -> Obj:
        obj = {"apiVersion": kind.api_version, "kind": kind.name} | json.loads(json.dumps(obj))
        namespace = _namespace_of(kind, obj)
        with self._call("apply", kind, namespace, obj["metadata"]["name"]) as key:
            self._need_namespace(kind, namespace)
            before = self._store.get(key)
            manager = (FIELD_MANAGER, "Apply")
            if before is None:
                if obj["metadata"].get("uid"):
                    raise errors.WriteConflict(
                        f"uid of {kind.plural} {key[2]!r} is gone", status=409, reason="Conflict"
                    )
                self._stamp_new(kind, obj)
                self._own(obj, manager, {}, obj)
                self._save(kind, obj, "ADDED")
                return copy_json(obj)
            self._change(kind, before, self._applied(before, obj, manager), manager=manager, mine=obj)
            return copy_json(self._store[key])

    def patch(self, kind: Kind, name: str, body: Any, *, namespace: str = "") -> Obj:
        with self._call("patch", kind, namespace, name) as key:
            before = self._store.get(key)
            if before is None:
                raise _not_found(kind, name)
            after = semantics.merge_patch(before, json.loads(json.dumps(body)))
            wanted = after["metadata"].get("resourceVersion")
            if wanted != before["metadata"]["resourceVersion"] or (
                after["metadata"].get("uid") != before["metadata"]["uid"]
            ):
                raise errors.WriteConflict("the object has been modified", status=409, reason="Conflict")
            self._change(kind, before, after, manager=(FIELD_MANAGER, "Update"))
            return copy_json(self._store.get(key, after))

    def patch_status(self, kind: Kind, name: str, body: Obj, *, namespace: str = "") -> Obj:
        status = {key: body[key] for key in ("metadata", "status") if key in body}
        return self.patch(kind, name, status, namespace=namespace)

    def delete(
        self,
        kind: Kind,
        name: str,
        *,
        uid: str | None,
        namespace: str = "",
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> Deletion:
        with self._call("delete", kind, namespace, name) as key:
            obj = self._store.get(key)
            self._deletes.append(Removal(kind, next(self._clock)))
            if obj is None or (uid is not None and obj["metadata"]["uid"] != uid):
                return Deletion.ABSENT
            if resource_version not in (None, obj["metadata"]["resourceVersion"]):
                raise errors.WriteConflict(
                    f"Precondition failed: ResourceVersion in precondition: {resource_version}, "
                    f"ResourceVersion in object meta: {obj['metadata']['resourceVersion']}",
                    status=409,
                    reason="Conflict",
                )
            if obj["metadata"].get("finalizers") or _needs_kubelet(kind, obj, grace_seconds):
                if "deletionTimestamp" not in obj["metadata"]:
                    after = copy_json(obj)
                    after["metadata"]["deletionTimestamp"] = self._time()
                    self._save(kind, after, "MODIFIED")
                return Deletion.ACCEPTED
            self._drop(key)
            return Deletion.REMOVED

    def delete_many(
        self,
        kind: Kind,
        targets: Sequence[DeleteTarget],
        *,
        deadline: float,
        grace_seconds: int | None = None,
    ) -> Sequence[WriteOutcome]:
        def deletion(each: DeleteTarget) -> Deletion:
            return self.delete(
                kind,
                each.name,
                uid=each.uid,
                namespace=each.namespace,
                resource_version=each.resource_version,
                grace_seconds=grace_seconds,
            )

        return self._many(
            [(each.namespace, each.name, lambda each=each: deletion(each)) for each in targets], deadline
        )

    def logs(
        self, pod: str, *, namespace: str, container: str = "", tail_lines: int | None = None, **_other: Any
    ) -> FakeLog:
        with self._call("logs", POD, namespace, pod) as key:
            if key not in self._store:
                raise _not_found(POD, pod)
            spec = self._store[key].get("spec") or {}
            names = [each["name"] for each in spec.get("containers") or ()]
            if len(names) > 1 and not container:
                raise errors.Invalid(
                    f"a container name must be specified, choose one of: {names}", status=400
                )
            if container and container not in names:
                raise errors.Invalid(f"container {container} is not valid for pod {pod}", status=400)
            text = self._store[key]["metadata"].get("annotations", {}).get("fake/log", "")
            kept = text.splitlines(keepends=True)
            return FakeLog("".join(kept if tail_lines is None else kept[-tail_lines:]).encode())

    @asynccontextmanager
    async def follow_log(
        self, pod: str, *, namespace: str, container: str = "", tail_lines: int | None = None
    ):
        stream = self.logs(pod, namespace=namespace, container=container, tail_lines=tail_lines, follow=True)
        try:
            yield _in_threads(iter(stream))
        finally:
            stream.close()

    def read_crd_schema(self, kind: Kind) -> Obj | None:
        found = self.get(CRD, f"{kind.plural}.{kind.group}")
        for version in (found or {}).get("spec", {}).get("versions", ()):
            if version["name"] == kind.version and version["served"]:
                return version.get("schema", {}).get("openAPIV3Schema") or {}
        return None

    def discover(self, group: str, version: str) -> frozenset[str] | None:
        with self._call("discover", None, "", ""):
            served = {
                k for k in self.known if k not in self.unserved and (k.group, k.version) == (group, version)
            }
            return frozenset(kind.plural for kind in served) or None

    def kube_system_uid(self, *, within: float = 0.0) -> str:
        found = self.get(NAMESPACE, "kube-system")
        if found is None:
            raise errors.ObjectNotFound("the cluster has no namespace kube-system (yet)", status=404)
        return found["metadata"]["uid"]

    def server_version(self) -> str:
        with self._call("version", None, "", ""):
            return self.version

    def server_time(self) -> datetime:
        with self._call("time", None, "", ""):
            return self._now().replace(microsecond=0)

    # Inside

    @contextmanager
    def _call(self, verb: str, kind: Kind | None, namespace: str, name: str) -> Iterator[Key]:
        if kind is not None and kind.namespaced and name and not namespace:
            raise ValueError(f"{kind} {name!r} is namespaced: give its namespace")
        with self._lock:
            next(self._clock)
            if kind is not None:
                self.calls.append(Call(verb, kind, namespace, name))
            fault = self._fault(verb, kind, name)
            if fault is not None and not fault.applied:
                raise fault.error
            if kind is not None and (kind in self.unserved or kind not in self.known):
                raise errors.NotServed("the server could not find the requested resource", status=404)
            yield (kind, namespace if kind and kind.namespaced else "", name)
            self._play()
            if fault is not None:
                raise fault.error

    def _fault(self, verb: str, kind: Kind | None, name: str) -> Fault | None:
        for fault in self._faults:
            if fault.verb in (None, verb) and fault.kind in (None, kind) and fault.name in (None, name):
                if fault.after > 0:
                    fault.after -= 1
                elif fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def _many(
        self, jobs: Sequence[tuple[str, str, Callable[[], Any]]], deadline: float
    ) -> Sequence[WriteOutcome]:
        outcomes: Any = []
        dead: ClusterError | None = None
        for namespace, name, run in jobs:
            if dead is None and boot_seconds() >= deadline:
                dead = DeadlinePassed("not sent: the deadline came first")
            if dead is not None:
                outcomes.append(WriteOutcome(namespace, name, WriteResult.UNSENT, error=dead))
                continue
            try:
                done = run()
            except ClusterError as error:
                wrote = _wrote(error)
                dead = error if wrote is WriteResult.UNSENT else None
                outcomes.append(WriteOutcome(namespace, name, wrote, error=error))
            else:
                uid = done["metadata"]["uid"] if isinstance(done, dict) else ""
                wrote = _RESULTS[done] if isinstance(done, Deletion) else WriteResult.DONE
                outcomes.append(WriteOutcome(namespace, name, wrote, uid))
        return outcomes

    def _sorted(self, kind: Kind) -> Iterable[tuple[Key, Obj]]:
        return sorted((item for item in self._store.items() if item[0][0] == kind), key=_by_name)

    def _need_namespace(self, kind: Kind, namespace: str) -> None:
        if kind.namespaced and (NAMESPACE, "", namespace) not in self._store:
            raise _not_found(NAMESPACE, namespace)

    def _stamp_new(self, kind: Kind, obj: Obj) -> None:
        obj |= {"apiVersion": kind.api_version, "kind": kind.name}
        number = next(self._clock)
        obj["metadata"].pop("resourceVersion", None)
        obj["metadata"] |= {
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "creationTimestamp": self._time(),
            "generation": 1,
        }
        if kind == POD:
            obj.setdefault("status", {}).setdefault("phase", "Pending")

    def _applied(self, before: Obj, obj: Obj, manager: tuple[str, str]) -> Obj:
        uid = before["metadata"]["uid"]
        if obj["metadata"].get("uid", uid) != uid:
            raise errors.WriteConflict("Precondition failed: UID", status=409, reason="Conflict")
        owners = self._owners.get(uid, {})
        wanted, after = _appliable(obj), copy_json(before)
        for path in [path for path, owner in owners.items() if owner == manager and path not in wanted]:
            semantics.without_leaf(after, path)
        for path, value in wanted.items():
            semantics.with_leaf(after, path, value)
        return after

    def _own(self, after: Obj, manager: tuple[str, str], live: dict[semantics.Path, Any], mine: Obj) -> None:
        """Give ``manager`` the leaves of ``mine`` that are new or changed (all of them, for an apply)."""
        owners = self._owners.setdefault(after["metadata"]["uid"], {})
        wanted = _appliable(mine)
        if manager[1] == "Apply":
            for path in [path for path, owner in owners.items() if owner == manager and path not in wanted]:
                del owners[path]
        for path, value in wanted.items():
            if manager[1] == "Apply" or live.get(path, ...) != value:
                owners[path] = manager

    def _change(
        self, kind: Kind, before: Obj, after: Obj, *, manager: tuple[str, str], mine: Obj | None = None
    ) -> None:
        self._own(after, manager, semantics.leaves(before), after if mine is None else mine)
        if after == before:
            return
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        metadata = after["metadata"]
        if not metadata.get("finalizers"):
            metadata.pop("finalizers", None)
        freed = before["metadata"].get("finalizers") and not metadata.get("finalizers")
        if freed and "deletionTimestamp" in metadata:
            self._store[self._key(kind, after)] = after
            self._drop(self._key(kind, after))
            return
        self._save(kind, after, "MODIFIED")

    def _save(self, kind: Kind, obj: Obj, event: str) -> None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._store[self._key(kind, obj)] = obj
        self._tell(kind, event, obj)

    def _drop(self, key: Key) -> None:
        obj = self._store.pop(key)
        self._owners.pop(obj["metadata"]["uid"], None)
        self._removals.append(Removal(key[0], next(self._clock)))
        self._version += 1
        last = copy_json(obj)
        last["metadata"]["resourceVersion"] = str(self._version)
        self._tell(key[0], "DELETED", last)
        self._collect(obj["metadata"]["uid"])

    def _collect(self, uid: str) -> None:
        """Remove what the object with ``uid`` was the last owner of."""
        alive = {obj["metadata"]["uid"] for obj in self._store.values()}
        for key, obj in list(self._store.items()):
            owners = {owner["uid"] for owner in obj["metadata"].get("ownerReferences", ())}
            if uid not in owners or owners & alive or key not in self._store:
                continue
            if not obj["metadata"].get("finalizers"):
                self._drop(key)
            elif "deletionTimestamp" not in obj["metadata"]:
                after = copy_json(obj)
                after["metadata"]["deletionTimestamp"] = self._time()
                self._save(key[0], after, "MODIFIED")

    def _tell(self, kind: Kind, event: str, obj: Obj) -> None:
        self._events.append((self._version, kind, event, copy_json(obj)))
        self._news.notify_all()

    def _play(self) -> None:
        if self._playing:
            return
        self._playing = True
        try:
            for _ in range(ROUNDS):
                before = self._version
                for player in self.players:
                    player(self)
                if self._version == before:
                    return
            raise AssertionError(f"the players of this cluster did not settle in {ROUNDS} rounds")
        finally:
            self._playing = False

    def _key(self, kind: Kind, obj: Obj) -> Key:
        metadata = obj["metadata"]
        return kind, metadata.get("namespace", "") if kind.namespaced else "", metadata["name"]

    def _time(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _namespace_of(kind: Kind, obj: Obj) -> str:
    namespace = obj["metadata"].get("namespace", "")
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind} {obj['metadata'].get('name')!r} is namespaced: set metadata.namespace")
    return namespace if kind.namespaced else ""


def _appliable(obj: Obj) -> dict[semantics.Path, Any]:
    """The leaves that a manager can own: all but what names the object or is the server's."""
    servers = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation")
    return {
        path: value
        for path, value in semantics.leaves(obj).items()
        if path[0] not in ("apiVersion", "kind")
        and not (path[0] == "metadata" and path[1] in (*servers, "deletionTimestamp"))
    }


def _metadata_of(obj: Obj) -> Obj:
    return {key: obj[key] for key in ("apiVersion", "kind", "metadata")}


def _selected(obj: Obj, label_selector: str, field_selector: str) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return semantics.labels_match(labels, label_selector) and semantics.fields_match(obj, field_selector)


def _needs_kubelet(kind: Kind, obj: Obj, grace_seconds: int | None) -> bool:
    """A pod that runs on a node ends in its own time; one without a node, or ended, goes at once."""
    ended = obj.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return kind == POD and grace_seconds != 0 and bool(obj.get("spec", {}).get("nodeName")) and not ended


_RESULTS = {
    Deletion.ABSENT: WriteResult.ABSENT,
    Deletion.ACCEPTED: WriteResult.DONE,
    Deletion.REMOVED: WriteResult.REMOVED,
}


def _wrote(error: ClusterError) -> WriteResult:
    if isinstance(error, errors.AlreadyExists):
        return WriteResult.EXISTS
    if error.maybe_applied:
        return WriteResult.UNKNOWN
    return (
        WriteResult.UNSENT if isinstance(error, ClusterUnreachable | DeadlinePassed) else WriteResult.REFUSED
    )


def _not_found(kind: Kind, name: str) -> errors.ObjectNotFound:
    return errors.ObjectNotFound(f'{kind.plural} "{name}" not found', status=404, reason="NotFound")


def _by_name(item: tuple[Key, Obj]) -> tuple[str, str]:
    (_, namespace, name), _ = item
    return namespace, name


async def _in_threads(pieces):
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
