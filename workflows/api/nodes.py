"""The nodes of a pool and their health, over REST."""

from typing import Literal

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools.api.shapes import ObservedShape
from pools.models import Node, Pool, SuspectNode
from pools.pod_templates.applied import node_selection
from pools.selectors import freshness_of, pool_levels, pool_visible_to
from scheduling.kubernetes_syntax import selects
from web.access.permissions import Needs
from web.policy import Action
from web.rest.queries import NoQuery
from web.rest.shapes import Instant, Shape, about
from workflows.api.representations import node_condition
from workflows.api.shapes import NodeConditionShape
from workflows.nodes.channels import CHANNEL_FIELDS, channel_of, with_channels
from workflows.nodes.health import HEALTH_FIELDS, health_of, node_policy, rules_for
from workflows.nodes.suspects import suspects_of


class SuspicionShape(Shape):
    """Why a node is suspect."""

    since: Instant = about("Naive UTC.")
    until: Instant = about("Naive UTC. When it is trusted again, unless it fails again.")
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


class PoolNodesShape(ObservedShape):
    pool: str
    nodes: list[NodeHealthShape] = about("In order of name.")


class PoolNodesView(APIView):
    access = {"GET": Needs(Action.RESOURCES_READ, on=None)}

    @extend_schema(operation_id="get_pool_nodes", responses=PoolNodesShape)
    def get(self, request: Request, pool: str) -> Response:
        """Show the nodes of a pool with what is wrong with them, and which are suspect."""
        NoQuery.of(request)
        row = pool_visible_to(request.user, pool, action=Action.RESOURCES_READ)
        freshness = freshness_of(row.backend.cluster_id)
        return Response(PoolNodesShape(pool=row.name, nodes=_nodes(row), **freshness.as_json()))


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
