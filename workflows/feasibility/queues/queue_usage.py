"""The queues above a workflow's groups, with what is in use in them, and whether they admit a group.

The observer follows the cluster's queues with what the scheduler counts in each, a moment late. This
service's own live tasks are known exactly, so they are taken out of that count and added as they are. Where
queues cannot be followed, the pool's own is known as it is configured, with the service's own usage, which is
the least that the scheduler counts: a bound that this alone exceeds is certain, anything else is unknown.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from uuid import UUID

from django.db import connection

from pools.models import Pool
from pools.services.evaluation import objects_of
from pools.services.pool_objects import pool_request
from pools.values.completeness import is_known
from scheduling.backends.facets import BoundedQueues
from scheduling.backends.priorities import PRIORITIES
from scheduling.backends.registry import installed, joins_queues
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.node_index import total
from scheduling.fit.snapshot import RESOURCES, OthersShare, ResourceVector, Snapshot
from scheduling.foreign.written import printable
from scheduling.queues.joined_queues import JoinedQueue
from scheduling.queues.queue_state import QUEUE_RESOURCES, QueueState, QuotaAnswer, QuotaVerdict
from workflows.feasibility.capacity.known_usage import NO_USAGE, ClusterUsage, GroupUsage
from workflows.models import ObservedObject
from workflows.values.observation import POD_GROUP
from workflows.values.placement import GroupPlacement

MOST_ABOVE = 32
"""Queues of a chain that are read; a longer one, or one in a circle, is cut."""

_LONGEST = 10 * 365 * 86_400.0
"""Seconds; a queue may be written with any number."""

_COUNTED = tuple(RESOURCES.index(name) for name in QUEUE_RESOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReading:
    """A chain of queues, and our work in the cluster."""

    scheduler: BoundedQueues
    priority: str
    queue: str

    rank: int | None = None
    """The number of a priority that is none of ours."""

    queues: tuple[QueueState, ...]
    """From the groups' own up."""

    is_complete: bool
    """Whether all usage of the chain is known."""

    now: datetime

    usage: ClusterUsage = NO_USAGE
    """Without the groups that the verdict is on."""

    preemption_delay: float = 0
    """For how many seconds a gang waits before others are preempted for it."""

    consolidates: bool = False
    """Whether the scheduler may move running work."""

    @property
    def beside(self) -> list[GroupUsage]:
        """Our work in the groups' own queue."""
        return [own for own in self.usage.groups.values() if own.queue == self.queue]

    @property
    def victims(self) -> frozenset[str]:
        """The workflows beside a gang that the scheduler may preempt for it."""
        return frozenset(
            own.workflow
            for own in self.beside
            if self.scheduler.is_preemptible(own.priority) and PRIORITIES[own.priority] < self._number
        )

    @property
    def _number(self) -> int:
        return PRIORITIES[self.priority] if self.rank is None else self.rank

    def below(self, snapshot: Snapshot) -> Counter[OthersShare]:
        """Other tenants' pods beside a gang that the scheduler may preempt for it: on how many nodes.

        None where queues spare work that has not run for long: since when pods of others run is not known.
        """
        if self._least_runtime:
            return Counter()
        return Counter(
            share
            for node in snapshot.nodes
            for share in node.others_by
            if (evictable := share.evictable) is not None
            and evictable.queue == self.queue
            and evictable.priority < self._number
        )

    @property
    def _least_runtime(self) -> float:
        """For how many seconds its queue spares work."""
        runtimes = (queue.preempt_min_runtime for queue in self.queues)
        return next((seconds for seconds in runtimes if seconds is not None), 0.0)

    @property
    def movable(self) -> frozenset[str] | None:
        """The workflows, of any queue, that the scheduler may move for a gang; None if it moves nothing."""
        if not self.consolidates or not self.scheduler.is_preemptible(self.priority):
            return None
        groups = self.usage.groups.values()
        return frozenset(own.workflow for own in groups if self.scheduler.is_preemptible(own.priority))

    @property
    def reclaimable(self) -> frozenset[str]:
        """The workflows of other queues that may be preempted at all."""
        groups = self.usage.groups.values()
        return frozenset(
            own.workflow
            for own in groups
            if own.queue != self.queue and self.scheduler.is_preemptible(own.priority)
        )

    def guarantees(self, demand: GangDemand) -> bool:
        """Whether a gang is within what its queue is guaranteed, which is nothing without a bound."""
        if not self.queues:
            return False
        queue, requested = self.queues[0], requested_of(demand)
        quota = queue.bound("gpu").quota
        return requested["gpu"] > 0 and quota >= queue.used.get("gpu", 0.0) + requested["gpu"]

    @property
    def spared(self) -> dict[str, datetime]:
        """Those victims that have not run for their queue's minimum time, and until when they are spared."""
        if not (least := self._least_runtime):
            return {}
        victims = self.victims
        until: dict[str, datetime] = {}
        for own in self.beside:
            end = (own.started or self.now) + timedelta(seconds=min(least, _LONGEST))
            if own.workflow in victims and end > self.now:
                until[own.workflow] = max(end, until.get(own.workflow, end))
        return until

    def without(
        self, workflows: Collection[str], shares: Mapping[OthersShare, int] = MappingProxyType({})
    ) -> "QueueReading":
        """The reading once these workflows, and these pods of others, beside the gang are gone."""
        gone = [own for own in self.beside if own.workflow in workflows]
        used = total(
            [*(own.amounts for own in gone), *(share.amounts for share in Counter(shares).elements())]
        )
        fixed = total(own.amounts for own in gone if not self.scheduler.is_preemptible(own.priority))
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
    installation: UUID,
    pool: Pool | str,
    queue: str,
    priority: str,
    cluster: str,
    usage: ClusterUsage,
    now: datetime,
    without: Sequence[UUID] = (),
    preemption_delay: float = 0,
) -> QueueReading | None:
    """The queue of a pool and those above it; None for a scheduler without queues.

    ``pool`` is its row, or its name. Of ``usage``, what the groups ``without`` use does not count. One query;
    two more where the cluster's queues are not followed and the row is not at hand.
    """
    backend = installed().get(scheduler_type)
    if backend is None or backend.queues is None:
        return None
    scheduler = backend.queues
    counted = usage.without(without)
    observed = observed_queues(scheduler, cluster)
    is_followed = queue in observed
    chain = _chain(queue, observed) if is_followed else _configured(scheduler, pool, queue, installation)
    return QueueReading(
        scheduler=scheduler,
        priority=priority,
        queue=queue,
        queues=tuple(_with_exact_usage(scheduler, chain, observed, of_all=usage, counted=counted)),
        is_complete=is_followed,
        now=now,
        usage=counted,
        preemption_delay=preemption_delay,
        consolidates=backend.traits.consolidates,
    )


def read_joined_queue(placement: GroupPlacement, *, cluster: str) -> JoinedQueue | None:
    """The queue of somebody else's that a group joins, as observed; None for a scheduler without such queues.

    Three queries for a scheduler that has them.
    """
    terms = placement.terms
    if not joins_queues(terms.scheduler_type):
        return None
    queue = objects_of(cluster).joined_queue(terms.scheduler_type, terms.namespace, terms.queue, selector={})
    return queue or JoinedQueue(name=terms.queue)


def groups_with_room(placement: GroupPlacement, groups: Sequence[UUID], *, cluster: str) -> frozenset[UUID]:
    """Those of the groups whose room their queue counts as used.

    One query for a scheduler that admits a gang before its pods.
    """
    scheduler = installed().get(placement.terms.scheduler_type)
    if scheduler is None or (admission := scheduler.admission) is None:
        return frozenset()
    rows = ObservedObject.objects.filter(
        kind=POD_GROUP, group_uuid__in=groups, cluster_id=cluster, namespace=placement.terms.namespace
    )
    return frozenset(row.group_uuid for row in rows if admission.holds_room(row.as_manifest()))


def observed_queues(scheduler: BoundedQueues, cluster: str) -> dict[str, QueueState]:
    """The cluster's queues by name; none where they are not followed. One query."""
    kind = scheduler.queue.crd
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, reading::text FROM pools_observedresource"  # noqa: S608 -- a resource of our own
            " WHERE cluster_id = %s AND resource = %s"
            f" AND (SELECT {is_known(kind)} FROM pools_cluster WHERE pools_cluster.uid = cluster_id)",
            [cluster, kind],
        )
        return {name: QueueState.from_json(name, json.loads(reading)) for name, reading in cursor.fetchall()}


def _chain(name: str, observed: Mapping[str, QueueState]) -> list[QueueState]:
    """The queue of this name and those above it."""
    chain: list[QueueState] = []
    while (queue := observed.get(name)) and len(chain) < MOST_ABOVE:
        chain.append(queue)
        name = queue.parent
    return chain


def _configured(
    scheduler: BoundedQueues, pool: Pool | str, queue: str, installation: UUID
) -> list[QueueState]:
    """The pool's queue as it is configured; none if the pool has another one by now."""
    if isinstance(pool, str):
        row = Pool.objects.filter(name=pool).select_related("backend").first()
        if row is None:
            return []
        pool = row
    own, *_ = scheduler.queues_of(pool_request(pool, installation))
    return [own] if own.name == queue else []


def _with_exact_usage(
    scheduler: BoundedQueues,
    chain: Sequence[QueueState],
    observed: Mapping[str, QueueState],
    *,
    of_all: ClusterUsage,
    counted: ClusterUsage,
) -> Iterator[QueueState]:
    """The queues with others' usage as it is counted there, and our own as it is known here.

    A queue's status counts ``of_all``, and ``counted`` is put in its place.
    """
    below: dict[str, frozenset[str]] = {}
    for name, _ in of_all.of_groups.sums:
        if name not in below:
            names = [queue.name for queue in _chain(name, observed)] or [name]
            below[name] = frozenset(names)
    for queue in chain:
        kinds = [kind for kind in of_all.of_groups.sums if queue.name in below[kind[0]]]
        fixed = [kind for kind in kinds if not scheduler.is_preemptible(kind[1])]
        yield replace(
            queue,
            used=_corrected(queue.used, of_all.total(kinds), counted.total(kinds)),
            fixed=_corrected(queue.fixed, of_all.total(fixed), counted.total(fixed)),
        )


def _corrected(
    observed: Mapping[str, float], every: ResourceVector, counted: ResourceVector
) -> dict[str, float]:
    return {
        name: max(0.0, observed.get(name, 0.0) - every[place]) + counted[place]
        for name, place in zip(QUEUE_RESOURCES, _COUNTED, strict=True)
    }


def _less(amounts: Mapping[str, float], gone: ResourceVector) -> dict[str, float]:
    return {
        name: max(0.0, amounts.get(name, 0.0) - gone[place])
        for name, place in zip(QUEUE_RESOURCES, _COUNTED, strict=True)
    }


def reading_of_others(
    scheduler: BoundedQueues,
    observed: Mapping[str, QueueState],
    queue: str,
    *,
    rank: int,
    usage: ClusterUsage,
    now: datetime,
) -> QueueReading:
    """An observed queue of a gang of others, of a priority with this number.

    Whether the gang may be preempted is not known, so it is read as one that may.
    """
    return QueueReading(
        scheduler=scheduler,
        priority="LOW",
        rank=rank,
        queue=queue,
        queues=tuple(_chain(queue, observed)),
        is_complete=True,
        now=now,
        usage=usage,
    )


def quota_in(
    scheduler: BoundedQueues, observed: Mapping[str, QueueState], queue: str, demand: GangDemand
) -> QuotaVerdict:
    """Whether a queue of others and those above it admit a gang of theirs that may be preempted.

    Whether it may is not known, so nothing is said of bounds for work that nothing preempts.
    """
    shortages = scheduler.shortages(_chain(queue, observed), requested_of(demand), priority="LOW")
    return QuotaVerdict(QuotaAnswer.SHORT if shortages else QuotaAnswer.UNKNOWN, shortages)


def queue_faults(queue: str, observed: Mapping[str, QueueState]) -> tuple[str, ...]:
    """Why a queue of others places nothing, whatever is free; nothing where no queue is observed."""
    if not observed:
        return ()
    missing, below = queue, ""
    for state in _chain(queue, observed):
        missing, below = state.parent, state.name
    if missing and missing not in observed:
        where = f', above queue "{printable(below)}",' if below else ""
        return (
            f'Queue "{printable(missing)}"{where} does not exist, so the scheduler does not place the gang.',
        )
    if not queue:
        return ("The gang names no queue, so the scheduler does not place it.",)
    if any(state.parent == queue for state in observed.values()):
        message = f'Queue "{printable(queue)}" has queues below it, and the scheduler serves those alone.'
        return (message,)
    return ()


def requested_of(demand: GangDemand) -> dict[str, float]:
    """What all tasks of a gang ask for, by the names of ``QUEUE_RESOURCES``."""
    amounts = amounts_of(demand)
    return {name: amounts[name] for name in QUEUE_RESOURCES}


def amounts_of(demand: GangDemand) -> dict[str, float]:
    """What all tasks of a gang take of each resource, by the names of ``RESOURCES``."""
    sums = total(kind.amounts for kind in demand.demands.values())
    return dict(zip(RESOURCES, map(float, sums), strict=True))
