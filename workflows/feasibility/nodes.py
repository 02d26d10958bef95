"""A snapshot of nodes, and what a task group asks of them, from rows and frozen values.

A query each: the nodes, of whose labels only those that are asked for leave the database; the live tasks that
stand on them; other tenants' usage. Room is held until a group's execution timeout ends it at the
latest, and by other tenants' pods without an end that is known.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, Q

from pools.models import Cluster, ForeignUsage
from scheduling.backends.base import CountsLargest
from scheduling.backends.registry import installed
from scheduling.capabilities import Capabilities, Capability
from scheduling.fit import snapshot as fit
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.levels import Levels
from scheduling.stages import at_stage
from scheduling.tree import build_tree, grow
from workflows.lifecycle.statuses import LIVE_ORDER
from workflows.models import Task
from workflows.values.amounts import STORAGE, Amounts, allocatable, asked
from workflows.values.placement import GroupValues, TaskPlacement

_AMOUNTS = ("cpu", "memory", STORAGE, "nvidia.com/gpu", "pods")
_PODS = 110
"""What kubelet allows by itself, for a node that does not say."""


@dataclass(frozen=True, slots=True)
class ObservedNodes:
    """A snapshot and when its nodes were last listed completely, None if never.

    ``others_known`` is False where other tenants' pods cannot be followed: what they hold looks free.
    """

    snapshot: fit.Snapshot
    synced_at: datetime | None
    others_known: bool


def observed_nodes(
    cluster: str,
    *,
    selectors: Sequence[Mapping[str, str]],
    levels: Levels,
    capabilities: Capabilities,
    without: Sequence[UUID] = (),
    labels: Iterable[str] = (),
) -> ObservedNodes:
    """The nodes of a cluster that some of the selectors matches, with what stands on them.

    What the groups ``without`` hold counts as free: it is they who are asked about. ``labels`` are read
    beside those of levels and selectors.
    """
    asked_for = {level.label for level in levels} | {key for one in selectors for key in one}
    labels = sorted(asked_for.union(labels))
    where = Cluster.objects.filter(pk=cluster).first()
    known = where is not None and where.others_synced_at is not None
    held = _holdings(cluster, without)
    others = _others(cluster) if known else {}
    places = {label: _FIRST_LABEL + place for place, label in enumerate(labels)}
    wanted = [[(places[key], value) for key, value in one.items()] for one in selectors]
    nodes = [
        _node(row, labels, held, others)
        for row in _rows(cluster, labels)
        if any(all(row[place] == value for place, value in one) for one in wanted)
    ]
    paths = Capability.TOPOLOGY_PATH_DOMAINS in capabilities
    snapshot = fit.Snapshot.of(nodes, levels, paths=paths)
    return ObservedNodes(snapshot, where.nodes_synced_at if where else None, known)


def _rows(cluster: str, labels: Sequence[str]) -> list[tuple[Any, ...]]:
    """Name, flags, taints as text, amounts and labels of each node, in that order.

    Read past the models, which take five times as long for it: a submission reads every node of its cluster.
    """
    amounts = ", ".join(["allocatable ->> (%s::text)"] * len(_AMOUNTS))
    shown = "".join([", labels ->> (%s::text)"] * len(labels))
    columns = f"name, ready, unschedulable, taints::text, {amounts}{shown}"
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
    held: Mapping[str, list[fit.Holding]],
    others: Mapping[str, fit.Amounts],
) -> fit.FitNode:
    name, ready, unschedulable, taints = row[:4]
    shown = zip(labels, row[_FIRST_LABEL:], strict=True)
    return fit.FitNode(
        name=name,
        labels={label: value for label, value in shown if value is not None},
        allocatable=_allocatable(row[4:_FIRST_LABEL]),
        holdings=tuple(held.get(name, ())),
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
    """A node that is open and empty; ``written`` is its allocatable as Kubernetes writes it."""
    return fit.FitNode(
        name=name,
        labels=labels,
        allocatable=_allocatable(tuple(written.get(name) for name in _AMOUNTS)),
        taints=tuple(taints),
    )


@lru_cache(maxsize=1024)
def _allocatable(texts: tuple[str | None, ...]) -> fit.Amounts:
    """What a node has, from the texts of _AMOUNTS; thousands of nodes have the same."""
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


def _holdings(cluster: str, without: Sequence[UUID]) -> dict[str, list[fit.Holding]]:
    """What live tasks hold, by node. A task that is not there yet holds nothing."""
    rows = Task.objects.filter(
        status__in=LIVE_ORDER, group__released_at=None, group__backend__cluster_id=cluster
    ).exclude(Q(node_name="") | Q(group_id__in=without))
    found: dict[str, list[fit.Holding]] = defaultdict(list)
    for node, workflow, started, timeout, gpu, cpu, memory, storage, claims in rows.values_list(
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
        amounts = _amounts(asked(gpu, cpu, memory, storage), pods=1, channels=int(bool(claims)))
        until = started.timestamp() + timeout if started else None
        found[node].append(fit.Holding(workflow, amounts, until))
    return found


def _others(cluster: str) -> dict[str, fit.Amounts]:
    """What other tenants' pods hold, by node."""
    rows = ForeignUsage.objects.filter(cluster_id=cluster).order_by()
    return {
        node: fit.amounts(gpu=gpu, cpu=cpu, memory=memory, storage=storage, pods=pods)
        for node, gpu, cpu, memory, storage, pods in rows.values_list(
            "node", "gpu", "cpu", "memory", "storage", "pods"
        )
    }


def demand_of(group: GroupValues, *, capabilities: Capabilities) -> GangDemand:
    """What a group asks for at the stage it is held at."""
    gang, levels = group.gang(), group.placement.levels
    ignored = Capability.TOPOLOGY_PREFERRED not in capabilities
    tree = grow(gang, levels, ignore_preferred=True) if ignored else build_tree(gang, levels)
    return GangDemand(
        tree if ignored else at_stage(tree, group.stage),
        {task.name: _demand(task.placement) for task in group.tasks},
        counts_largest=_counts_largest(group.placement.scheduler_type),
    )


def _counts_largest(scheduler: str) -> bool:
    backend = installed().get(scheduler)
    return isinstance(backend, CountsLargest) and backend.counts_largest


def _demand(task: TaskPlacement) -> Demand:
    amounts = _amounts(
        asked(task.gpu, task.cpu, task.memory, task.storage), pods=1, channels=int(task.claims_channel)
    )
    return Demand.of(
        amounts, selector=task.node_selector, tolerations=task.tolerations, excluded=task.nodes_excluded
    )


def selectors_of(groups: Iterable[GroupValues]) -> list[Mapping[str, str]]:
    """Each distinct node selection of the groups' tasks."""
    found = {tuple(sorted(task.placement.node_selector.items())) for group in groups for task in group.tasks}
    return [dict(one) for one in sorted(found)]
