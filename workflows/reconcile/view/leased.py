"""A cluster under a lease: no call begins with less of the lease left than it may take.

A write that reaches the API server after its lease has ended may meet another worker's, for instance a
create that lands after that worker's teardown has listed. So the time a call may take is always covered, and
many writes are sent in portions with the lease extended between them. ``LeaseLost`` ends the reconciliation
at once.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar
from uuid import UUID

from cluster.clock import boot_seconds
from cluster.errors import NotServed
from cluster.interface import ClusterApi, DeleteTarget, Deletion, Obj, WriteOutcome, serves
from cluster.kinds import Kind
from workflows.services import heartbeat
from workflows.services.lease import Lease, extend

T = TypeVar("T")

MARGIN = 2.0
PORTION = 250  # a quarter of a second; each begins with the lease extended by the database's clock


class LogArchive(Protocol):
    """Keeps the logs of pods that are about to be deleted."""

    def __call__(self, pods: Collection[str], *, group: UUID, cluster: ClusterApi, forced: bool) -> None:
        """Keep what can be read in time, in less time if ``forced``. Raises ClusterUnreachable."""


class LeasedCluster:
    """The calls that reconcile makes."""

    def __init__(self, cluster: ClusterApi, lease: Lease) -> None:
        self._cluster = cluster
        self._lease = lease

    def get(self, kind: Kind, name: str, *, namespace: str = "") -> Obj | None:
        with self._call(kind):
            return self._cluster.get(kind, name, namespace=namespace)

    def scan(
        self,
        kind: Kind,
        reduce: Callable[[Obj], T],
        *,
        namespace: str,
        label_selector: str = "",
        metadata_only: bool = False,
    ) -> tuple[T, ...]:
        with self._call(kind):
            return self._cluster.scan(
                kind, reduce, namespace=namespace, label_selector=label_selector, metadata_only=metadata_only
            ).items

    def create(self, kind: Kind, obj: Obj) -> Obj:
        self._lease.acts += 1
        with self._call(kind):
            return self._cluster.create(kind, obj)

    def patch(self, kind: Kind, name: str, body: Obj, *, namespace: str) -> Obj:
        self._lease.acts += 1
        with self._call(kind):
            return self._cluster.patch(kind, name, body, namespace=namespace)

    def patch_status(self, kind: Kind, name: str, body: Obj, *, namespace: str) -> Obj:
        self._lease.acts += 1
        with self._call(kind):
            return self._cluster.patch_status(kind, name, body, namespace=namespace)

    def delete(self, kind: Kind, name: str, *, namespace: str, uid: str) -> Deletion:
        self._lease.acts += 1
        with self._call(kind):
            return self._cluster.delete(kind, name, namespace=namespace, uid=uid)

    def create_many(self, kind: Kind, objs: Sequence[Obj]) -> Iterator[WriteOutcome]:
        for start in range(0, len(objs), PORTION):
            deadline = self._deadline()
            yield from self._cluster.create_many(kind, objs[start : start + PORTION], deadline=deadline)

    def delete_many(
        self, kind: Kind, targets: Sequence[DeleteTarget], *, grace_seconds: int | None
    ) -> Iterator[WriteOutcome]:
        for start in range(0, len(targets), PORTION):
            yield from self._cluster.delete_many(
                kind, targets[start : start + PORTION], deadline=self._deadline(), grace_seconds=grace_seconds
            )

    def keep_logs(self, pods: Sequence[DeleteTarget], *, archive: LogArchive, forced: bool) -> None:
        """Keep the logs of pods before they are deleted; reading needs no lease, its time does."""
        extend(self._lease)
        names = [pod.name for pod in pods]
        archive(names, group=self._lease.group_id, cluster=self._cluster, forced=forced)

    def kube_system_uid(self, *, within: float = 0.0) -> str:
        self._cover()
        return self._cluster.kube_system_uid(within=within)

    def serves(self, kind: Kind) -> bool:
        """Whether the API server lists the kind; for use after a call that reported it as not served."""
        self._cover()
        return serves(self._cluster, kind)

    @contextmanager
    def _call(self, kind: Kind) -> Iterator[None]:
        """Cover a call, and name the kind if it is not served."""
        self._cover()
        try:
            yield
        except NotServed as error:
            raise NotServed(
                f'backend "{self._lease.backend.name}" does not serve {kind}; is what defines it installed?',
                request=error.request,
            ) from error

    def _cover(self) -> None:
        is_short = self._lease.left() < self._cluster.call_seconds + MARGIN
        if is_short or heartbeat.OWN.left() < MARGIN:
            extend(self._lease)

    def _deadline(self) -> float:
        """An instant of ``boot_seconds`` before which a portion of writes must have ended."""
        self._lease.acts += 1
        extend(self._lease)
        return boot_seconds() + self._lease.left() - MARGIN
