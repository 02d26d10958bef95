"""The gangs of a cluster that wait for a place, and the gate before a search for one.

A gang is looked at again only after something changed that the last search rested on: the free capacity of
its nodes, its stage, or what may be changed of it. Most turns find that nothing did, so the gate comes first
and reads a few columns of all gangs at once, never a gang. The gang that has gone longest without a search
comes first, of those never searched for the oldest: none waits for ever behind older ones whose searches are
in vain.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from pools.clusters.capabilities import capabilities_at
from scheduling.backends.registry import installed
from scheduling.fit.snapshot import Snapshot
from scheduling.topology.levels import Level, Levels
from workflows.explain.reasons import Why
from workflows.feasibility.capacity.node_snapshot import ObservedNodes, observed_nodes
from workflows.lifecycle.form_proposers import REORDERED
from workflows.lifecycle.form_states import FormState
from workflows.lifecycle.patience import PREFERENCE_REASONS
from workflows.lifecycle.pin_words import PINNED
from workflows.lifecycle.repeated_changes import may_change_again, renewable_at
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import Event, Task, TaskGroup, in_status
from workflows.services.steps import database_now
from workflows.values.placement import VERSION

_COLUMNS = {
    "levels": F("placement__levels"),
    "scheduler_type": F("placement__scheduler_type"),
    "scheduler_version": F("placement__scheduler_version"),
    "free_preferences_after": F("placement__free_preferences_after"),
}


@dataclass(frozen=True, slots=True)
class NodeView:
    """The nodes that tasks of a gang may use, as its scheduler sees them."""

    selectors: tuple[tuple[tuple[str, str], ...], ...]
    levels: Levels
    scheduler_type: str
    scheduler_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplacedGang:
    """What the gate knows of a gang; ``searched`` has its circumstances at the last search.

    Of a gang that had begun nothing but its pins may be changed. ``may_leave``: it may be pinned elsewhere if
    the domain that it is pinned to is lost, however often it was pinned.
    """

    pk: UUID
    view: NodeView
    stage: int
    searched: str
    may_order: bool
    may_ease: bool
    may_pin: bool
    may_leave: bool

    def circumstances(self, capacity: str) -> str:
        """What a search for the gang rests on, if this digest is of what is free on its nodes."""
        changes = {"o": self.may_order, "e": self.may_ease, "p": self.may_pin, "l": self.may_leave}
        return f"{capacity}{''.join(mark for mark, may in changes.items() if may)}{self.stage}"


def waiting() -> QuerySet[TaskGroup]:
    """Groups of which all objects exist and no pod has a node, and to which nothing is proposed.

    One of which a task had a node is among them if every task is tried again.
    """
    tasks = Task.objects.filter(group=OuterRef("pk"), latest=True)
    placed, others = tasks.exclude(node_name=""), tasks.exclude(status=TaskStatus.SCHEDULING)
    retries = in_status(TaskStatus.INITIALIZING) | (in_status(TaskStatus.RUNNING) & Q(waiting_why=Why.RETRY))
    groups = unanswered().filter(
        in_status(TaskStatus.SCHEDULING) | (retries & ~Exists(others)),
        ~Exists(placed),
        released_at=None,
        stop_status="",
        created_in_cluster_at__isnull=False,
        placement__version=VERSION,
        placement__scheduler_type__in=searched_schedulers(),
    )
    return groups.exclude(constraints=[])


def unanswered() -> QuerySet[TaskGroup]:
    """Groups that nothing is proposed to, and that are given nothing at present.

    Asked again when a proposal is written: searches of one cluster may overlap.
    """
    return TaskGroup.objects.filter(form_state=FormState.REACHED, other_form__isnull=True)


def ordering_schedulers() -> list[str]:
    """The schedulers for which the sets of a waiting gang may be named in another order."""
    return [name for name, scheduler in installed().items() if scheduler.traits.orders_sets]


def searched_schedulers() -> list[str]:
    """Those, and the ones for which its sets may be pinned."""
    pinning = [name for name, scheduler in installed().items() if scheduler.traits.pins_sets]
    return sorted({*ordering_schedulers(), *pinning})


def waiting_gangs(cluster: str) -> list[UnplacedGang]:
    """The waiting gangs of a cluster, first the one that has gone longest without a search. Four queries."""
    rows = (
        waiting()
        .filter(backend__cluster_id=cluster)
        .order_by(Coalesce("searched_at", "submit_time"), "pk")
        .values("pk", "status", "progress", "searched_capacity", "form__stage", "unplaced_since", **_COLUMNS)
    )
    groups = list(rows)
    if not groups:
        return []
    ids, now = [row["pk"] for row in groups], database_now()
    selectors, changes = _selectors(ids), _changes(ids)
    return [_gang(row, selectors[row["pk"]], changes[row["pk"]], now=now) for row in groups]


def _selectors(groups: Sequence[UUID]) -> Mapping[UUID, set[tuple[tuple[str, str], ...]]]:
    """Each distinct node selection of the groups' tasks."""
    selectors: defaultdict[UUID, set[tuple[tuple[str, str], ...]]] = defaultdict(set)
    rows = Task.objects.filter(group__in=groups, latest=True).order_by()
    for group, selector in rows.values_list("group_id", "spec__node_selector").distinct():
        selectors[group].add(tuple(sorted((selector or {}).items())))
    return selectors


def _changes(groups: Sequence[UUID]) -> Mapping[UUID, list[tuple[str, datetime]]]:
    """What was changed of the groups while they waited, and when."""
    changes: defaultdict[UUID, list[tuple[str, datetime]]] = defaultdict(list)
    rows = Event.objects.filter(
        group__in=groups, reason__in=(*PREFERENCE_REASONS, REORDERED, PINNED)
    ).order_by()
    for group, reason, time in rows.values_list("group_id", "reason", "time"):
        changes[group].append((reason, time))
    return changes


def _gang(
    row: Mapping[str, Any],
    selectors: Iterable[tuple[tuple[str, str], ...]],
    changes: Sequence[tuple[str, datetime]],
    *,
    now: datetime,
) -> UnplacedGang:
    has_begun = (row["progress"] or row["status"]) != TaskStatus.SCHEDULING
    ordered = [time for reason, time in changes if reason == REORDERED]
    pinned = [time for reason, time in changes if reason == PINNED]
    return UnplacedGang(
        pk=row["pk"],
        view=NodeView(
            selectors=tuple(sorted(selectors)),
            levels=tuple(Level(**level) for level in row["levels"] or ()),
            scheduler_type=row["scheduler_type"],
            scheduler_version=row["scheduler_version"] or "",
        ),
        stage=row["form__stage"],
        searched=row["searched_capacity"],
        may_order=not has_begun and may_change_again(ordered, now=now),
        may_ease=not has_begun and _may_ease(row, changes, now=now),
        may_pin=may_change_again(pinned, now=now),
        may_leave=(renewable_at(pinned) or now) <= now,
    )


def _may_ease(row: Mapping[str, Any], changes: Iterable[tuple[str, datetime]], *, now: datetime) -> bool:
    """Whether preferences have blocked the group for long enough, and have not changed for as long."""
    seconds, since = row["free_preferences_after"], row["unplaced_since"]
    if not seconds or since is None:
        return False
    latest = now - timedelta(seconds=seconds)
    return since <= latest and all(time <= latest for reason, time in changes if reason in PREFERENCE_REASONS)


@dataclass(slots=True)
class NodesOfTurn:
    """The nodes of a cluster as gangs see them, each kind of view read once in a turn."""

    cluster: str
    views: dict[NodeView, tuple[ObservedNodes, str]] = field(default_factory=dict)

    def of(self, view: NodeView) -> tuple[ObservedNodes, str]:
        """The nodes of a view, and a digest of what is free on them."""
        if view not in self.views:
            observed = observed_nodes(
                self.cluster,
                selectors=[dict(selector) for selector in view.selectors],
                levels=view.levels,
                capabilities=capabilities_at(view.scheduler_type, view.scheduler_version),
            )
            self.views[view] = (observed, _digest(observed.snapshot))
        return self.views[view]


def _digest(snapshot: Snapshot) -> str:
    digest = hashlib.sha256()
    for node in snapshot.nodes:
        digest.update(
            repr(
                (
                    node.name,
                    node.free,
                    node.uncounted,
                    node.closed,
                    node.taints,
                    sorted(node.passing),
                    sorted(node.labels.items()),
                )
            ).encode()
        )
    return digest.hexdigest()[:24]
