"""What pools have and what is in use, over REST, in OSMO's paths and shapes."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools.api.representations import minimal_pool
from pools.api.serializers import MinimalPoolSerializer
from pools.models import Pool
from pools.selectors import pool_levels, pools_allowed_to
from web.permissions import Needs
from web.policy import Action
from web.queries import Query, flag, texts
from workflows.feasibility.quota import quota
from workflows.feasibility.resources import entry
from workflows.feasibility.usage import PoolNode, nodes_of, placed_tasks, used_by_node
from workflows.values.amounts import NO_AMOUNTS


class PoolsQuery(Query):
    pools = texts("Only these pools; left out: all the caller may see.")
    all_pools = flag("All pools, whatever pools says.")


class UsageSerializer(serializers.Serializer[Any]):
    """GPUs, written as texts."""

    quota_used = serializers.CharField(help_text="By running tasks of HIGH and NORMAL priority.")
    quota_free = serializers.CharField()
    quota_limit = serializers.CharField(
        help_text="What is guaranteed; all there is, where that is unlimited."
    )
    total_usage = serializers.CharField(help_text="By all running tasks of the pool.")
    total_capacity = serializers.CharField(help_text="Of the pool's nodes that are ready.")
    total_free = serializers.CharField(help_text="Held by nobody, on nodes that take work.")


class PoolUsageSerializer(MinimalPoolSerializer):
    resource_usage = UsageSerializer()


class NodeSetSerializer(serializers.Serializer[Any]):
    pools = PoolUsageSerializer(many=True)


class PoolQuotaSerializer(serializers.Serializer[Any]):
    node_sets = NodeSetSerializer(many=True, help_text="Pools that share nodes stand together.")
    resource_sum = UsageSerializer()


class NodeEntrySerializer(serializers.Serializer[Any]):
    """A node of the caller's pools. Amounts as OSMO writes them; ``topology`` is not OSMO's."""

    hostname = serializers.CharField()
    exposed_fields = serializers.DictField(help_text="For tables: whole GiB, cores and GPUs as texts.")
    taints = serializers.ListField(child=serializers.DictField())
    usage_fields = serializers.DictField(child=serializers.CharField())
    non_workflow_usage_fields = serializers.DictField(
        child=serializers.CharField(), help_text="By other tenants' pods; empty where those are not known."
    )
    allocatable_fields = serializers.DictField(child=serializers.CharField())
    platform_allocatable_fields = serializers.DictField(help_text="By pool and platform.")
    platform_available_fields = serializers.DictField(help_text="By pool and platform.")
    platform_workflow_allocatable_fields = serializers.DictField(help_text="By pool and platform.")
    config_fields = serializers.DictField(help_text="By pool and platform.")
    backend = serializers.CharField()
    label_fields = serializers.DictField(allow_null=True, help_text="OSMO's field; null here.")
    pool_platform_labels = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))
    resource_type = serializers.ChoiceField(choices=("RESERVED", "SHARED"))
    conditions = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="NotReady, SchedulingDisabled; null for none.",
    )
    topology = serializers.DictField(
        child=serializers.DictField(child=serializers.CharField(allow_null=True)),
        help_text="By pool: the node's domain of each key, null where it lacks the label.",
    )


class NodeListSerializer(serializers.Serializer[Any]):
    resources = NodeEntrySerializer(many=True)


def _asked(request: Request, action: Action) -> list[Pool]:
    query = PoolsQuery.of(request)
    rows = pools_allowed_to(request.user, action).order_by("name")
    if query["pools"] and not query["all_pools"]:
        rows = rows.filter(name__in=query["pools"])
    return list(rows.prefetch_related("topology_keys", "platforms"))


def _clusters(pools: Sequence[Pool]) -> set[str]:
    return {pool.backend.cluster_id for pool in pools if pool.backend.cluster_id}


class PoolQuotaView(APIView):
    access = {"GET": Needs(Action.POOL_LIST, on=None)}

    @extend_schema(operation_id="get_pool_quota", parameters=[PoolsQuery], responses=PoolQuotaSerializer)
    def get(self, request: Request) -> Response:
        """Show GPUs guaranteed, in use and free in each pool, pools that share nodes together."""
        pools = _asked(request, Action.POOL_LIST)
        tasks = placed_tasks(_clusters(pools))
        found = quota(
            {pool.name: _guarantee(pool) for pool in pools}, nodes_of(pools), tasks, used_by_node(tasks)
        )
        now = timezone.now()
        shown = {
            pool.name: {**minimal_pool(pool, now=now), "resource_usage": found.usage[pool.name].as_json()}
            for pool in pools
        }
        sets = [{"pools": [shown[name] for name in names]} for names in found.sets]
        return Response({"node_sets": sets, "resource_sum": found.total.as_json()})


def _guarantee(pool: Pool) -> float:
    gpu = pool.resources.get("gpu") or {}
    return float(gpu.get("guarantee", -1))


class ResourcesView(APIView):
    access = {"GET": Needs(Action.RESOURCES_READ, on=None)}

    @extend_schema(operation_id="list_resources", parameters=[PoolsQuery], responses=NodeListSerializer)
    def get(self, request: Request) -> Response:
        """List the nodes of the caller's pools: what each has, what is in use, where it stands."""
        return Response({"resources": _entries(_asked(request, Action.RESOURCES_READ))})


def _entries(pools: Sequence[Pool]) -> list[dict[str, Any]]:
    used = used_by_node(placed_tasks(_clusters(pools)))
    platforms = {(pool.name, row.name): row for pool in pools for row in pool.platforms.all()}
    levels = {pool.name: pool_levels(pool) for pool in pools}
    backends = {pool.name: pool.backend.name for pool in pools}

    def shown(node: PoolNode) -> dict[str, Any]:
        return entry(
            node,
            backend=backends[node.pools[0]],
            used=used.get(node.key, NO_AMOUNTS),
            platforms=platforms,
            levels=levels,
        )

    return [shown(node) for node in nodes_of(pools)]
