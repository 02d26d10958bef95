"""How a pool's free nodes are spread over the domains of its keys, from rows.

The nodes are the pool's own, those its selector matches, whatever its platforms take. A verdict reads the
same rows, so a gang of whole nodes finds every slot counted here. No cluster is called.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pools.clusters.capabilities import capabilities_of
from pools.models import Pool
from pools.pod_templates.applied import node_selection, pod_kinds
from pools.selectors import pool_levels
from pools.values.freshness import Freshness
from scheduling.fit.fragmentation import LevelSlots, fragmentation, free_nodes
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.usable import PodKind, as_usable, selected_labels
from workflows.feasibility.capacity.node_snapshot import ObservedNodes, observed_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFragments:
    """``free`` counts nodes that are open and wholly free."""

    nodes: int
    free: int
    keys: tuple[LevelSlots, ...]
    freshness: Freshness


def pool_fragments(pool: Pool) -> PoolFragments:
    """The free slots of each key of a pool, broadest first. It came with its keys and platforms.

    Three queries.
    """
    return fragments_of(usable_pool_nodes(pool))


def fragments_of(observed: ObservedNodes) -> PoolFragments:
    """The free slots of a pool's usable nodes, which were read already."""
    return of_snapshot(observed.snapshot, freshness=observed.freshness)


def of_snapshot(snapshot: Snapshot, *, freshness: Freshness) -> PoolFragments:
    return PoolFragments(
        nodes=len(snapshot.nodes),
        free=sum(free_nodes(snapshot.nodes, among=snapshot.nodes)),
        keys=fragmentation(snapshot),
        freshness=freshness,
    )


def observed_pool_nodes(pool: Pool, kinds: Sequence[PodKind]) -> ObservedNodes:
    """The pool's nodes with the usage of each; none while its cluster was never reached.

    ``kinds`` are those of the pool.
    """
    return observed_nodes(
        pool.backend.cluster_id or "",
        selectors=[node_selection(pool)],
        levels=pool_levels(pool),
        capabilities=capabilities_of(pool.backend),
        labels=selected_labels(kinds),
    )


def usable_pool_nodes(pool: Pool) -> ObservedNodes:
    """The same, closed where taints keep all pods of the pool off; it came with its platforms."""
    kinds = pod_kinds(pool)
    return usable_of(observed_pool_nodes(pool, kinds), kinds)


def usable_of(observed: ObservedNodes, kinds: Sequence[PodKind]) -> ObservedNodes:
    """A pool's nodes that were read already, closed in the same way."""
    return replace(observed, snapshot=as_usable(observed.snapshot, kinds))
