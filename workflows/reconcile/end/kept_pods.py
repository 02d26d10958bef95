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
from workflows.reconcile.turn import StepResult, Stop, Turn
from workflows.services.changes import Note


def delete_kept_pods(turn: Turn) -> StepResult:
    """Delete these pods once the gang's minimums are right. Raises ClusterError."""
    view = turn.view
    ended = {task.pod_name: task.name for task in view.tasks if not task.live}
    pods = observations.kept_pods(view, ended) if ended else ()
    if not pods:
        return turn
    targets = tuple(DeleteTarget(pod.name, pod.namespace, pod.uid) for pod in pods)
    applied = apply((Delete(POD, targets),), cluster=turn.cluster, archive=turn.archive, grace_seconds=None)
    if not isinstance(applied, Applied):
        return Stop(turn, applied)
    tasks = [ended[pod.name] for pod in pods]
    containers = sorted({name for pod in pods for name in pod.digest["kept_by"]})
    message = (
        f"{listing(tasks)} ended, and {plain_listing(containers)}, which the cluster put into the pods, ran "
        "on: the pods are deleted."
    )
    key = f"kept:{names.digest(sorted(pod.uid for pod in pods), length=16)}"
    turn.record([Note(key=key, reason="KeptPodsDeleted", message=message)])
    return turn
