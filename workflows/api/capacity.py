"""What pools have and what is in use, over REST, in OSMO's paths and shapes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools.api.representations import minimal_fields
from pools.api.shapes import MinimalPoolShape, ObservedShape
from pools.models import Pool
from pools.selectors import freshness_by_cluster, pool_levels, pools_allowed_to
from pools.values.freshness import NEVER_OBSERVED
from scheduling.topology.levels import domains_of
from web.access.permissions import Needs
from web.policy import Action
from web.rest.queries import Query, flag, texts
from web.rest.shapes import Shape, about
from workflows.feasibility.capacity.resources import entry
from workflows.feasibility.capacity.usage import PoolNode, nodes_of, placed_tasks, used_by_node
from workflows.feasibility.queues.quota import quota
from workflows.selectors import waiting_groups_by_pool
from workflows.values.amounts import NO_AMOUNTS, Amounts


class PoolsQuery(Query):
    pools = texts("Only these pools. Default: all that the caller may see.")
    all_pools = flag("All pools; pools is ignored.")


class UsageShape(Shape):
    """GPUs, written as texts."""

    quota_used: str = about("By running tasks of HIGH and NORMAL priority.")
    quota_free: str
    quota_limit: str = about("The guarantee; the whole capacity, where that is unlimited.")
    total_usage: str = about("By all running tasks of the pool.")
    total_capacity: str = about("Of the pool's nodes that are ready.")
    total_free: str = about("Free GPUs of nodes that take work.")


class LargestShape(Shape):
    key: str
    nodes: int = about("Free ones, in the domain that has most of them.")


class PoolUsageShape(MinimalPoolShape, ObservedShape):
    """``nodes`` and what follows is not OSMO's."""

    resource_usage: UsageShape
    nodes: int
    free_nodes: int = about("That take work and have all their GPUs free.")
    waiting_groups: int
    largest: list[LargestShape] = about("For each key, broadest first.")


class NodeSetShape(Shape):
    pools: list[PoolUsageShape]


class PoolQuotaShape(Shape):
    node_sets: list[NodeSetShape] = about("Pools that share nodes stand together.")
    resource_sum: UsageShape


class NodeShape(ObservedShape):
    """A node of the caller's pools. Amounts as OSMO writes them; ``topology`` is not OSMO's."""

    hostname: str
    exposed_fields: dict[str, Any] = about("For tables: whole GiB, cores and GPUs as texts.")
    taints: list[dict[str, Any]]
    usage_fields: dict[str, str]
    non_workflow_usage_fields: dict[str, str] = about(
        "By other tenants' pods; empty where those are not known."
    )
    allocatable_fields: dict[str, str]
    platform_allocatable_fields: dict[str, Any] = about("By pool and platform.")
    platform_available_fields: dict[str, Any] = about("By pool and platform.")
    platform_workflow_allocatable_fields: dict[str, Any] = about("By pool and platform.")
    config_fields: dict[str, Any] = about("By pool and platform.")
    backend: str
    label_fields: dict[str, Any] | None = about("OSMO's field; null here.")
    pool_platform_labels: dict[str, list[str]]
    resource_type: Literal["RESERVED", "SHARED"]
    conditions: list[str] | None = about("NotReady, SchedulingDisabled; null for none.")
    topology: dict[str, dict[str, str | None]] = about(
        "By pool: the node's domain of each key, null where it lacks the label."
    )


class NodeListShape(Shape):
    resources: list[NodeShape]


def _requested_pools(request: Request, action: Action) -> list[Pool]:
    query = PoolsQuery.of(request)
    rows = pools_allowed_to(request.user, action).order_by("name")
    if query["pools"] and not query["all_pools"]:
        rows = rows.filter(name__in=query["pools"])
    return list(rows.prefetch_related("topology_keys", "platforms"))


def _clusters(pools: Sequence[Pool]) -> set[str]:
    return {pool.backend.cluster_id for pool in pools if pool.backend.cluster_id}


class PoolQuotaView(APIView):
    access = {"GET": Needs(Action.POOL_LIST, on=None)}

    @extend_schema(operation_id="get_pool_quota", parameters=[PoolsQuery], responses=PoolQuotaShape)
    def get(self, request: Request) -> Response:
        """Show GPUs guaranteed, in use and free in each pool, pools that share nodes together."""
        pools = _requested_pools(request, Action.POOL_LIST)
        tasks, nodes = placed_tasks(_clusters(pools)), nodes_of(pools)
        used = used_by_node(tasks)
        report = quota({pool.name: _guarantee(pool) for pool in pools}, nodes, tasks, used)
        now, freshness = timezone.now(), freshness_by_cluster(_clusters(pools))
        waiting = waiting_groups_by_pool([pool.name for pool in pools])
        counts = Counter(name for node in nodes for name in node.pools)
        usage = {
            pool.name: PoolUsageShape(
                **minimal_fields(pool, now=now),
                **freshness.get(pool.backend.cluster_id or "", NEVER_OBSERVED).as_json(),
                resource_usage=UsageShape(**report.usage[pool.name].as_json()),
                nodes=counts[pool.name],
                waiting_groups=waiting.get(pool.name, 0),
                **_room(pool, nodes, used),
            )
            for pool in pools
        }
        return Response(
            PoolQuotaShape(
                node_sets=[NodeSetShape(pools=[usage[name] for name in names]) for names in report.sets],
                resource_sum=UsageShape(**report.total.as_json()),
            )
        )


def _room(pool: Pool, nodes: Sequence[PoolNode], used: Mapping[tuple[str, str], Amounts]) -> dict[str, Any]:
    """A pool's free nodes, and the most of them that share a domain of each key."""
    levels = pool_levels(pool)
    free = [
        domains_of(node.labels, levels)
        for node in nodes
        if pool.name in node.usable_by
        and 0 < node.gpus[pool.name] == node.free(used.get(node.key, NO_AMOUNTS), [pool.name]).gpu
    ]
    largest = [
        LargestShape(key=level.key, nodes=max(Counter(_within(free, rank)).values(), default=0))
        for rank, level in enumerate(levels)
    ]
    return {"free_nodes": len(free), "largest": largest}


def _within(places: Iterable[tuple[str | None, ...]], rank: int) -> Iterator[tuple[str | None, ...]]:
    """The domain of each place at a level, where it is in one."""
    return (place[: rank + 1] for place in places if None not in place[: rank + 1])


def _guarantee(pool: Pool) -> float:
    gpu = pool.resources.get("gpu") or {}
    return float(gpu.get("guarantee", -1))


class ResourcesView(APIView):
    access = {"GET": Needs(Action.RESOURCES_READ, on=None)}

    @extend_schema(operation_id="list_resources", parameters=[PoolsQuery], responses=NodeListShape)
    def get(self, request: Request) -> Response:
        """List the nodes of the caller's pools with their capacity, usage and topology domains."""
        return Response(NodeListShape(resources=_nodes(_requested_pools(request, Action.RESOURCES_READ))))


class ResourceView(APIView):
    access = {"GET": Needs(Action.RESOURCES_READ, on=None)}

    @extend_schema(operation_id="get_resource", responses=NodeListShape)
    def get(self, request: Request, name: str) -> Response:
        """Show one node, in each cluster where the caller's pools have a node of this name."""
        pools = _requested_pools(request, Action.RESOURCES_READ)
        nodes = _nodes(pools, node=name)
        return Response(NodeListShape(resources=nodes))


def _nodes(pools: Sequence[Pool], *, node: str = "") -> list[NodeShape]:
    used = used_by_node(placed_tasks(_clusters(pools)))
    platforms = {(pool.name, row.name): row for pool in pools for row in pool.platforms.all()}
    levels = {pool.name: pool_levels(pool) for pool in pools}
    backends = {pool.name: pool.backend.name for pool in pools}
    freshness = freshness_by_cluster(_clusters(pools))

    def shape(node: PoolNode) -> NodeShape:
        fields = entry(
            node,
            backend=backends[node.pools[0]],
            used=used.get(node.key, NO_AMOUNTS),
            platforms=platforms,
            levels=levels,
        )
        return NodeShape(**fields, **freshness.get(node.cluster, NEVER_OBSERVED).as_json())

    return [shape(pool_node) for pool_node in nodes_of(pools, name=node)]
