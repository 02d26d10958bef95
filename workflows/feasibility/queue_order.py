"""Other work of a group's queue: what the scheduler takes first, and what it could preempt.

Within a queue a scheduler with queues takes groups of higher priority first, then older ones. A group that
is submitted now is the youngest. The first of those before it are placed in thought, each where there is room
for it; of the others only the number is known. What may be preempted is work of lower priority in the same
queue, where the scheduler may preempt it at all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Value, When

from scheduling.backends.priorities import PRIORITIES
from scheduling.capabilities import Capabilities
from scheduling.fit.admission import admitted
from scheduling.fit.contention import (
    Contention,
    Preemption,
    PreemptionAnswer,
    QueuePlace,
    WaitingGang,
    after,
    has_place,
    preempted,
)
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import Answer, Verdict, judge
from workflows.feasibility.nodes import demand_of
from workflows.feasibility.queue_usage import QueueReading
from workflows.feasibility.waiting_groups import WaitingGroup, read_groups, unplaced
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import TaskGroup
from workflows.values.placement import GroupPlacement

MOST_PLACED = 4
"""Groups that go first and are placed in thought: each costs about as much as a verdict."""

MOST_PLACED_TASKS = 2_000

MOST_VICTIMS = 20
"""Workflows that are named of those that may be preempted: each reply names them for each group."""

_RANK = Case(
    *(When(workflow__priority=name, then=Value(value)) for name, value in PRIORITIES.items()),
    default=Value(0),
    output_field=IntegerField(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsBefore:
    """The groups of a queue that go before one of ours; ``first`` are the first of them."""

    groups: int
    younger: int
    first: tuple[WaitingGroup, ...]


def read_groups_before(
    placement: GroupPlacement, *, cluster: str, since: datetime | None, without: Sequence[UUID]
) -> GroupsBefore:
    """The groups that go before one that waits since then, None for one that is submitted now.

    One query; three where such groups exist.
    """
    own = PRIORITIES[placement.priority]
    higher = Q(workflow__priority__in=[name for name, value in PRIORITIES.items() if value > own])
    older = Q(workflow__priority=placement.priority)
    if since is not None:
        older &= Q(submit_time__lt=since)
    rows = (
        unplaced(placement.pool)
        .filter(backend__cluster_id=cluster)
        .exclude(status=TaskStatus.WAITING)
        .exclude(pk__in=without)
        .filter(higher | older)
    )
    counts = rows.aggregate(groups=Count("pk"), younger=Count("pk", filter=_is_younger(since)))
    if not counts["groups"]:
        return GroupsBefore(groups=0, younger=0, first=())
    return GroupsBefore(**counts, first=_first(rows))


def _is_younger(since: datetime | None) -> Q:
    return Q(pk__in=()) if since is None else Q(submit_time__gt=since)


def _first(rows: QuerySet[TaskGroup]) -> tuple[WaitingGroup, ...]:
    ordered = rows.order_by(_RANK.desc(), "submit_time", "pk")
    return read_groups(ordered, most=MOST_PLACED, most_tasks=MOST_PLACED_TASKS)


def judge_in_queue(
    snapshot: Snapshot,
    demand: GangDemand,
    *,
    reading: QueueReading | None,
    before: GroupsBefore | None,
    capabilities: Capabilities,
) -> Verdict:
    """The verdict on a gang among the other work of its queue."""
    if reading is None or before is None:
        return judge(snapshot, demand)
    left = after(snapshot, list(_placeable(before.first, reading, capabilities)))
    verdict, takes_room = judge(left, demand), False
    if left is not snapshot and verdict.answer is not Answer.NOW:
        alone = judge(snapshot, demand)
        takes_room = alone.answer is Answer.NOW
        verdict = verdict if takes_room else alone
    workflows = tuple(group.workflow for group in before.first)
    place = QueuePlace(before.groups, before.younger, workflows, takes_room)
    verdict = admitted(verdict, reading.verdict(demand))
    return replace(verdict, contention=Contention(_preemption(snapshot, demand, verdict, reading), place))


def _placeable(
    groups: Sequence[WaitingGroup], reading: QueueReading, capabilities: Capabilities
) -> Iterator[WaitingGang]:
    """The gangs that their queue admits."""
    for group in groups:
        demand = demand_of(group.values, capabilities=capabilities)
        if not replace(reading, priority=group.values.placement.priority).verdict(demand).shortages:
            yield WaitingGang(group.workflow, demand)


def _preemption(
    snapshot: Snapshot, demand: GangDemand, verdict: Verdict, reading: QueueReading
) -> Preemption:
    if verdict.answer is Answer.NOW:
        return Preemption(PreemptionAnswer.NOT_NEEDED)
    if not reading.is_complete:
        return Preemption(PreemptionAnswer.UNKNOWN)
    victims = reading.victims
    if not victims:
        return Preemption(PreemptionAnswer.NONE)
    names = tuple(sorted(victims)[:MOST_VICTIMS])
    helps = (
        verdict.answer is Answer.NOT_NOW
        and not reading.without(victims).verdict(demand).shortages
        and has_place(preempted(snapshot, victims), demand)
    )
    return Preemption(PreemptionAnswer.HELPS if helps else PreemptionAnswer.DOES_NOT_HELP, names)
