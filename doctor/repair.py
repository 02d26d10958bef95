"""What ``--repair`` does: only what the product does by itself, but now.

Groups are enqueued, objects that no row wants are deleted by the sweep for orphans (with its grace, pods
first), queues and topologies by the sync of pools. Nothing else: no finalizer is touched, nothing is deleted
under pods that run, no row's status is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.errors import ClusterError
from doctor.facts import Finding, Repair
from pools.clusters.connect import cluster_for
from pools.models import Backend
from pools.services import sync
from workflows.reconcile.end import orphans
from workflows.services.notify import mark_due


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """Counts of what was done; ``failures`` are sentences about what could not be done."""

    enqueued: int = 0
    deleted: int = 0
    synced: int = 0
    failures: tuple[str, ...] = ()


def repair(findings: Sequence[Finding]) -> Repaired:
    """Apply the repairs of the findings. Idempotent; the next sweep does what fails here."""
    groups = {
        finding.group_uuid for finding in findings if finding.repair == "enqueue" and finding.group_uuid
    }
    mark_due(groups)
    failures: list[str] = []
    deleted = sum(_sweep(uid, failures) for uid in _clusters(findings, "sweep"))
    synced = _clusters(findings, "sync")
    for uid in synced:
        sync.sync_cluster(uid)
    return Repaired(enqueued=len(groups), deleted=deleted, synced=len(synced), failures=tuple(failures))


def _clusters(findings: Sequence[Finding], repair: Repair) -> list[str]:
    return sorted({finding.cluster for finding in findings if finding.repair == repair and finding.cluster})


def _sweep(uid: str, failures: list[str]) -> int:
    """Sweep through the first backend that leads to the cluster; returns how many deletes were sent."""
    for backend in Backend.objects.filter(cluster_id=uid, cleaned_at=None).order_by("deleted_at", "pk"):
        try:
            cluster = cluster_for(backend)
            if cluster.kube_system_uid() == uid:
                return orphans.sweep(cluster, uid=uid, namespaces=orphans.namespaces_of(uid))
        except ClusterError as error:
            failures.append(f"{backend.name}: {error}")
    return 0
