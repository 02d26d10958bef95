"""Tries that their pod group cannot place any more: they join a new one.

Kubernetes' own scheduler places a further pod of a pod group only while as many live pods name the pod group
as its minimum says, and the pod group cannot be edited. Once a task of it has ended or has joined another
one, a try that waits there would wait for ever. It gets a further try, which joins a new pod group, with all
that wait for a node and must sit beside it. Like that of ``repin``, such a try does not count against the
task's retries.
"""

from collections.abc import Sequence

from scheduling.backends.registry import scheduler_backend
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.assess.follow import move_along
from workflows.reconcile.assess.recovering import next_try
from workflows.reconcile.objects.placed_gangs import places_gangs
from workflows.reconcile.objects.repin import waits_for_node
from workflows.reconcile.turn import StepResult, Turn
from workflows.reconcile.view.group_reader import GroupReader, ObjectsByName
from workflows.reconcile.view.group_view import GroupView, TaskView
from workflows.services.changes import Change, NewGeneration, TaskMove

LEFT_BEHIND = "Its pod group places no pod any more, since peers have ended or left it. It joins a new one."


def rejoin(turn: Turn) -> StepResult:
    """Let tries leave a pod group that cannot place them. Raises ClusterError.

    Only rarely is there one, so the cluster itself is asked whether its pod still has no node.
    """
    view = turn.view
    waiting = [task for task in view.scheduling if waits_for_node(task, turn.observed)]
    left_behind = unplaceable(view, waiting)
    if not left_behind:
        return turn
    pods = GroupReader(turn.cluster, view.uuid, view.placement).pods()
    changes = rejoin_changes(view, [task for task in left_behind if task.pod_name in pods], pods)
    return turn.moved(changes) if changes else turn


def unplaceable(view: GroupView, tasks: Sequence[TaskView]) -> list[TaskView]:
    """Those of the tasks, all without a node, which their pod group cannot place any more."""
    live_tries = {(task.generation, task.name) for task in view.live}
    is_whole = len(live_tries) == len(view.tasks) and len({generation for generation, _ in live_tries}) == 1
    if is_whole or not tasks or not places_gangs(view):
        return []
    if scheduler_backend(view.placement.terms.scheduler_type).edits_pod_groups:
        return []
    cannot_place = {
        generation
        for generation in {task.generation for task in tasks}
        if any((generation, name) not in live_tries for name in view.gangs[generation].pods)
    }
    return [task for task in tasks if task.generation in cannot_place]


def rejoin_changes(view: GroupView, tasks: Sequence[TaskView], pods: ObjectsByName) -> list[Change]:
    """The changes by which these tasks and their waiting peers join a new pod group; none for no task.

    None either while a pod of these has a node that no row says: then a later reconcile holds the others to
    it.
    """
    if not tasks:
        return []
    waiting = [task for task in view.live if not task.node_name and task not in tasks]
    peers = waiting if waiting and view.values.requires_domain else []
    joining = [*tasks, *peers]
    if any((pod := pods.get(task.pod_name)) and pod.node for task in joining):
        return []
    generation = view.row.generation + 1
    return [
        *(TaskMove(pk=task.pk, status=str(TaskStatus.RESCHEDULED), message=LEFT_BEHIND) for task in tasks),
        *map(move_along, peers),
        *(next_try(task, generation=generation) for task in joining),
        NewGeneration(generation),
    ]
