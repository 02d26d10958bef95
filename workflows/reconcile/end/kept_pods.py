"""Pods of ended tasks that only containers keep which the cluster put into them.

A task ends with its own containers. A proxy that a mesh put beside them runs on, and with it the pod keeps
its GPUs for as long as the rest of the gang runs. So the pod is deleted, after its log was kept, and after
the gang's minimum has followed the end of the task: a gang with too few pods is stale.
"""

from cluster.interface import DeleteTarget
from cluster.kinds import POD
from scheduling import names
from scheduling.sentences import listing, plain_listing
from workflows.reconcile.objects.apply import Applied, apply
from workflows.reconcile.objects.plan import Delete
from workflows.reconcile.observe import observations
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster, LogArchive
from workflows.reconcile.view.outcomes import Failed, Retry
from workflows.services.changes import Note
from workflows.services.lease import Lease
from workflows.services.record import record


def delete_kept_pods(
    view: GroupView, lease: Lease, cluster: LeasedCluster, archive: LogArchive
) -> Retry | Failed | None:
    """Delete these pods; call it when the gang's minimums are right. Raises ClusterError."""
    ended = {task.pod_name: task.name for task in view.tasks if not task.live}
    pods = observations.kept_pods(view, ended) if ended else ()
    if not pods:
        return None
    targets = tuple(DeleteTarget(pod.name, pod.namespace, pod.uid) for pod in pods)
    applied = apply((Delete(POD, targets),), cluster=cluster, archive=archive, grace_seconds=None)
    if not isinstance(applied, Applied):
        return applied
    tasks = [ended[pod.name] for pod in pods]
    containers = sorted({name for pod in pods for name in pod.digest["kept_by"]})
    message = (
        f"{listing(tasks)} ended, and {plain_listing(containers)}, which the cluster put into the pods, ran "
        "on: the pods are deleted."
    )
    key = f"kept:{names.digest(sorted(pod.uid for pod in pods), length=16)}"
    record(lease, [Note(key=key, reason="KeptPodsDeleted", message=message)])
    return None
