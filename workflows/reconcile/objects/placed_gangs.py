"""Which pods were placed before their creation is recorded.

A scheduler places the pods of a new pod group together or none of them. So once one pod has a node, all have
existed, also one that is missing by now.
"""

from collections.abc import Sequence

from pools.clusters.capabilities import capabilities_at
from scheduling.capabilities import Capability
from workflows.reconcile.objects.room import asks_first
from workflows.reconcile.view.group_reader import ObjectsByName
from workflows.reconcile.view.group_view import GroupView, TaskView


def placed_together(view: GroupView, tasks: Sequence[TaskView], pods: ObjectsByName) -> frozenset[str]:
    """Those of the tasks whose pods were all created and placed, with the others of their pod group.

    ``tasks`` are all whose creation is not recorded, ``pods`` those in the cluster. A pod group that had pods
    of earlier tries tells nothing: those may have been placed without these.
    """
    if not places_gangs(view):
        return frozenset()
    latest = {task.name: task for task in view.tasks}
    earlier = {(task_try.generation, task_try.name) for task_try in view.values.earlier}
    placed: set[str] = set()
    for generation in {task.generation for task in tasks}:
        members = view.renderer.gangs[generation].pods.keys()
        is_new = all((generation, name) not in earlier for name in members)
        if is_new and any(_has_node(latest[name], pods) for name in members):
            placed |= members
    return frozenset(placed & {task.name for task in tasks})


def _has_node(task: TaskView, pods: ObjectsByName) -> bool:
    pod = pods.get(task.pod_name)
    return bool(task.node_name or (pod is not None and pod.node))


def places_gangs(view: GroupView) -> bool:
    """Whether its scheduler places the pods of a pod group once there are as many as its minimum."""
    placement = view.placement
    capabilities = capabilities_at(placement.terms.scheduler_type, placement.terms.scheduler_version)
    return Capability.GANG in capabilities and asks_first(placement) is None
