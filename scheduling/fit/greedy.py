"""Placing a gang as its scheduler would: in its order, never moving what is placed.

As KAI does (v0.13 and v0.17, seen running): siblings one after the other in the order of the tree; for each
the domains from the preferred level up to the required one, within a parent the fullest first; a domain
counts as too small if it lacks room for as many of the *largest* of the set's tasks as the set has tasks
(where all ask for the same kinds of resources; otherwise if some sum is too small); what fails below a
domain is taken back and the next domain tried; a sibling that is placed stays. Tasks of a leaf go one by
one to the fullest node that takes them.

For a scheduler that makes each set a pod group of its own the same holds set by set.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from scheduling.fit.board import POOL, Board, Region
from scheduling.fit.demand import Demand
from scheduling.fit.snapshot import WHOLE
from scheduling.fit.wanted import GangDemand, Wanted
from scheduling.requirements import GangTask
from scheduling.tree import ConstraintNode

_GPU, _CPU = 0, 1
Score = Callable[[int], int]


class Placer:
    """One try to place a gang on a board. ``where`` is the node's index for each task placed.

    ``most`` is how many tasks had a place at once, at best.
    """

    def __init__(self, board: Board, gang: GangDemand) -> None:
        self.board, self.gang = board, gang
        self.where: list[tuple[str, int]] = []
        self.most = 0
        self._wanted: dict[int, Wanted] = {}

    def run(self) -> bool:
        """Place everything, or nothing."""
        return self._place(self.gang.tree.root, POOL, None)

    def _place(self, node: ConstraintNode, region: Region, score: Score | None) -> bool:
        for inside in offered(self.board, node, self.wanted(node), region):
            mark = len(self.where)
            own = self._score(node, inside) or score
            below = all(self._place(sub, inside, own) for sub in node.sets)
            if below and self._fill(node.tasks, inside, own):
                return True
            self.most = max(self.most, len(self.where))
            self.board.rollback(mark)
            del self.where[mark:]
        return False

    def wanted(self, node: ConstraintNode) -> Wanted:
        found = self._wanted.get(id(node))
        if found is None:
            found = self._wanted[id(node)] = self.gang.wanted(node)
            for kind in found.counted:
                self.board.know(kind)
        return found

    def _fill(self, tasks: Sequence[GangTask], region: Region, score: Score | None) -> bool:
        """Place tasks one by one, the largest first; on failure the caller takes them back."""
        by_kind: dict[Demand, list[GangTask]] = {}
        for task in tasks:
            by_kind.setdefault(self.gang.demands[task.name], []).append(task)
        for kind in sorted(by_kind, key=lambda kind: kind.amounts, reverse=True):
            if not self._fill_kind(kind, by_kind[kind], region, score):
                return False
        return True

    def _fill_kind(
        self, kind: Demand, tasks: Sequence[GangTask], region: Region, score: Score | None
    ) -> bool:
        left = list(reversed(tasks))
        for node in self._in_order(kind, region, score):
            for _ in range(min(len(left), self.board.slots(kind, node))):
                self.board.put(kind, node)
                self.where.append((left.pop().name, node))
            if not left:
                return True
        return not left

    def _in_order(self, kind: Demand, region: Region, score: Score | None) -> list[int]:
        """Nodes with room: best score, those without GPUs for a task without, the fullest, by name."""
        board, nodes = self.board, self.board.snapshot.nodes
        measure = _GPU if kind.amounts[_GPU] else _CPU

        def order(node: int) -> tuple[int, bool, int, int]:
            spare = not kind.amounts[_GPU] and nodes[node].allocatable[_GPU] > 0
            return (-score(node) if score else 0, spare, board.free(node)[measure], node)

        return sorted((node for node in board.nodes(region) if board.slots(kind, node)), key=order)

    def _score(self, node: ConstraintNode, inside: Region) -> Score | None:
        """Where a set was given more than the one domain it prefers: its emptiest such domains first."""
        preferred = node.constraint.narrowest
        if preferred is None or node.constraint.preferred is None or inside.rank == preferred:
            return None
        places = self.board.snapshot.places
        kind = self.wanted(node).measure
        domains = self.board.below(inside, preferred, inside.cut)
        rooms: Mapping[int | None, int] = {one.at: self.board.room(kind, one) for one in domains}
        return lambda index: rooms.get(places[index][preferred], 0)


def offered(board: Board, node: ConstraintNode, wants: Wanted, region: Region) -> Iterator[Region]:
    """The regions that a node's constraint allows within its parent's, in the scheduler's order."""
    constraint = node.constraint
    narrowest = constraint.narrowest
    if narrowest is None:
        if fits(board, wants, region):
            yield region
        return
    cut = max(region.cut, narrowest)
    broadest = constraint.required if constraint.required is not None else WHOLE
    levels = _levels(board, wants, Region(region.rank, region.at, cut), down_to=narrowest)
    for rank, regions in reversed(levels):
        if rank < max(broadest, region.rank):
            return
        yield from (one for one in regions if fits(board, wants, one))


def _levels(board: Board, wants: Wanted, region: Region, *, down_to: int) -> list[tuple[int, list[Region]]]:
    """The region and its domains of each narrower rank, within a parent the fullest first.

    Where domains are no paths none lies in another, so nothing stands between the region and the last rank.
    """
    levels = [(region.rank, [region])]
    between = range(region.rank + 1, down_to + 1)
    for rank in between if board.snapshot.paths else between[-1:]:
        row: list[Region] = []
        for above in levels[-1][1]:
            below = board.below(above, rank, region.cut)
            row += sorted(below, key=lambda one: (board.room(wants.measure, one), one.at))
        levels.append((rank, row))
    return levels


def fits(board: Board, wants: Wanted, region: Region) -> bool:
    """Whether a scheduler finds a region large enough before it places anything."""
    if any(board.room(kind, region) < count for kind, count in wants.kinds):
        return False
    return not wants.alike or board.room(wants.measure, region) >= wants.count
