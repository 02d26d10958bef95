"""Packing running groups more tightly to make room for one that waits ("Consolidation").

It comes after ``allocate`` and before ``preempt``. Victims are preemptible groups of any priority and any
queue, whole, at most ``MOST_VICTIMS`` of them; the group that waits must be preemptible too. A plan counts
only if the group *and every pod of its victims* find a place, with the victims' own constraints kept. The
victims' pods are then deleted; their places are kept in this cycle alone, since KAI expects somebody to
create the pods again, which are then placed like any others.

Like KAI it looks at victims node by node: the groups looked at so far that have a pod on one node of the
latest, then all of them; a group like one that got nowhere is not tried again. It gives up for this cycle
after ``TRIES`` trials, fewer on a large cluster.
Source: KAI ``actions/consolidation/consolidation.go``, ``actions/common/solvers/by_pod_solver.go``.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from localcluster.standins.kai.board import Board, Placement
from localcluster.standins.kai.jobs import Job, by_priority
from localcluster.standins.kai.place import Attempt
from localcluster.standins.kai.queues import Books
from localcluster.standins.kai.topology import Tree
from localcluster.standins.kai.values import GPU, Claim, Eviction, Pod, Shape, Snapshot, Version

MOST_VICTIMS = 16
"""Default of KAI's flag ``--max-consolidation-preemptees``."""
TRIES, NODES_IN_ALL = 24, 24_000
"""Trials of a cycle, and trials times nodes; KAI has a budget of time."""

MakeBoard = Callable[[Snapshot], Board]


@dataclass(frozen=True, slots=True)
class Move:
    """``placements`` are those of the group that waits, ``moved`` those of its victims' pods."""

    victims: tuple[Job, ...]
    placements: tuple[Placement, ...]
    moved: tuple[Placement, ...]


@dataclass(slots=True)
class Consolidation:
    """The search of one cycle; ``board_of(snapshot)`` gives a board of it with all places kept so far."""

    snapshot: Snapshot
    books: Books
    trees: Mapping[str, Tree]
    version: Version
    board_of: MakeBoard
    tries: int = field(init=False)
    failed: set[Hashable] = field(default_factory=set)
    """What groups ask for that got nowhere in this cycle (``MinimalJobRepresentatives``)."""

    def __post_init__(self) -> None:
        self.tries = max(min(TRIES, NODES_IN_ALL // max(len(self.snapshot.nodes), 1)), 1)

    def move_for(self, job: Job, *, jobs: Sequence[Job], board: Board) -> Move | None:
        """Find groups to move so that ``job`` fits on ``board``, or None."""
        pods = _pods(job.to_place())
        if not job.preemptible or not pods or not _enough_gpus(pods, board):
            return None
        if any(board.missing_claim(pod) for pod in pods):
            return None
        demand = (job.tree, tuple((pod.shape, board.demands(pod)) for pod in pods))
        if demand in self.failed:
            return None
        move = self._search(job, jobs, pods, board)
        if move is None:
            self.failed.add(demand)
        return move

    def _search(self, job: Job, jobs: Sequence[Job], pods: Sequence[Pod], board: Board) -> Move | None:
        room = _Room.of(pods, board)
        for victims in self._scenarios(job, jobs, pods, board):
            if not room.suffices(pod for victim in victims for pod in running(victim)):
                continue
            if self.tries <= 0:
                return None
            self.tries -= 1
            if move := self._trial(job, victims):
                return self._spared(job, move)
        return None

    def _scenarios(
        self, job: Job, jobs: Sequence[Job], pods: Sequence[Pod], board: Board
    ) -> Iterator[tuple[Job, ...]]:
        usable = {
            name for name in board.nodes if any(board.refusal(name, shape) is None for shape in _shapes(pods))
        }
        chosen: list[Job] = []
        for candidate in _candidates(job, jobs, usable):
            if len(chosen) >= MOST_VICTIMS:
                return
            chosen.append(candidate)
            tried = set()
            for node in sorted(_nodes(candidate) & usable):
                victims = tuple(other for other in chosen if node in _nodes(other))
                key = frozenset(map(id, victims))
                if key not in tried:
                    tried.add(key)
                    yield victims
            if frozenset(map(id, chosen)) not in tried:
                yield tuple(chosen)

    def _spared(self, job: Job, move: Move) -> Move:
        """Leave out victims that are not needed."""
        for victim in move.victims:
            fewer = tuple(other for other in move.victims if other is not victim)
            if fewer and self.tries > 0:
                self.tries -= 1
                move = self._trial(job, fewer) or move
        return move

    def _trial(self, job: Job, victims: Sequence[Job]) -> Move | None:
        """Place the group and its victims, in the order of their queue, on a board without the victims."""
        shadows = {id(victim): _shadow(victim) for victim in victims}
        board = self.board_of(_without(self.snapshot, victims))
        for victim in victims:
            self.books.enter(victim, running(victim), sign=-1)
        entered: list[tuple[Job, list[Pod]]] = []
        places: dict[int, list[Placement]] = {}
        try:
            for other in by_priority([job, *shadows.values()]):
                placements = self._place(other, board, entered, once=other is job)
                if placements is None:
                    return None
                places[id(other)] = placements
        finally:
            for other, pods in entered:
                self.books.enter(other, pods, sign=-1)
            for victim in victims:
                self.books.enter(victim, running(victim))
        moved = [placement for shadow in shadows.values() for placement in places[id(shadow)]]
        return Move(tuple(victims), tuple(places[id(job)]), tuple(moved))

    def _place(
        self, job: Job, board: Board, entered: list[tuple[Job, list[Pod]]], *, once: bool
    ) -> list[Placement] | None:
        """All pods of a victim, or the next ones (``once``) of the group that waits."""
        done: list[Placement] = []
        placed = set(job.placed)
        try:
            while tasks := job.to_place():
                pods = _pods(tasks)
                if self.books.refusal(job, pods):
                    return None
                placements = Attempt(job, board, self.trees, tasks, self.version).run()
                if not placements:
                    return None
                self.books.enter(job, pods)
                entered.append((job, pods))
                done.extend(placements)
                job.placed.update(placement.pod.uid for placement in placements)
                if once:
                    break
        finally:
            job.placed = placed
        return done


@dataclass(frozen=True, slots=True)
class _Room:
    """For how many of the largest pods a board has GPUs (filter ``idle_gpus``)."""

    need: int
    count: int
    places: int
    free: Mapping[str, int]

    @classmethod
    def of(cls, pods: Sequence[Pod], board: Board) -> Self:
        needs = [_gpus(pod) for pod in pods]
        need = max(needs)
        free = {name: max(board.free(name, GPU), 0) for name in board.nodes}
        places = sum(amount // need for amount in free.values()) if need else 0
        return cls(need, needs.count(need), places, free)

    def suffices(self, gone: Iterable[Pod]) -> bool:
        """Whether there is room for all of them once these pods are gone."""
        if not self.need:
            return True
        freed: dict[str, int] = {}
        for pod in gone:
            if pod.node is not None and pod.node in self.free:
                freed[pod.node] = freed.get(pod.node, 0) + _gpus(pod)
        more = sum(
            (self.free[n] + extra) // self.need - self.free[n] // self.need for n, extra in freed.items()
        )
        return self.places + more >= self.count


def _gpus(pod: Pod) -> int:
    return dict(pod.shape.requests).get(GPU, 0)


def evictions(move: Move, *, job: Job) -> list[Eviction]:
    """The pods that go, with KAI's text."""
    pods = [(victim, pod) for victim in move.victims for pod in running(victim)]
    notes = {
        "num-evicted-pods": str(len(pods)),
        "evictor-action-type": "consolidation",
        "evictor-pod-group-name": job.group.name,
        "evictor-pod-group-namespace": job.group.namespace,
    }
    text = "was preempted and rescheduled due to bin packing (resource consolidation) procedure"
    return [
        Eviction(pod, victim.group, f"Pod {pod.namespace}/{pod.name} {text}", notes) for victim, pod in pods
    ]


def running(job: Job) -> list[Pod]:
    """The pods of a group that hold a node."""
    return [pod for pod in job.all_pods() if pod.state == "active"]


def _candidates(job: Job, jobs: Sequence[Job], usable: set[str]) -> list[Job]:
    """The lowest priority first, among equals the youngest; only groups on nodes that would help."""
    candidates = [
        other
        for other in jobs
        if other is not job and other.preemptible and not other.placed and _nodes(other) & usable
    ]
    candidates.sort(key=lambda other: other.group.created, reverse=True)
    candidates.sort(key=lambda other: other.priority)
    return candidates


def _nodes(job: Job) -> set[str]:
    return {pod.node for pod in running(job) if pod.node is not None}


def _pods(tasks: Mapping[str, Sequence[Pod]]) -> list[Pod]:
    return [pod for pods in tasks.values() for pod in pods]


def _shapes(pods: Iterable[Pod]) -> set[Shape]:
    return {pod.shape for pod in pods}


def _enough_gpus(pods: Iterable[Pod], board: Board) -> bool:
    """Whether the cluster as a whole has the GPUs free (``utils.IsEnoughGPUsAllocatableForJob``)."""
    gpus = sum(map(_gpus, pods))
    return not gpus or sum(max(board.free(name, GPU), 0) for name in board.nodes) >= gpus


def _shadow(victim: Job) -> Job:
    """The victim as it is once its pods that run are to be placed anew, and those alone."""

    def anew(pod: Pod) -> Pod:
        return replace(pod, state="pending", node=None)

    pods = {
        name: [anew(pod) if pod.state == "active" else pod for pod in pods if pod.state != "pending"]
        for name, pods in victim.pods.items()
    }
    return Job(victim.group, victim.tree, victim.priority, pods)


def _without(snapshot: Snapshot, victims: Iterable[Job]) -> Snapshot:
    """The cluster as if the victims' pods and the devices of their claims were free."""
    gone = {pod.uid for victim in victims for pod in running(victim)}

    def freed(claim: Claim) -> Claim:
        if claim.reserved_for and set(claim.reserved_for) <= gone:
            return replace(claim, allocated=None, node=None, reserved_for=())
        return claim

    pods = tuple(pod for pod in snapshot.pods if pod.uid not in gone)
    return replace(snapshot, pods=pods, claims=tuple(freed(claim) for claim in snapshot.claims))
