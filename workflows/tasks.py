"""The messages of workflows, and the sweeps that make lost ones harmless.

A message is a nudge and the row is the truth. Cluster calls hold worker threads (``-P threads``), so what
bounds a run is its lease's deadline, not a time limit.
"""

from uuid import UUID

import structlog
from celery import shared_task

from cluster.errors import ClusterError
from pools.clusters import cluster_for
from pools.models import Backend
from workflows.models import TaskGroup
from workflows.reconcile import orphans, run
from workflows.services import sweep
from workflows.services.lease import take_lease
from workflows.services.nudge import nudge_on_commit

log = structlog.get_logger(__name__)


@shared_task(acks_late=True, ignore_result=True)
def reconcile_task_group(group_id: str) -> None:
    """Bring one task group's objects in the cluster in line with its row.

    A late, lost or doubled delivery is harmless: the lease is taken only of a group that is due, and
    ``sweep_due_groups`` finds it again from ``next_reconcile_at``.
    """
    if lease := take_lease(UUID(group_id)):
        _bind(lease.group_id)
        run.run(lease, cluster=cluster_for(lease.backend))


def _bind(group_id: UUID) -> None:
    """Put the workflow and the request that made it on every log line of this task."""
    row = TaskGroup.objects.filter(pk=group_id).values_list("workflow__name", "workflow__request_id", "name")
    for workflow, request_id, name in row:
        structlog.contextvars.bind_contextvars(workflow=workflow, request_id=request_id, task_group=name)


@shared_task(ignore_result=True)
def sweep_due_groups() -> None:
    """Tell workers of the groups that are due, unless they have enough to do."""
    if not sweep.queue_is_full():
        nudge_on_commit(sweep.due_groups(), most=sweep.BATCH)


@shared_task(ignore_result=True)
def sweep_orphans() -> None:
    """Delete what bears our mark in any cluster and belongs to no group that wants it."""
    seen: set[str] = set()
    for backend in Backend.objects.filter(cluster__isnull=False, cleaned_at=None).order_by("pk"):
        uid = str(backend.cluster_id)
        if uid in seen:
            continue
        try:
            cluster = cluster_for(backend)
            if cluster.kube_system_uid() == uid:
                orphans.sweep(cluster, namespaces=orphans.namespaces_of(uid))
                seen.add(uid)
        except ClusterError as error:
            log.warning("orphans_not_swept", backend=backend.name, error=str(error))


@shared_task(ignore_result=True)
def purge_observations() -> None:
    """Drop what was seen of groups that were released long ago."""
    sweep.purge_observations()
