"""One scheduling cycle, as a pure function.

Groups are taken queue by queue (those that stay within their quota of GPUs, queue priority, then smallest
share of the cluster), within a queue by priority, age and name. Each is placed whole or not at all; the rest
above its minimum follows pod by pod. For groups that found no room others may then be packed more tightly, or
preempted; stale gangs are judged, and groups that still wait are reported. A group with a pipelined pod keeps
its places for this cycle but binds nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from localcluster.standins.kai import consolidate, preempt, queue_status, stale, topology
from localcluster.standins.kai.board import Board, Placement
from localcluster.standins.kai.jobs import Job, by_priority, jobs_of
from localcluster.standins.kai.messages import NO_QUEUE, FitError
from localcluster.standins.kai.place import Attempt
from localcluster.standins.kai.queues import Books, gpus_of
from localcluster.standins.kai.report import Report
from localcluster.standins.kai.values import (
    Binding,
    Decisions,
    Event,
    Eviction,
    EvictionMark,
    Snapshot,
    StaleMark,
    Version,
)
from localcluster.standins.kai.versions import VERSIONS

STUCK_SECONDS = 120.0
"""KAI's flag ``--stuck-in-releasing-threshold``."""


def schedule(
    snapshot: Snapshot,
    *,
    version: Version,
    stale_grace: float = 60.0,
    detailed_fit_errors: bool = False,
) -> Decisions:
    """Decide everything for one moment; ``stale_grace`` is in seconds. The actions are KAI's default ones."""
    cycle = _Cycle(snapshot, version=version, stale_grace=stale_grace, detailed=detailed_fit_errors)
    cycle.allocate()
    cycle.pack()
    cycle.reclaim()
    cycle.preempt()
    cycle.judge_stale()
    return cycle.decisions()


@dataclass(slots=True)
class _Failure:
    errors: list[FitError] = field(default_factory=list)
    pod_errors: dict[str, str] = field(default_factory=dict)


class _Cycle:
    def __init__(self, snapshot: Snapshot, *, version: Version, stale_grace: float, detailed: bool) -> None:
        self.wake_at: float | None = None
        snapshot = self._without_patience(snapshot, version)
        self.snapshot, self.version, self.stale_grace = snapshot, version, stale_grace
        self.jobs = jobs_of(snapshot, version=version)
        self.board = Board(snapshot)
        self.trees = {
            topology_object.name: topology.tree_of(topology_object, snapshot.nodes)
            for topology_object in snapshot.topologies
        }
        self.books = Books.opened(snapshot.queues, self.jobs)
        self.failures: dict[int, _Failure] = {}
        self.bindings: list[Binding] = []
        self.evictions: list[Eviction] = []
        self.marks: list[StaleMark] = []
        self.events: list[Event] = []
        self.report = Report(version=version, detailed=detailed, now=snapshot.now)
        self.evicted: set[int] = set()

    def _without_patience(self, snapshot: Snapshot, version: Version) -> Snapshot:
        """Let pods long past their deletion be stuck, in versions that know the word."""
        if not VERSIONS[version].gives_up_ending:
            return snapshot
        pods = []
        for pod in snapshot.pods:
            end = pod.deleted_at + STUCK_SECONDS if pod.deleted_at is not None else None
            if pod.state == "releasing" and end is not None and end <= snapshot.now:
                pods.append(replace(pod, state="stuck"))
                continue
            if pod.state == "releasing" and end is not None:
                self._wake(end)
            pods.append(pod)
        return replace(snapshot, pods=tuple(pods))

    def _wake(self, moment: float) -> None:
        self.wake_at = min(moment, self.wake_at or moment)

    def allocate(self) -> None:
        """Place every group that is ready, in order."""
        capacity = self._capacity()
        waiting: dict[str, list[Job]] = {}
        for job in by_priority(self._ready()):
            if not self.books.exists(job.group.queue):
                text = f"Queue '{job.group.queue}' does not exist"
                self.failures[id(job)] = _Failure([FitError(NO_QUEUE, (text,))])
            elif self.books.is_leaf(job.group.queue):
                waiting.setdefault(job.group.queue, []).append(job)
        while waiting:
            firsts = {name: by_priority(jobs)[0] for name, jobs in waiting.items()}
            queue = min(
                waiting,
                key=lambda name: (self._exceeds_quota(firsts[name]), *self.books.share(name, capacity), name),
            )
            first, *others = by_priority(waiting[queue])
            waiting[queue] = [first, *others] if self._allocate(first) else others
            if not waiting[queue]:
                del waiting[queue]

    def _exceeds_quota(self, job: Job) -> bool:
        """Whether a group would take its queue above its quota; such queues come last (queue_order.go)."""
        pods = (pod for leaf_pods in job.to_place().values() for pod in leaf_pods)
        return not self.books.deserves(job.group.queue, gpus_of(pods))

    def _ready(self) -> list[Job]:
        return [
            job
            for job in self.jobs
            if any(job.pending(leaf) for leaf in job.tree.leaves()) and not job.unready()
        ]

    def _capacity(self) -> dict[str, int]:
        capacity: dict[str, int] = {}
        for node in self.snapshot.nodes:
            for resource, amount in node.allocatable.items():
                capacity[resource] = capacity.get(resource, 0) + amount
        return capacity

    def _allocate(self, job: Job) -> bool:
        """Place the group's next pods, its minimum or one more, and say whether that was done."""
        tasks = job.to_place()
        if not tasks:
            return False
        failure = self.failures.setdefault(id(job), _Failure())
        pods = [pod for leaf_pods in tasks.values() for pod in leaf_pods]
        if refusal := self.books.refusal(job, pods):
            failure.errors.append(refusal)
            return False
        attempt = Attempt(job, self.board, self.trees, tasks, self.version)
        placements = attempt.run()
        if not placements:
            failure.errors.extend(attempt.errors)
            failure.pod_errors.update(attempt.pod_errors)
            return False
        self._accept(job, placements)
        return True

    def _accept(self, job: Job, placements: Sequence[Placement]) -> None:
        """Bind, or keep the places if one of them is not free yet."""
        job.placed.update(placement.pod.uid for placement in placements)
        self.books.enter(job, [placement.pod for placement in placements])
        if any(placement.pipelined for placement in placements):
            self.report.pipelined([(placement.pod, placement.node) for placement in placements])
        else:
            self.bindings.extend(placement.binding(job.group.name) for placement in placements)

    def pack(self) -> None:
        """Pack running groups more tightly for those that found no room."""
        search = consolidate.Consolidation(
            self.snapshot, self.books, self.trees, self.version, self._board_of
        )
        for job in by_priority(self._ready()):
            if id(job) not in self.failures or not self._may_run(job):
                continue
            others = [other for other in self.jobs if id(other) not in self.evicted]
            if move := search.move_for(job, jobs=others, board=self.board):
                self._move(job, move)

    def _move(self, job: Job, move: consolidate.Move) -> None:
        """Evict the victims, and keep all places for this cycle."""
        self.evictions.extend(consolidate.evictions(move, job=job))
        for victim in move.victims:
            self.evicted.add(id(victim))
            self.board.release(consolidate.running(victim))
        for placement in (*move.placements, *move.moved):
            allocations = list(placement.allocations)
            self.board.place(placement.pod, placement.node, pipelined=True, allocations=allocations)
        self.report.pipelined([(placement.pod, placement.node) for placement in move.moved])
        self._accept(job, [replace(placement, pipelined=True) for placement in move.placements])

    def reclaim(self) -> None:
        """Let groups whose queues are within their quota evict groups of queues that are above theirs."""
        self._evict_for("reclaim", lambda job, jobs: preempt.reclaimable_for(job, jobs, self.books))

    def preempt(self) -> None:
        """Let groups that found no room evict groups of lower priority in their queue."""
        self._evict_for("preempt", preempt.preemptible_for)

    def _evict_for(self, action: str, candidates_for: Callable[[Job, Sequence[Job]], list[Job]]) -> None:
        for job in by_priority(self._ready()):
            if id(job) not in self.failures or job.any_active() or not self._may_run(job):
                continue
            if not job.to_place():  # it was given a place by an action before
                continue
            others = [other for other in self.jobs if id(other) not in self.evicted and not other.placed]
            victims = preempt.victims_for(
                job,
                candidates=candidates_for(job, others),
                books=self.books,
                trees=self.trees,
                version=self.version,
                board_without=self._board_without,
            )
            if victims:
                self._evict(victims, job, action)

    def _evict(self, victims: Sequence[Job], job: Job, action: str) -> None:
        """Evict the victims, and keep their room for the group."""
        for victim in victims:
            running = [pod for pod in victim.all_pods() if pod.state == "active"]
            self.evicted.add(id(victim))
            self.evictions.extend(preempt.evictions(victim, preemptor=job, action=action))
            self.books.enter(victim, running, sign=-1)
            self.board.release(running)
        placements = Attempt(job, self.board, self.trees, job.to_place(), self.version).run()
        self._accept(job, placements)

    def _may_run(self, job: Job) -> bool:
        return self.books.exists(job.group.queue) and self.books.is_leaf(job.group.queue)

    def _board_without(self, victims: Sequence[Job]) -> Board:
        """A board with all placements so far on which ``victims`` are leaving."""
        board = self._board_of(self.snapshot)
        board.release(pod for job in victims for pod in job.all_pods() if pod.state == "active")
        return board

    def _board_of(self, snapshot: Snapshot) -> Board:
        """A board of a snapshot, with all evictions and placements so far."""
        board = Board(snapshot)
        leaving = {eviction.pod.uid for eviction in self.evictions}
        board.release(pod for pod in snapshot.pods if pod.uid in leaving)
        for placement in self.board.journal:
            board.place(
                placement.pod,
                placement.node,
                pipelined=placement.pipelined,
                allocations=list(placement.allocations),
            )
        return board

    def judge_stale(self) -> None:
        """Mark, unmark and evict gangs below their minimum."""
        for job in self.jobs:
            if not job.group.real:
                continue
            verdict = stale.judge(job, now=self.snapshot.now, grace=self.stale_grace, version=self.version)
            if verdict.mark:
                self.marks.append(verdict.mark)
            if verdict.event:
                self.events.append(verdict.event)
            if verdict.wake_at is not None:
                self._wake(verdict.wake_at)
            self.evictions.extend(verdict.evictions)

    def _eviction_marks(self) -> tuple[EvictionMark, ...]:
        """One for each group that lost pods to others; a stale gang gets none."""
        if not VERSIONS[self.version].marks_evictions:
            return ()
        groups = {
            eviction.group.uid: eviction.group
            for eviction in self.evictions
            if eviction.group.real and eviction.annotations["evictor-action-type"] != stale.ACTION
        }
        return tuple(EvictionMark(group, self.snapshot.now) for group in groups.values())

    def decisions(self) -> Decisions:
        """Add the reports and return everything decided."""
        for job in self.jobs:
            failure = self.failures.get(id(job), _Failure())
            self.report.add(job, errors=failure.errors, pod_errors=failure.pod_errors)
        return Decisions(
            bindings=tuple(self.bindings),
            evictions=tuple(self.evictions),
            group_conditions=tuple(self.report.conditions),
            stale_marks=tuple(self.marks),
            eviction_marks=self._eviction_marks(),
            pod_conditions=tuple(self.report.pods),
            queue_statuses=tuple(queue_status.statuses(self.snapshot.queues, self.jobs)),
            events=(*self.events, *self.report.events),
            wake_at=self.wake_at,
        )
