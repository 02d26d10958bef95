"""What ``--repair`` does: only what the product does by itself, only sooner.

Groups are enqueued, objects that no row wants are deleted by the sweep for orphans (with its grace, pods
first), queues and topologies by the sync of pools. Nothing else: no finalizer is touched, nothing is deleted
under pods that run, no row's status is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.errors import ClusterError
from doctor.facts import Finding
from pools.clusters.connect import cluster_for
from pools.models import Backend
from pools.services import sync
from workflows.reconcile import orphans
from workflows.services.notify import mark_due


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What was done; ``failed`` says what could not be done."""

    nudged: int = 0
    deleted: int = 0
    synced: int = 0
    failed: tuple[str, ...] = ()


def repair(findings: Sequence[Finding]) -> Repaired:
    """Do what the findings ask for. Idempotent; what was not done now is done by the next sweep."""
    groups = {one.group_uuid for one in findings if one.repair == "nudge" and one.group_uuid}
    mark_due(groups)
    failed: list[str] = []
    deleted = sum(_sweep(uid, failed) for uid in _clusters(findings, "sweep"))
    synced = _clusters(findings, "sync")
    for uid in synced:
        sync.sync_cluster(uid)
    return Repaired(nudged=len(groups), deleted=deleted, synced=len(synced), failed=tuple(failed))


def _clusters(findings: Sequence[Finding], what: str) -> list[str]:
    return sorted({one.cluster for one in findings if one.repair == what and one.cluster})


def _sweep(uid: str, failed: list[str]) -> int:
    """Sweep through the first backend that leads to the cluster; returns how many deletes were sent."""
    for backend in Backend.objects.filter(cluster_id=uid, cleaned_at=None).order_by("deleted_at", "pk"):
        try:
            cluster = cluster_for(backend)
            if cluster.kube_system_uid() == uid:
                return orphans.sweep(cluster, namespaces=orphans.namespaces_of(uid))
        except ClusterError as error:
            failed.append(f"{backend.name}: {error}")
    return 0
