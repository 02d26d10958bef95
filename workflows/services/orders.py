"""Seeking a place for gangs that wait beside room, and proposing to them what it takes.

A gang may wait although there is room for it in another order of its sets (``fit.reorder``), or if its
preferences gave way (``fit.freeing``). The gangs of a cluster are considered one after the other, the oldest
first, and each only after the free capacity of its nodes has changed or its preferences may give way. The
processor time of a cluster's searches is bounded; who had no turn is counted, and is considered in a later
one. A search reads rows alone and writes a proposal: whether it is taken is decided under the group's lease
(``reconcile.reordering``, ``reconcile.freeing``).
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from pools.clusters.capabilities import capabilities_at
from scheduling import set_order
from scheduling.backends.base import OrdersSets
from scheduling.backends.registry import installed
from scheduling.fit.board import Board
from scheduling.fit.freeing import freed_levels
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.greedy import is_placed
from scheduling.fit.pinning import pins_for
from scheduling.fit.reorder import fitting_order
from scheduling.fit.snapshot import Snapshot
from scheduling.pins import to_json
from scheduling.set_order import SetOrder
from workflows.feasibility.nodes import ObservedNodes, demand_of, observed_nodes, selectors_of
from workflows.lifecycle.patience import PREFERENCE_REASONS
from workflows.lifecycle.pinning import MOST_REPINS, PINNED, may_repin
from workflows.lifecycle.statuses import TaskStatus
from workflows.metrics import ORDER_SEARCHES
from workflows.models import Event, Task, TaskGroup
from workflows.selectors import group_values
from workflows.services.notify import mark_due
from workflows.services.record import database_now
from workflows.values.placement import VERSIONS, GroupPlacement, GroupValues

MOST_GROUPS = 500
"""The oldest groups of a cluster that are considered in one turn."""


def clusters_waiting() -> list[str]:
    """The clusters with gangs that wait for a place and whose sets have an order."""
    return [
        uid for uid in _waiting().order_by().values_list("backend__cluster_id", flat=True).distinct() if uid
    ]


def propose(cluster: str, *, seconds: float, clock: Callable[[], float] = time.thread_time) -> int:
    """Propose orders and easings to waiting gangs of a cluster; returns how many had no turn.

    No search is begun once ``seconds`` of the thread's processor time are used up.
    """
    began, nodes = clock(), _Nodes(cluster)
    rows = list(_waiting().filter(backend__cluster_id=cluster).order_by("submit_time", "pk")[:MOST_GROUPS])
    skipped = 0
    for row in rows:
        if clock() - began >= seconds:
            skipped += 1
        else:
            _consider(row, nodes)
    ORDER_SEARCHES.labels("skipped").inc(skipped)
    return skipped


def _waiting() -> QuerySet[TaskGroup]:
    """Groups of which all objects exist and no pod has a node, and to which nothing is proposed."""
    placed = Task.objects.filter(group=OuterRef("pk"), latest=True).exclude(node_name="")
    waiting = _unanswered().filter(
        ~Exists(placed),
        released_at=None,
        stop_status="",
        status=TaskStatus.SCHEDULING,
        created_in_cluster_at__isnull=False,
        placement__version__in=VERSIONS,
        placement__scheduler_type__in=_ordering_schedulers(),
    )
    return waiting.exclude(constraints=[])


def _unanswered() -> QuerySet[TaskGroup]:
    """Groups that nothing is proposed to, and that are given nothing at present.

    Asked again when a proposal is written: searches of one cluster may overlap, and while a gang is repinned
    its ``other_pins`` are those of before.
    """
    return TaskGroup.objects.filter(
        reordering=False,
        repinning=False,
        proposed_order__isnull=True,
        proposed_easing__isnull=True,
        other_pins__isnull=True,
    )


def _ordering_schedulers() -> list[str]:
    schedulers = installed().items()
    return [name for name, each in schedulers if isinstance(each, OrdersSets) and each.orders_sets]


def _consider(row: TaskGroup, nodes: "_Nodes") -> None:
    values = group_values(row, GroupPlacement.from_json(row.placement))
    observed, capacity = nodes.of(values)
    may_ease, may_pin = _may_ease(row, values.placement), _may_pin(row)
    considered = f"{capacity}{'e' if may_ease else ''}{'p' if may_pin else ''}{row.stage}"
    if row.searched_capacity == considered:
        return
    changes = _proposal(values, observed, may_ease=may_ease)
    if not changes and may_pin:
        changes = _pins_proposal(values, observed)
    rows = _unanswered().filter(
        pk=row.pk, set_order=row.set_order, preference_levels=row.preference_levels, pins=row.pins
    )
    with transaction.atomic():
        if rows.update(searched_capacity=considered, **changes) and changes:
            mark_due([row.pk])
    ORDER_SEARCHES.labels("proposed" if changes else "none").inc()


def _may_ease(row: TaskGroup, placement: GroupPlacement) -> bool:
    """Whether preferences have blocked the group for long enough, and have not changed for as long."""
    seconds, since = placement.free_preferences_after, row.unplaced_since
    if not seconds or since is None:
        return False
    latest = database_now() - timedelta(seconds=seconds)
    changes = Event.objects.filter(group=row, reason__in=PREFERENCE_REASONS, time__gt=latest)
    return since <= latest and not changes.exists()


def _proposal(values: GroupValues, observed: ObservedNodes, *, may_ease: bool) -> dict[str, object]:
    """The columns of what the gang is proposed; none if there is no place, or it needs no change."""
    if not observed.snapshot.nodes:
        return {}
    order = _order_for(values, observed)
    if order is not None:
        return {"proposed_order": set_order.to_json(order)}
    if not may_ease:
        return {}
    demand = _demand(replace(values, preference_levels=None))
    count = freed_levels(observed.snapshot, demand)
    return {} if count == values.preference_levels else {"proposed_easing": {"preference_levels": count}}


def _may_pin(row: TaskGroup) -> bool:
    changes = Event.objects.filter(group=row, reason=PINNED).values_list("time", flat=True)
    return may_repin(list(changes[: MOST_REPINS + 1]), now=database_now())


def _pins_proposal(values: GroupValues, observed: ObservedNodes) -> dict[str, object]:
    """The column of pins that the gang is proposed; none if it is placed as it is, or nowhere."""
    demand, free = _demand(values), _demand(replace(values, pins=()))
    board = Board(observed.snapshot)
    if not demand.is_pinnable or is_placed(board, demand):
        return {}
    if values.pins and is_placed(board, free):
        return {"other_pins": []}
    pins = pins_for(board, free)
    return {"other_pins": to_json(pins)} if pins and pins != values.pins else {}


def _demand(values: GroupValues) -> GangDemand:
    placement = values.placement
    return demand_of(
        values, capabilities=capabilities_at(placement.scheduler_type, placement.scheduler_version)
    )


def _order_for(values: GroupValues, observed: ObservedNodes) -> SetOrder | None:
    demand = _demand(values)
    return None if demand.tree.is_flat else fitting_order(observed.snapshot, demand)


@dataclass(slots=True)
class _Nodes:
    """The nodes of a cluster as gangs see them, each kind of view read once in a turn."""

    cluster: str
    views: dict[str, tuple[ObservedNodes, str]] = field(default_factory=dict)

    def of(self, values: GroupValues) -> tuple[ObservedNodes, str]:
        """The nodes that a gang may use, and a digest of what is free on them."""
        placement = values.placement
        selectors = selectors_of([values])
        view = repr((selectors, placement.levels, placement.scheduler_version))
        if view not in self.views:
            observed = observed_nodes(
                self.cluster,
                selectors=selectors,
                levels=placement.levels,
                capabilities=capabilities_at(placement.scheduler_type, placement.scheduler_version),
            )
            self.views[view] = (observed, _digest(observed.snapshot))
        return self.views[view]


def _digest(snapshot: Snapshot) -> str:
    digest = hashlib.sha256()
    for node in snapshot.nodes:
        digest.update(
            repr((node.name, node.free, node.closed, node.taints, sorted(node.labels.items()))).encode()
        )
    return digest.hexdigest()[:26]
