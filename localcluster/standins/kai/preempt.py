"""Making room for a group of higher priority in the same queue.

Victims are whole groups: preemptible, of lower priority, with pods on nodes; the lowest priority goes first,
among equals the youngest. They are added one by one until the group would fit, then each that turns out not
to be needed is spared. The group itself is pipelined: it is bound in a later cycle, when the room is free.

Reclaim does the same across queues. Of KAI's two rules only the one that guarantees what a queue deserves is
played: a group whose queue keeps within its quota of GPUs takes the room of preemptible groups of any
priority in queues that use more than theirs. Source: KAI ``plugins/proportion/reclaimable/strategies``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from localcluster.standins.kai.board import Board, Placement
from localcluster.standins.kai.jobs import Job
from localcluster.standins.kai.place import Attempt
from localcluster.standins.kai.queues import Books, gpus_of
from localcluster.standins.kai.topology import Tree
from localcluster.standins.kai.values import Eviction, Pod, Version

MakeBoard = Callable[[Sequence[Job]], Board]


def preemptible_for(job: Job, jobs: Sequence[Job]) -> list[Job]:
    """Running groups of lower priority in its queue, in the order in which they would go."""
    return _in_order(
        other
        for other in jobs
        if other is not job
        and other.group.queue == job.group.queue
        and other.preemptible
        and other.priority < job.priority
        and _running(other)
    )


def reclaimable_for(job: Job, jobs: Sequence[Job], books: Books) -> list[Job]:
    """Running groups of queues that use more than their quota, as long as they do, in the same order."""
    gpus = gpus_of(pod for leaf_pods in job.to_place().values() for pod in leaf_pods)
    has_quota = books.queues[job.group.queue].gpu.quota >= 0
    if not gpus or not has_quota or not books.deserves(job.group.queue, gpus):
        return []
    surplus = {queue: books.surplus(queue) for queue in books.queues if queue != job.group.queue}
    chosen = []
    for other in _in_order(other for other in jobs if other.preemptible and _running(other)):
        if surplus.get(other.group.queue, 0) > 0:
            surplus[other.group.queue] -= gpus_of(_running(other))
            chosen.append(other)
    return chosen


def _in_order(jobs: Iterable[Job]) -> list[Job]:
    """The lowest priority first, among equals the youngest."""
    youngest_first = sorted(jobs, key=lambda job: job.group.created, reverse=True)
    return sorted(youngest_first, key=lambda job: job.priority)


def victims_for(
    job: Job,
    *,
    candidates: Sequence[Job],
    books: Books,
    trees: Mapping[str, Tree],
    version: Version,
    board_without: MakeBoard,
) -> list[Job]:
    """Choose the groups to evict for ``job``, or none if nothing would help.

    ``board_without(groups)`` gives a fresh board on which those groups are leaving.
    """

    def fits(chosen: Sequence[Job]) -> bool:
        return bool(_try(job, chosen, books=books, trees=trees, version=version, board=board_without(chosen)))

    chosen: list[Job] = []
    for candidate in candidates:
        chosen.append(candidate)
        if fits(chosen):
            return _spared(chosen, fits)
    return []


def _spared(chosen: list[Job], fits: Callable[[Sequence[Job]], bool]) -> list[Job]:
    """Drop the victims that are not needed, the highest priority first."""
    for candidate in list(reversed(chosen))[1:]:
        fewer = [job for job in chosen if job is not candidate]
        if fits(fewer):
            chosen = fewer
    return chosen


def _try(
    job: Job,
    victims: Sequence[Job],
    *,
    books: Books,
    trees: Mapping[str, Tree],
    version: Version,
    board: Board,
) -> list[Placement]:
    tasks = job.to_place()
    pods = [pod for leaf_pods in tasks.values() for pod in leaf_pods]
    for other in victims:
        books.enter(other, _running(other), sign=-1)
    try:
        if books.refusal(job, pods):
            return []
        return Attempt(job, board, trees, tasks, version).run()
    finally:
        for other in victims:
            books.enter(other, _running(other))


def _running(job: Job) -> list[Pod]:
    return [pod for pod in job.all_pods() if pod.state == "active"]


def evictions(victim: Job, *, preemptor: Job, action: str) -> list[Eviction]:
    """Which pods go, for whom, and by which action: ``preempt`` or ``reclaim``."""
    pods = _running(victim)
    rank = "higher priority workload" if action == "preempt" else "workload"
    notes = {
        "num-evicted-pods": str(len(pods)),
        "evictor-action-type": action,
        "evictor-pod-group-name": preemptor.group.name,
        "evictor-pod-group-namespace": preemptor.group.namespace,
    }
    return [
        Eviction(
            pod,
            victim.group,
            f"Pod {pod.namespace}/{pod.name} was preempted by {rank} {preemptor.name}",
            notes,
        )
        for pod in pods
    ]
