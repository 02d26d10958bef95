"""The nodes of pools and the tasks on them, read with a fixed number of queries.

*The pool's nodes* are those its selector matches, also where none of its platforms takes them; a platform
narrows that by its own. One read of the nodes of the clusters concerned serves any number of pools.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pools.models import Cluster, Node, Platform, Pool
from pools.pod_templates.applied import node_selection, pod_kinds
from pools.values.completeness import OTHERS, devices_problem, where_known
from scheduling.backends.registry import device_rule
from scheduling.fit.usable import PodKind, refusal
from scheduling.kubernetes_syntax import selects
from scheduling.nodes.devices import DeviceRule, NodeDevices
from web.database.transactions import one_transaction
from workflows.lifecycle.statuses import LIVE_ORDER, TaskStatus
from workflows.models import Task
from workflows.values.amounts import NO_AMOUNTS, Amounts, allocatable, requested


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMembership:
    """A pool, and one of its platforms, that a node belongs to."""

    pool: str
    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNode:
    """A node as last observed."""

    cluster: str
    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    allocatable: Amounts
    """GPUs as the pool whose scheduler gives most of them gets them."""

    gpus: Mapping[str, int]
    """What the scheduler of each of the pools is known to give."""

    gpu_notes: Mapping[str, str]
    """By pool: what that number leaves out; empty for nothing."""

    others: Amounts | None
    """The usage of other tenants' pods; None: unknown."""

    ready: bool
    unschedulable: bool

    pools: tuple[str, ...]
    """Those of the given pools that it belongs to."""

    memberships: tuple[NodeMembership, ...]
    """The same with their platforms."""

    usable_by: tuple[str, ...]
    """Those of the given pools whose pods may use it now (``scheduling.fit.usable``)."""

    @property
    def key(self) -> tuple[str, str]:
        return (self.cluster, self.name)

    def offered(self, pools: Iterable[str]) -> Amounts:
        """What pods of some of these pools may get of it."""
        return replace(self.allocatable, gpu=max((self.gpus.get(pool, 0) for pool in pools), default=0))

    def free(self, used: Amounts, pools: Iterable[str]) -> Amounts:
        """The free amounts of these when tasks use this much; unknown usage counts as free."""
        return self.offered(pools).without(used + (self.others or NO_AMOUNTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTask:
    """A live task that has a node."""

    cluster: str
    node: str
    pool: str
    priority: str
    running: bool
    requests: Amounts

    @property
    def key(self) -> tuple[str, str]:
        return (self.cluster, self.node)


class _Selectors:
    """The selectors of one cluster's pools and their platforms, and how their schedulers count devices."""

    def __init__(self, cluster: Cluster) -> None:
        self.problem = devices_problem(cluster.completeness)
        self.pools: list[tuple[str, Mapping[str, str], tuple[PodKind, ...], DeviceRule]] = []
        self.memberships: list[tuple[NodeMembership, Mapping[str, str]]] = []

    def add(self, pool: Pool) -> None:
        rule = device_rule(pool.backend.scheduler_type, problem=self.problem)
        self.pools.append((pool.name, node_selection(pool), pod_kinds(pool), rule))
        for platform in list(pool.platforms.all()) or [Platform(pool=pool, name="")]:
            selector = node_selection(pool, platform)
            self.memberships.append((NodeMembership(pool=pool.name, platform=platform.name), selector))


def nodes_of(pools: Sequence[Pool], *, name: str = "") -> list[PoolNode]:
    """The nodes of these pools, by cluster and name; ``name`` narrows them to those of this name.

    Three queries; each pool came with its platforms.
    """
    clusters = Cluster.objects.in_bulk({pool.backend.cluster_id for pool in pools if pool.backend.cluster_id})
    selectors = {uid: _Selectors(cluster) for uid, cluster in clusters.items()}
    for pool in pools:
        if own := selectors.get(pool.backend.cluster_id or ""):
            own.add(pool)
    fields = ("cluster_id", "name", "labels", "taints", "allocatable", "devices", "ready", "unschedulable")
    nodes = Node.objects.filter(cluster_id__in=list(selectors))
    rows = (nodes.filter(name=name) if name else nodes).order_by("cluster_id", "name").values(*fields)
    others = others_on(selectors)
    with one_transaction():
        pool_nodes = (_pool_node(row, selectors[row["cluster_id"]], others) for row in rows.iterator())
        return [node for node in pool_nodes if node.pools]


def others_on(clusters: Iterable[str]) -> dict[str, dict[str, Amounts]]:
    """The usage of other tenants' pods by node, for each of these clusters where it is known. One query."""
    rows = Cluster.objects.filter(where_known(OTHERS), pk__in=list(clusters)).values_list(
        "pk", *(f"foreign_usage__{field}" for field in ("node", "gpu", "cpu", "memory", "storage"))
    )
    by_cluster: dict[str, dict[str, Amounts]] = {}
    with one_transaction():
        for cluster, node, gpu, cpu, memory, storage in rows.iterator():
            by_node = by_cluster.setdefault(cluster, {})
            if node is not None:
                by_node[node] = Amounts(gpu, Decimal(cpu) / 1000, memory, storage)
    return by_cluster


def _pool_node(
    row: Mapping[str, Any], selectors: _Selectors, others: Mapping[str, Mapping[str, Amounts]]
) -> PoolNode:
    labels, by_node = row["labels"], others.get(row["cluster_id"])
    is_open = row["ready"] and not row["unschedulable"]
    pools = [(pool, kinds, rule) for pool, own, kinds, rule in selectors.pools if selects(own, labels)]
    amounts, devices = allocatable(row["allocatable"]), NodeDevices.from_json(row["devices"])
    by_pool = {pool: rule.gpus(devices, offered=amounts.gpu) for pool, _, rule in pools}
    return PoolNode(
        cluster=row["cluster_id"],
        name=row["name"],
        labels=labels,
        taints=row["taints"],
        allocatable=replace(amounts, gpu=max((gpus for gpus, _ in by_pool.values()), default=0)),
        gpus={pool: gpus for pool, (gpus, _) in by_pool.items()},
        gpu_notes={pool: devices.gpu_note(gpus, doubt) for pool, (gpus, doubt) in by_pool.items()},
        others=None if by_node is None else by_node.get(row["name"], NO_AMOUNTS),
        ready=row["ready"],
        unschedulable=row["unschedulable"],
        pools=tuple(by_pool),
        usable_by=tuple(
            pool for pool, kinds, _ in pools if is_open and not refusal(row["taints"], labels, kinds)
        ),
        memberships=tuple(
            membership for membership, selector in selectors.memberships if selects(selector, labels)
        ),
    )


def placed_tasks(clusters: Iterable[str]) -> list[PlacedTask]:
    """Every live task with a node in these clusters, whoever's and whatever its pool. One query."""
    rows = Task.objects.filter(
        status__in=LIVE_ORDER, group__released_at=None, group__backend__cluster_id__in=list(set(clusters))
    ).exclude(node_name="")
    return [
        PlacedTask(
            cluster=row[0],
            node=row[1],
            pool=row[2],
            priority=row[3],
            running=row[4] == TaskStatus.RUNNING,
            requests=requested(*row[5:]),
        )
        for row in rows.values_list(
            "group__backend__cluster_id",
            "node_name",
            "group__workflow__pool_name",
            "group__workflow__priority",
            "status",
            "spec__gpu",
            "spec__cpu",
            "spec__memory",
            "spec__storage",
        )
    ]


def used_by_node(tasks: Iterable[PlacedTask]) -> dict[tuple[str, str], Amounts]:
    """The usage of live tasks by node."""
    used: dict[tuple[str, str], Amounts] = {}
    for task in tasks:
        used[task.key] = used.get(task.key, NO_AMOUNTS) + task.requests
    return used


def free_gpus(pools: Sequence[Pool]) -> dict[str, int]:
    """The free GPUs of each pool's nodes that take its work. Four queries, however many pools."""
    nodes = nodes_of(pools)
    used = used_by_node(placed_tasks({node.cluster for node in nodes}))
    free = dict.fromkeys((pool.name for pool in pools), 0)
    for node in nodes:
        for name in node.usable_by:
            free[name] += int(node.free(used.get(node.key, NO_AMOUNTS), [name]).gpu)
    return free
