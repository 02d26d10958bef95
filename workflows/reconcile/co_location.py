"""The co-location sets of tasks, and the peers that a try takes along into a new pod group. Pure.

A scheduler whose pod groups cannot be edited keeps pods in one domain if they join one pod group, and node
labels hold a try to peers that have nodes (``domains.Pins``). Nothing holds two tries to each other that
have no nodes and join two pod groups. So whoever joins a new one takes along all that wait for a node and
must sit beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from scheduling.requirements import Requirement, SetPath
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.group_view import GroupView, TaskView
from workflows.services.record import TaskMove
from workflows.values.placement import TaskTry

TAKEN_ALONG = "A peer that it must sit beside joins a new pod group. It joins that too."


def rank_by_level(view: GroupView) -> dict[str, int]:
    """The place of each topology key, 0 for the broadest."""
    return {level.key: rank for rank, level in enumerate(view.placement.levels)}


def sets_of(task: TaskTry, rank: Mapping[str, int]) -> Iterator[tuple[SetPath, Requirement]]:
    """The co-location sets of a task, broadest first."""
    requirements = [requirement for requirement in task.placement.requirements if requirement.key in rank]
    requirements.sort(key=lambda requirement: rank[requirement.key])
    pairs = [((requirement.key, requirement.group),) for requirement in requirements]
    return zip(accumulate(pairs), requirements, strict=True)


def required_peers(
    view: GroupView, tasks: Sequence[TaskView], *, among: Sequence[TaskView]
) -> list[TaskView]:
    """Those ``among`` the tasks that share a required set with one of ``tasks``, or with such a peer."""
    if not among:
        return []
    rank = rank_by_level(view)
    paths = {
        task.name: {path for path, requirement in sets_of(task, rank) if requirement.required}
        for task in view.values.tasks
    }
    joined = {task.name for task in tasks}
    reached = {path for name in joined for path in paths[name]}
    peers: list[TaskView] = []
    while more := [task for task in among if task.name not in joined and paths[task.name] & reached]:
        peers += more
        joined |= {task.name for task in more}
        reached |= {path for task in more for path in paths[task.name]}
    return peers


def move_along(task: TaskView) -> TaskMove:
    """The end of a peer's try; that of the next one follows."""
    return TaskMove(pk=task.pk, status=str(TaskStatus.RESCHEDULED), message=TAKEN_ALONG)
