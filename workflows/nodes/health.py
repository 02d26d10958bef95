"""The health of nodes, from what the observer wrote and what backend and pool say about it.

``node_lost_after`` and ``force_lost_pods`` are read from the pool as it is now, not as it was when a workflow
was submitted: they are an operator's answer to a failure, and hold for the groups that it hits.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection

from pools.models import Backend, Node, Pool
from scheduling.nodes.node_health import ConditionRules, NodeHealth, NodeState, node_health, rules_of
from workflows.models import Workflow

HEALTH_FIELDS = ("conditions", "taints", "unschedulable", "ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePolicy:
    """``lost_after``: how long a node may be away before it is lost, None for ever."""

    lost_after: timedelta | None
    force_lost_pods: bool


def node_policy(pool_name: str) -> NodePolicy:
    """What a pool says of nodes that fail; the defaults for one that is gone. One query."""
    fields = ("node_lost_after", "force_lost_pods")
    row = Pool.objects.filter(name=pool_name).only(*fields).first() or Pool()
    return NodePolicy(
        lost_after=timedelta(seconds=row.node_lost_after) if row.node_lost_after else None,
        force_lost_pods=row.force_lost_pods,
    )


def rules_for(backend: Backend) -> ConditionRules:
    """The backend's rules on conditions of nodes."""
    return rules_of(backend.node_conditions.get("rules"))


def health_of(row: Mapping[str, Any], rules: ConditionRules) -> NodeHealth:
    """A node's health from the columns HEALTH_FIELDS of its row."""
    return node_health(
        row["conditions"],
        taints=row["taints"],
        unschedulable=row["unschedulable"],
        ready=row["ready"],
        rules=rules,
    )


_NODES = f"""
    SELECT name, {", ".join(HEALTH_FIELDS)} FROM pools_node
     WHERE cluster_id = %(cluster)s AND name = ANY(%(names)s) AND (%(all)s OR NOT ready OR unschedulable)
"""  # noqa: S608 -- names of columns

_REMOVED = """
    SELECT named.name FROM unnest(%(names)s::text[]) AS named(name)
     WHERE NOT EXISTS (SELECT FROM pools_node WHERE cluster_id = %(cluster)s AND pools_node.name = named.name)
       AND EXISTS (SELECT FROM pools_node WHERE cluster_id = %(cluster)s)
"""


def unhealthy_nodes(cluster: str, names: Collection[str], *, backend: Backend) -> dict[str, NodeHealth]:
    """Which of these nodes are not healthy. One query, none for no node."""
    if not names:
        return {}
    rules = rules_for(backend)
    with connection.cursor() as cursor:
        cursor.execute(_NODES, {"cluster": cluster, "names": list(names), "all": bool(rules.rules)})
        rows = cursor.fetchall()
    health = {}
    for name, conditions, taints, *flags in rows:
        columns = (json.loads(conditions), json.loads(taints), *flags)
        health[name] = health_of(dict(zip(HEALTH_FIELDS, columns, strict=True)), rules)
    return {name: node for name, node in health.items() if not node.is_healthy}


def removed_nodes(cluster: str, names: Collection[str]) -> frozenset[str]:
    """Which of these nodes are not in the cluster any more, as far as its nodes are known."""
    if not names:
        return frozenset()
    with connection.cursor() as cursor:
        cursor.execute(_REMOVED, {"cluster": cluster, "names": list(names)})
        return frozenset(name for (name,) in cursor.fetchall())


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A node as a task has it; ``backend`` is the key of the backend's row."""

    backend: int
    pool: str
    name: str


@dataclass(frozen=True, slots=True)
class UnhealthyNode:
    """A node that is not healthy; away for ``lost_after`` it is lost, None: never."""

    health: NodeHealth
    lost_after: timedelta | None


def unhealthy_nodes_of_tasks(nodes: Collection[TaskNode]) -> dict[TaskNode, UnhealthyNode]:
    """Which nodes of any workflows' tasks are not healthy. Two queries if all are, however many backends."""
    backends = Backend.objects.in_bulk({node.backend for node in nodes}) if nodes else {}
    rules = {pk: rules_for(backend) for pk, backend in backends.items()}
    keys = {node: (backends[node.backend].cluster_id or "", node.name) for node in nodes}
    rows = _rows_of(set(keys.values()))
    health = {node: health_of(rows[key], rules[node.backend]) for node, key in keys.items() if key in rows}
    removed = _removed(set(keys.values()) - rows.keys(), of_clusters={cluster for cluster, _ in rows})
    health |= {node: NodeHealth(NodeState.REMOVED) for node, key in keys.items() if key in removed}
    unhealthy = {node: state for node, state in health.items() if not state.is_healthy}
    away = {node.pool for node, state in unhealthy.items() if state.is_away}
    limits = {pool: node_policy(pool).lost_after for pool in away}
    return {node: UnhealthyNode(state, limits.get(node.pool)) for node, state in unhealthy.items()}


def _rows_of(keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of nodes by cluster and name, and some of other nodes."""
    if not keys:
        return {}
    clusters, names = ({key[index] for key in keys} for index in (0, 1))
    nodes = Node.objects.filter(cluster_id__in=clusters, name__in=names)
    return {
        (row["cluster_id"], row["name"]): row for row in nodes.values("cluster_id", "name", *HEALTH_FIELDS)
    }


def _removed(missing: Collection[tuple[str, str]], *, of_clusters: Collection[str]) -> set[tuple[str, str]]:
    """Which of these nodes, by cluster and name, are of clusters of which some node is known."""
    others = {cluster for cluster, _ in missing}.difference(of_clusters)
    present = {cluster for cluster in others if Node.objects.filter(cluster_id=cluster).exists()}
    return {key for key in missing if key[0] in of_clusters or key[0] in present}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnhealthyNodes:
    """Nodes of a workflow that are not healthy, by name; ``lost_after`` is its pool's."""

    by_name: Mapping[str, NodeHealth] = field(default_factory=dict)
    lost_after: timedelta | None = None


def unhealthy_nodes_of(workflow: Workflow, names: Collection[str]) -> UnhealthyNodes:
    """Which of a workflow's nodes are not healthy; its backend came with it. Two queries if all are."""
    cluster = workflow.backend.cluster_id or ""
    removed = dict.fromkeys(removed_nodes(cluster, names), NodeHealth(NodeState.REMOVED))
    nodes = unhealthy_nodes(cluster, names, backend=workflow.backend) | removed
    away = any(node.is_away for node in nodes.values())
    return UnhealthyNodes(
        by_name=nodes, lost_after=node_policy(workflow.pool_name).lost_after if away else None
    )
