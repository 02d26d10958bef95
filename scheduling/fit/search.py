"""Whether a placement of a gang exists at all, in any order of its sets.

A scheduler that places sets one after the other may miss a placement that exists. This search goes through
every choice of domains. A choice is possible while no domain gets more than fits: of each kind of task, and
of GPUs in all. These conditions are necessary, so *no* is certain. They are sufficient, so *yes* is certain
too, where all tasks are alike and every node is labelled: domains are then nested sets, and tasks bound to
nested sets find places exactly if no set gets more tasks than it has room for.

Sets that are alike choose domains in one order only, and a bound on how many of them fit ends most searches
at once. A search that reaches its limit answers *maybe*; no submission is refused for that.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from scheduling.fit.board import POOL, Board, Region
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand, SetDemand
from scheduling.fit.greedy import ONE_GPU, holds
from scheduling.fit.snapshot import POOL_RANK
from scheduling.gang.tree import ConstraintNode

MOST_SETS = 150
MOST_STEPS = 20_000


class Possible(Enum):
    NO = auto()
    MAYBE = auto()
    YES = auto()


@dataclass(frozen=True, slots=True)
class _Item:
    """One set with a required level, and what stands above it and before it among its likes."""

    node: ConstraintNode
    demand: SetDemand
    weights: tuple[tuple[Demand, int], ...]
    cut: int
    parent: int | None
    before: int | None


def possible(board: Board, gang: GangDemand) -> Possible:
    """Search for a choice of domains; leave the board unchanged."""
    root = gang.tree.root
    demand = _counted(board, gang.set_demand(root))
    if not holds(board, demand, POOL):
        return Possible.NO
    items = _items(board, gang)
    if any(_too_many(board, items, at) for at in range(len(items))):
        return Possible.NO
    if len(items) > MOST_SETS:
        return Possible.MAYBE
    answer = _Search(board, items).run()
    if answer is not Possible.YES:
        return answer
    return Possible.YES if demand.is_uniform and _is_labelled(board) else Possible.MAYBE


def _counted(board: Board, demand: SetDemand) -> SetDemand:
    for kind in demand.counted:
        board.know(kind)
    return demand


def _is_labelled(board: Board) -> bool:
    return all(None not in place for place in board.snapshot.places)


def _items(board: Board, gang: GangDemand) -> list[_Item]:
    items: list[_Item] = []
    _collect(board, gang, gang.tree.root, None, items)
    return items


def _collect(
    board: Board, gang: GangDemand, node: ConstraintNode, parent: int | None, items: list[_Item]
) -> None:
    cut = gang.cut_of(node)
    if node.constraint.required is not None and cut is not None:
        demand = _counted(board, gang.set_demand(node))
        weights = (*demand.kinds, (ONE_GPU, demand.gpus))
        before = len(items) - 1 if items and _alike(items[-1], node, demand, parent) else None
        items.append(_Item(node, demand, weights, cut, parent, before))
        parent = len(items) - 1
    for sub in node.sets:
        _collect(board, gang, sub, parent, items)


def _alike(last: _Item, node: ConstraintNode, demand: SetDemand, parent: int | None) -> bool:
    same = last.parent == parent and last.demand == demand and last.node.constraint == node.constraint
    return same and not node.sets and not last.node.sets


def _too_many(board: Board, items: list[_Item], at: int) -> bool:
    """Whether there are more sets alike than all domains together hold, wherever their parent stands."""
    item = items[at]
    if at + 1 < len(items) and items[at + 1].before == at:
        return False
    alike = 1
    while items[at].before is not None:
        at, alike = at - 1, alike + 1
    regions = _regions(board, item, POOL)
    hold = sum(
        min(board.room(kind, region) // count for kind, count in item.weights if count) for region in regions
    )
    return hold < alike


def _regions(board: Board, item: _Item, above: Region) -> Iterator[Region]:
    """The domains of a set's required level within its parent's that its constraint sees."""
    required = item.node.constraint.required
    if required is None:
        raise ValueError("only a required level chooses among domains")
    cut = max(above.cut, item.cut)
    if required <= above.rank:
        return iter((Region(above.rank, above.at, cut),))
    return board.below(Region(above.rank, above.at, cut), required, cut)


class _Search:
    """One depth-first search through all choices; ``loads`` is the demand on each domain."""

    def __init__(self, board: Board, items: list[_Item]) -> None:
        self.board, self.items = board, items
        self.kinds = list(dict.fromkeys(kind for item in items for kind, _ in item.weights))
        self.narrowest = max((item.cut for item in items), default=POOL_RANK)
        self.chosen: list[Region] = []
        self.loads: dict[tuple[Demand, int, int], int] = {}
        self.steps = 0
        self._shapes: dict[tuple[int, int], int] = {}
        self._numbers: dict[Hashable, int] = {}

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
        """The regions that could hold the set, smallest first; none before that of an equal set."""
        measure = item.demand.measure
        candidates = sorted(
            (
                region
                for region in _regions(self.board, item, above)
                if holds(self.board, item.demand, region)
            ),
            key=lambda region: (self.board.room(measure, region), region.at),
        )
        if item.before is not None and self.chosen[item.before] in candidates:
            candidates = candidates[candidates.index(self.chosen[item.before]) :]
        above_chosen = {place for other in self.chosen for place in list(self._around(other))[1:]}
        first: dict[Hashable, Region] = {}
        for region in candidates:
            is_unique = bool(item.node.sets) or (region.rank, region.at) in above_chosen
            first.setdefault(region if is_unique else self._fingerprint(region), region)
        return list(first.values())

    def _fingerprint(self, region: Region) -> Hashable:
        """The key that distinguishes domains for the whole gang: of equal domains only the first is tried.

        The sets that are placed later count too: a domain that is as good as another for one set may be the
        only one that holds the next.
        """
        loads = tuple(self.loads.get((kind, region.rank, region.at), 0) for kind in self.kinds)
        shape = self._shape(region.rank, region.at)
        return shape, loads, region.cut, tuple(self._around(region))[1:]

    def _shape(self, rank: int, at: int) -> int:
        """A number that equal domains share: the same room for each kind, in them and in their parts."""
        shape = self._shapes.get((rank, at))
        if shape is None:
            rooms = tuple(self.board.room(kind, Region(rank, at, rank)) for kind in self.kinds)
            inner = sorted(self._shape(rank + 1, below) for below in self._parts(rank, at))
            shape = self._numbers.setdefault((rooms, tuple(inner)), len(self._numbers))
            self._shapes[rank, at] = shape
        return shape

    def _parts(self, rank: int, at: int) -> range:
        """The domains of the next level in a domain, as far as a set of the gang reads their level."""
        snapshot = self.board.snapshot
        if not snapshot.paths or rank >= self.narrowest:
            return range(0)
        return snapshot.span(rank, at, below=rank + 1)

    def _load(self, item: _Item, region: Region, *, sign: int) -> None:
        """Count the set in its domain and in those around it that its parent does not count already."""
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
        if region.rank == POOL_RANK:
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
