"""The queues above a workflow's groups, with what is in use in them, and whether they admit a group.

The observer follows the cluster's queues with what the scheduler counts in each, a moment late. This
service's own live tasks are known exactly, so they are taken out of that count and added as they are. Where
queues cannot be followed, the pool's own is known as it is configured, with the service's own usage, which is
the least that the scheduler counts: a bound that this alone exceeds is certain, anything else is unknown.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import add
from uuid import UUID

from django.db.models import Case, F, When

from pools.models import ObservedQueue, Pool
from pools.selectors import installation
from pools.services.evaluation import objects_of
from pools.services.pool_objects import pool_request
from scheduling.backends.base import AdmitsBeforePods, AdmitsByQueue, Consolidates, JoinsQueues
from scheduling.backends.priorities import PRIORITIES
from scheduling.backends.registry import installed
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import NO_AMOUNTS, RESOURCES, Amounts
from scheduling.joined_queues import JoinedQueue
from scheduling.queues import QUEUE_RESOURCES, QueueState, QuotaAnswer, QuotaVerdict
from workflows.models import ObservedObject, TaskGroup
from workflows.values.observation import POD_GROUP
from workflows.values.placement import GroupPlacement

MOST_ABOVE = 32
"""Queues of a chain that are read; a longer one, or one in a circle, is cut."""

_LONGEST = 10 * 365 * 86_400.0
"""Seconds; a queue may be written with any number."""

_COUNTED = tuple(RESOURCES.index(name) for name in QUEUE_RESOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUsage:
    """What a live group of ours uses; ``counts`` False: the verdict is on it.

    ``started`` is when all its tasks ran, None if they do not yet.
    """

    workflow: str
    queue: str
    priority: str
    amounts: Amounts
    is_fixed: bool
    counts: bool
    started: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReading:
    """A chain of queues, from the groups' own up, and our work in the groups' own.

    ``is_complete``: all usage of the chain is known. ``movable`` are the workflows, of any queue, that the
    scheduler may move for a gang of this priority, None if it moves nothing for it. ``preemption_delay`` is
    for how many seconds such a gang waits before others are preempted for it.
    """

    scheduler: AdmitsByQueue
    priority: str
    queues: tuple[QueueState, ...]
    is_complete: bool
    now: datetime
    beside: tuple[GroupUsage, ...] = ()
    movable: frozenset[str] | None = None
    preemption_delay: float = 0

    @property
    def victims(self) -> frozenset[str]:
        """The workflows beside a gang that the scheduler may preempt for it."""
        return frozenset(
            own.workflow
            for own in self.beside
            if not own.is_fixed and PRIORITIES[own.priority] < PRIORITIES[self.priority]
        )

    @property
    def spared(self) -> dict[str, datetime]:
        """Those victims that have not run for their queue's minimum time, and until when they are spared."""
        runtimes = (queue.preempt_min_runtime for queue in self.queues)
        least = next((seconds for seconds in runtimes if seconds is not None), 0.0)
        if not least:
            return {}
        victims = self.victims
        until: dict[str, datetime] = {}
        for own in self.beside:
            end = (own.started or self.now) + timedelta(seconds=min(least, _LONGEST))
            if own.workflow in victims and end > self.now:
                until[own.workflow] = max(end, until.get(own.workflow, end))
        return until

    def without(self, workflows: Collection[str]) -> "QueueReading":
        """The reading once these workflows beside the gang are gone."""
        gone = [own for own in self.beside if own.workflow in workflows]
        used, fixed = _sum(gone), _sum([own for own in gone if own.is_fixed])
        queues = tuple(
            replace(queue, used=_less(queue.used, used), fixed=_less(queue.fixed, fixed))
            for queue in self.queues
        )
        return replace(self, queues=queues)

    def verdict(self, demand: GangDemand) -> QuotaVerdict:
        """Whether the queues admit a gang of this demand."""
        shortages = self.scheduler.shortages(self.queues, requested_of(demand), priority=self.priority)
        if shortages:
            return QuotaVerdict(QuotaAnswer.SHORT, shortages)
        return QuotaVerdict(QuotaAnswer.ADMITS if self.is_complete else QuotaAnswer.UNKNOWN)


def read_queues(
    scheduler_type: str,
    *,
    pool: str,
    queue: str,
    priority: str,
    cluster: str,
    in_use: Mapping[UUID, Amounts],
    now: datetime,
    without: Sequence[UUID] = (),
    preemption_delay: float = 0,
) -> QueueReading | None:
    """The queue of a pool and those above it; None for a scheduler without queues.

    Two queries; three more where the cluster's queues are not followed. ``in_use`` is by group; what the
    groups ``without`` use does not count.
    """
    scheduler = installed().get(scheduler_type)
    if not isinstance(scheduler, AdmitsByQueue):
        return None
    usage = list(_own_usage(scheduler, in_use, frozenset(without)))
    observed = _observed(scheduler, cluster)
    is_followed = queue in observed
    chain = _chain(queue, observed) if is_followed else _configured(scheduler, pool, queue)
    return QueueReading(
        scheduler=scheduler,
        priority=priority,
        queues=tuple(_with_exact_usage(chain, observed, usage)),
        is_complete=is_followed,
        now=now,
        beside=tuple(own for own in usage if own.queue == queue and own.counts),
        movable=_movable(scheduler, priority, usage),
        preemption_delay=preemption_delay,
    )


def read_joined_queue(placement: GroupPlacement, *, cluster: str) -> JoinedQueue | None:
    """The queue of somebody else's that a group joins, as observed; None for a scheduler without such queues.

    Three queries for a scheduler that has them.
    """
    scheduler = installed().get(placement.scheduler_type)
    if not isinstance(scheduler, JoinsQueues):
        return None
    objects = objects_of(cluster)
    if not objects.knows(scheduler):
        return JoinedQueue(name=placement.queue)
    return scheduler.joined_queue(placement.namespace, placement.queue, selector={}, objects=objects.queues)


def groups_with_room(placement: GroupPlacement, groups: Sequence[UUID], *, cluster: str) -> frozenset[UUID]:
    """Those of the groups whose room their queue counts as used.

    One query for a scheduler that admits a gang before its pods.
    """
    scheduler = installed().get(placement.scheduler_type)
    if not isinstance(scheduler, AdmitsBeforePods):
        return frozenset()
    rows = ObservedObject.objects.filter(
        kind=POD_GROUP, group_uuid__in=groups, cluster_id=cluster, namespace=placement.namespace
    )
    return frozenset(row.group_uuid for row in rows if scheduler.holds_room(row.as_manifest()))


def _movable(scheduler: AdmitsByQueue, priority: str, usage: Sequence[GroupUsage]) -> frozenset[str] | None:
    """The workflows that the scheduler may move for a gang of this priority; None if it moves nothing."""
    moves = isinstance(scheduler, Consolidates) and scheduler.consolidates
    if not moves or not scheduler.is_preemptible(priority):
        return None
    return frozenset(own.workflow for own in usage if own.counts and not own.is_fixed)


def _observed(scheduler: AdmitsByQueue, cluster: str) -> dict[str, QueueState]:
    """The cluster's queues by name; none where they are not followed."""
    rows = ObservedQueue.objects.filter(
        cluster_id=cluster, resource=scheduler.queue.crd, cluster__queues_synced_at__isnull=False
    ).order_by()
    return {
        name: QueueState.from_json(name, reading) for name, reading in rows.values_list("name", "reading")
    }


def _chain(name: str, observed: Mapping[str, QueueState]) -> list[QueueState]:
    """The queue of this name and those above it."""
    chain: list[QueueState] = []
    while (queue := observed.get(name)) and len(chain) < MOST_ABOVE:
        chain.append(queue)
        name = queue.parent
    return chain


def _configured(scheduler: AdmitsByQueue, pool: str, queue: str) -> list[QueueState]:
    """The pool's queue as it is configured; none if the pool has another one by now."""
    row = Pool.objects.filter(name=pool).select_related("backend").first()
    if row is None:
        return []
    own, *_ = scheduler.queues_of(pool_request(row, installation()))
    return [own] if own.name == queue else []


START_OF_ATTEMPT = Case(When(attempt_number=1, then=F("start_time")), default=F("ran_since"))
"""When all tasks of a group's present attempt ran; a scheduler counts minimum run times from there."""


def _own_usage(
    scheduler: AdmitsByQueue, in_use: Mapping[UUID, Amounts], without: frozenset[UUID]
) -> Iterator[GroupUsage]:
    rows = TaskGroup.objects.filter(pk__in=list(in_use)).order_by()
    for group, workflow, queue, priority, started in rows.values_list(
        "pk", "workflow__name", "placement__queue", "workflow__priority", START_OF_ATTEMPT
    ):
        yield GroupUsage(
            workflow=workflow,
            queue=queue or "",
            priority=priority,
            amounts=in_use[group],
            is_fixed=not scheduler.is_preemptible(priority),
            counts=group not in without,
            started=started,
        )


def _with_exact_usage(
    chain: Sequence[QueueState], observed: Mapping[str, QueueState], usage: Sequence[GroupUsage]
) -> Iterator[QueueState]:
    """The queues with others' usage as it is counted there, and our own as it is known here."""
    below: dict[str, frozenset[str]] = {}
    for own in usage:
        if own.queue not in below:
            names = [queue.name for queue in _chain(own.queue, observed)] or [own.queue]
            below[own.queue] = frozenset(names)
    for queue in chain:
        inside = [own for own in usage if queue.name in below[own.queue]]
        yield replace(
            queue,
            used=_corrected(queue.used, inside),
            fixed=_corrected(queue.fixed, [own for own in inside if own.is_fixed]),
        )


def _corrected(observed: Mapping[str, float], usage: Sequence[GroupUsage]) -> dict[str, float]:
    every, counted = _sum(usage), _sum([own for own in usage if own.counts])
    return {
        name: max(0.0, observed.get(name, 0.0) - every[place]) + counted[place]
        for name, place in zip(QUEUE_RESOURCES, _COUNTED, strict=True)
    }


def _less(amounts: Mapping[str, float], gone: Amounts) -> dict[str, float]:
    return {
        name: max(0.0, amounts.get(name, 0.0) - gone[place])
        for name, place in zip(QUEUE_RESOURCES, _COUNTED, strict=True)
    }


def _sum(usage: Sequence[GroupUsage]) -> Amounts:
    total = NO_AMOUNTS
    for own in usage:
        total = tuple(map(add, total, own.amounts))
    return total


def requested_of(demand: GangDemand) -> dict[str, float]:
    """What all tasks of a gang ask for, by the names of ``QUEUE_RESOURCES``."""
    amounts = [kind.amounts for kind in demand.demands.values()]
    return {
        name: float(sum(of_task[place] for of_task in amounts))
        for name, place in zip(QUEUE_RESOURCES, _COUNTED, strict=True)
    }
