"""Requirements with which a gang would be placed now, where its scheduler passes over a place as it is.

Sets of unlike tasks are pinned to such a place (``pin_choice``), but not all of them can be. A requirement
for a limited time is never pinned: node labels cannot be edited on a pod, so they would hold after that time,
and for pods that are made again. A preference may lead the scheduler past the place although the sets are
pinned. The user can write a form that works at once; of several the one that gives up least comes first.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.pin_choice import pins_for
from scheduling.fit.placing import is_placed
from scheduling.fit.snapshot import Snapshot
from scheduling.gang.soundness import check_requirements
from scheduling.gang.tree import build_tree
from scheduling.topology.levels import Levels, ranks
from scheduling.topology.requirements import Gang, GangTask, Requirement, SetPath, broadest_first

_Change = Callable[[Requirement], Requirement | None]


def is_passed_over(board: Board, gang: GangDemand) -> bool:
    """Whether there is a place now that the scheduler misses by its count of the largest task alone."""
    nodes = gang.tree.root.walk()
    is_counted = any(gang.set_demand(node).largest is not None for node in nodes)
    return is_counted and not is_placed(board, gang) and is_placed(board, gang.counted_apart())


def alternative(snapshot: Snapshot, gang: GangDemand, written: Gang) -> Gang | None:
    """The gang with other requirements, with which it is placed now; None if there are none.

    ``written`` are the requirements that ``gang`` was made of. Call it for a gang that is passed over.
    """
    board = Board(snapshot)
    for candidate in _candidates(written, gang.tree.levels):
        demand = replace(gang, tree=build_tree(candidate, gang.tree.levels), last=None)
        if is_placed(board, demand) or (gang.is_pinnable and pins_for(board, demand)):
            return candidate
    return None


def _candidates(written: Gang, levels: Levels) -> Iterator[Gang]:
    for change in (_for_good, _without_preference, _required_alone):
        candidate = _changed(written, change)
        if candidate != written and _keeps_sets(candidate, written, levels):
            yield candidate


def _keeps_sets(candidate: Gang, written: Gang, levels: Levels) -> bool:
    """Whether sets of one name stay apart: without the preference above them, two may become one."""
    if check_requirements(candidate, levels):
        return False
    former: dict[SetPath, SetPath] = {}
    for task, before in zip(candidate.tasks, written.tasks, strict=True):
        paths = {path[-1]: path for path in _paths(before, levels)}
        for path in _paths(task, levels):
            if former.setdefault(path, paths[path[-1]]) != paths[path[-1]]:
                return False
    return True


def _paths(task: GangTask, levels: Levels) -> list[SetPath]:
    """The task's sets, the broadest first."""
    pairs = tuple((r.key, r.group) for r in broadest_first(task, ranks(levels)))
    return [pairs[: i + 1] for i in range(len(pairs))]


def _for_good(requirement: Requirement) -> Requirement:
    """A requirement for a limited time as one without limit."""
    if requirement.required_for and not requirement.required:
        return replace(requirement, required=True, wait_seconds=None)
    return requirement


def _without_preference(requirement: Requirement) -> Requirement | None:
    return requirement if requirement.required_for else None


def _required_alone(requirement: Requirement) -> Requirement | None:
    return _without_preference(_for_good(requirement))


def _changed(written: Gang, change: _Change) -> Gang:
    tasks = tuple(
        replace(task, requirements=tuple(filter(None, map(change, task.requirements))))
        for task in written.tasks
    )
    return replace(written, tasks=tasks)
