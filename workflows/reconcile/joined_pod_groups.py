"""What the pod groups that tries joined have placed, and which of their tries they cannot place any more.

A scheduler places the pods of a new pod group together or none of them. So once one pod has a node, all have
existed, also one that is missing by now.

Kubernetes' own scheduler places a further pod of a pod group only while as many live pods name the pod group
as its minimum says, and the pod group cannot be edited. Once a member has ended or has joined another one, a
try that waits there would wait for ever. It gets a further try, which joins a new pod group, with all that
wait for a node and must sit beside it (``co_location``). Like that of ``repin``, such a try does not count
against the task's retries.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from pools.clusters.capabilities import capabilities_at
from scheduling.backends.base import RenderedGang
from scheduling.backends.registry import scheduler_backend
from scheduling.capabilities import Capability
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.co_location import move_along, required_peers
from workflows.reconcile.follow import ObservedPods
from workflows.reconcile.group_reader import GroupReader, ObjectsByName
from workflows.reconcile.group_view import GroupView, TaskView
from workflows.reconcile.leased import LeasedCluster
from workflows.reconcile.recovering import next_try
from workflows.reconcile.repin import waits_for_node
from workflows.reconcile.room import asks_first
from workflows.services.record import Change, NewGeneration, TaskMove

LEFT_BEHIND = "Its pod group places no pod any more, since peers have ended or left it. It joins a new one."


def placed_together(view: GroupView, tasks: Sequence[TaskView], pods: ObjectsByName) -> frozenset[str]:
    """Those of the tasks whose pods were all created and placed, with those of their pod group's others.

    ``tasks`` are all whose creation is not recorded, ``pods`` those in the cluster. A pod group that had pods
    of earlier tries tells nothing: those may have been placed without these.
    """
    if not _places_gangs(view):
        return frozenset()
    unrecorded = {task.name for task in tasks}
    latest = {task.name: task for task in view.tasks}
    earlier = {(task_try.generation, task_try.name) for task_try in view.values.earlier}
    placed: set[str] = set()
    for generation, members in _members(view.renderer.gangs, {task.generation for task in tasks}):
        if any((generation, name) in earlier for name in members):
            continue
        if any(_has_node(latest[name], pods) for name in members):
            placed |= members & unrecorded
    return frozenset(placed)


def _has_node(task: TaskView, pods: ObjectsByName) -> bool:
    pod = pods.get(task.pod_name)
    return bool(task.node_name or (pod is not None and pod.node))


def rejoins(view: GroupView, observed: ObservedPods, cluster: LeasedCluster) -> list[Change]:
    """The changes by which tries leave a pod group that cannot place them. Raises ClusterError.

    Only rarely is there one, so the cluster itself is asked whether its pod still has no node.
    """
    waiting = [task for task in view.scheduling if waits_for_node(task, observed)]
    left_behind = unplaceable(view, waiting)
    if not left_behind:
        return []
    pods = GroupReader(cluster, view.uuid, view.placement).pods()
    return rejoin_changes(view, [task for task in left_behind if task.pod_name in pods], pods)


def unplaceable(view: GroupView, tasks: Sequence[TaskView]) -> list[TaskView]:
    """Those of the tasks, all without a node, which their pod group cannot place any more."""
    live_tries = {(task.generation, task.name) for task in view.live}
    is_whole = len(live_tries) == len(view.tasks) and len({generation for generation, _ in live_tries}) == 1
    if is_whole or not tasks or not _places_gangs(view):
        return []
    if scheduler_backend(view.placement.scheduler_type).edits_pod_groups:
        return []
    left_behind: set[tuple[int, str]] = set()
    for generation, members in _members(view.gangs, {task.generation for task in tasks}):
        joined = {(generation, name) for name in members}
        if not joined <= live_tries:
            left_behind |= joined
    return [task for task in tasks if (task.generation, task.name) in left_behind]


def rejoin_changes(view: GroupView, tasks: Sequence[TaskView], pods: ObjectsByName) -> list[Change]:
    """The changes by which these tasks and their waiting peers join a new pod group; none for no task.

    None either while a pod of these has a node that no row says: then a later look holds the others to it.
    """
    waiting = [task for task in view.live if not task.node_name and task not in tasks]
    peers = required_peers(view, tasks, among=waiting) if tasks else []
    joining = [*tasks, *peers]
    if not joining or any((pod := pods.get(task.pod_name)) and pod.node for task in joining):
        return []
    generation = view.row.generation + 1
    return [
        *(TaskMove(pk=task.pk, status=str(TaskStatus.RESCHEDULED), message=LEFT_BEHIND) for task in tasks),
        *map(move_along, peers),
        *(next_try(task, generation=generation) for task in joining),
        NewGeneration(generation),
    ]


def _places_gangs(view: GroupView) -> bool:
    """Whether its scheduler places the pods of a pod group once there are as many as its minimum."""
    placement = view.placement
    capabilities = capabilities_at(placement.scheduler_type, placement.scheduler_version)
    return Capability.GANG in capabilities and asks_first(placement) is None


def _members(
    gangs: Mapping[int, RenderedGang], generations: Collection[int]
) -> Iterator[tuple[int, set[str]]]:
    """Each pod group of these generations: its generation and the tasks of which any try joined it."""
    for generation in sorted(generations):
        gang = gangs[generation]
        by_pod_group: dict[str, set[str]] = {}
        for name in gang.pods:
            by_pod_group.setdefault(gang.members.get(name, ""), set()).add(name)
        for members in by_pod_group.values():
            yield generation, members
