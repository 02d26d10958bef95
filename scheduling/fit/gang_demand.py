"""The demand of a gang and of each set in its constraint tree: how many tasks of which kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduling.fit.demand import Demand
from scheduling.fit.snapshot import RESOURCES
from scheduling.requirements import GangTask
from scheduling.tree import ConstraintNode, ConstraintTree

_SPECIAL = tuple(i for i, name in enumerate(RESOURCES) if name in ("gpu", "storage"))
"""Resources that distinguish kinds of tasks for a scheduler; every task asks for processor and memory."""


@dataclass(frozen=True, slots=True)
class SetDemand:
    """The tasks of a set, by kind. ``measure`` is a kind as large as the largest task; it compares domains.

    ``alike``: the scheduler counts every task as if it were the largest. KAI does so where all tasks ask for
    the same kinds of resources.
    """

    count: int
    kinds: tuple[tuple[Demand, int], ...]
    alike: bool
    measure: Demand = field(repr=False)

    @property
    def is_uniform(self) -> bool:
        return len(self.kinds) == 1

    @property
    def counted(self) -> tuple[Demand, ...]:
        """Every kind whose room is counted."""
        return (*(kind for kind, _ in self.kinds), self.measure)


@dataclass(frozen=True, slots=True)
class GangDemand:
    """A gang's constraint tree at its current stage, with each task's demand by the task's name.

    ``counts_largest``: the scheduler skips a domain that lacks room for as many of the largest task as the
    set has tasks, although smaller tasks would fit (KAI does).
    """

    tree: ConstraintTree
    demands: Mapping[str, Demand]
    counts_largest: bool

    def set_demand(self, node: ConstraintNode) -> SetDemand:
        return _set_demand(tuple(node.all_tasks()), self.demands, counts_largest=self.counts_largest)


def _set_demand(
    tasks: Sequence[GangTask], demands: Mapping[str, Demand], *, counts_largest: bool
) -> SetDemand:
    """Count tasks by kind; there is at least one."""
    counts: dict[Demand, int] = {}
    for task in tasks:
        kind = demands[task.name]
        counts[kind] = counts.get(kind, 0) + 1
    kinds = tuple(counts.items())
    if len(kinds) == 1:
        return SetDemand(len(tasks), kinds, True, kinds[0][0])
    largest = tuple(map(max, zip(*(kind.amounts for kind in counts), strict=True)))
    alike = counts_largest and all(len({bool(kind.amounts[i]) for kind in counts}) == 1 for i in _SPECIAL)
    everywhere = ((("operator", "Exists"),),)
    return SetDemand(len(tasks), kinds, alike, Demand(largest, tolerations=everywhere))
