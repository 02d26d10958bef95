"""Waking: a gang whose scheduler found no room, and would not notice that there is some now.

Whether a scheduler looks again by itself is its own knowledge (``AdmissionBeforePods.wake``). It is woken
where the verdict on the group is "now", and each time is an event and counts. The pod group is read live and
patched at that version: one that was admitted meanwhile is left alone.
"""

from cluster.errors import WriteConflict
from cluster.interface import MERGE_PATCH
from scheduling.capabilities import SchedulerVersion
from workflows.feasibility.verdict.report import fits_now
from workflows.metrics import WAKES
from workflows.reconcile.objects.room import asks_first
from workflows.reconcile.observe import observations
from workflows.reconcile.view.group_reader import pod_group_kind
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.services.changes import Note
from workflows.services.lease import Lease
from workflows.services.record import record


def wake(view: GroupView, lease: Lease, cluster: LeasedCluster) -> None:
    """Let the scheduler look again at a gang for which there is room now. Raises ClusterError."""
    scheduler, kind = asks_first(view.placement), pod_group_kind(view.placement)
    if scheduler is None or kind is None or view.row.created_in_cluster_at is not None:
        return
    version = SchedulerVersion.parse_known(view.backend.scheduler_version)
    asleep = [
        str(row["metadata"]["name"])
        for row in observations.pod_groups(view)
        if scheduler.wake(row, version=version, now=view.now)
    ]
    if not asleep or not fits_now(view.values, cluster=observations.cluster_of(view), now=view.now):
        return
    namespace = view.placement.terms.namespace
    for name in asleep:
        live = cluster.get(kind, name, namespace=namespace)
        patch = scheduler.wake(live, version=version, now=view.now) if live else None
        if live is None or patch is None:
            continue
        body = {**patch, "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}}
        try:
            cluster.patch(kind, name, body, patch_type=MERGE_PATCH, namespace=namespace)
        except WriteConflict:  # the scheduler has written to it
            continue
        WAKES.labels(view.placement.terms.backend).inc()
        message = (
            f"There is room for group {view.row.name} now. Its scheduler found none, and does not look again "
            f"when others' pods end: {kind.name} {name} was changed so that it does."
        )
        record(lease, [Note(key=f"woken:{view.now.isoformat()}", reason="SchedulerWoken", message=message)])
