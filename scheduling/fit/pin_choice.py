"""Domains to pin a gang's sets to, where its scheduler passes over a place that exists.

One scheduler asks of a constrained domain for as much room as if every task were the set's largest: then the
place is searched by its rules without that count. Another takes sets in an order that cannot be changed while
the gang waits: then it is searched in other orders. A third holds no set around others that are no slices of
it: then each of its domains is tried, the fullest first. The place is tried once more with the sets pinned to
it, by the scheduler's rules alone: the result is a place that it finds.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.greedy import Placer, holds
from scheduling.fit.order import regions
from scheduling.fit.placing import is_placed
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
"""Domains, or sets of domains, that are tried for sets around others."""


def _pins_around(board: Board, gang: GangDemand) -> Pins:
    sets = required_around(gang.tree.root)
    choices = islice(_choices(board, gang, sets, ()), MOST_CHOICES) if sets else ()
    return next((pins for pins in choices if is_placed(board, gang.pinned(pins))), ())


def _choices(board: Board, gang: GangDemand, sets: Sequence[ConstraintNode], above: Pins) -> Iterator[Pins]:
    """A domain with room for each of these sets, inside those of the sets ``above`` that are around it."""
    if not sets:
        yield above
        return
    node, snapshot = sets[0], board.snapshot
    rank, demand = node.constraint.required, gang.set_demand(node)
    for kind in demand.counted:
        board.know(kind)
    if rank is None:
        raise ValueError("a set around others is chosen a domain that it does not require")
    around = max((p.domain for p in above if p.path == node.path[: len(p.path)]), key=len, default=())
    large = [region for region in regions(board, node, cut=gang.cut_of(node)) if holds(board, demand, region)]
    for region in sorted(large, key=lambda region: board.room(demand.measure, region)):
        domain = snapshot.domains[rank][region.at].path
        if domain[: len(around)] == around:
            yield from _choices(board, gang, sets[1:], (*above, Pin(node.path, domain)))


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
