"""Why gangs of others wait: the verdict on each, and what a caller may read of it.

The verdict is that on a task group of ours (``verdict.report``), with what the facet could not read named as
not examined. Where anything is not examined, nothing is claimed to be impossible. Names are for callers with
action ``cluster:Explain`` on the backend; everybody else who sees one of its pools reads how many gangs wait.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from pools import selectors
from pools.clusters.capabilities import capabilities_of
from pools.models import Backend
from pools.selectors import Caller, may_explain
from pools.services.evaluation import ClusterObjects, objects_of
from pools.values.freshness import Freshness
from scheduling.backends.registry import installed
from scheduling.errors import NotFound
from scheduling.fit.admission import admitted
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.remedies import remedies
from scheduling.fit.verdict import Answer, Verdict, judge
from scheduling.foreign.gang import ForeignGang
from scheduling.foreign.written import printable
from scheduling.queues.queue_state import NO_QUEUES, QuotaAnswer, QuotaVerdict
from scheduling.sentences import did_you_mean
from web.policy import Action, refusal
from workflows.feasibility.capacity.known_nodes import node_table, selected_nodes
from workflows.feasibility.capacity.known_usage import cluster_usage
from workflows.feasibility.capacity.node_snapshot import ObservedNodes
from workflows.feasibility.others.read_gangs import OthersGang, left_out, others_of, problem_of, read_gangs
from workflows.feasibility.queues.queue_order import preemption_for
from workflows.feasibility.queues.queue_usage import (
    QueueReading,
    observed_queues,
    queue_faults,
    quota_in,
    reading_of_others,
    requested_of,
)
from workflows.feasibility.verdict.remedy_sentences import remedy_sentence
from workflows.feasibility.verdict.report import FeasibilityReport, lacks_room, workflows_in
from workflows.feasibility.verdict.sentences import no_nodes_reason, redacted, sentence
from workflows.models import ObservedGang
from workflows.selectors import names_known_to

Json = dict[str, Any]

MOST_SECONDS = 3.0
"""For reading the gangs of one answer, and as much for their verdicts: few objects can ask for many pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGang:
    """A gang of others with the verdict on it."""

    others: OthersGang
    report: FeasibilityReport
    faults: tuple[str, ...]
    """What keeps it waiting whatever is free, as full sentences."""

    @property
    def sentence(self) -> str:
        """Why it waits: its faults, else the verdict."""
        return " ".join(self.faults) or self.report.sentence

    @property
    def word(self) -> str:
        """The verdict; one with faults does not start now, although there may be room."""
        is_held = bool(self.faults) and self.report.word == Answer.NOW
        return Answer.NOT_NOW.value if is_held else self.report.word

    def entry_json(self) -> Json:
        """One line of the list."""
        gang = self.others.gang
        kind, name = gang.owner
        return {
            "namespace": gang.namespace,
            "name": gang.name,
            "kind": self.others.kind,
            "owner_kind": printable(kind),
            "owner_name": printable(name),
            "queue": printable(gang.queue),
            "priority": printable(gang.priority),
            "since": self.others.since,
            "tasks": gang.tasks,
            "gpus": gang.gpus,
            "minimum": gang.minimum,
            "verdict": self.word,
            "sentence": self.sentence,
            "scheduler_report": gang.report,
        }

    def as_json(self) -> Json:
        """All of it; ``feasibility`` has the shape of that of a task group."""
        gang, report = self.others.gang, self.report.as_json()
        unread = [{"code": entry.code.value, "message": entry.message} for entry in gang.unread]
        return {
            **self.entry_json(),
            "faults": list(self.faults),
            "not_examined": unread,
            "feasibility": report,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingOthers:
    """The gangs of others that wait, the oldest first, as one caller may read them."""

    backend: Backend
    problem: str
    """Why not all of them are known; empty if all are."""
    count: int
    omitted: int
    """Those that wait and are not kept, because there are too many."""
    names_shown: bool
    gangs: Sequence[JudgedGang]
    more_entries: bool
    freshness: Freshness


def waiting(backend: Backend, user: Caller, *, limit: int, offset: int) -> WaitingOthers:
    """One page of the gangs that wait. Its queries do not depend on their number."""
    rows, shows = others_of(backend), may_explain(user, backend.name)
    page = list(rows[offset : offset + limit + 1]) if shows else []
    cluster = backend.cluster
    return WaitingOthers(
        backend=backend,
        problem=problem_of(backend, cluster),
        count=rows.count(),
        omitted=cluster.gangs_omitted if cluster else 0,
        names_shown=shows,
        gangs=_judged(backend, page[:limit], user),
        more_entries=len(page) > limit,
        freshness=selectors.freshness_of(backend.cluster_id),
    )


def one_of_others(backend: Backend, user: Caller, *, namespace: str, name: str) -> JudgedGang:
    """One gang that waits.

    Raises Forbidden without the action, and NotFound for a gang that does not wait, has ended, or never was.
    """
    if not may_explain(user, backend.name):
        raise refusal(Action.CLUSTER_EXPLAIN, f"backend/{backend.name}")
    rows = others_of(backend)
    judged = _judged(backend, rows.filter(namespace=namespace, name=name), user)
    if not judged:
        names = [f"{of}/{gang}" for of, gang in rows.values_list("namespace", "name")[:1000]]
        raise NotFound(
            f'No group of others "{namespace[:63]}/{name[:253]}" waits on backend "{backend.name}".'
            f"{did_you_mean(f'{namespace}/{name}', names)} {problem_of(backend, backend.cluster)}".strip()
        )
    return judged[0]


def _judged(backend: Backend, rows: Iterable[ObservedGang], user: Caller) -> list[JudgedGang]:
    if not (rows := list(rows)):
        return []
    objects, now = objects_of(str(backend.cluster_id)), timezone.now()
    gangs = read_gangs(backend, rows, objects=objects, is_late=_late_after(MOST_SECONDS))
    reading = _ClusterReading(backend, [other.gang for other in gangs], objects, now=now)
    nodes = [reading.nodes(other.gang) for other in gangs]
    is_late, verdicts = _late_after(MOST_SECONDS), []
    for place, (other, of) in enumerate(zip(gangs, nodes, strict=True)):
        if other.gang.demand and is_late():
            gangs[place] = replace(other, gang=left_out(other.gang))
        verdicts.append(reading.verdict(gangs[place].gang, of))
    visible = names_known_to(
        user, {name for verdict in verdicts if verdict for name in workflows_in(verdict)}
    )
    faults = [
        (*reading.queue_faults(other.gang), *other.gang.faults_on(of.snapshot.nodes))
        for other, of in zip(gangs, nodes, strict=True)
    ]
    shows = may_explain(user, backend.name)
    readable = [verdict and redacted(verdict, visible, names_others=shows) for verdict in verdicts]
    return [
        JudgedGang(
            others=other,
            report=_report(backend, other.gang, verdict, of, has_faults=bool(of_gang), now=now),
            faults=of_gang,
        )
        for other, verdict, of, of_gang in zip(gangs, readable, nodes, faults, strict=True)
    ]


def _late_after(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds of this thread's processor time are used up; they begin now."""
    until = time.thread_time() + seconds
    return lambda: time.thread_time() >= until


class _ClusterReading:
    """The nodes, their usage and the queues of a cluster, read once for many gangs."""

    def __init__(
        self, backend: Backend, gangs: Sequence[ForeignGang], objects: ClusterObjects, *, now: datetime
    ) -> None:
        self._cluster = str(backend.cluster_id)
        self._scheduler = installed().get(backend.scheduler_type)
        self._capabilities = capabilities_of(backend)
        self._table = node_table(
            self._cluster,
            selectors=[selector for gang in gangs for selector in _selectors(gang)],
            labels={level.label for gang in gangs for level in gang.levels},
        )
        self._usage = cluster_usage(self._cluster, others_known=self._table.cluster.others_known)
        scheduler = self._scheduler
        bounded = scheduler.queues if scheduler else None
        self._queues = observed_queues(bounded, self._cluster) if bounded else {}
        self._objects, self._now = objects, now

    def nodes(self, gang: ForeignGang) -> ObservedNodes:
        """Those that the pods of a gang select."""
        snapshot = selected_nodes(
            self._cluster,
            self._table,
            selectors=_selectors(gang),
            levels=gang.levels,
            paths=self._capabilities.by_paths,
            usage=self._usage,
            scheduler=self._capabilities.scheduler,
        )
        times = self._table.cluster
        return ObservedNodes(snapshot, times.freshness, times.others_known, self._usage)

    def verdict(self, gang: ForeignGang, observed: ObservedNodes) -> Verdict | None:
        """The verdict on a gang; None where nothing can be judged."""
        if gang.demand is None or not observed.snapshot.nodes:
            return None
        verdict = admitted(judge(observed.snapshot, gang.demand), self._quota(gang, gang.demand))
        if reading := self._queue_reading(gang):
            preemption = preemption_for(observed.snapshot, gang.demand, verdict, reading)
            verdict = replace(verdict, contention=replace(verdict.contention, preemption=preemption))
        if not gang.unread:
            return verdict
        answer = Answer.NOT_NOW if verdict.answer is Answer.NEVER else verdict.answer
        return replace(verdict, answer=answer, proven=False)

    def queue_faults(self, gang: ForeignGang) -> tuple[str, ...]:
        """Why its queue places nothing; a facet that reads queues has said so itself."""
        is_read = gang.queue or gang.demand is not None
        return queue_faults(gang.queue, self._queues) if is_read else ()

    def _queue_reading(self, gang: ForeignGang) -> QueueReading | None:
        """Its queue, in which others may be preempted for it; None where it or its priority is not known."""
        bounded, rank = self._scheduler and self._scheduler.queues, gang.rank
        if not bounded or rank is None or gang.queue not in self._queues:
            return None
        return reading_of_others(
            bounded, self._queues, gang.queue, rank=rank, usage=self._usage, now=self._now
        )

    def _quota(self, gang: ForeignGang, demand: GangDemand) -> QuotaVerdict:
        scheduler = self._scheduler
        if scheduler and scheduler.joined_queues:
            queue = self._objects.joined_queue(scheduler.name, gang.namespace, gang.queue, selector={})
            return queue.quota(requested_of(demand)) if queue else QuotaVerdict(QuotaAnswer.UNKNOWN)
        if scheduler and scheduler.queues:
            return quota_in(scheduler.queues, self._queues, gang.queue, demand)
        return NO_QUEUES


def _selectors(gang: ForeignGang) -> list[Mapping[str, str]]:
    """Each distinct node selection of a gang's pods."""
    demands = gang.demand.demands.values() if gang.demand else ()
    return [dict(selector) for selector in sorted({demand.selector for demand in demands})]


def _report(
    backend: Backend,
    gang: ForeignGang,
    verdict: Verdict | None,
    observed: ObservedNodes,
    *,
    has_faults: bool,
    now: datetime,
) -> FeasibilityReport:
    report = FeasibilityReport(
        group=gang.name,
        scheduler=backend.scheduler_type,
        tasks=gang.tasks,
        verdict=verdict,
        sentence="",
        nodes=len(observed.snapshot.nodes),
        freshness=observed.freshness,
        others_known=observed.others_known,
        made_at=now,
    )
    if verdict is None or gang.demand is None:
        unread = " ".join(entry.message for entry in gang.unread)
        reason = f"No verdict: {unread}" if unread else no_nodes_reason(observed, reached=True)
        return replace(report, sentence=reason)
    help_by = remedies(observed.snapshot, gang.demand) if lacks_room(verdict) else ()
    text = sentence(verdict, observed.freshness, of="cluster") + remedy_sentence(verdict, help_by)
    if has_faults:
        text = f"But for that, {text[0].lower()}{text[1:]}"
    return replace(report, remedies=help_by, sentence=text)
