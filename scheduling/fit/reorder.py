"""Another order of a gang's sets in which its scheduler would place it now.

For a scheduler that places parts one after the other in an order that is ours to choose. Orders are tried on
the scheduler's own rules (``greedy``), those that relabel the fewest pods first; of several with as few, the
one nearest to the order in force. So what is found is exact, and an order that is not found may exist all the
same: the number of tries is bounded.

Two parts that are alike in all that placing depends on are never exchanged. An order that begins like one
that failed fails at the same part, so it is not tried.
"""

import heapq
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.greedy import Placer
from scheduling.fit.search import MOST_SETS, Possible, possible
from scheduling.fit.snapshot import Snapshot
from scheduling.gang.set_order import SetOrder, order_of
from scheduling.gang.subgroups import is_wrapping
from scheduling.gang.tree import ConstraintNode
from scheduling.topology.requirements import SetPath

MOST_TRIES = 60
MOST_PARTS = 1_500
"""Sets in all tries together: a gang of many sets is tried in fewer orders."""
MOST_PLACEMENTS = 40_000
"""Tasks placed in all tries together, those that were taken back included."""
MOST_CANDIDATES = 4_000
MOST_COMPARED = 100_000
"""Parts in all candidates together."""

Places = tuple[int, ...]
"""The places, in the order in force, of a node's parts in another order."""


@dataclass(frozen=True, slots=True)
class Reordering:
    """A gang in an order in which it is placed, and the index of each task's node."""

    gang: GangDemand
    where: tuple[tuple[str, int], ...]


def reordering(board: Board, gang: GangDemand, *, failed: Placer) -> Reordering | None:
    """An order in which the gang is placed; ``failed`` is the try of the order in force.

    Leaves the board unchanged.
    """
    if failed.furthest < 0:  # no region is large enough, whatever the order
        return None
    count = sum(1 for _ in gang.tree.root.walk())
    if count > MOST_SETS:
        return None
    search = _Orders(gang)
    if not search.nodes:
        return None
    search.exclude(search.start, failed)
    left = MOST_PLACEMENTS - failed.placements
    tries = range(min(MOST_TRIES, MOST_PARTS // count))
    for _, candidate in zip(tries, search.candidates(most=MOST_COMPARED // count), strict=False):
        if left <= 0:
            return None
        reordered = search.gang_in(candidate)
        placer = Placer(board, reordered, set_demands=failed.set_demands)
        if placer.run():
            board.rollback(0)
            return Reordering(reordered, tuple(placer.where))
        search.exclude(candidate, placer)
        left -= placer.placements
    return None


def fitting_order(snapshot: Snapshot, gang: GangDemand) -> SetOrder | None:
    """The order in which a waiting gang is placed now; None if it is in its own order, or in none."""
    board = Board(snapshot)
    placer = Placer(board, gang)
    if not gang.is_orderable or placer.run() or possible(board, gang) is Possible.NO:
        return None
    change = reordering(board, gang, failed=placer)
    return None if change is None else order_of(change.gang.tree)


_CandidateOrder = tuple[Places, ...]


class _Orders:
    """The orders of one gang. ``nodes`` are those with unlike parts; a candidate has the places of each."""

    def __init__(self, gang: GangDemand) -> None:
        self.gang = gang
        self._kinds: dict[SetPath, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._kind(gang.tree.root)
        self.nodes = [node for node in gang.tree.root.walk() if len(set(self._kinds_in(node))) > 1]
        self.start: _CandidateOrder = tuple(tuple(range(len(node.parts))) for node in self.nodes)
        self._failed: list[tuple[Hashable, ...]] = []

    def candidates(self, *, most: int) -> Iterator[_CandidateOrder]:
        """The orders other than that in force which may succeed, cheapest first; ``most`` are compared."""
        most = min(most, MOST_CANDIDATES)
        queue = [(self._cost(self.start), self.start)]
        queued = {self._sequence(self.gang.tree.root, self.start)}
        while queue:
            _, candidate = heapq.heappop(queue)
            if candidate != self.start and not self._fails(candidate):
                yield candidate
            for other in self._neighbours(candidate):
                if len(queued) >= most:
                    break
                sequence = self._sequence(self.gang.tree.root, other)
                if sequence not in queued:
                    queued.add(sequence)
                    heapq.heappush(queue, (self._cost(other), other))

    def exclude(self, candidate: _CandidateOrder, placer: Placer) -> None:
        """Try no order that begins like this one, which failed at the last part that was begun."""
        sequence = self._sequence(self.gang.tree.root, candidate)
        self._failed.append(sequence[: placer.furthest + 1])

    def gang_in(self, candidate: _CandidateOrder) -> GangDemand:
        places = {node.path: order for node, order in zip(self.nodes, candidate, strict=True)}
        tree = self.gang.tree
        return replace(self.gang, tree=replace(tree, root=_in_places(tree.root, places)))

    def _fails(self, candidate: _CandidateOrder) -> bool:
        sequence = self._sequence(self.gang.tree.root, candidate)
        return any(sequence[: len(beginning)] == beginning for beginning in self._failed)

    def _neighbours(self, candidate: _CandidateOrder) -> Iterator[_CandidateOrder]:
        """The orders that differ in two parts which exchange their places."""
        for number, (node, places) in enumerate(zip(self.nodes, candidate, strict=True)):
            kinds = self._kinds_in(node)
            movable = len(places) - bool(node.tasks and is_wrapping(node))
            for i in range(movable):
                for j in range(i + 1, movable):
                    if kinds[places[i]] != kinds[places[j]]:
                        swapped = list(places)
                        swapped[i], swapped[j] = swapped[j], swapped[i]
                        yield (*candidate[:number], tuple(swapped), *candidate[number + 1 :])

    def _cost(self, candidate: _CandidateOrder) -> tuple[int, int]:
        """The pods that are relabelled, and the parts that move. Only the pods of a leaf carry its name."""
        pods = moved = 0
        for node, places in zip(self.nodes, candidate, strict=True):
            parts, wrapping = node.parts, is_wrapping(node)
            for place, at in enumerate(places):
                if place != at:
                    part = parts[at]
                    moved += 1
                    pods += len(node.tasks) if part is None else 0 if wrapping else part.size
        return pods, moved

    def _kind(self, node: ConstraintNode) -> None:
        """Number a node and those below; alike for placing, apart from the order in them, are alike here."""
        kind: Hashable = (node.constraint, self.gang.set_demand(node), bool(node.sets))
        if node.sets:  # never exchanged for another, because its parts have an order of their own
            kind = (kind, node.path)
        self._kinds[node.path] = self._numbers.setdefault(kind, len(self._numbers))
        for sub in node.sets:
            self._kind(sub)

    def _kinds_in(self, node: ConstraintNode) -> list[int | None]:
        return [None if part is None else self._kinds[part.path] for part in node.parts]

    def _sequence(self, root: ConstraintNode, candidate: _CandidateOrder) -> tuple[Hashable, ...]:
        """The kinds of the root's parts in order, with the order in each."""
        places = {node.path: order for node, order in zip(self.nodes, candidate, strict=True)}
        return self._in_sequence(root, places)

    def _in_sequence(self, node: ConstraintNode, places: Mapping[SetPath, Places]) -> tuple[Hashable, ...]:
        parts = node.parts
        order = places.get(node.path, range(len(parts)))
        return tuple(
            None
            if (part := parts[at]) is None
            else (self._kinds[part.path], self._in_sequence(part, places) if part.sets else ())
            for at in order
        )


def _in_places(node: ConstraintNode, places: Mapping[SetPath, Places]) -> ConstraintNode:
    parts = [node.parts[at] for at in places.get(node.path, range(len(node.parts)))]
    return replace(
        node,
        sets=tuple(_in_places(part, places) for part in parts if part is not None),
        free_place=parts.index(None) if None in parts[:-1] else None,
    )
