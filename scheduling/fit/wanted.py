"""What a node of a constraint tree wants in all: how many tasks of which kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduling.fit.demand import Demand
from scheduling.fit.snapshot import RESOURCES
from scheduling.requirements import GangTask
from scheduling.tree import ConstraintNode, ConstraintTree

_SPECIAL = tuple(i for i, name in enumerate(RESOURCES) if name in ("gpu", "storage"))
"""Resources by which a scheduler tells tasks of one sort from another; all ask for processor and memory."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """``measure`` is a kind as large as the largest task, by which domains are compared and counted.

    ``alike`` says that the scheduler counts every task as large as the largest, as KAI does where all ask for
    the same sorts of resources.
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
        """Every kind whose room is asked for."""
        return (*(kind for kind, _ in self.kinds), self.measure)


@dataclass(frozen=True, slots=True)
class GangDemand:
    """A gang's tree, at the stage it is held at, with each task's demand by the task's name.

    ``counts_largest``: its scheduler takes a domain for too small that lacks room for as many of the largest
    task as the set has tasks (KAI does), although smaller ones would fit.
    """

    tree: ConstraintTree
    demands: Mapping[str, Demand]
    counts_largest: bool

    def wanted(self, node: ConstraintNode) -> Wanted:
        return _wanted(tuple(node.all_tasks()), self.demands, counts_largest=self.counts_largest)


def _wanted(tasks: Sequence[GangTask], demands: Mapping[str, Demand], *, counts_largest: bool) -> Wanted:
    """Count tasks by kind; there is at least one."""
    counts: dict[Demand, int] = {}
    for task in tasks:
        kind = demands[task.name]
        counts[kind] = counts.get(kind, 0) + 1
    kinds = tuple(counts.items())
    if len(kinds) == 1:
        return Wanted(len(tasks), kinds, True, kinds[0][0])
    largest = tuple(map(max, zip(*(kind.amounts for kind in counts), strict=True)))
    alike = counts_largest and all(len({bool(kind.amounts[i]) for kind in counts}) == 1 for i in _SPECIAL)
    everywhere = ((("operator", "Exists"),),)
    return Wanted(len(tasks), kinds, alike, Demand(largest, tolerations=everywhere))
