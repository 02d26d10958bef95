"""Minimums: resizing a gang's pod group once some of its tasks have finished, failed or are tried again.

A gang below its minimum is evicted after its scheduler's grace period, so this is done in the same
reconciliation that observes it. A gang that is never stale keeps the minimum of tasks that are tried again:
below it, it goes before younger gangs.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from cluster.interface import Obj
from scheduling import names
from scheduling.backends.registry import scheduler_backend
from scheduling.sentences import listing
from web.crashpoints import reached
from web.times import read_instant
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.form import edit
from workflows.reconcile.form.edit import Minimums
from workflows.reconcile.objects.create import edits_pod_groups
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import Turn
from workflows.reconcile.view.group_view import GroupView, TaskView
from workflows.services.changes import Note

RECHECK_AFTER = timedelta(seconds=1)
REST_AFTER = timedelta(seconds=25)  # well below KAI's grace period, which is 60 seconds by default


def resize(turn: Turn) -> Turn:
    """Set the gang's minimums to its live tasks, unless they are. Raises ClusterError."""
    view, live, observed = turn.view, turn.view.live, turn.observed
    waiting = waiting_beside_others(live, observed)
    if len(live) == len(view.tasks) and not waiting and not any(task.replaces for task in live):
        return turn
    if not live or not edits_pod_groups(view):
        return turn
    if waiting and edit.gang_of(view, view.form).never_stale:
        waiting = [name for name in waiting if name in ending_among(live, observed)]
    minimums = Minimums(tuple(task.name for task in live), tuple(waiting))
    return turn.at(_set_minimums(turn, minimums))


def _set_minimums(turn: Turn, minimums: Minimums) -> datetime | None:
    """Set these minimums, sets without a place paused where they must be; returns when to decide again."""
    view, cluster = turn.view, turn.cluster
    observed = () if view.observer_is_silent else observations.pod_groups(view)
    pod_group = observed[0] if len(observed) == 1 else edit.read(view, cluster)
    if pod_group is None:
        return None
    minimums, at = _pause(view, pod_group, minimums)
    live = None if edit.has_minimums(pod_group, minimums) else edit.read(view, cluster)
    if live is None or edit.has_minimums(live, minimums):
        return at
    reached("before-minimum-set")
    edit.bring(view, live, cluster=cluster, minimums=minimums)
    if absent := _absent(view, minimums):
        turn.record([_minimum_note(absent)])
    return at


def _pause(view: GroupView, pod_group: Obj, minimums: Minimums) -> tuple[Minimums, datetime | None]:
    """The minimums, without sets that have no place for a moment, and when to decide this again.

    Such sets keep the gang below its minimum however low it is. Left out long before the end of the grace
    period, and put back once the scheduler has removed its mark, they are tried again and again while the
    rest of the gang runs. A gang that is never stale does without them for as long as their pods end.
    """
    if not minimums.waiting:
        return minimums, None
    if edit.gang_of(view, view.form).never_stale:
        return replace(minimums, paused=True), None
    mark = scheduler_backend(view.placement.terms.scheduler_type).read_back.stale
    annotations = pod_group["metadata"].get("annotations") or {}
    since = read_instant(annotations.get(mark)) if mark else None
    if since is None:
        return minimums, None
    if view.now < since + REST_AFTER:
        return minimums, since + REST_AFTER
    form, paused = edit.eased(view, pod_group), replace(minimums, paused=True)
    if edit.resized_spec(view, form, paused) == edit.resized_spec(view, form, minimums):
        return minimums, None
    return paused, view.now + RECHECK_AFTER


def waiting_beside_others(living: Sequence[TaskView], observed: ObservedPods) -> list[str]:
    """The tasks whose pods have no place while others of their gang do.

    Those that are tried again and have no node, and those whose pods are being deleted. While no pod of the
    gang has a place there are none: the gang is placed as a whole or not at all.
    """
    others = [task for task in living if task.pod_name not in observed.settled]  # settled pods have nodes
    ending = ending_among(others, observed)
    pods = ((task.name, observed.pods.get(task.pod_name)) for task in others)
    placed = {name for name, pod in pods if pod is not None and pod.node_name} - ending
    if not placed and len(others) == len(living):
        return []
    return [t.name for t in others if t.name in ending or (t.replaces and t.name not in placed)]


def ending_among(living: Sequence[TaskView], observed: ObservedPods) -> set[str]:
    """The tasks whose pods are being deleted, or are gone."""
    pods = {task.name: observed.pods.get(task.pod_name) for task in living}
    return {name for name, pod in pods.items() if pod is not None and (pod.deleting or pod.absent)}


def _absent(view: GroupView, minimums: Minimums) -> list[str]:
    """The tasks that the gang goes on without, for now or for good."""
    finished = (TaskStatus.COMPLETED, TaskStatus.RESCHEDULED)
    failed = [task.name for task in view.tasks if not task.live and task.status not in finished]
    return [*failed, *minimums.waiting]


def _minimum_note(absent: Sequence[str]) -> Note:
    message = (
        f"The gang goes on without {listing(absent)}: its minimum was lowered, so that its scheduler does "
        "not evict the rest."
    )
    return Note(key=f"without:{names.digest(absent, length=16)}", reason="MinimumLowered", message=message)
