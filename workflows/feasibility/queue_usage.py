"""The queues above a workflow's groups, with what is in use in them, and whether they admit a group.

Usage is that of this service's own live tasks, which is the least that the scheduler counts. So a bound that
this alone exceeds is certain, and as long as nothing else is known of the queues, anything else is unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from pools.models import Pool
from pools.selectors import installation
from pools.services.sync import pool_request
from scheduling.backends.base import AdmitsByQueue
from scheduling.backends.registry import installed
from scheduling.fit import snapshot as fit
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import RESOURCES
from scheduling.queues import NO_QUEUES, QUEUE_RESOURCES, QueueState, QuotaAnswer, QuotaVerdict
from workflows.models import TaskGroup
from workflows.values.placement import GroupPlacement

_COUNTED = tuple(RESOURCES.index(name) for name in QUEUE_RESOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReading:
    """A chain of queues, from the groups' own up; ``is_complete``: all their usage is known."""

    scheduler: AdmitsByQueue
    priority: str
    queues: tuple[QueueState, ...]
    is_complete: bool

    def verdict(self, demand: GangDemand) -> QuotaVerdict:
        """Whether the queues admit a gang of this demand."""
        shortages = self.scheduler.shortages(self.queues, _requested(demand), priority=self.priority)
        if shortages:
            return QuotaVerdict(QuotaAnswer.SHORT, shortages)
        return QuotaVerdict(QuotaAnswer.ADMITS if self.is_complete else QuotaAnswer.UNKNOWN)


def read_queues(
    placement: GroupPlacement, *, in_use: Mapping[UUID, fit.Amounts], without: Sequence[UUID]
) -> QueueReading | None:
    """The queues of groups with this placement; None for a scheduler without queues. Two queries.

    ``in_use`` is by group; what the groups ``without`` use does not count.
    """
    scheduler = installed().get(placement.scheduler_type)
    if not isinstance(scheduler, AdmitsByQueue):
        return None
    counted = {group: amounts for group, amounts in in_use.items() if group not in without}
    queue = _configured(scheduler, placement)
    queues = () if queue is None else (_with_own_usage(scheduler, queue, counted),)
    return QueueReading(scheduler=scheduler, priority=placement.priority, queues=queues, is_complete=False)


def quota_verdict(reading: QueueReading | None, demand: GangDemand) -> QuotaVerdict:
    return reading.verdict(demand) if reading else NO_QUEUES


def _configured(scheduler: AdmitsByQueue, placement: GroupPlacement) -> QueueState | None:
    """The pool's queue as it is configured; None if the pool has another one by now."""
    pool = Pool.objects.filter(name=placement.pool).select_related("backend").first()
    if pool is None:
        return None
    own, *_ = scheduler.queues_of(pool_request(pool, installation()))
    return own if own.name == placement.queue else None


def _with_own_usage(
    scheduler: AdmitsByQueue, queue: QueueState, in_use: Mapping[UUID, fit.Amounts]
) -> QueueState:
    rows = TaskGroup.objects.filter(pk__in=list(in_use), placement__queue=queue.name).order_by()
    used, fixed = dict.fromkeys(QUEUE_RESOURCES, 0.0), dict.fromkeys(QUEUE_RESOURCES, 0.0)
    for group, priority in rows.values_list("pk", "placement__priority"):
        for resource, place in zip(QUEUE_RESOURCES, _COUNTED, strict=True):
            amount = in_use[group][place]
            used[resource] += amount
            if not scheduler.is_preemptible(priority or "NORMAL"):
                fixed[resource] += amount
    return replace(queue, used=used, fixed=fixed)


def _requested(demand: GangDemand) -> dict[str, float]:
    amounts = [kind.amounts for kind in demand.demands.values()]
    return {
        resource: float(sum(of_task[place] for of_task in amounts))
        for resource, place in zip(QUEUE_RESOURCES, _COUNTED, strict=True)
    }
