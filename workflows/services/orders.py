"""Seeking a place for gangs that wait beside room, and proposing to them what it takes.

A gang may wait although there is room for it in another order of its sets (``fit.reorder``), or if its
preferences gave way (``fit.freeing``). The gangs of a cluster are considered one after the other, each
only after something changed for it (``services.waiting_gangs``). The processor time of a cluster's searches
is bounded; a gang that had no turn is counted, and is considered in a later one. A search reads rows alone
and writes a proposal: whether it is taken is decided under the group's lease (``reconcile.form.advancing``).
"""

import time
from collections.abc import Callable
from dataclasses import replace

from django.db import transaction
from django.db.models.functions import Now

from pools.clusters.capabilities import capabilities_at
from scheduling.fit.board import Board
from scheduling.fit.freeing import freed_levels
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.pin_choice import is_lost, pins_for
from scheduling.fit.placing import is_placed
from scheduling.fit.reorder import fitting_order
from scheduling.gang.gang_form import GangForm
from scheduling.gang.set_order import SetOrder
from workflows.feasibility.capacity.node_snapshot import ObservedNodes, demand_of
from workflows.metrics import ORDER_SEARCHES
from workflows.models import TaskGroup
from workflows.selectors import group_values
from workflows.services.notify import mark_due
from workflows.services.waiting_gangs import NodesOfTurn, UnplacedGang, unanswered, waiting, waiting_gangs
from workflows.values.placement import GroupPlacement, GroupValues


def clusters_waiting() -> list[str]:
    """The clusters with gangs that wait for a place and whose sets have an order."""
    rows = waiting().order_by().values_list("backend__cluster_id", flat=True)
    return [uid for uid in rows.distinct() if uid]


def propose(cluster: str, *, seconds: float, clock: Callable[[], float] = time.thread_time) -> int:
    """Propose orders and easings to waiting gangs of a cluster; returns how many had no turn.

    No search is begun once ``seconds`` of the thread's processor time are used up, and no kind of view on
    the nodes is read: a gang with such a view had no turn.
    """
    began, nodes, skipped = clock(), NodesOfTurn(cluster), 0
    for gang in waiting_gangs(cluster):
        is_over = clock() - began >= seconds
        if is_over and gang.view not in nodes.views:
            skipped += 1
            continue
        observed, capacity = nodes.of(gang.view)
        circumstances = gang.circumstances(capacity)
        if gang.searched == circumstances:
            continue
        if is_over:
            skipped += 1
        else:
            _consider(gang, observed, circumstances)
    ORDER_SEARCHES.labels("skipped").inc(skipped)
    return skipped


def _consider(gang: UnplacedGang, observed: ObservedNodes, circumstances: str) -> None:
    row = TaskGroup.objects.filter(pk=gang.pk).first()
    if row is None:
        return
    form = _other_form(row, observed, gang)
    rows = unanswered().filter(pk=row.pk, form=row.form)
    proposal = {"other_form": form.to_json()} if form else {}
    with transaction.atomic():
        if rows.update(searched_capacity=circumstances, searched_at=Now(), **proposal) and form:
            mark_due([row.pk])
    ORDER_SEARCHES.labels("proposed" if form else "none").inc()


def _other_form(row: TaskGroup, observed: ObservedNodes, gang: UnplacedGang) -> GangForm | None:
    """The form that the gang is proposed; None also for a row that this release does not read."""
    try:
        values = group_values(row, GroupPlacement.from_json(row.placement))
    except ValueError:  # of a newer release, whose workers search for it
        return None
    form = _rearranged(values, observed, gang)
    if form is None and (gang.may_pin or values.form.pins):
        return _pinned(values, observed, gang)
    return form


def _rearranged(values: GroupValues, observed: ObservedNodes, gang: UnplacedGang) -> GangForm | None:
    """The form with another order or easing; None if there is no place, or it needs no change."""
    if not observed.snapshot.nodes:
        return None
    order = _order_for(values, observed) if gang.may_order else None
    if order is not None:
        return replace(values.form, order=order)
    if not gang.may_ease:
        return None
    count = freed_levels(observed.snapshot, _demand(values.in_form(preference_levels=None)))
    return None if count == values.form.preference_levels else replace(values.form, preference_levels=count)


def _pinned(values: GroupValues, observed: ObservedNodes, gang: UnplacedGang) -> GangForm | None:
    """The form with other pins; None if it is placed as it is.

    Where it is placed nowhere it keeps its pins, unless their domains are lost.
    """
    form, demand, free = values.form, _demand(values), _demand(values.in_form(pins=()))
    board = Board(observed.snapshot)
    if not demand.is_pinnable or is_placed(board, demand):
        return None
    if form.pins and is_placed(board, free):
        return replace(form, pins=())
    pins, lost = pins_for(board, free), bool(form.pins) and is_lost(observed.snapshot, demand)
    if pins and pins != form.pins and (gang.may_pin or (lost and gang.may_leave)):
        return replace(form, pins=pins)
    return replace(form, pins=()) if lost and not pins else None


def _demand(values: GroupValues) -> GangDemand:
    placement = values.placement
    return demand_of(
        values,
        capabilities=capabilities_at(placement.terms.scheduler_type, placement.terms.scheduler_version),
    )


def _order_for(values: GroupValues, observed: ObservedNodes) -> SetOrder | None:
    demand = _demand(values)
    return None if demand.tree.is_flat else fitting_order(observed.snapshot, demand)
