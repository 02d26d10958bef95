"""Whether a gang is placed whatever the order of its tasks and whatever node each one gets.

KAI's order is known, and the placer follows it. Other schedulers take tasks in any order and rate nodes by
rules of their own: Kubernetes 1.36 put a task of two GPUs and a task of one GPU on two nodes of a rack and
then had no node for a third task of four GPUs, in a rack with room for all three. For those schedulers a
place is certain only if it cannot be lost: in some domain each kind of task keeps room for all of its tasks
although every other task of the gang takes as much of that room as one task can. Sufficient, not necessary.
"""

from collections import Counter
from collections.abc import Iterator

from scheduling.fit.board import POOL, Board, Region
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import POOL_RANK
from scheduling.gang.tree import ConstraintNode

Kinds = Counter[Demand]


def is_placed_in_any_order(board: Board, gang: GangDemand) -> bool:
    """Whether every set finds its place, however the others were placed before it."""
    if gang.is_best_fit and any(node.sets and node.constraint for node in gang.tree.root.walk()):
        return False  # its slices need whole domains, which other sets may cut
    every = _kinds(gang, gang.tree.root)
    for kind in every:
        board.know(kind)
    return all(
        any(
            _keeps_room(board, own=own, others=every - own, region=region)
            for region in regions(board, node, cut=gang.cut_of(node))
        )
        for node, own in _sets(gang)
    )


def _sets(gang: GangDemand) -> Iterator[tuple[ConstraintNode, Kinds]]:
    """Each set that is placed by itself: a set below a constraint counts with the set above it."""
    for node in _outermost(gang.tree.root):
        own = (
            _kinds(gang, node) if node.constraint else Counter(gang.demands[task.name] for task in node.tasks)
        )
        if own:
            yield node, own


def _outermost(node: ConstraintNode) -> Iterator[ConstraintNode]:
    yield node
    if not node.constraint:
        for sub in node.sets:
            yield from _outermost(sub)


def _kinds(gang: GangDemand, node: ConstraintNode) -> Kinds:
    return Counter(gang.demands[task.name] for task in node.all_tasks())


def _keeps_room(board: Board, *, own: Kinds, others: Kinds, region: Region) -> bool:
    for kind, count in own.items():
        rivals = own + others
        rivals[kind] = others[kind]
        lost = sum(_takes(kind, rival) * number for rival, number in rivals.items())
        if board.room(kind, region) < count + lost:
            return False
    return True


def _takes(kind: Demand, other: Demand) -> int:
    """Count the tasks of a kind that lose their room, at worst, when one task of another kind is placed."""
    pairs = zip(kind.amounts, other.amounts, strict=True)
    return max((-(-amount // need) for need, amount in pairs if need), default=0)


def regions(board: Board, node: ConstraintNode, *, cut: int | None) -> list[Region]:
    """The domains of a set's required level that its constraint sees; the pool where it has none.

    ``cut`` is the narrowest level of the constraint's Topology.
    """
    required = node.constraint.required
    if required is None or cut is None:
        return [POOL]
    return list(board.below(Region(POOL_RANK, 0, cut), required, cut))
