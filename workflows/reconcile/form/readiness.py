"""Readiness: telling a scheduler that the pods of a gang run that it admitted before it had any.

A scheduler may take the room back of a gang whose pods nobody calls ready in time (Kueue:
``waitForPodsReady``), and only the owner of the pod group knows of its pods. It is told once, when all tasks
run or have ended.
"""

from cluster.errors import RequestForbidden, WriteConflict
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.objects.room import asks_first
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import Turn
from workflows.reconcile.view.group_reader import pod_group_kind
from workflows.services.changes import Note


def report_ready(turn: Turn) -> Turn:
    """Report on the gang's pod groups that their pods run, once they do. Raises ClusterError."""
    view = turn.view
    scheduler, kind = asks_first(view.placement), pod_group_kind(view.placement)
    if scheduler is None or kind is None or any(task.status != TaskStatus.RUNNING for task in view.live):
        return turn
    present = view.pod_group_names.values()
    names = [
        name
        for row in observations.pod_groups(view)
        if (name := str(row["metadata"]["name"])) in present and scheduler.ready(row, now=view.now)
    ]
    namespace = view.placement.terms.namespace
    for name in names:
        live = turn.cluster.get(kind, name, namespace=namespace)
        patch = scheduler.ready(live, now=view.now) if live else None
        if live is None or patch is None:
            continue
        body = {**patch, "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}}
        try:
            turn.cluster.patch_status(kind, name, body, namespace=namespace)
        except WriteConflict:  # the scheduler has written to it: the next reconcile says so
            continue
        except RequestForbidden as error:
            message = f"Its scheduler cannot be told that its pods run, and may take its room back: {error}"
            turn.record([Note(key="not-ready", reason="ReadyForbidden", message=message, warning=True)])
    return turn
