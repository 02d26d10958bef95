"""The constraint tree of a gang: its co-location sets, each folded to one constraint.

The root holds every task. Below it is one node for each co-location set, except that sets with exactly the
same tasks are one node, and a set of all tasks is the root itself. Folding then happens per node and never
per task: a broader preference that further tasks share keeps its node. A task is directly in the narrowest
node it belongs to; the tasks directly in a node that also has sub-sets form its *free leaf* when the tree is
laid out (``subgroups``).

Sub-sets are in placement order, because schedulers place siblings one after the other and never move a
placed one (``placement_order``). So two gangs that differ only in the order of tasks or keys have trees of
one shape. Building takes one pass over the tasks and one sort of each node's sub-sets.

*Patience.* A preference that is required for some seconds changes the tree with time, but only its
constraints: nodes and their order are those of the first, most constrained stage (``stages``). The sibling
whose level is required longer comes first, so that a relaxed preference never takes the domain that a
sibling always requires; without patience this is the plain order.

Source of the folding rules: KAI v0.13 and v0.17, observed running. Rejected: collapsing equal sets to the
narrowest requirement whatever its type, as OSMO does; it loses a required zone below a preferred rack.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scheduling.errors import InvalidSpec, Notice
from scheduling.gang.soundness import check_requirements
from scheduling.topology.levels import Level, Levels, ranks
from scheduling.topology.requirements import (
    Gang,
    GangTask,
    Pair,
    SetPath,
    broadest_first,
    describe,
    effective,
    place_of,
)


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """One requirement of a node: its rank, whether it is required now, and where it is first written.

    ``path`` is its set. ``required_for`` is the time for which it is required, in seconds since the gang
    waits: infinite for a required level, 0 for a preference without patience. ``preference_levels`` is how
    many levels a preference may name once it gives way (``free_preferences``), None before.
    """

    path: SetPath
    rank: int
    required: bool
    required_for: float
    task: GangTask = field(compare=False)
    preference_levels: int | None = None

    @property
    def is_freed(self) -> bool:
        """Whether this is a preference that gives way at present."""
        return (
            not self.required and self.preference_levels is not None and self.rank >= self.preference_levels
        )

    @property
    def applied_rank(self) -> int | None:
        """The rank at which this is applied; None for a preference that is dropped."""
        if not self.is_freed or self.preference_levels is None:
            return self.rank
        return self.preference_levels - 1 if self.preference_levels else None

    @property
    def key(self) -> str:
        return self.pair[0]

    @property
    def group(self) -> str:
        return self.pair[1]

    @property
    def pair(self) -> Pair:
        return self.path[-1]

    @property
    def auto(self) -> bool:
        """Whether it is still to be decided whether it is required."""
        return any(r.auto for r in self.task.requirements if r.key == self.key)


@dataclass(frozen=True, slots=True)
class Constraint:
    """The constraint of one node: ranks of at most one required and one narrower preferred level."""

    required: int | None = None
    preferred: int | None = None

    @property
    def narrowest(self) -> int | None:
        return self.preferred if self.preferred is not None else self.required

    def __bool__(self) -> bool:
        return self.narrowest is not None


@dataclass(frozen=True)
class ConstraintNode:
    """A co-location set, or several with exactly the same tasks."""

    path: SetPath
    members: tuple[NodeRequirement, ...]

    tasks: tuple[GangTask, ...]
    """Those directly in this node."""

    sets: tuple["ConstraintNode", ...]
    """In placement order."""

    size: int
    """How many tasks are in this node and below."""

    gpus: int
    """Those of all these tasks."""

    required_for: float
    """The longest time for which anything here or below is required."""

    free_place: int | None = None
    """The free leaf's place among the sub-sets; None: the last (``set_order``)."""

    domain: tuple[str, ...] = ()
    """That to which node labels pin the set, which then has no constraint (``pins``)."""

    cut: int | None = None
    """The narrowest level that a node must carry for the set's constraint, where others wrote that one and it
    is narrower than what the constraint names."""

    @cached_property
    def constraint(self) -> Constraint:
        return Constraint() if self.domain else fold(self.members)

    @property
    def parts(self) -> tuple["ConstraintNode | None", ...]:
        """What is placed one after the other in this node: its sub-sets, and None for its own tasks."""
        if not self.tasks:
            return self.sets
        place = len(self.sets) if self.free_place is None else self.free_place
        return (*self.sets[:place], None, *self.sets[place:])

    def walk(self) -> Iterator["ConstraintNode"]:
        """This node and all below, each before its sub-sets."""
        yield self
        for node in self.sets:
            yield from node.walk()

    def all_tasks(self) -> Iterator[GangTask]:
        for node in self.walk():
            yield from node.tasks


@dataclass(frozen=True, slots=True)
class ConstraintTree:
    """A gang's tree and the levels it was folded against."""

    gang: Gang
    levels: Levels
    root: ConstraintNode

    @property
    def is_flat(self) -> bool:
        """Whether the gang is one set, constrained or not."""
        return not self.root.sets


def fold(members: Sequence[NodeRequirement]) -> Constraint:
    """Reduce a node's requirements to one constraint, for a scheduler whose domains are paths of labels.

    The narrowest required level implies every broader one; the narrowest preference implies the broader ones,
    because KAI widens step by step. A preference that is not narrower than the required level has no effect.
    """
    hard = max((m.rank for m in members if m.required), default=None)
    applied = (m.applied_rank for m in members if not m.required)
    soft = max((rank for rank in applied if rank is not None), default=None)
    if soft is not None and hard is not None and soft <= hard:
        soft = None
    return Constraint(required=hard, preferred=soft)


def lasting(members: Sequence[NodeRequirement]) -> int | None:
    """The narrowest level that a node's requirements require without a time limit."""
    return max((m.rank for m in members if m.required_for == math.inf), default=None)


def placement_order(node: ConstraintNode) -> tuple[float, int, int, SetPath]:
    """Sort key among siblings: the hardest to place comes first."""
    return (-node.required_for, -node.gpus, -node.size, node.path)


def build_tree(gang: Gang, levels: Sequence[Level]) -> ConstraintTree:
    """Build the tree. Raises InvalidSpec with every fault if the requirements are unsound."""
    if faults := check_requirements(gang, levels):
        raise InvalidSpec(f'Task group "{gang.name}" asks for topology that cannot be read.', faults)
    return grow(gang, levels)


def grow(gang: Gang, levels: Sequence[Level], *, ignore_preferred: bool = False) -> ConstraintTree:
    """Build the tree of a gang whose requirements ``check_requirements`` has passed.

    With ``ignore_preferred`` a preference makes no set. Sets below it keep it in their path, which is their
    identity: two racks below two preferred zones stay two.
    """
    rank = ranks(levels)
    gang = effective(gang)
    root = _Branch((), ())
    branches: dict[int, _Branch] = {}  # by their requirements, which tasks of one resource spec share
    for task in gang.tasks:
        branch = branches.get(id(task.requirements))
        if branch is None:
            branch = _branch_of(task, root, rank, ignore_preferred=ignore_preferred)
            branches[id(task.requirements)] = branch
        branch.tasks.append(task)
    return ConstraintTree(gang, tuple(levels), _settle(root))


class _Branch:
    """One set while the tree is built, before sets with the same tasks are merged."""

    __slots__ = ("below", "members", "path", "tasks")

    def __init__(self, path: SetPath, members: tuple[NodeRequirement, ...]) -> None:
        self.path = path
        self.members = members
        self.tasks: list[GangTask] = []
        self.below: dict[SetPath, _Branch] = {}


def _branch_of(task: GangTask, root: _Branch, rank: Mapping[str, int], *, ignore_preferred: bool) -> _Branch:
    """The branch that a task is directly in; made, with those above it, where there is none yet."""
    branch = root
    path: SetPath = ()
    for requirement in broadest_first(task, rank):
        path = (*path, (requirement.key, requirement.group))
        if ignore_preferred and not requirement.required:
            continue
        step = path[len(branch.path) :]
        below = branch.below.get(step)
        if below is None:
            seconds = requirement.required_for
            member = NodeRequirement(path, rank[requirement.key], seconds > 0, seconds, task)
            below = branch.below[step] = _Branch(path, (member,))
        branch = below
    return branch


def _settle(branch: _Branch) -> ConstraintNode:
    """Merge chains of sets with the same tasks, count, and put sub-sets in placement order."""
    members = list(branch.members)
    while not branch.tasks and len(branch.below) == 1:
        (branch,) = branch.below.values()
        members += branch.members
    sets = [_settle(below) for below in branch.below.values()]
    sets.sort(key=placement_order)
    return ConstraintNode(
        path=branch.path,
        members=tuple(members),
        tasks=tuple(branch.tasks),
        sets=tuple(sets),
        size=len(branch.tasks) + sum(node.size for node in sets),
        gpus=sum(task.gpus for task in branch.tasks) + sum(node.gpus for node in sets),
        required_for=max(
            (*(m.required_for for m in members), *(node.required_for for node in sets)), default=0.0
        ),
    )


def dropped_preferences(tree: ConstraintTree) -> list[Notice]:
    """A notice for each preference without effect, because a level as narrow is required."""
    notices = []
    for node in tree.root.walk():
        hard = lasting(node.members)
        for member in node.members:
            if hard is not None and member.required_for < math.inf and member.rank <= hard:
                requirements = member.task.requirements
                index = next(i for i, r in enumerate(requirements) if r.key == member.key)
                notices.append(
                    Notice(
                        "preference_implied",
                        f"Preferring one {member.key} for {describe(node.path)} adds nothing: one "
                        f"{tree.levels[hard].key} is required for the same tasks.",
                        place_of(member.task, index),
                    )
                )
    return notices
