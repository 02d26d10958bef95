"""When preferences give way: a gang finds no place now, and would find one if they named fewer levels.

They give way only for a place that exists now. While there is room nowhere they stay, so waiting on a busy
cluster costs no preference; and as few levels as possible are given up. A place to which the gang's sets can
be pinned counts as one: pins follow once the preferences gave way, and pins alone come before both.
"""

from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.greedy import Placer
from scheduling.fit.pin_choice import pins_for
from scheduling.fit.placing import is_placed
from scheduling.fit.reorder import reordering
from scheduling.fit.snapshot import Snapshot
from scheduling.gang.free_preferences import narrowest_preference


def freed_levels(snapshot: Snapshot, gang: GangDemand) -> int | None:
    """How many levels preferences may still name so that the gang is placed now.

    ``gang`` has all its preferences. None: they stay, because the gang is placed with them (perhaps in
    another order of its sets) or finds no place without them either.
    """
    narrowest = narrowest_preference(gang.tree)
    if narrowest is None or gang.is_best_fit:  # there a preference hides no room: it spreads at last
        return None
    board = Board(snapshot)
    placer = Placer(board, gang)
    if placer.run():
        return None
    if not _has_place(board, gang.at_preference_levels(0)):
        return None
    if gang.is_orderable and reordering(board, gang, failed=placer) is not None:
        return None
    if gang.is_pinnable and pins_for(board, gang):
        return None
    counts = range(narrowest, 0, -1)
    return next((n for n in counts if _has_place(board, gang.at_preference_levels(n))), 0)


def _has_place(board: Board, gang: GangDemand) -> bool:
    """Whether the scheduler finds a place for the gang, pinned or not."""
    return is_placed(board, gang) or (gang.is_pinnable and bool(pins_for(board, gang)))
