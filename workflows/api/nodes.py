"""The nodes of a pool and their health, over REST."""

from typing import Literal

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.shapes import OwnObservedShape
from pools.models import Node, Pool, SuspectNode
from pools.pod_templates.applied import node_selection
from pools.selectors import freshness_of, pool_levels, pool_visible_to
from scheduling.kubernetes_syntax import selects
from web.access.permissions import Needs
from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import Query
from web.rest.shapes import OwnInstant, Shape, about
from workflows.api.representations import node_condition
from workflows.api.shapes import NodeConditionShape
from workflows.nodes.channels import CHANNEL_FIELDS, channel_of, with_channels
from workflows.nodes.health import HEALTH_FIELDS, health_of, node_policy, rules_for
from workflows.nodes.suspects import suspects_of
from workflows.selectors import MAX_PAGE


class SuspicionShape(Shape):
    """Why a node is suspect."""

    since: OwnInstant
    until: OwnInstant = about("When it is trusted again, unless it fails again.")
    groups: int = about("Task groups that were lost on it.")
    users: int = about("Their users.")
    faults: list[Literal["node_lost", "start_error", "nvlink_fault"]]


class NodeHealthShape(Shape):
    name: str
    healthy: bool
    nvlink_channel: bool | None = about(
        "Whether NVIDIA's driver offers a channel on it. Null while that is not known: without "
        "the right to read ResourceSlices, and for ten minutes after a "
        "node joined or lost its channel."
    )
    condition: NodeConditionShape | None = about("Null for a healthy node.")
    suspect: SuspicionShape | None = about("Null for a node that is not suspect.")
    topology: dict[str, str | None] = about("Its domain of each key of the pool; null without the label.")


class PoolNodesShape(OwnObservedShape):
    pool: str
    nodes: list[NodeHealthShape] = about("In order of name.")
    more_entries: bool = about("Whether the pool has nodes after these.")


class NodesQuery(Query):
    limit = serializers.IntegerField(min_value=1, max_value=MAX_PAGE, default=MAX_PAGE)
    offset = serializers.IntegerField(min_value=0, max_value=10_000_000, default=0)


class PoolNodesView(OwnView):
    access = {"GET": Needs(Action.RESOURCES_READ, on=None)}

    @extend_schema(operation_id="list_pool_nodes", parameters=[NodesQuery], responses=PoolNodesShape)
    def get(self, request: Request, pool: str) -> Response:
        """Show the nodes of a pool with what is wrong with them, and which are suspect."""
        query = NodesQuery.of(request)
        row = pool_visible_to(request.user, pool, action=Action.RESOURCES_READ)
        freshness = freshness_of(row.backend.cluster_id)
        nodes = _nodes(row)
        page = nodes[query["offset"] : query["offset"] + query["limit"]]
        more = len(nodes) > query["offset"] + len(page)
        return Response(PoolNodesShape(pool=row.name, nodes=page, more_entries=more, **freshness.as_json()))


def _nodes(pool: Pool) -> list[NodeHealthShape]:
    rows = with_channels(Node.objects.filter(cluster_id=pool.backend.cluster_id)).order_by("name")
    rules, policy = rules_for(pool.backend), node_policy(pool.name)
    suspects = suspects_of(pool.backend.cluster_id)
    levels, selector = pool_levels(pool), node_selection(pool)
    nodes, now = [], timezone.now()
    for node in rows.values("name", "labels", *HEALTH_FIELDS, *CHANNEL_FIELDS):
        if not selects(selector, node["labels"]):
            continue
        health, suspect = health_of(node, rules), suspects.get(node["name"])
        nodes.append(
            NodeHealthShape(
                name=node["name"],
                healthy=health.is_healthy,
                nvlink_channel=channel_of(node, now=now),
                condition=None
                if health.is_healthy
                else node_condition(node["name"], health, policy.lost_after),
                suspect=_suspicion(suspect) if suspect else None,
                topology={level.key: node["labels"].get(level.label) for level in levels},
            )
        )
    return nodes


def _suspicion(row: SuspectNode) -> SuspicionShape:
    return SuspicionShape(
        since=row.since, until=row.until, groups=row.groups, users=row.users, faults=row.faults
    )
