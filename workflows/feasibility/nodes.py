"""A snapshot of nodes, and the demand of a task group on them, from rows and frozen values.

One query each: the nodes, with only those labels that are needed; the live tasks on them; the usage of
other tenants' pods. A group holds its room until its execution timeout at the latest; the end of other
tenants' pods is unknown.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from operator import add
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F

from pools.models import Cluster, ForeignUsage
from scheduling.backends.base import CountsLargest, OrdersSets
from scheduling.backends.registry import installed
from scheduling.capabilities import Capabilities, Capability
from scheduling.fit import snapshot as fit
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.kubernetes_syntax import GPU
from scheduling.levels import Levels
from scheduling.set_order import ordered
from scheduling.stages import at_stage, stage_begins
from scheduling.tree import build_tree, grow
from workflows.lifecycle.statuses import LIVE_ORDER
from workflows.manifests.requests import Requests, requests_of
from workflows.models import Task
from workflows.values.amounts import STORAGE, Amounts, allocatable, requested
from workflows.values.placement import GroupValues, TaskPlacement

_AMOUNTS = ("cpu", "memory", STORAGE, GPU, "pods")
_PODS = 110
"""kubelet's default, for a node that reports none."""


@dataclass(frozen=True, slots=True)
class ObservedNodes:
    """A snapshot and when its nodes were last listed completely, None if never.

    ``others_known`` False: other tenants' pods cannot be followed, so their usage counts as free. ``in_use``
    is what each live group uses in the whole cluster, those ``without`` included.
    """

    snapshot: fit.Snapshot
    synced_at: datetime | None
    others_known: bool
    in_use: Mapping[UUID, fit.Amounts] = field(default_factory=dict)


def observed_nodes(
    cluster: str,
    *,
    selectors: Sequence[Mapping[str, str]],
    levels: Levels,
    capabilities: Capabilities,
    without: Sequence[UUID] = (),
    labels: Iterable[str] = (),
) -> ObservedNodes:
    """The nodes of a cluster that one of the selectors matches, with the usage of each.

    The usage of the groups ``without`` counts as free: the verdict is on them. ``labels`` are read beside
    those of levels and selectors.
    """
    row = Cluster.objects.filter(pk=cluster).first()
    others_known = row is not None and row.others_synced_at is not None
    nodes, is_complete, in_use = _nodes(
        cluster,
        selectors=selectors,
        labels={level.label for level in levels}.union(labels),
        without=without,
        with_others=others_known,
    )
    paths = Capability.TOPOLOGY_PATH_DOMAINS in capabilities
    snapshot = fit.Snapshot.of(nodes, levels, paths=paths, is_complete=is_complete)
    return ObservedNodes(snapshot, row.nodes_synced_at if row else None, others_known, in_use)


def nodes_with_usage(
    cluster: str,
    *,
    selectors: Sequence[Mapping[str, str]],
    labels: Iterable[str],
    without: Sequence[UUID] = (),
    with_others: bool,
) -> list[fit.FitNode]:
    """The nodes alone, with these labels and those of the selectors. Two queries, three with others."""
    return _nodes(cluster, selectors=selectors, labels=labels, without=without, with_others=with_others)[0]


def _nodes(
    cluster: str,
    *,
    selectors: Sequence[Mapping[str, str]],
    labels: Iterable[str],
    without: Sequence[UUID],
    with_others: bool,
) -> tuple[list[fit.FitNode], bool, dict[UUID, fit.Amounts]]:
    """The nodes that a selector matches, whether those are all of the cluster's, and usage by group."""
    columns = sorted({key for selector in selectors for key in selector}.union(labels))
    holdings, in_use = _holdings(cluster, frozenset(without))
    others = _others(cluster) if with_others else {}
    places = {label: _FIRST_LABEL + place for place, label in enumerate(columns)}
    pairs_of_selectors = [[(places[key], value) for key, value in selector.items()] for selector in selectors]
    rows = _rows(cluster, columns)
    nodes = [
        _node(node, columns, holdings, others)
        for node in rows
        if any(all(node[place] == value for place, value in selector) for selector in pairs_of_selectors)
    ]
    return nodes, len(nodes) == len(rows), in_use


def _rows(cluster: str, labels: Sequence[str]) -> list[tuple[Any, ...]]:
    """Name, flags, taints as text, amounts and labels of each node, in that order.

    Models would take five times as long, and a submission reads every node of its cluster.
    """
    amounts = ", ".join(["allocatable ->> (%s::text)"] * len(_AMOUNTS))
    label_values = "".join([", labels ->> (%s::text)"] * len(labels))
    columns = f"name, ready, unschedulable, taints::text, {amounts}{label_values}"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {columns} FROM pools_node WHERE cluster_id = %s",  # noqa: S608 -- placeholders alone
            [*_AMOUNTS, *labels, cluster],
        )
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


@lru_cache(maxsize=1024)
def _taints(text: str) -> tuple[Mapping[str, str], ...]:
    return tuple(json.loads(text))


_FIRST_LABEL = 4 + len(_AMOUNTS)


def _node(
    row: Sequence[Any],
    labels: Sequence[str],
    holdings: Mapping[str, list[fit.Holding]],
    others: Mapping[str, fit.Amounts],
) -> fit.FitNode:
    name, ready, unschedulable, taints = row[:4]
    label_values = zip(labels, row[_FIRST_LABEL:], strict=True)
    return fit.FitNode(
        name=name,
        labels={label: value for label, value in label_values if value is not None},
        allocatable=_allocatable(row[4:_FIRST_LABEL]),
        holdings=tuple(holdings.get(name, ())),
        others=others.get(name, fit.NO_AMOUNTS),
        taints=_taints(taints),
        closed="not ready" if not ready else "cordoned" if unschedulable else "",
    )


def fit_node(
    name: str,
    labels: Mapping[str, str],
    written: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
) -> fit.FitNode:
    """An open, empty node; ``written`` is its allocatable in Kubernetes' notation."""
    return fit.FitNode(
        name=name,
        labels=labels,
        allocatable=_allocatable(tuple(written.get(name) for name in _AMOUNTS)),
        taints=tuple(taints),
    )


@lru_cache(maxsize=1024)
def _allocatable(texts: tuple[str | None, ...]) -> fit.Amounts:
    """Parse the texts of _AMOUNTS; thousands of nodes have the same."""
    written = {key: text for key, text in zip(_AMOUNTS, texts, strict=True) if text}
    return _amounts(allocatable(written), pods=_pods(written.get("pods")), channels=1)


def _pods(text: str | None) -> int:
    return int(text) if text and text.isdigit() else _PODS


def _amounts(of: Amounts, *, pods: int, channels: int) -> fit.Amounts:
    return fit.amounts(
        gpu=of.gpu,
        cpu=int(of.cpu * 1000),
        memory=of.memory,
        storage=of.storage,
        pods=pods,
        channels=channels,
    )


def _holdings(
    cluster: str, without: frozenset[UUID]
) -> tuple[dict[str, list[fit.Holding]], dict[UUID, fit.Amounts]]:
    """The usage of live tasks by node, and by group. A task without a node holds nothing."""
    rows = Task.objects.filter(
        status__in=LIVE_ORDER, group__released_at=None, group__backend__cluster_id=cluster
    ).exclude(node_name="")
    by_node: dict[str, list[fit.Holding]] = defaultdict(list)
    by_group: dict[UUID, fit.Amounts] = {}
    for group, node, workflow, started, timeout, gpu, cpu, memory, storage, claims in rows.values_list(
        "group_id",
        "node_name",
        "group__workflow__name",
        "group__start_time",
        F("group__workflow__exec_timeout"),
        "spec__gpu",
        "spec__cpu",
        "spec__memory",
        "spec__storage",
        "spec__claims_channel",
    ):
        amounts = _amounts(requested(gpu, cpu, memory, storage), pods=1, channels=int(bool(claims)))
        before = by_group.get(group)
        by_group[group] = tuple(map(add, before, amounts)) if before else amounts
        if group not in without:
            until = started.timestamp() + timeout if started else None
            by_node[node].append(fit.Holding(workflow, amounts, until))
    return by_node, by_group


def _others(cluster: str) -> dict[str, fit.Amounts]:
    """The usage of other tenants' pods by node; none where they cannot be followed."""
    rows = ForeignUsage.objects.filter(cluster_id=cluster, cluster__others_synced_at__isnull=False).order_by()
    return {
        node: fit.amounts(gpu=gpu, cpu=cpu, memory=memory, storage=storage, pods=pods)
        for node, gpu, cpu, memory, storage, pods in rows.values_list(
            "node", "gpu", "cpu", "memory", "storage", "pods"
        )
    }


def demand_of(group: GroupValues, *, capabilities: Capabilities) -> GangDemand:
    """The demand of a group at its current stage, with those preferences that have not given way."""
    gang, levels = group.gang(), group.placement.levels
    ignored = Capability.TOPOLOGY_PREFERRED not in capabilities
    tree = grow(gang, levels, ignore_preferred=True) if ignored else build_tree(gang, levels)
    count = 1 if ignored else len(stage_begins(gang))
    tree = ordered(tree, group.order)
    demand = GangDemand(
        tree if ignored else at_stage(tree, group.stage),
        _demands(group),
        counts_largest=_counts_largest(group.placement.scheduler_type),
        last=at_stage(tree, count - 1) if group.stage < count - 1 else None,
        cut=len(levels) - 1 if group.placement.external_topology and levels else None,
        is_orderable=_orders_sets(group.placement.scheduler_type),
        is_pinnable=_pins_sets(group.placement.scheduler_type),
    )
    return demand.at_preference_levels(group.preference_levels).pinned(group.pins)


def _counts_largest(scheduler: str) -> bool:
    backend = installed().get(scheduler)
    return isinstance(backend, CountsLargest) and backend.counts_largest


def _pins_sets(scheduler: str) -> bool:
    backend = installed().get(scheduler)
    return isinstance(backend, CountsLargest) and backend.pins_sets


def _orders_sets(scheduler: str) -> bool:
    backend = installed().get(scheduler)
    return isinstance(backend, OrdersSets) and backend.orders_sets


def _demands(group: GroupValues) -> dict[str, Demand]:
    """Each task's demand by its name; tasks alike in all that counts are read once."""
    frozen = group.placement
    by_values: dict[str, Demand] = {}
    demands: dict[str, Demand] = {}
    for task in group.tasks:
        placement = task.placement
        key = repr(tuple(getattr(placement, name) for name in _COUNTED))
        if key not in by_values:
            template = frozen.templates.get(placement.platform)
            requests = requests_of(placement, template, submitted_by=frozen.submitted_by)
            by_values[key] = _demand(placement, requests)
        demands[task.name] = by_values[key]
    return demands


_COUNTED = (
    "platform",
    "cpu",
    "gpu",
    "memory",
    "storage",
    "node_selector",
    "tolerations",
    "nodes_excluded",
    "claims_channel",
)


def _demand(placement: TaskPlacement, requests: Requests) -> Demand:
    return Demand.of(
        fit.amounts(
            gpu=int(requests.get(GPU, 0)),
            cpu=int(requests.get("cpu", 0) * 1000),
            memory=int(requests.get("memory", 0)),
            storage=int(requests.get(STORAGE, 0)),
            pods=1,
            channels=int(placement.claims_channel),
        ),
        selector=placement.node_selector,
        tolerations=placement.tolerations,
        excluded=placement.nodes_excluded,
        others=[resource for resource in requests if resource not in _AMOUNTS],
    )


def selectors_of(groups: Iterable[GroupValues]) -> list[Mapping[str, str]]:
    """Each distinct node selection of the groups' tasks."""
    selectors = {
        tuple(sorted(task.placement.node_selector.items())) for group in groups for task in group.tasks
    }
    return [dict(selector) for selector in sorted(selectors)]
