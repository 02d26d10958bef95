"""Domains to pin a gang's sets to, where its scheduler passes over a place that exists.

One scheduler asks of a constrained domain for as much room as if every task were the set's largest: then the
place is searched by its rules without that count. Another takes sets in an order that cannot be changed while
the gang waits: then it is searched in other orders. A third holds no set around others that are no slices of
it: then its domains are tried, the fullest first, beside those chosen for the sets before it. The place is
tried once more with the sets pinned to it, by the scheduler's rules alone: the result is a place that it
finds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.greedy import Placer, holds
from scheduling.fit.order import regions
from scheduling.fit.placing import is_placed, placer_of
from scheduling.fit.reorder import reordering
from scheduling.fit.search import Possible, possible
from scheduling.fit.snapshot import Snapshot
from scheduling.gang.pins import Pin, Pins
from scheduling.gang.slices import required_around
from scheduling.gang.tree import ConstraintNode, lasting


def pins_for(board: Board, gang: GangDemand) -> Pins:
    """The pins with which the gang is placed now; none where they do not help, or it has some.

    Call it for a gang that the scheduler does not place as it is. Leaves the board unchanged.
    """
    if gang.is_best_fit:
        return _pins_around(board, gang)
    if not gang.counts_largest:
        return _pins_of_another_order(board, gang)
    if gang.set_demand(gang.tree.root).is_uniform:  # no set has a task that is larger than its others
        return ()
    sets = [node for node in gang.tree.root.walk() if _is_counted(gang, node)]
    if not sets:
        return ()
    placer = Placer(board, gang.counted_apart())
    if not placer.run():
        return ()
    board.rollback(0)
    nodes = dict(placer.where)
    pins = tuple(Pin(node.path, _domain(board, node, nodes)) for node in sets)
    return pins if is_placed(board, gang.pinned(pins)) else ()


MOST_CHOICES = 200
"""Domains that are tried for sets around others, of all sets together."""


def _pins_around(board: Board, gang: GangDemand) -> Pins:
    sets = required_around(gang.tree.root)
    if not sets:
        return ()
    choices = _Choices(Board(board.snapshot), gang)
    return next((pins for pins in choices.of(sets, ()) if is_placed(board, gang.pinned(pins))), ())


class _Choices:
    """Domains for sets around others, each beside those chosen before it, whose tasks stand on the board."""

    def __init__(self, board: Board, gang: GangDemand) -> None:
        self._board, self._gang, self._left = board, gang, MOST_CHOICES

    def of(self, sets: Sequence[ConstraintNode], before: Pins) -> Iterator[Pins]:
        """The choices for these sets, broader ones first, the fullest domain first."""
        if not sets:
            yield before
            return
        node = sets[0]
        inside = [other for other in sets[1:] if other.path[: len(node.path)] == node.path]
        for domain in self._domains(node, before):
            if not self._left:
                return
            self._left -= 1
            pins, mark = (*before, Pin(node.path, domain)), len(self._board.journal)
            if inside or self._put(node, pins):
                yield from self.of(sets[1:], pins)
            self._board.rollback(mark)

    def _domains(self, node: ConstraintNode, before: Pins) -> Iterator[tuple[str, ...]]:
        """Those with room for the set, inside the domain of the narrowest set around it."""
        board, rank, demand = self._board, node.constraint.required, self._gang.set_demand(node)
        for kind in demand.counted:
            board.know(kind)
        if rank is None:
            raise ValueError("a set around others is chosen a domain that it does not require")
        around = max((p.domain for p in before if p.path == node.path[: len(p.path)]), key=len, default=())
        every = regions(board, node, cut=self._gang.cut_of(node))
        large = [region for region in every if holds(board, demand, region)]
        for region in sorted(large, key=lambda region: board.room(demand.measure, region)):
            domain = board.snapshot.domains[rank][region.at].path
            if domain[: len(around)] == around:
                yield domain

    def _put(self, node: ConstraintNode, pins: Pins) -> bool:
        """Place the set alone, as it is pinned."""
        gang = self._gang.pinned(pins)
        (alone,) = (inner for inner in gang.tree.root.walk() if inner.path == node.path)
        root = replace(gang.tree.root, tasks=(), sets=(alone,))
        return placer_of(self._board, replace(gang, tree=replace(gang.tree, root=root))).run()


def _pins_of_another_order(board: Board, gang: GangDemand) -> Pins:
    placer = Placer(board, gang)
    if placer.run():
        board.rollback(0)
        return ()
    if possible(board, gang) is Possible.NO or not (change := reordering(board, gang, failed=placer)):
        return ()
    nodes = dict(change.where)
    sets = [node for node in gang.tree.root.walk() if node.constraint.required is not None]
    pins = tuple(Pin(node.path, _domain(board, node, nodes)) for node in sets)
    return pins if is_placed(board, gang.pinned(pins)) else ()


def is_lost(snapshot: Snapshot, gang: GangDemand) -> bool:
    """Whether the domains that a gang is pinned to hold it no more, were all their open nodes empty."""
    return not is_placed(Board(snapshot.usable()), gang)


def _is_counted(gang: GangDemand, node: ConstraintNode) -> bool:
    """Whether a set requires a level for good, and its domains are counted by its largest task."""
    required = node.constraint.required
    is_lasting = required is not None and lasting(node.members) == required
    return is_lasting and gang.set_demand(node).largest is not None


def _domain(board: Board, node: ConstraintNode, nodes: dict[str, int]) -> tuple[str, ...]:
    """The domain of the set's required level that its tasks were placed in."""
    required, snapshot = node.constraint.required, board.snapshot
    first = nodes[next(node.all_tasks()).name]
    at = None if required is None else snapshot.places[first][required]
    if required is None or at is None:
        raise ValueError("a set with a required level was placed outside of its domains")
    return snapshot.domains[required][at].path
