"""Whether a gang is placed in whatever order its tasks are taken, and wherever each is put.

Of KAI the order is known and the placer follows it. Others take tasks as they come and rate nodes by what
they please: Kubernetes 1.36 put a task of two GPUs and one of one on two nodes of a rack and then found none
for a third of four, in a rack where all three have room. So for those a place that was found is certain only
if it cannot be lost: in some domain each kind of task keeps room for all of its own though every other task
of the gang takes as much of it as one task can. Sufficient, not necessary.
"""

from collections import Counter
from collections.abc import Iterator

from scheduling.fit.board import POOL, Board, Region
from scheduling.fit.demand import Demand
from scheduling.fit.snapshot import WHOLE
from scheduling.fit.wanted import GangDemand
from scheduling.tree import ConstraintNode

Kinds = Counter[Demand]


def is_placed_in_any_order(board: Board, gang: GangDemand) -> bool:
    """Whether every set finds its place, however the others were placed before it."""
    every = _kinds(gang, gang.tree.root)
    for kind in every:
        board.know(kind)
    return all(
        any(_keeps_room(board, own=own, others=every - own, region=region) for region in regions(board, node))
        for node, own in _sets(gang)
    )


def _sets(gang: GangDemand) -> Iterator[tuple[ConstraintNode, Kinds]]:
    """Each set that is placed by itself: one below a constraint counts with what stands above it."""
    for node in _outermost(gang.tree.root):
        own = _kinds(gang, node) if node.constraint else Counter(gang.demands[one.name] for one in node.tasks)
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
    """For how many tasks of a kind there is no room any more, at worst, once another is placed."""
    pairs = zip(kind.amounts, other.amounts, strict=True)
    return max((-(-taken // wanted) for wanted, taken in pairs if wanted), default=0)


def regions(board: Board, node: ConstraintNode) -> list[Region]:
    """The domains of a set's required level, as far as its constraint sees them; the pool without one."""
    constraint = node.constraint
    if constraint.required is None or constraint.narrowest is None:
        return [POOL]
    return list(
        board.below(Region(WHOLE, 0, constraint.narrowest), constraint.required, constraint.narrowest)
    )
