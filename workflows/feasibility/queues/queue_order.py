"""Other work beside a group: what the scheduler takes first, and what it could preempt or move.

Within a queue a scheduler with queues takes groups of higher priority first, then older ones. A group that
is submitted now is the youngest. The first of those before it are placed in thought, each where there is room
for it; of the others only the number is known. Work of lower priority in the same queue may be preempted,
where the scheduler may preempt it at all. Work that may be preempted may be moved too, in any queue, for a
group that may be preempted itself; whether it finds another place is not looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from scheduling.backends.priorities import PRIORITIES
from scheduling.capabilities import Capabilities
from scheduling.fit.admission import admitted
from scheduling.fit.contention import (
    Contention,
    Displacement,
    DisplacementAnswer,
    Preemption,
    PreemptionAnswer,
    QueuePlace,
    WaitingGang,
    after,
    has_place,
    preempted,
)
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import PODS, OthersShare, Snapshot
from scheduling.fit.verdict import Answer, Verdict, judge
from web.recent_values import RecentValues, database
from workflows.feasibility.capacity.node_snapshot import demand_of
from workflows.feasibility.queues.queue_usage import QueueReading
from workflows.feasibility.queues.waiting_groups import ReadGroup, Selection, read_waiting
from workflows.lifecycle.statuses import TaskStatus
from workflows.values.placement import GroupPlacement

MOST_PLACED = 4
"""Groups that go first and are placed in thought: each costs about as much as a verdict."""

MOST_PLACED_TASKS = 2_000

MOST_VICTIMS = 20
"""Workflows that are named of those that may be preempted: each reply names them for each group."""

MOST_KEPT_TASKS = 20_000
"""Tasks of groups that go first, of all queues together, whose demand a process keeps."""

_RANKS = " ".join(f"WHEN '{name}' THEN {value}" for name, value in PRIORITIES.items())
_ORDER = f"CASE workflow.priority {_RANKS} ELSE 0 END DESC, owner.submit_time, owner.uuid"
_CONDITION = f"""
    backend.cluster_id = %(cluster)s AND owner.status <> '{TaskStatus.WAITING}'
    AND owner.uuid <> ALL(%(without)s::uuid[])
    AND (workflow.priority = ANY(%(higher)s) OR workflow.priority = %(own)s
         AND (%(since)s::timestamptz IS NULL OR owner.submit_time < %(since)s))
"""


@dataclass(frozen=True, slots=True)
class GroupBefore:
    """A group that goes first. ``digest`` covers all that its demand was made of."""

    workflow: str
    priority: str
    demand: GangDemand
    digest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsBefore:
    """The groups of a queue that go before one of ours; ``first`` are the first of them."""

    groups: int
    younger: int
    first: tuple[GroupBefore, ...]


first_groups: RecentValues[Mapping[UUID, GroupBefore]] = RecentValues(most_parts=MOST_KEPT_TASKS)
"""Those that went first at the last reading, by queue, priority and capabilities. Each read sends the digests
of what is kept and gets what differs."""


def read_groups_before(
    placement: GroupPlacement,
    *,
    cluster: str,
    since: datetime | None,
    without: Sequence[UUID],
    capabilities: Capabilities,
) -> GroupsBefore:
    """The groups that go before one that waits since then, None for one that is submitted now. One query."""
    own = PRIORITIES[placement.priority]
    selection = Selection(
        pool=placement.terms.pool,
        condition=_CONDITION,
        order=_ORDER,
        parameters={
            "cluster": cluster,
            "without": list(without),
            "own": placement.priority,
            "higher": [name for name, value in PRIORITIES.items() if value > own],
        },
        since=since,
        most=MOST_PLACED,
        most_tasks=MOST_PLACED_TASKS,
    )
    key = (database(), cluster, placement.terms.pool, placement.priority, capabilities)
    by_group = first_groups.find(key) or {}
    reading = read_waiting(selection, digests={pk: group.digest for pk, group in by_group.items()})
    first = {
        read.uuid: by_group[read.uuid] if read.group is None else _group_before(read, capabilities)
        for read in reading.first
        if read.digest is not None
    }
    tasks = sum(len(group.demand.demands) for group in first.values())
    first_groups.keep(key, first, parts=tasks)
    return GroupsBefore(groups=reading.count, younger=reading.younger, first=tuple(first.values()))


def _group_before(read: ReadGroup, capabilities: Capabilities) -> GroupBefore:
    assert read.group is not None
    assert read.digest is not None
    values = read.group.values
    demand = demand_of(values, capabilities=capabilities)
    return GroupBefore(read.group.workflow, values.placement.priority, demand, read.digest)


def judge_in_queue(
    snapshot: Snapshot,
    demand: GangDemand,
    *,
    reading: QueueReading | None,
    before: GroupsBefore | None,
) -> Verdict:
    """The verdict on a gang among the other work of its queue."""
    if reading is None or before is None:
        return judge(snapshot, demand)
    left = after(snapshot, _placeable(before.first, reading))
    verdict, takes_room = judge(left, demand), False
    if left is not snapshot and verdict.answer is not Answer.NOW:
        alone = judge(snapshot, demand)
        takes_room = alone.answer is Answer.NOW
        verdict = verdict if takes_room else alone
    workflows = tuple(group.workflow for group in before.first)
    place = QueuePlace(before.groups, before.younger, workflows, takes_room)
    verdict = admitted(verdict, reading.verdict(demand))
    preemption = preemption_for(snapshot, demand, verdict, reading)
    consolidation = _consolidation(snapshot, demand, verdict, reading)
    reclaim = _reclaim(snapshot, demand, verdict, reading)
    return replace(verdict, contention=Contention(preemption, place, consolidation, reclaim))


def _placeable(groups: Sequence[GroupBefore], reading: QueueReading) -> list[WaitingGang]:
    """The gangs that their queue admits."""
    return [
        WaitingGang(group.workflow, group.demand)
        for group in groups
        if not replace(reading, priority=group.priority).verdict(group.demand).shortages
    ]


def preemption_for(
    snapshot: Snapshot, demand: GangDemand, verdict: Verdict, reading: QueueReading
) -> Preemption:
    """The work of lower priority in its queue that the scheduler may preempt for a gang, if that helps."""
    if verdict.answer is Answer.NOW:
        return Preemption(PreemptionAnswer.NOT_NEEDED)
    if not reading.is_complete:
        return Preemption(PreemptionAnswer.UNKNOWN)
    victims, shares = reading.victims, reading.below(snapshot)
    if not victims and not shares:
        return Preemption(PreemptionAnswer.NONE)
    spared = reading.spared
    answers = {PreemptionAnswer.HELPS: victims - spared.keys()}
    if spared:
        answers[PreemptionAnswer.LATER] = victims
    for answer, workflows in answers.items() if verdict.answer is Answer.NOT_NOW else ():
        if (workflows or shares) and _helps(snapshot, demand, reading, workflows, shares):
            until = max(spared.values()) if answer is PreemptionAnswer.LATER else None
            preemption = Preemption(answer, _first_names(workflows), until, reading.preemption_delay)
            return _with_others(preemption, shares)
    return _with_others(Preemption(PreemptionAnswer.DOES_NOT_HELP, _first_names(victims)), shares)


def _helps(
    snapshot: Snapshot,
    demand: GangDemand,
    reading: QueueReading,
    victims: frozenset[str],
    shares: Mapping[OthersShare, int],
) -> bool:
    """Whether the gang has a place, and its queues admit it, once these workflows and pods are gone."""
    admits = not reading.without(victims, shares).verdict(demand).shortages
    return admits and has_place(preempted(snapshot, victims, shares.keys()), demand)


def _with_others(preemption: Preemption, shares: Mapping[OthersShare, int]) -> Preemption:
    pods = sum(share.amounts[PODS] * nodes for share, nodes in shares.items())
    namespaces = _first_names(frozenset(share.namespace for share in shares))
    return replace(preemption, others=pods, namespaces=namespaces)


def _first_names(workflows: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(workflows)[:MOST_VICTIMS])


def _consolidation(
    snapshot: Snapshot, demand: GangDemand, verdict: Verdict, reading: QueueReading
) -> Displacement:
    """The work that the scheduler may move for the gang, before it preempts anything."""
    movable = reading.movable
    if verdict.answer is Answer.NOW:
        return Displacement(DisplacementAnswer.NOT_NEEDED)
    if not movable or verdict.answer is Answer.NEVER:
        return Displacement(DisplacementAnswer.NONE)
    helps = (
        not verdict.quota.shortages
        and _has_free_gpus(snapshot, demand)
        and has_place(preempted(snapshot, movable), demand)
    )
    answer = DisplacementAnswer.POSSIBLE if helps else DisplacementAnswer.DOES_NOT_HELP
    return Displacement(answer, _first_names(movable) if helps else ())


def _reclaim(snapshot: Snapshot, demand: GangDemand, verdict: Verdict, reading: QueueReading) -> Displacement:
    """The work of other queues that the scheduler may end for a gang within its queue's guarantee."""
    if verdict.answer is Answer.NOW:
        return Displacement(DisplacementAnswer.NOT_NEEDED)
    reclaimable = reading.reclaimable
    if verdict.answer is Answer.NEVER or not reclaimable or not reading.guarantees(demand):
        return Displacement(DisplacementAnswer.NONE)
    if not has_place(preempted(snapshot, reclaimable), demand):
        return Displacement(DisplacementAnswer.DOES_NOT_HELP)
    return Displacement(DisplacementAnswer.POSSIBLE, _first_names(reclaimable))


def _has_free_gpus(snapshot: Snapshot, demand: GangDemand) -> bool:
    """Whether as many GPUs are free in all as the gang asks for, on nodes of the pool or on others."""
    gpus = demand.set_demand(demand.tree.root).gpus
    return not snapshot.is_complete or sum(node.free_gpus for node in snapshot.nodes) >= gpus
