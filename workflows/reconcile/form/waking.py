"""Waking: a gang whose scheduler found no room, and would not notice that there is some now.

Whether a scheduler looks again by itself is its own knowledge (``AdmissionBeforePods.wake``). It is woken
where the verdict on the group is "now", and each time is an event and counts. The pod group is read live and
patched at that version: one that was admitted meanwhile is left alone. A scheduler that does not look for
some time after it was woken is said to be silent.

A gang for which others were evicted may be lost (``SchedulerBackend.loses_preemptor``): one of its pods is
made again. Each time needs twice the wait of the one before, as the age of that pod tells.
"""

from datetime import datetime, timedelta

from cluster.errors import WriteConflict
from cluster.interface import DeleteTarget, Obj
from cluster.kinds import POD
from pools.documents.backend import version_of
from scheduling.backends.registry import scheduler_backend
from scheduling.capabilities import SchedulerVersion
from workflows.feasibility.verdict.report import fits_now
from workflows.lifecycle.statuses import TaskStatus
from workflows.metrics import WAKES
from workflows.models import Event
from workflows.reconcile.objects.create import create_pods_again
from workflows.reconcile.objects.room import asks_first
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import Turn
from workflows.reconcile.view.group_reader import pod_group_kind
from workflows.reconcile.view.group_view import GroupView, TaskView
from workflows.services.changes import Note

SILENCE = timedelta(seconds=30)
"""For how long a scheduler may not look at a pod group that it was woken for."""
PREEMPTOR_AFTER = timedelta(seconds=20)
"""For how long a gang for which others were evicted waits at least, before one of its pods is made again."""
WOKEN = "SchedulerWoken"
"""The reason of the events about both."""


def wake(turn: Turn) -> Turn:
    """Let the scheduler look again at a gang for which there is room now. Raises ClusterError.

    What to say of a scheduler that was woken and has not done so is learned.
    """
    view = turn.view
    scheduler, kind = asks_first(view.placement), pod_group_kind(view.placement)
    if scheduler is None or kind is None or view.row.created_in_cluster_at is not None:
        return turn
    version = SchedulerVersion.parse_known(version_of(view.backend))
    asleep = [
        str(row["metadata"]["name"])
        for row in observations.pod_groups(view)
        if scheduler.wake(row, version=version, now=view.now)
    ]
    if not asleep or not fits_now(view.values, cluster=observations.cluster_of(view), now=view.now):
        return turn
    namespace = view.placement.terms.namespace
    for name in asleep:
        live = turn.cluster.get(kind, name, namespace=namespace)
        patch = scheduler.wake(live, version=version, now=view.now) if live else None
        if live is not None and patch is None and scheduler.is_unanswered(live):
            return turn.learn(silence=_silence(view))
        if live is None or patch is None:
            continue
        body = {**patch, "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}}
        try:
            turn.cluster.patch(kind, name, body, namespace=namespace)
        except WriteConflict:  # the scheduler has written to it
            continue
        WAKES.labels(view.placement.terms.backend).inc()
        message = (
            f"There is room for group {view.row.name} now. Its scheduler found none, and does not look again "
            f"when others' pods end: {kind.name} {name} was changed so that it does."
        )
        turn.record([Note(key=f"woken:{view.now.isoformat()}", reason=WOKEN, message=message)])
    return turn


def _silence(view: GroupView) -> str:
    times = Event.objects.filter(group=view.row, reason=WOKEN).values_list("time", flat=True)
    last = times.order_by("-time").first()
    if last is None or view.now - last < SILENCE:
        return ""
    return (
        "There is room for it, and its scheduler has not answered since it was told so "
        f"{(view.now - last).total_seconds():.0f} seconds ago: it may be down."
    )


def wake_preemptor(turn: Turn) -> Turn:
    """Make a pod again of a gang that its scheduler lost, and look at it again. Raises ClusterError."""
    view = turn.view
    loses = scheduler_backend(view.placement.terms.scheduler_type).loses_preemptor
    created_at = view.row.created_in_cluster_at
    if loses is None or created_at is None or view.observer_is_silent:
        return turn
    waits = not view.has_node and all(task.status == TaskStatus.SCHEDULING for task in view.tasks)
    if not waits or not any(loses(row) for row in observations.pod_groups(view)):
        return turn
    task, namespace = view.tasks[0], view.placement.terms.namespace
    pod = turn.cluster.get(POD, task.pod_name, namespace=namespace)
    if pod is None or pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
        return turn.at(view.now + PREEMPTOR_AFTER)
    made_at = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    due = made_at + max(PREEMPTOR_AFTER, made_at - created_at)
    if view.now < due:
        return turn.at(due)
    if fits_now(view.values, cluster=observations.cluster_of(view), now=view.now):
        _make_again(turn, task, pod)
    return turn.at(view.now + PREEMPTOR_AFTER)


def _make_again(turn: Turn, task: TaskView, pod: Obj) -> None:
    """Delete a pod as it was read, so not one that was bound since, and create it again."""
    view, metadata = turn.view, pod["metadata"]
    target = DeleteTarget(
        metadata["name"], metadata["namespace"], metadata["uid"], metadata["resourceVersion"]
    )
    if any(outcome.error for outcome in turn.cluster.delete_many(POD, [target], grace_seconds=0)):
        return
    create_pods_again(
        view, [task], turn.cluster
    )  # if it fails, it is made again as one that somebody deleted
    WAKES.labels(view.placement.terms.backend).inc()
    message = (
        f"There is room for group {view.row.name} now, for which others were evicted, and its scheduler does "
        f"not look again: pod {task.pod_name} was made again so that it does."
    )
    turn.record([Note(key=f"woken:{view.now.isoformat()}", reason=WOKEN, message=message)])
