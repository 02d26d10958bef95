"""A cluster to which nothing is written without a permit.

``permit`` is called before each write with its namespace (empty for an object of the whole cluster) and
whether it deletes. It raises ``WritesSuspended`` where this installation may not write. Reads, dry runs,
reviews of rights, which no server keeps, and people's commands in pods of a known uid need none. A permit may
need calls of its own; a write that waited for them longer than ``PERMIT_SECONDS`` is not sent, so that
``call_seconds`` stays the most that a write may take.
"""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from cluster.clock import boot_seconds
from cluster.errors import WritesUnconfirmed
from cluster.interface import (
    ClusterApi,
    DeleteTarget,
    Deletion,
    Obj,
    WriteOutcome,
)
from cluster.kinds import NAMESPACE, REVIEW_GROUPS, Kind

PERMIT_SECONDS = 5.0


class Permit(Protocol):
    """Raises ClusterError if a write in the namespace is not allowed now."""

    def __call__(self, namespace: str, *, deletes: bool) -> None: ...


NEED_NO_PERMIT = frozenset(
    {
        "discover",
        "follow_log",
        "get",
        "kube_system_uid",
        "list",
        "logs",
        "open_exec",  # a person's deed in a pod that is known by its uid; web may not read the mark
        "open_forward",  # the same
        "read_crd_schema",
        "scan",
        "server_time",
        "server_version",
        "watch",
    }
)


def guarded(cluster: ClusterApi, permit: Permit) -> ClusterApi:
    """The cluster with a permit for each write."""
    return cast("ClusterApi", GuardedCluster(cluster, permit))


class GuardedCluster:
    """``interface.ClusterApi`` with a permit for each write; all else of it goes through."""

    def __init__(self, cluster: ClusterApi, permit: Permit) -> None:
        self._cluster = cluster
        self._permit = permit

    @property
    def call_seconds(self) -> float:
        return self._cluster.call_seconds + PERMIT_SECONDS

    def __getattr__(self, name: str) -> Any:
        """A call that needs no permit, as the cluster itself has it."""
        if name not in NEED_NO_PERMIT:
            raise AttributeError(f"{name} is not known to need no permit")
        return getattr(self._cluster, name)

    def create(self, kind: Kind, obj: Obj, *, dry_run: bool = False) -> Obj:
        if not dry_run and kind.group not in REVIEW_GROUPS:
            self._allow(_namespace(kind, obj), deletes=False)
        return self._cluster.create(kind, obj, dry_run=dry_run)

    def create_many(self, kind: Kind, objs: Sequence[Obj], *, deadline: float) -> Sequence[WriteOutcome]:
        for namespace in {_namespace(kind, obj) for obj in objs}:
            self._allow(namespace, deletes=False)
        return self._cluster.create_many(kind, objs, deadline=deadline)

    def apply(self, kind: Kind, obj: Obj) -> Obj:
        self._allow(_namespace(kind, obj), deletes=False)
        return self._cluster.apply(kind, obj)

    def patch(self, kind: Kind, name: str, body: Obj, *, namespace: str = "") -> Obj:
        self._allow(namespace, deletes=False)
        return self._cluster.patch(kind, name, body, namespace=namespace)

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
    ) -> Deletion:
        self._allow(namespace, deletes=True)
        return self._cluster.delete(
            kind,
            name,
            uid=uid,
            namespace=namespace,
            resource_version=resource_version,
            grace_seconds=grace_seconds,
        )

    def delete_many(
        self,
        kind: Kind,
        targets: Sequence[DeleteTarget],
        *,
        deadline: float,
        grace_seconds: int | None = None,
    ) -> Sequence[WriteOutcome]:
        for namespace in {target.namespace for target in targets}:
            self._allow(namespace, deletes=True)
        return self._cluster.delete_many(kind, targets, deadline=deadline, grace_seconds=grace_seconds)

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
