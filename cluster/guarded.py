"""A cluster to which nothing is written without a permit.

``permit`` is called before each write with its namespace (empty for an object of the whole cluster) and
whether it deletes. It raises ``WritesSuspended`` where this installation may not write. Reads, dry runs,
reviews of rights, which no server keeps, and people's commands in pods of a known uid need none. A permit may
need calls of its own; a write that waited for them longer than ``PERMIT_SECONDS`` is not sent, so that
``call_seconds`` stays the most that a write may take.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from cluster.clock import boot_seconds
from cluster.errors import WritesUnconfirmed
from cluster.interface import (
    FIELD_MANAGER,
    Channels,
    ClusterApi,
    DeleteTarget,
    Deletion,
    Listing,
    Obj,
    PatchType,
    Propagation,
    Stream,
    WriteOutcome,
)
from cluster.kinds import NAMESPACE, REVIEW_GROUPS, Kind

T = TypeVar("T")

PERMIT_SECONDS = 5.0


class Permit(Protocol):
    """Raises ClusterError if a write in the namespace is not allowed now."""

    def __call__(self, namespace: str, *, deletes: bool) -> None: ...


class GuardedCluster:
    """``interface.ClusterApi`` with a permit for each write."""

    def __init__(self, cluster: ClusterApi, permit: Permit) -> None:
        self._cluster = cluster
        self._permit = permit

    @property
    def call_seconds(self) -> float:
        return self._cluster.call_seconds + PERMIT_SECONDS

    def get(self, kind: Kind, name: str, *, namespace: str = "") -> Obj | None:
        return self._cluster.get(kind, name, namespace=namespace)

    def list(
        self, kind: Kind, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing[Obj]:
        return self._cluster.list(
            kind, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        )

    def scan(
        self,
        kind: Kind,
        reduce: Callable[[Obj], T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> Listing[T]:
        return self._cluster.scan(
            kind,
            reduce,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        )

    def watch(
        self,
        kind: Kind,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
    ) -> Stream[Obj]:
        return self._cluster.watch(
            kind,
            resource_version=resource_version,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )

    def create(self, kind: Kind, obj: Obj, *, dry_run: bool = False) -> Obj:
        if not dry_run and kind.group not in REVIEW_GROUPS:
            self._allow(_namespace(kind, obj), deletes=False)
        return self._cluster.create(kind, obj, dry_run=dry_run)

    def create_many(self, kind: Kind, objs: Sequence[Obj], *, deadline: float) -> Sequence[WriteOutcome]:
        for namespace in {_namespace(kind, obj) for obj in objs}:
            self._allow(namespace, deletes=False)
        return self._cluster.create_many(kind, objs, deadline=deadline)

    def apply(
        self,
        kind: Kind,
        obj: Obj,
        *,
        force: bool,
        field_manager: str = FIELD_MANAGER,
        dry_run: bool = False,
    ) -> Obj:
        if not dry_run:
            self._allow(_namespace(kind, obj), deletes=False)
        return self._cluster.apply(kind, obj, force=force, field_manager=field_manager, dry_run=dry_run)

    def patch(
        self, kind: Kind, name: str, body: Obj | Sequence[Obj], *, patch_type: PatchType, namespace: str = ""
    ) -> Obj:
        self._allow(namespace, deletes=False)
        return self._cluster.patch(kind, name, body, patch_type=patch_type, namespace=namespace)

    def patch_status(self, kind: Kind, name: str, body: Obj, *, namespace: str = "") -> Obj:
        self._allow(namespace, deletes=False)
        return self._cluster.patch_status(kind, name, body, namespace=namespace)

    def delete(
        self,
        kind: Kind,
        name: str,
        *,
        uid: str | None,
        namespace: str = "",
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation = "Background",
    ) -> Deletion:
        self._allow(namespace, deletes=True)
        return self._cluster.delete(
            kind,
            name,
            uid=uid,
            namespace=namespace,
            resource_version=resource_version,
            grace_seconds=grace_seconds,
            propagation=propagation,
        )

    def delete_many(
        self,
        kind: Kind,
        targets: Sequence[DeleteTarget],
        *,
        deadline: float,
        grace_seconds: int | None = None,
        propagation: Propagation = "Background",
    ) -> Sequence[WriteOutcome]:
        for namespace in {target.namespace for target in targets}:
            self._allow(namespace, deletes=True)
        return self._cluster.delete_many(
            kind, targets, deadline=deadline, grace_seconds=grace_seconds, propagation=propagation
        )

    def logs(
        self,
        pod: str,
        *,
        namespace: str,
        container: str = "",
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
    ) -> Stream[bytes]:
        return self._cluster.logs(
            pod,
            namespace=namespace,
            container=container,
            tail_lines=tail_lines,
            limit_bytes=limit_bytes,
            follow=follow,
            previous=previous,
            timestamps=timestamps,
        )

    def follow_log(
        self, pod: str, *, namespace: str, container: str = "", tail_lines: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._cluster.follow_log(pod, namespace=namespace, container=container, tail_lines=tail_lines)

    def open_exec(
        self,
        pod: str,
        *,
        namespace: str,
        uid: str,
        container: str,
        command: Sequence[str],
        stdin: bool,
        tty: bool,
    ) -> AbstractAsyncContextManager[Channels]:
        return self._cluster.open_exec(
            pod, namespace=namespace, uid=uid, container=container, command=command, stdin=stdin, tty=tty
        )

    def open_forward(
        self, pod: str, *, namespace: str, uid: str, port: int
    ) -> AbstractAsyncContextManager[Channels]:
        return self._cluster.open_forward(pod, namespace=namespace, uid=uid, port=port)

    def read_crd_schema(self, kind: Kind) -> Obj | None:
        return self._cluster.read_crd_schema(kind)

    def discover(self, group: str, version: str) -> frozenset[str] | None:
        return self._cluster.discover(group, version)

    def kube_system_uid(self) -> str:
        return self._cluster.kube_system_uid()

    def server_version(self) -> str:
        return self._cluster.server_version()

    def server_time(self) -> datetime:
        return self._cluster.server_time()

    def _allow(self, namespace: str, *, deletes: bool) -> None:
        began = boot_seconds()
        self._permit(namespace, deletes=deletes)
        if boot_seconds() - began > PERMIT_SECONDS:
            raise WritesUnconfirmed(
                "The cluster took too long to confirm the right to write; it is tried again."
            )


def _namespace(kind: Kind, obj: Obj) -> str:
    """The namespace that a write is about; a namespace's own creation is about itself."""
    metadata = obj["metadata"]
    return str(metadata["name"] if kind == NAMESPACE else metadata.get("namespace", ""))
