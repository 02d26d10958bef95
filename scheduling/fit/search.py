"""Whether a gang could stand anywhere at all, in any order of its sets.

A scheduler that places sets one after the other may miss a placement that exists. Here every choice of
domains is looked at, and a choice counts as possible while no domain holds more than fits: of each kind of
task, and of GPUs in all. These conditions are necessary, so *no* is certain. They are sufficient, so *yes*
is too, where all tasks are alike and every node is labelled: then domains are nested sets, and tasks bound
to nested sets find places exactly if no set is asked for more than it has.

Sets that are alike choose domains in one order only, and a bound on how many of them fit ends most searches
at once. A search that takes too long is given up as *maybe*: nobody is refused for it.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from scheduling.fit.board import POOL, Board, Region
from scheduling.fit.demand import Demand
from scheduling.fit.greedy import fits
from scheduling.fit.snapshot import WHOLE, amounts
from scheduling.fit.wanted import GangDemand, Wanted
from scheduling.tree import ConstraintNode

MOST_SETS = 150
MOST_STEPS = 20_000

_ONE_GPU = Demand(amounts(gpu=1), tolerations=((("operator", "Exists"),),))


class Possible(Enum):
    NO = auto()
    MAYBE = auto()
    YES = auto()


@dataclass(frozen=True, slots=True)
class _Item:
    """One set with a required level, and what stands above it and before it among its likes."""

    node: ConstraintNode
    wants: Wanted
    weights: tuple[tuple[Demand, int], ...]
    parent: int | None
    before: int | None


def possible(board: Board, gang: GangDemand) -> Possible:
    """Look for a choice of domains. The board is left as it was."""
    root = gang.tree.root
    wants = _known(board, gang.wanted(root))
    board.know(_ONE_GPU)
    if not _holds(board, wants, POOL):
        return Possible.NO
    items = _items(board, gang)
    if any(_too_many(board, items, at) for at in range(len(items))):
        return Possible.NO
    if len(items) > MOST_SETS:
        return Possible.MAYBE
    found = _Search(board, items).run()
    if found is not Possible.YES:
        return found
    return Possible.YES if wants.is_uniform and _is_labelled(board) else Possible.MAYBE


def _known(board: Board, wants: Wanted) -> Wanted:
    for kind in wants.counted:
        board.know(kind)
    return wants


def _holds(board: Board, wants: Wanted, region: Region) -> bool:
    gpus = sum(kind.amounts[0] * count for kind, count in wants.kinds)
    return fits(board, wants, region) and board.room(_ONE_GPU, region) >= gpus


def _is_labelled(board: Board) -> bool:
    return all(None not in place for place in board.snapshot.places)


def _items(board: Board, gang: GangDemand) -> list[_Item]:
    items: list[_Item] = []
    _collect(board, gang, gang.tree.root, None, items)
    return items


def _collect(
    board: Board, gang: GangDemand, node: ConstraintNode, parent: int | None, items: list[_Item]
) -> None:
    if node.constraint.required is not None:
        wants = _known(board, gang.wanted(node))
        weights = (*wants.kinds, (_ONE_GPU, sum(kind.amounts[0] * n for kind, n in wants.kinds)))
        before = len(items) - 1 if items and _alike(items[-1], node, wants, parent) else None
        items.append(_Item(node, wants, weights, parent, before))
        parent = len(items) - 1
    for sub in node.sets:
        _collect(board, gang, sub, parent, items)


def _alike(last: _Item, node: ConstraintNode, wants: Wanted, parent: int | None) -> bool:
    same = last.parent == parent and last.wants == wants and last.node.constraint == node.constraint
    return same and not node.sets and not last.node.sets


def _too_many(board: Board, items: list[_Item], at: int) -> bool:
    """Whether there are more sets alike than all domains together hold, wherever their parent stands."""
    item = items[at]
    if at + 1 < len(items) and items[at + 1].before == at:
        return False
    alike = 1
    while items[at].before is not None:
        at, alike = at - 1, alike + 1
    regions = _regions(board, item.node, POOL)
    hold = sum(
        min(board.room(kind, region) // count for kind, count in item.weights if count) for region in regions
    )
    return hold < alike


def _regions(board: Board, node: ConstraintNode, above: Region) -> Iterator[Region]:
    """The domains of a node's required level in its parent's, as far as its constraint sees them."""
    constraint = node.constraint
    if constraint.required is None or constraint.narrowest is None:
        raise ValueError("only a required level chooses among domains")
    cut = max(above.cut, constraint.narrowest)
    if constraint.required <= above.rank:
        return iter((Region(above.rank, above.at, cut),))
    return board.below(Region(above.rank, above.at, cut), constraint.required, cut)


class _Search:
    """One search through all choices, by depth first; ``loads`` is what each domain is asked for."""

    def __init__(self, board: Board, items: list[_Item]) -> None:
        self.board, self.items = board, items
        self.chosen: list[Region] = []
        self.loads: dict[tuple[Demand, int, int], int] = {}
        self.steps = 0

    def run(self) -> Possible:
        if self._from(0):
            return Possible.YES
        return Possible.NO if self.steps <= MOST_STEPS else Possible.MAYBE

    def _from(self, at: int) -> bool:
        if at == len(self.items):
            return True
        item = self.items[at]
        above = POOL if item.parent is None else self.chosen[item.parent]
        for region in self._candidates(item, above):
            self.steps += 1
            if self.steps > MOST_STEPS:
                return False
            self._load(item, region, sign=1)
            self.chosen.append(region)
            if self._is_bearable(item, region) and self._from(at + 1):
                return True
            self.chosen.pop()
            self._load(item, region, sign=-1)
        return False

    def _candidates(self, item: _Item, above: Region) -> list[Region]:
        """What could hold the set, the smallest first; after its like, nothing before that one's."""
        measure = item.wants.measure
        found = sorted(
            (
                region
                for region in _regions(self.board, item.node, above)
                if _holds(self.board, item.wants, region)
            ),
            key=lambda region: (self.board.room(measure, region), region.at),
        )
        if item.before is not None and self.chosen[item.before] in found:
            found = found[found.index(self.chosen[item.before]) :]
        return list({self._looks(item, region): region for region in reversed(found)}.values())[::-1]

    def _looks(self, item: _Item, region: Region) -> Hashable:
        """What tells domains apart for a set: of those that look alike the first will do."""
        if item.node.sets:
            return region
        kinds = [kind for kind, _ in item.weights]
        rooms = tuple(self.board.room(kind, region) for kind in kinds)
        loads = tuple(self.loads.get((kind, region.rank, region.at), 0) for kind in kinds)
        return rooms, loads, region.cut, tuple(self._around(region))[1:]

    def _load(self, item: _Item, region: Region, *, sign: int) -> None:
        """Count the set in its domain and all around it that its parent does not count already."""
        stop = -2 if item.parent is None else self.chosen[item.parent].rank
        for rank, at in self._around(region):
            if rank <= stop:
                break
            for kind, count in item.weights:
                key = (kind, rank, at)
                self.loads[key] = self.loads.get(key, 0) + sign * count

    def _is_bearable(self, item: _Item, region: Region) -> bool:
        return all(
            self.loads.get((kind, rank, at), 0) <= self.board.room(kind, Region(rank, at, rank))
            for rank, at in self._around(region)
            for kind, _ in item.weights
        )

    def _around(self, region: Region) -> Iterator[tuple[int, int]]:
        """A domain and those around it, the narrowest first, as places on the board."""
        if region.rank == WHOLE:
            return
        snapshot = self.board.snapshot
        yield region.rank, region.at
        if not snapshot.paths:
            return
        place = snapshot.places[snapshot.domains[region.rank][region.at].nodes[0]]
        for rank in range(region.rank - 1, -1, -1):
            at = place[rank]
            if at is not None:
                yield rank, at
