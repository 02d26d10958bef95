"""The verdicts on the task groups of one workflow, for one user, and their JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from pools.clusters.capabilities import capabilities_at
from pools.models import Pool
from pools.selectors import Caller, may_explain
from pools.values.freshness import Freshness
from scheduling.capabilities import Capabilities
from scheduling.fit.admission import admitted
from scheduling.fit.contention import Displacement, Preemption, QueuePlace
from scheduling.fit.freeing import freed_levels
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.remedies import Remedy, remedies
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import Answer, Obstacle, SetVerdict, Verdict
from scheduling.gang import set_order
from scheduling.queues.joined_queues import JoinedQueue
from scheduling.queues.namespace_quota import NamespaceQuota, shortages
from scheduling.queues.queue_state import QuotaAnswer, QuotaVerdict
from scheduling.sentences import count_of
from scheduling.topology.requirements import members_json
from web.times import naive_utc
from workflows.feasibility.capacity.known_nodes import NodeTable
from workflows.feasibility.capacity.node_snapshot import (
    ObservedNodes,
    demand_of,
    observed_nodes,
    selectors_of,
)
from workflows.feasibility.queues.queue_order import judge_in_queue, read_groups_before
from workflows.feasibility.queues.queue_position import is_first_in
from workflows.feasibility.queues.queue_usage import (
    amounts_of,
    groups_with_room,
    read_joined_queue,
    read_queues,
    requested_of,
)
from workflows.feasibility.verdict.alternatives import sentence_of, workable_spec
from workflows.feasibility.verdict.forecast import NO_FORECAST, Forecast, forecast
from workflows.feasibility.verdict.remedy_sentences import remedy_sentence
from workflows.feasibility.verdict.sentences import no_nodes_reason, redacted, sentence
from workflows.feasibility.verdict.unexamined import NOT_EXAMINED, Unexamined, unexamined
from workflows.feasibility.verdict.vain_pins import place_sentence
from workflows.models import TaskGroup
from workflows.selectors import names_known_to
from workflows.values.placement import GroupValues

Json = dict[str, Any]

ADMITTED = QuotaVerdict(QuotaAnswer.ADMITS)

UNKNOWN = "unknown"
"""The JSON's answer while no node is known."""

VERDICTS = ("never", "not_now", "now", UNKNOWN)

MOST_ORDERED = 8
"""Groups of sets for which another order is sought at once, since that may take seconds for each."""

MOST_PLACES = 64
"""Tasks whose nodes are listed; of larger gangs only the number is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeasibilityReport:
    """The verdict on one task group."""

    group: str
    scheduler: str
    tasks: int

    verdict: Verdict | None
    """None: none of its nodes is known."""

    sentence: str

    nodes: int
    """How many nodes the group may use."""

    freshness: Freshness
    """How fresh all is that the verdict rests on; of old observations it proves nothing."""

    others_known: bool
    """False: the usage of other tenants' pods is unknown, so it counts as free."""

    made_at: datetime
    forecast: Forecast = NO_FORECAST

    in_vain: bool = False
    """Whether it is pinned where there is no room for it; the verdict is on it without the pins."""

    remedies: tuple[Remedy, ...] = ()
    """Nodes that it may not use, with which it would fit."""

    workable_spec: str | None = None
    """The topology that would work, as YAML; empty: none is known; None: no place is passed over."""

    @property
    def answer(self) -> Answer | None:
        return self.verdict.answer if self.verdict else None

    @property
    def is_proven(self) -> bool:
        return self.verdict is not None and self.verdict.proven and not self.freshness.is_old

    @property
    def is_uncertain(self) -> bool:
        """Whether the nodes have a place only as far as is known: something is not counted or not offered."""
        return self.verdict is not None and bool(self.verdict.doubts or self.verdict.uncounted)

    @property
    def lacks_place(self) -> bool:
        """Whether the nodes have no place for it, whatever its queues say."""
        return self.verdict is not None and not self.verdict.has_place

    @property
    def word(self) -> str:
        """The answer as REST has it."""
        return self.answer.value if self.answer else UNKNOWN

    @property
    def has_total_room(self) -> bool:
        """Whether the pool has room for all tasks, although perhaps not in one domain."""
        return self.verdict is not None and self.verdict.room >= self.verdict.tasks

    @property
    def not_examined(self) -> tuple[Unexamined, ...]:
        """The obstacles to a place that were not looked at."""
        return unexamined(self.verdict, others_known=self.others_known)

    def as_json(self) -> Json:
        """The shape of REST. ``places`` is null for a gang too large to list."""
        verdict = self.verdict or Verdict(Answer.NOT_NOW, (), proven=False, tasks=self.tasks)
        obstacle = self.verdict.obstacle if self.verdict else None
        return {
            "group": self.group,
            "verdict": self.word,
            "sentence": self.sentence,
            "obstacle": obstacle.value if obstacle else None,
            "quota": verdict.quota.as_json(),
            "preemption": _preemption(verdict.contention.preemption),
            "consolidation": _displacement(verdict.contention.consolidation),
            "reclaim": _displacement(verdict.contention.reclaim),
            "before": _queue_place(verdict.contention.place),
            "not_examined": [
                {"code": code.value, "message": NOT_EXAMINED[code]} for code in self.not_examined
            ],
            "proven": self.is_proven,
            "another_order": verdict.another_order,
            "order": set_order.to_json(verdict.order),
            "workable_spec": self.workable_spec,
            "preferences_met": self.forecast.preferences_met,
            "broken_nodes": self.forecast.broken_nodes,
            "free_at": naive_utc(self.forecast.free_at),
            "tasks": verdict.tasks,
            "room": verdict.room,
            "scheduler": self.scheduler,
            "nodes": self.nodes,
            **self.freshness.as_json(),
            "observed_at": naive_utc(self.freshness.observed_at),
            "others_known": self.others_known,
            "places": _places(verdict.places) if self.verdict else None,
            "sets": [_set(entry) for entry in verdict.sets],
            "remedies": [_remedy(remedy) for remedy in self.remedies],
        }


def _preemption(preemption: Preemption) -> Json:
    return {
        "answer": preemption.answer.value,
        "workflows": list(preemption.workflows),
        "spared_until": naive_utc(preemption.spared_until),
        "delay_seconds": preemption.delay,
        "others": preemption.others,
        "namespaces": list(preemption.namespaces),
    }


def _displacement(displacement: Displacement) -> Json:
    return {"answer": displacement.answer.value, "workflows": list(displacement.workflows)}


def _queue_place(place: QueuePlace | None) -> Json | None:
    if place is None:
        return None
    return {"groups": place.groups, "younger": place.younger, "workflows": list(place.workflows)}


def _places(places: Mapping[str, str]) -> dict[str, str] | None:
    return dict(places) if len(places) <= MOST_PLACES else None


def _remedy(remedy: Remedy) -> Json:
    fields = asdict(remedy)
    fields["taints"] = _taints(fields["taints"])
    return fields


def _taints(taints: Sequence[Mapping[str, Any]]) -> list[Json]:
    return [{**taint, "since": naive_utc(taint["since"])} for taint in taints]


def _set(entry: SetVerdict) -> Json:
    fields = asdict(entry)
    fields["path"] = members_json(entry.path)
    for domain in fields["nearest"]:
        domain["path"] = list(domain["path"])
        domain["free_at"] = naive_utc(domain["free_at"])
        domain["tainted"] = _taints(domain["tainted"])
        domain["holders"] = [{**holder, "until": naive_utc(holder["until"])} for holder in domain["holders"]]
    return fields


def feasibility(
    groups: Sequence[GroupValues],
    *,
    cluster: str | None,
    user: Caller,
    now: datetime,
    submitted_to: Pool | None = None,
    table: NodeTable | None = None,
) -> list[FeasibilityReport]:
    """Judge each group of one workflow as if it came alone.

    ``submitted_to`` is the pool of a workflow that is submitted now, ``table`` what was read of its nodes; of
    a group that waits, None.

    Without a known node for the tasks there is no verdict; the sentence says why. A holder of a domain is
    named only if the user may list that workflow.
    """
    if not groups:
        return []
    placement = groups[0].placement
    capabilities = capabilities_at(placement.terms.scheduler_type, placement.terms.scheduler_version)
    observed = observed_nodes(
        cluster or "",
        selectors=selectors_of(groups),
        levels=placement.terms.levels,
        capabilities=capabilities,
        without=() if submitted_to else [group.uuid for group in groups],
        table=table,
    )
    if reason := no_nodes_reason(observed, reached=bool(cluster)):
        return [_report(group, None, reason, observed=observed, now=now) for group in groups]
    verdicts_of = partial(
        _verdicts,
        observed=observed,
        cluster=cluster or "",
        capabilities=capabilities,
        now=now,
        submitted_to=submitted_to,
    )
    pinned = list(demands_of(groups, capabilities=capabilities))
    verdicts, demands, places = verdicts_of(groups, pinned), list(pinned), [""] * len(groups)
    for at, group in enumerate(groups):
        if group.form.pins and verdicts[at].answer is not Answer.NOW:
            demands[at] = demand_of(group.in_form(pins=()), capabilities=capabilities)
            (verdicts[at],) = verdicts_of([group], [demands[at]])
            places[at] = place_sentence(
                group, pinned[at], observed.snapshot, has_place=verdicts[at].has_place, now=now
            )
    visible = names_known_to(user, {name for verdict in verdicts for name in workflows_in(verdict)})
    shows = may_explain(user, placement.terms.backend)
    hidden = [
        _hides_room(group, demand, verdict, observed.snapshot)
        for group, demand, verdict in zip(groups, demands, verdicts, strict=True)
    ]
    reports = [
        _report(
            group,
            verdict,
            _text(group, verdict, place=place, hides_room=hides, freshness=observed.freshness),
            observed=observed,
            now=now,
        )
        for group, verdict, place, hides in zip(
            groups,
            (redacted(v, visible, names_others=shows) for v in verdicts),
            places,
            hidden,
            strict=True,
        )
    ]
    forecasts = [
        forecast(
            observed.snapshot, demand, verdict, gives_way_at=_gives_way_at(group, now) if hides else None
        )
        for group, demand, verdict, hides in zip(groups, demands, verdicts, hidden, strict=True)
    ]
    specs = [
        None if hides else workable_spec(group, demand, verdict, observed.snapshot)
        for group, demand, verdict, hides in zip(groups, demands, verdicts, hidden, strict=True)
    ]
    remedied = [
        remedies(observed.snapshot, demand) if lacks_room(verdict) and not hides else ()
        for demand, verdict, hides in zip(demands, verdicts, hidden, strict=True)
    ]
    return [
        replace(
            report,
            forecast=of,
            remedies=help_by,
            in_vain=bool(place),
            workable_spec=spec,
            sentence=report.sentence + remedy_sentence(report.verdict, help_by) + sentence_of(spec),
        )
        for report, of, place, spec, help_by in zip(reports, forecasts, places, specs, remedied, strict=True)
    ]


def fits_now(group: GroupValues, *, cluster: str, now: datetime) -> bool:
    """Whether there is room for a group that waits, on the nodes and in its queue as observed."""
    verdict, observed = _verdict_on(group, cluster=cluster, now=now)
    return (
        verdict is not None
        and verdict.answer is Answer.NOW
        and not verdict.doubts
        and not observed.freshness.is_old
    )


def certainly_fits(group: GroupValues, *, cluster: str, now: datetime) -> bool:
    """Whether its scheduler has to place a group that waits: as its objects are, at once, before all others.

    Everything that the verdict rests on is known and fresh, and nothing that we would do first is left.
    """
    verdict, observed = _verdict_on(group, cluster=cluster, now=now)
    if verdict is None or verdict.answer is not Answer.NOW or not verdict.proven:
        return False
    as_it_is = verdict.order in ((), group.form.order) and verdict.pins in ((), group.form.pins)
    place = verdict.contention.place
    is_first = place is None or not place.groups
    is_known = observed.others_known and not observed.freshness.is_old
    is_admitted = verdict.quota.answer in (QuotaAnswer.ADMITS, QuotaAnswer.NONE)
    return as_it_is and is_first and is_admitted and is_known and not (verdict.doubts or verdict.uncounted)


def nameless_sentence(report: FeasibilityReport) -> str:
    """The sentence of a report for everybody who may read the workflow: it names no holder of a place."""
    if report.verdict is None:
        return report.sentence
    return sentence(redacted(report.verdict, ()), report.freshness) + sentence_of(report.workable_spec)


def never_sentence(group: GroupValues, *, cluster: str, now: datetime) -> str:
    """Why a group that waits can never be placed, naming no workflow; empty where that is not known.

    Pins that keep it from its place can be taken away, so they do not count, as in ``feasibility``; while
    preferences may still give way, nothing is certain.
    """
    if group.placement.free_preferences_after and group.form.preference_levels is None:
        return ""
    terms = group.placement.terms
    capabilities = capabilities_at(terms.scheduler_type, terms.scheduler_version)
    if demand_of(group, capabilities=capabilities).last is not None:
        return ""
    verdict, observed = _verdict_on(group.in_form(pins=()), cluster=cluster, now=now)
    if (
        verdict is None
        or verdict.answer is not Answer.NEVER
        or not verdict.proven
        or observed.freshness.is_old
    ):
        return ""
    return sentence(redacted(verdict, ()), observed.freshness)


def _verdict_on(group: GroupValues, *, cluster: str, now: datetime) -> tuple[Verdict | None, ObservedNodes]:
    """The verdict on a group that waits, None where none of its nodes is known; and the nodes."""
    terms = group.placement.terms
    capabilities = capabilities_at(terms.scheduler_type, terms.scheduler_version)
    observed = observed_nodes(
        cluster,
        selectors=selectors_of([group]),
        levels=terms.levels,
        capabilities=capabilities,
        without=[group.uuid],
    )
    if not observed.snapshot.nodes:
        return None, observed
    demands = list(demands_of([group], capabilities=capabilities))
    (verdict,) = _verdicts(
        [group],
        demands,
        observed=observed,
        cluster=cluster,
        capabilities=capabilities,
        now=now,
        submitted_to=None,
    )
    return verdict, observed


def demands_of(groups: Sequence[GroupValues], *, capabilities: Capabilities) -> Iterator[GangDemand]:
    """The demand of each group; of many groups only the first are given another order of their sets.

    The others are given one while they wait (``services.orders``).
    """
    left = MOST_ORDERED
    for group in groups:
        demand = demand_of(group, capabilities=capabilities)
        left -= not demand.tree.is_flat
        yield demand if left >= 0 else replace(demand, is_orderable=False)


def lacks_room(verdict: Verdict) -> bool:
    """Whether it is the nodes that have no place, and not a queue or those who go first."""
    return not verdict.has_place and verdict.obstacle in (Obstacle.ROOM, Obstacle.TOPOLOGY)


def _gives_way_at(group: GroupValues, now: datetime) -> datetime:
    """When preferences give way that hide room for the group."""
    return now + timedelta(seconds=group.placement.free_preferences_after)


def _hides_room(group: GroupValues, demand: GangDemand, verdict: Verdict, snapshot: Snapshot) -> bool:
    """Whether the group's preferences hide room for it now, and will give way."""
    if (
        verdict.answer is not Answer.NOT_NOW
        or verdict.has_place
        or not group.placement.free_preferences_after
    ):
        return False
    return group.form.preference_levels is None and freed_levels(snapshot, demand) is not None


def _text(group: GroupValues, verdict: Verdict, *, place: str, hides_room: bool, freshness: Freshness) -> str:
    text = sentence(verdict, freshness)
    if place:
        return place if verdict.has_place else f"{text} {place}"
    if not hides_room:
        return text
    seconds = count_of(group.placement.free_preferences_after, "second")
    return f"{text} There is room that only its preferences hide: they give way after {seconds}."


def _verdicts(
    groups: Sequence[GroupValues],
    demands: Sequence[GangDemand],
    *,
    observed: ObservedNodes,
    cluster: str,
    capabilities: Capabilities,
    now: datetime,
    submitted_to: Pool | None,
) -> list[Verdict]:
    """The verdict on each group, of one placement, among the other work of its queue."""
    placement = groups[0].placement
    without = [] if submitted_to else [group.uuid for group in groups]
    queues = read_queues(
        placement.terms.scheduler_type,
        installation=placement.terms.installation,
        pool=submitted_to or placement.terms.pool,
        queue=placement.terms.queue,
        priority=placement.priority,
        cluster=cluster,
        usage=observed.usage,
        now=now,
        without=without,
        preemption_delay=placement.terms.preemption_delay,
    )
    before = None
    if queues:
        before = read_groups_before(
            placement, cluster=cluster, since=_since(without), without=without, capabilities=capabilities
        )
    verdicts = [
        judge_in_queue(
            observed.snapshot,
            demand,
            reading=queues,
            before=before,
        )
        for demand in demands
    ]
    joined = read_joined_queue(placement, cluster=cluster)
    if joined is not None:
        with_room = groups_with_room(placement, without, cluster=cluster)
        quotas = [
            ADMITTED
            if group.uuid in with_room
            else joined.quota(requested_of(demand), is_first=_is_first(joined, group, cluster=cluster))
            for group, demand in zip(groups, demands, strict=True)
        ]
        verdicts = [admitted(verdict, quota) for verdict, quota in zip(verdicts, quotas, strict=True)]
    return _in_namespace(verdicts, demands, submitted_to) if submitted_to else verdicts


def _in_namespace(verdicts: Sequence[Verdict], demands: Sequence[GangDemand], pool: Pool) -> list[Verdict]:
    """The verdicts under the quotas of the pool's namespace, as they were at the last probe."""
    quotas = [NamespaceQuota.from_json(value) for value in pool.backend.card.get("quotas") or ()]
    short = [shortages(quotas, amounts_of(demand)) if quotas else () for demand in demands]
    return [
        admitted(verdict, QuotaVerdict(QuotaAnswer.SHORT, (*lacking, *verdict.quota.shortages)))
        if lacking
        else verdict
        for verdict, lacking in zip(verdicts, short, strict=True)
    ]


def _is_first(queue: JoinedQueue, group: GroupValues, *, cluster: str) -> bool:
    """Whether a group certainly goes first in a queue in which nothing passes the first."""
    if queue.usage is None or not queue.usage.is_strict:
        return False
    return is_first_in(
        queue, group=group.uuid, scheduler_type=group.placement.terms.scheduler_type, cluster=cluster
    )


def _since(groups: Sequence[UUID]) -> datetime | None:
    """When the first of the groups was submitted; None if they are not yet."""
    if not groups:
        return None
    times = TaskGroup.objects.filter(pk__in=groups).order_by("submit_time")
    return times.values_list("submit_time", flat=True).first()


def _report(
    group: GroupValues, verdict: Verdict | None, text: str, *, observed: ObservedNodes, now: datetime
) -> FeasibilityReport:
    return FeasibilityReport(
        group=group.name,
        scheduler=group.placement.terms.scheduler_type,
        tasks=len(group.tasks),
        verdict=verdict,
        sentence=text,
        nodes=len(observed.snapshot.nodes),
        freshness=observed.freshness,
        others_known=observed.others_known,
        made_at=now,
    )


def as_fits(groups: Sequence[GroupValues], reports: Sequence[FeasibilityReport]) -> tuple[GroupValues, ...]:
    """The groups, each with its sets in the order, and pinned to the domains, that its verdict needs."""
    verdicts = {
        report.group: report.verdict for report in reports if report.verdict and report.answer is Answer.NOW
    }
    return tuple(_as_fits(group, verdicts.get(group.name)) for group in groups)


def _as_fits(group: GroupValues, verdict: Verdict | None) -> GroupValues:
    if verdict is None:
        return group
    return group.in_form(pins=verdict.pins or group.form.pins, order=verdict.order or group.form.order)


def holders_of(verdict: Verdict) -> set[str]:
    """The workflows that a verdict names."""
    return {holder.name for entry in verdict.sets for domain in entry.nearest for holder in domain.holders}


def workflows_in(verdict: Verdict) -> set[str]:
    """All workflows that a verdict names, those of its queue included."""
    contention = verdict.contention
    ahead = contention.place.workflows if contention.place else ()
    movable = (*contention.consolidation.workflows, *contention.reclaim.workflows)
    return holders_of(verdict).union(contention.preemption.workflows, movable, ahead)


def infeasible(reports: Sequence[FeasibilityReport]) -> list[FeasibilityReport]:
    """The reports on groups that can never be placed by what is known now."""
    return [report for report in reports if report.answer is Answer.NEVER]
