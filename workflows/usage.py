"""The running work of pools, clusters and backends, from the rows of workflows."""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from django.db import connection
from django.db.models import Count, Q

from pools.interfaces import ComputeDomains, ObservedComputeDomain, Room, Unreleased
from pools.models import Pool
from scheduling.fit.fragmentation import free_nodes
from scheduling.topology.levels import DomainPath, Level, Levels
from workflows.feasibility.placement.fragmentation import usable_pool_nodes
from workflows.homes import at_home
from workflows.lifecycle.statuses import WORKFLOW_LIVE
from workflows.models import ObservedObject, TaskGroup, Workflow
from workflows.news.outbox import problems_of
from workflows.selectors import COMPUTE_DOMAIN
from workflows.services.notify import mark_due

_TOPOLOGIES = """
    SELECT DISTINCT g.placement->>'scheduler_type', g.placement->'levels', line->>'label'
      FROM workflows_taskgroup g
      JOIN pools_backend b ON b.id = g.backend_id
      CROSS JOIN LATERAL jsonb_array_elements(g.constraints) AS line
     WHERE g.released_at IS NULL AND coalesce(nullif(g.placement->>'cluster_uid', ''), b.cluster_id) = %s
       AND coalesce(g.placement->>'external_topology', '') = ''
"""


class WorkflowUsage:
    """``pools.interfaces.PoolUsage``."""

    def live_workflows(self, pool_name: str) -> int:
        return Workflow.objects.filter(pool_name=pool_name).filter(status__in=WORKFLOW_LIVE).count()

    def unreleased_in_pool(self, pool_name: str) -> Unreleased:
        rows = TaskGroup.objects.filter(workflow__pool_name=pool_name, released_at=None)
        counts = rows.aggregate(workflows=Count("workflow", distinct=True), groups=Count("pk"))
        frozen = rows.order_by().values_list("placement__backend", "placement__levels").distinct()
        accepted = {
            (str(backend), tuple(Level(**level) for level in levels or ())) for backend, levels in frozen
        }
        return Unreleased(**counts, accepted=tuple(sorted(accepted, key=_sort_key)))

    def living_by_pool(self) -> Mapping[str, int]:
        rows = Workflow.objects.filter(status__in=WORKFLOW_LIVE).order_by().values_list("pool_name")
        return dict(rows.annotate(count=Count("pk")))

    def compute_domains(self, pool_name: str, *, most: int) -> ComputeDomains:
        groups = TaskGroup.objects.filter(workflow__pool_name=pool_name, released_at=None)
        domains = at_home(
            ObservedObject.objects.filter(kind=COMPUTE_DOMAIN, group_uuid__in=groups.values("pk"))
        )
        count = domains.count()
        by_group = {row.group_uuid: row for row in domains.order_by("-pk")[:most]}
        owners = groups.filter(pk__in=by_group).select_related("workflow").order_by("-submit_time", "pk")
        return ComputeDomains(count, tuple(_compute_domain(group, by_group[group.pk]) for group in owners))

    def room(self, pool: Pool) -> Mapping[DomainPath, Room]:
        snapshot = usable_pool_nodes(pool).snapshot
        by_place: dict[DomainPath, Room] = {}
        for node, is_free in zip(
            snapshot.nodes, free_nodes(snapshot.nodes, among=snapshot.nodes), strict=True
        ):
            place = tuple(node.labels.get(level.label) for level in snapshot.levels)
            room = Room(int(is_free), node.gpus, node.free_gpus, int(bool(node.gpu_note)))
            by_place[place] = by_place.get(place, Room()) + room
        return by_place

    def unreleased_groups(self, backend_id: int) -> int:
        return TaskGroup.objects.filter(backend_id=backend_id, released_at=None).count()

    def needed_topologies(self, cluster_uid: str) -> AbstractSet[tuple[str, tuple[str, ...]]]:
        """The frozen levels of each group, down to the level of each of its constraints."""
        with connection.cursor() as cursor:
            cursor.execute(_TOPOLOGIES, [cluster_uid])
            rows = cursor.fetchall()
        topologies: set[tuple[str, tuple[str, ...]]] = set()
        for scheduler, levels, label in rows:
            labels = [level["label"] for level in _read(levels)]
            if label in labels:
                topologies.add((scheduler, tuple(labels[: labels.index(label) + 1])))
        return topologies

    def needed_queues(self, cluster_uid: str) -> AbstractSet[str]:
        return _named_by_unreleased(cluster_uid, "queue")

    def needed_priority_classes(self, cluster_uid: str) -> AbstractSet[str]:
        return _named_by_unreleased(cluster_uid, "priority_class")

    def news_problems(self, pool_names: Sequence[str]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        problems = problems_of([f"pool:{name}" for name in pool_names]) if pool_names else {}
        return {name: problems.get(f"pool:{name}", ()) for name in pool_names}

    def notify_backend(self, backend_id: int) -> None:
        rows = TaskGroup.objects.filter(backend_id=backend_id, released_at=None)
        mark_due(rows.values_list("pk", flat=True))


def _named_by_unreleased(cluster_uid: str, field: str) -> AbstractSet[str]:
    """What the placements of a cluster's unreleased groups have in a field of names."""
    rows = TaskGroup.objects.filter(
        Q(placement__cluster_uid=cluster_uid) | Q(backend__cluster_id=cluster_uid), released_at=None
    )
    names = rows.order_by().values_list(f"placement__{field}", flat=True).distinct()
    return {name for name in names if name}


def _compute_domain(group: TaskGroup, row: ObservedObject) -> ObservedComputeDomain:
    status = row.digest.get("status") or {}
    nodes = status.get("nodes") or ()
    return ObservedComputeDomain(
        group=group.name,
        workflow=group.workflow.name,
        name=row.name,
        status="Deleting" if row.deleting else str(status.get("status") or "Unknown"),
        ready=sum(node.get("status") == "Ready" for node in nodes),
        nodes=len(nodes),
        since=group.created_in_cluster_at,
    )


def _sort_key(accepted: tuple[str, Levels]) -> tuple[str, list[tuple[str, str]]]:
    """Sort key: levels themselves have no order."""
    backend, levels = accepted
    return backend, [(level.key, level.label) for level in levels]


def _read(levels: object) -> list[dict[str, str]]:
    """A JSON column of a raw query, which the driver hands over as text."""
    value = json.loads(levels) if isinstance(levels, str) else levels
    return value if isinstance(value, list) else []
