"""How a pool's free nodes are spread over the domains of its keys, from rows.

The nodes are the pool's own, those its selector matches, whatever its platforms take. What is read is what a
verdict reads, so a slot that is told here is one that a gang of whole nodes finds. No cluster is asked.
"""

from dataclasses import dataclass
from datetime import datetime

from pools.clusters.capabilities import capabilities_of
from pools.models import Pool
from pools.pod_templates.applied import node_selection
from pools.selectors import pool_levels
from scheduling.fit.fragmentation import LevelSlots, fragmentation, free_nodes
from scheduling.fit.snapshot import Snapshot
from workflows.feasibility.nodes import ObservedNodes, observed_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFragments:
    """``free`` counts nodes that are open and wholly free; ``synced_at`` is None until nodes were listed."""

    nodes: int
    free: int
    keys: tuple[LevelSlots, ...]
    synced_at: datetime | None


def pool_fragments(pool: Pool) -> PoolFragments:
    """The free slots of each key of a pool, broadest first. The pool came with its keys; three queries."""
    return fragments_of(observed_pool_nodes(pool))


def fragments_of(seen: ObservedNodes) -> PoolFragments:
    """The same of nodes that were read already."""
    return of_snapshot(seen.snapshot, synced_at=seen.synced_at)


def of_snapshot(snapshot: Snapshot, *, synced_at: datetime | None) -> PoolFragments:
    return PoolFragments(
        nodes=len(snapshot.nodes),
        free=sum(free_nodes(snapshot)),
        keys=fragmentation(snapshot),
        synced_at=synced_at,
    )


def observed_pool_nodes(pool: Pool) -> ObservedNodes:
    """The pool's nodes and what stands on them; none while its cluster was never reached."""
    return observed_nodes(
        pool.backend.cluster_id or "",
        selectors=[node_selection(pool)],
        levels=pool_levels(pool),
        capabilities=capabilities_of(pool.backend),
    )
