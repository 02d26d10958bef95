"""``requirementType: auto``: required if the set could ever fit one domain, else preferred.

Decided on empty, open nodes. Each set is judged alone, and then all that fit alone together. Where these
cannot hold at once, such as two sets of which each needs the only large rack, they are decided one after the
other in tree order, each beside those before it: a gang that could run is never made one that waits for ever.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial

from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.greedy import holds
from scheduling.fit.order import regions
from scheduling.fit.search import Possible, possible
from scheduling.fit.snapshot import Snapshot
from scheduling.gang.tree import ConstraintNode, NodeRequirement
from scheduling.topology.requirements import SetPath

MOST_ROUNDS = 4
"""Sets that may turn out to be impossible beside those before them, found by halving; later sets are
preferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoDecision:
    """Whether a set is required. ``holding`` of the ``domains`` could hold its tasks if they were alone.

    ``largest`` is the number of its tasks, each as large as the largest, for which a domain has room.
    """

    path: SetPath
    required: bool
    tasks: int
    label: str
    domains: int
    holding: int
    largest: int


def decide(snapshot: Snapshot, gang: GangDemand) -> tuple[AutoDecision, ...]:
    """Decide on every set of a gang that is ``auto``, in tree order, the broader key first."""
    gang = gang.at_last_stage()
    if not snapshot.is_complete:
        gang = gang.counted_apart()
    empty = Board(snapshot.hopeful().emptied())
    alone = [_alone(empty, gang, node, member) for node, member in _undecided(gang)]
    required = _together(empty, gang, [decision.path for decision in alone if decision.required])
    return tuple(replace(decision, required=decision.path in required) for decision in alone)


def _undecided(gang: GangDemand) -> Iterator[tuple[ConstraintNode, NodeRequirement]]:
    for node in gang.tree.root.walk():
        for member in sorted(node.members, key=lambda member: member.rank):
            if member.auto:
                yield node, member


def _alone(empty: Board, gang: GangDemand, node: ConstraintNode, member: NodeRequirement) -> AutoDecision:
    node = replace(node, members=(member,))
    demand = gang.set_demand(node)
    for kind in demand.counted:
        empty.know(kind)
    domains = regions(empty, node, cut=gang.cut_of(node))
    holding = sum(holds(empty, demand, region) for region in domains)
    return AutoDecision(
        path=member.path,
        required=holding > 0,
        tasks=demand.count,
        label=gang.tree.levels[member.rank].label,
        domains=len(domains),
        holding=holding,
        largest=max((empty.room(demand.measure, region) for region in domains), default=0),
    )


def _together(empty: Board, gang: GangDemand, paths: list[SetPath]) -> Collection[SetPath]:
    """The sets that are required together: all of them where that, or nothing at all, is possible."""
    if not paths or _is_possible(empty, gang, paths) or not _is_possible(empty, gang, ()):
        return paths
    required: list[SetPath] = []
    for _ in range(MOST_ROUNDS):
        count = bisect_left(
            range(1, len(paths) + 1), True, key=partial(_is_too_many, empty, gang, required, paths)
        )
        required += paths[:count]
        paths = paths[count + 1 :]
    return required


def _is_too_many(
    empty: Board, gang: GangDemand, required: list[SetPath], paths: list[SetPath], count: int
) -> bool:
    return not _is_possible(empty, gang, [*required, *paths[:count]])


def _is_possible(empty: Board, gang: GangDemand, required: Collection[SetPath]) -> bool:
    root = _relaxed(gang.tree.root, frozenset(required))
    return possible(empty, replace(gang, tree=replace(gang.tree, root=root))) is not Possible.NO


def _relaxed(node: ConstraintNode, required: frozenset[SetPath]) -> ConstraintNode:
    """The tree with the sets that are ``auto`` as preferences, but for those that are required."""
    members = tuple(
        replace(member, required=False) if member.auto and member.path not in required else member
        for member in node.members
    )
    return replace(node, members=members, sets=tuple(_relaxed(sub, required) for sub in node.sets))
