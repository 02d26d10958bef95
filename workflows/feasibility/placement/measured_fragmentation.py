"""The fragmentation of every pool of a cluster, kept in rows for the metrics.

A worker measures it from time to time, all pools of a cluster and scheduler from one reading of its nodes. A
scrape reads the rows; REST and the pages compute it on request.
"""

from collections.abc import Sequence
from typing import Any

from django.db.models.functions import Now

from pools.clusters.capabilities import capabilities_of
from pools.models import Pool
from pools.pod_templates.applied import node_selection, pod_kinds
from pools.selectors import pool_levels
from pools.values.completeness import NODES, where_known
from pools.values.freshness import NEVER_OBSERVED, OBSERVER_SILENCE
from scheduling.fit.snapshot import FitNode, Snapshot
from scheduling.fit.usable import as_usable, selected_labels
from scheduling.kubernetes_syntax import selects
from workflows.feasibility.capacity.node_snapshot import observed_nodes
from workflows.feasibility.placement.fragmentation import PoolFragments, of_snapshot
from workflows.models import MeasuredFragments

MOST_SIZE = 512
"""Nodes of the largest slot that is kept: it limits the number of series, not the size of gangs."""


def clusters_measured() -> list[str]:
    """The clusters that have pools and whose nodes are observed: others have old ones, or none."""
    rows = Pool.objects.filter(
        where_known(NODES, of="backend__cluster__"),
        backend__deleted_at=None,
        backend__cluster__heartbeat_at__gt=Now() - OBSERVER_SILENCE,
    )
    uids = rows.order_by("backend__cluster_id").values_list("backend__cluster_id", flat=True)
    return [uid for uid in uids.distinct() if uid]


def measure(cluster: str) -> int:
    """Measure the pools of a cluster; returns how many there are. Six queries for one kind of scheduler."""
    rows = Pool.objects.filter(backend__cluster_id=cluster, backend__deleted_at=None)
    pools = list(rows.select_related("backend").prefetch_related("topology_keys", "platforms").order_by("pk"))
    if not pools:
        return 0
    labels = {level.label for pool in pools for level in pool_levels(pool)}
    labels |= {key for pool in pools for key in node_selection(pool)}
    labels |= {label for pool in pools for label in selected_labels(pod_kinds(pool))}
    nodes = {
        scheduler: observed_nodes(
            cluster, selectors=[{}], levels=(), capabilities=capabilities, labels=labels
        ).snapshot.nodes
        for scheduler, capabilities in {
            pool.backend.scheduler_type: capabilities_of(pool.backend) for pool in pools
        }.items()
    }
    MeasuredFragments.objects.bulk_create(
        [
            MeasuredFragments(
                pool=pool,
                measured_at=Now(),
                content=_content(_fragments(pool, nodes[pool.backend.scheduler_type])),
            )
            for pool in pools
        ],
        update_conflicts=True,
        unique_fields=["pool"],
        update_fields=["measured_at", "content"],
    )
    return len(pools)


def _fragments(pool: Pool, nodes: Sequence[FitNode]) -> PoolFragments:
    own = node_selection(pool)
    in_pool = (node for node in nodes if selects(own, node.labels))
    paths = capabilities_of(pool.backend).by_paths
    snapshot = Snapshot.of(in_pool, pool_levels(pool), paths=paths)
    return of_snapshot(as_usable(snapshot, pod_kinds(pool)), freshness=NEVER_OBSERVED)


def _content(fragments: PoolFragments) -> dict[str, Any]:
    return {
        "free": fragments.free,
        "keys": [
            {
                "key": key.key,
                "largest": key.largest,
                "slots": [[size, count] for size, count in key.slots.items() if size <= MOST_SIZE],
            }
            for key in fragments.keys
        ],
    }
