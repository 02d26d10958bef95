"""Which workloads must go so that one of higher priority fits (policy ``withinClusterQueue``)."""

from localcluster.standins.kueue.assign import assign
from localcluster.standins.kueue.board import Board
from localcluster.standins.kueue.place import DoesNotFit
from localcluster.standins.kueue.values import Admission, ClusterQueue, Workload


def targets(board: Board, queue: ClusterQueue, workload: Workload) -> tuple[list[Workload], Admission] | None:
    """The fewest to evict in Kueue's order, and the place that they leave; the board is as before.

    Candidates go one by one, evicted ones first, then the lowest priority, then the newest; a candidate that
    turns out not to be needed stays.
    """
    removed: list[tuple[Workload, Admission]] = []
    spared: list[Workload] = []
    admission: Admission | None = None
    for candidate in _candidates(board, queue, workload):
        removed.append((candidate, board.remove(candidate)))
        if admission := _fit(board, queue, workload):
            break
    if admission is not None:
        for candidate, own in reversed(removed[:-1]):
            board.enter(candidate, own)
            if smaller := _fit(board, queue, workload):
                spared.append(candidate)
                admission = smaller
            else:
                board.remove(candidate)
    for candidate, own in removed:
        if candidate not in spared:
            board.enter(candidate, own)
    return None if admission is None else ([each for each, _ in removed if each not in spared], admission)


def _fit(board: Board, queue: ClusterQueue, workload: Workload) -> Admission | None:
    try:
        return assign(board, queue, workload)
    except DoesNotFit:
        return None


def _candidates(board: Board, queue: ClusterQueue, workload: Workload) -> list[Workload]:
    def may_go(other: Workload) -> bool:
        if other.priority < workload.priority:
            return True
        newer = (other.created, other.name) > (workload.created, workload.name)
        return queue.within == "LowerOrNewerEqualPriority" and other.priority == workload.priority and newer

    if queue.within == "Never":
        return []
    admitted = [other for other, admission in board.admissions.values() if admission.queue == queue.name]
    newest_first = sorted(
        filter(may_go, admitted), key=lambda other: (other.created, other.name), reverse=True
    )
    return sorted(newest_first, key=lambda other: (not other.holds("Evicted"), other.priority))
