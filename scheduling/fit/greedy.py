"""Place a gang as its scheduler would: in the scheduler's order, without moving what is placed.

The rules are KAI's (v0.13 and v0.17, observed on running schedulers):

- Siblings are placed one after the other, in the order of the tree; a sibling that is placed stays.
- Each set tries the domains from its preferred level up to its required level; within a parent the fullest
  domain comes first, that is the one of which the set's tasks need the largest part: of the scarcest
  resource, and of what is free on its closed nodes too.
- A domain is too small if it lacks room for as many of the *largest* task of the set as the set has tasks.
  Where the tasks ask for different kinds of resources, it is too small if the sum for one kind is. A set
  without a constraint is not counted.
- If something below a domain fails, everything in the domain is taken back and the next domain is tried.
- The tasks of a leaf go one by one to the fullest node that takes them.

Where the scheduler makes each set a pod group of its own, the same rules hold set by set.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from scheduling.fit.board import POOL, Board, Region
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand, SetDemand
from scheduling.fit.node_index import Fullness, fullness
from scheduling.fit.snapshot import POOL_RANK, RESOURCES, amounts
from scheduling.gang.tree import ConstraintNode
from scheduling.topology.requirements import GangTask, SetPath

_UNCOUNTED = {RESOURCES.index("pods"), RESOURCES.index("channels")}
Score = Callable[[int], int]


class Placer:
    """One attempt to place a gang on a board. ``where`` is the node's index for each placed task.

    ``most`` is the largest number of tasks that had a place at the same time, ``furthest`` the largest number
    of the root's parts that were placed one after the other, -1 if no region was large enough. ``placements``
    counts the tasks that were placed, those that were taken back included. ``set_demands`` may be those of
    another try of the same gang.
    """

    def __init__(
        self, board: Board, gang: GangDemand, *, set_demands: dict[SetPath, SetDemand] | None = None
    ) -> None:
        self.board, self.gang = board, gang
        self.where: list[tuple[str, int]] = []
        self.most = 0
        self.furthest = -1
        self.placements = 0
        self.set_demands = {} if set_demands is None else set_demands

    @property
    def knows_order(self) -> bool:
        """Whether the scheduler takes the tasks in this very order."""
        return self.gang.is_ordered

    def run(self) -> bool:
        """Place everything, or nothing."""
        return self._place(self.gang.tree.root, POOL, None)

    def _place(self, node: ConstraintNode, region: Region, score: Score | None) -> bool:
        cut = self.gang.cut_of(node)
        for inside in offered(self.board, node, self.set_demand(node), region, cut=cut):
            mark = len(self.where)
            own = (self._score(node, region) if inside.rank != node.constraint.narrowest else None) or score
            if self._place_parts(node, inside, own):
                return True
            self.most = max(self.most, len(self.where))
            self.board.rollback(mark)
            del self.where[mark:]
        return False

    def _place_parts(self, node: ConstraintNode, inside: Region, score: Score | None) -> bool:
        for number, part in enumerate(node.parts):
            if node is self.gang.tree.root:
                self.furthest = max(self.furthest, number)
            if part is None:
                if not self._fill(node.tasks, inside, score):
                    return False
            elif not self._place(part, inside, score):
                return False
        return True

    def set_demand(self, node: ConstraintNode) -> SetDemand:
        demand = self.set_demands.get(node.path)
        if demand is None:
            demand = self.set_demands[node.path] = self.gang.set_demand(node)
            for kind in demand.counted:
                self.board.know(kind)
        return demand

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
                self.placements += 1
            if not left:
                return True
        return not left

    def _in_order(self, kind: Demand, region: Region, score: Score | None) -> Iterable[int]:
        """Nodes with room: best score, those without GPUs for a task without, the fullest, by name."""
        board, nodes = self.board, self.board.snapshot.nodes
        if region == POOL and score is None:
            return board.in_order(kind)

        def order(at: int) -> tuple[int, Fullness]:
            rest = fullness(kind, at, has=nodes[at].allocatable, free=board.free(at))
            return -score(at) if score else 0, rest

        return sorted((node for node in board.nodes(region) if board.slots(kind, node)), key=order)

    def _score(self, node: ConstraintNode, region: Region) -> Score | None:
        """Rate nodes by their domain of the preferred level, the emptiest best, in tens of its rank."""
        cut, preferred = self.gang.cut_of(node), node.constraint.narrowest
        if cut is None or preferred is None or node.constraint.preferred is None or preferred <= region.rank:
            return None
        labelled = Region(region.rank, region.at, max(region.cut, cut))
        ranked = [
            at
            for at in _levels(self.board, self.set_demand(node), labelled, down_to=preferred)[-1][1]
            if self.board.nodes(Region(preferred, at, labelled.cut))
        ]
        scores: dict[int | None, int] = {
            at: rank * 10 // len(ranked) for rank, at in enumerate(ranked, start=1)
        }
        places = self.board.snapshot.places
        return lambda index: scores.get(places[index][preferred], 0)


def offered(
    board: Board, node: ConstraintNode, demand: SetDemand, region: Region, *, cut: int | None
) -> Iterator[Region]:
    """The regions within its parent's that a node's constraint allows, in the scheduler's order.

    ``cut`` is the narrowest level of the constraint's Topology.
    """
    constraint = node.constraint
    narrowest = constraint.narrowest
    if narrowest is None or cut is None:
        if fits(board, demand, region):
            yield region
        return
    cut = max(region.cut, cut)
    broadest = constraint.required if constraint.required is not None else POOL_RANK
    levels = _levels(board, demand, Region(region.rank, region.at, cut), down_to=narrowest)
    for rank, places in reversed(levels):
        if rank < max(broadest, region.rank):
            return
        yield from (domain for at in places if fits(board, demand, domain := Region(rank, at, cut)))


def _levels(board: Board, demand: SetDemand, region: Region, *, down_to: int) -> list[tuple[int, list[int]]]:
    """The places of the region and of its domains of each narrower rank, within a parent the fullest first.

    Where domains are no paths none lies in another, so nothing stands between the region and the last rank.
    """
    levels = [(region.rank, [region.at])]
    wants = tuple((i, want) for i, want in enumerate(demand.totals) if want and i not in _UNCOUNTED)
    between = range(region.rank + 1, down_to + 1)
    for rank in between if board.snapshot.paths else between[-1:]:
        shares = board.shares(wants, rank, cut=region.cut)
        row: list[int] = []
        above_rank, above = levels[-1]
        for place in above:
            domains = board.snapshot.span(above_rank, place, below=rank)
            row += sorted(domains, key=shares.__getitem__, reverse=True)
        levels.append((rank, row))
    return levels


ONE_GPU = Demand(amounts(gpu=1), tolerations=((("operator", "Exists"),),))


def holds(board: Board, demand: SetDemand, region: Region) -> bool:
    """Whether a region is large enough for each kind of task and for the GPUs of all."""
    board.know(ONE_GPU)
    return fits(board, demand, region) and board.room(ONE_GPU, region) >= demand.gpus


def fits(board: Board, demand: SetDemand, region: Region) -> bool:
    """Whether a scheduler finds a region large enough before it places anything."""
    if any(board.room(kind, region) < count for kind, count in demand.kinds):
        return False
    return demand.largest is None or board.room(demand.largest, region) >= demand.count
