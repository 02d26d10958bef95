"""The demand of a gang and of each set in its constraint tree: how many tasks of which kind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduling.fit.demand import Demand
from scheduling.fit.snapshot import RESOURCES, ResourceVector
from scheduling.gang.free_preferences import at_preference_levels
from scheduling.gang.pins import Pins, node_labels, pinned
from scheduling.gang.tree import ConstraintNode, ConstraintTree
from scheduling.topology.requirements import GangTask

_SPECIAL = tuple(i for i, name in enumerate(RESOURCES) if name in ("gpu", "storage"))
"""Resources that distinguish kinds of tasks for a scheduler; every task asks for processor and memory."""

_GPU = RESOURCES.index("gpu")
_UNCOUNTED = RESOURCES.index("channels")
"""A claim on a device is no resource that a scheduler counts in a domain."""


@dataclass(frozen=True, slots=True)
class SetDemand:
    """The tasks of a set, by kind. ``measure`` is a kind as large as the largest task; it compares domains.

    ``largest``: the scheduler counts every task as if it were this one, on closed nodes too; None if it
    counts each by its own size. KAI does so for a set with a constraint, where all tasks ask for the same
    kinds of resources; a set without one it never counts.
    """

    count: int
    kinds: tuple[tuple[Demand, int], ...]
    largest: Demand | None
    measure: Demand = field(repr=False)

    @property
    def is_uniform(self) -> bool:
        return len(self.kinds) == 1

    @property
    def gpus(self) -> int:
        """The GPUs of all tasks together."""
        return sum(kind.amounts[_GPU] * count for kind, count in self.kinds)

    @property
    def totals(self) -> ResourceVector:
        """The amounts of all tasks together."""
        return tuple(
            sum(amount * count for amount, (_, count) in zip(each, self.kinds, strict=True))
            for each in zip(*(kind.amounts for kind, _ in self.kinds), strict=True)
        )

    @property
    def counted(self) -> tuple[Demand, ...]:
        """Every kind whose room is counted."""
        largest = () if self.largest is None else (self.largest,)
        return (*(kind for kind, _ in self.kinds), self.measure, *largest)


@dataclass(frozen=True, slots=True)
class GangDemand:
    """A gang's constraint tree at its current stage, with each task's demand by the task's name.

    ``counts_largest``: the scheduler skips a domain that lacks room for as many of the largest task as the
    set has tasks, although smaller tasks would fit (KAI does). ``last`` is the tree at the last stage, None
    for a gang with one stage. ``cut`` is the narrowest level of an external Topology, which no constraint
    can leave out; None if each constraint has a Topology of its own. ``is_orderable``: the scheduler places
    parts in the order of the tree, which is ours to change. ``is_pinnable``: sets may be pinned to a domain
    (``gang.pins``), or have to be. ``is_best_fit``: the scheduler assigns nodes to lists of equal pods by the
    best fit (``best_fit``).
    """

    tree: ConstraintTree
    demands: Mapping[str, Demand]
    counts_largest: bool
    last: ConstraintTree | None = None
    cut: int | None = None
    is_orderable: bool = False
    is_pinnable: bool = False
    is_best_fit: bool = False

    def set_demand(self, node: ConstraintNode) -> SetDemand:
        counts_largest = self.counts_largest and bool(node.constraint)
        return _set_demand(tuple(node.all_tasks()), self.demands, counts_largest=counts_largest)

    def cut_of(self, node: ConstraintNode) -> int | None:
        """The narrowest level that a node must carry for a set's constraint, None without a constraint."""
        narrowest = node.constraint.narrowest
        if narrowest is None:
            return None
        return max(narrowest, *(cut for cut in (self.cut, node.cut) if cut is not None), 0)

    def at_last_stage(self) -> "GangDemand":
        """The gang once all its time-limited requirements are preferences."""
        return self if self.last is None else replace(self, tree=self.last, last=None)

    def at_preference_levels(self, count: int | None) -> "GangDemand":
        """The gang while its preferences name at most so many levels (``gang.free_preferences``)."""
        last = None if self.last is None else at_preference_levels(self.last, count)
        return replace(self, tree=at_preference_levels(self.tree, count), last=last)

    def pinned(self, pins: Pins) -> "GangDemand":
        """The gang with these sets pinned to a domain by node labels."""
        tree = pinned(self.tree, pins)
        labels = node_labels(tree)
        demands = {
            name: demand.on_nodes_with(labels[name]) if name in labels else demand
            for name, demand in self.demands.items()
        }
        last = None if self.last is None else pinned(self.last, pins)
        return replace(self, tree=tree, demands=demands, last=last)

    def counted_apart(self) -> "GangDemand":
        """The gang as if the scheduler counted each task by its own size."""
        return replace(self, counts_largest=False)

    @property
    def is_ordered(self) -> bool:
        """Whether it is known in which order the scheduler takes tasks of different kinds.

        KAI takes sub-groups by name, and the tasks of one by age; pods are made within one second.
        """
        leaves = ({self.demands[task.name] for task in node.tasks} for node in self.tree.root.walk())
        return self.counts_largest and all(len(kinds) <= 1 for kinds in leaves)

    @property
    def counts_elsewhere(self) -> bool:
        """Whether the scheduler chooses a preferred domain by room on nodes that tasks may not use, too.

        KAI counts room for the largest of unlike tasks by resources alone, on all nodes of a domain.
        """
        nodes = (
            node for node in self.tree.root.walk() if node.constraint and node.constraint.required is None
        )
        return any(self.set_demand(node).largest is not None for node in nodes)


def _set_demand(
    tasks: Sequence[GangTask], demands: Mapping[str, Demand], *, counts_largest: bool
) -> SetDemand:
    """Count tasks by kind; there is at least one."""
    members = [demands[task.name] for task in tasks]
    objects = {id(kind): kind for kind in members}  # equal tasks mostly share one, and its hash takes long
    counts: dict[Demand, int] = {}
    for identity, count in Counter(map(id, members)).items():
        kind = objects[identity]
        counts[kind] = counts.get(kind, 0) + count
    kinds = tuple(counts.items())
    if len(kinds) == 1:
        return SetDemand(len(tasks), kinds, None, kinds[0][0])
    alike = (
        counts_largest
        and all(len({bool(kind.amounts[i]) for kind in counts}) == 1 for i in _SPECIAL)
        and len({frozenset(name for name, _ in kind.others) for kind in counts}) == 1
    )
    every = zip(*(kind.amounts for kind in counts), strict=True)
    amounts = tuple(0 if i == _UNCOUNTED else max(each) for i, each in enumerate(every))
    measure = Demand(amounts, tolerations=((("operator", "Exists"),),))
    largest = replace(measure, ignores_closed=True) if alike else None
    return SetDemand(len(tasks), kinds, largest, measure)
