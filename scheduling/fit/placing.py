"""The placement that a gang's scheduler would find on a board, by the rules of that scheduler."""

from scheduling.fit.best_fit import BestFitPlacer
from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.greedy import Placer


def placer_of(board: Board, gang: GangDemand) -> Placer | BestFitPlacer:
    """One attempt to place the gang."""
    return BestFitPlacer(board, gang) if gang.is_best_fit else Placer(board, gang)


def is_placed(board: Board, gang: GangDemand) -> bool:
    """Whether the scheduler's own order finds a place; the board stays as it is."""
    found_place = placer_of(board, gang).run()
    board.rollback(0)
    return found_place
