"""GPUs of pools: guaranteed, in use and free. Pure.

Pools that share nodes, directly or through other pools, are in one *node set*. ``quota_used`` counts the GPUs
of running tasks of HIGH and NORMAL priority in the pool, ``total_usage`` those of all its running tasks.
``quota_limit`` is the pool's guarantee, or the capacity of its nodes where that is unlimited.
``total_capacity`` counts GPUs of ready nodes. ``total_free`` counts GPUs on the nodes that the pool's pods
may use, less the usage of all pods (of other tenants' too, where it is known).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workflows.feasibility.capacity.usage import PlacedTask, PoolNode
from workflows.values.amounts import NO_AMOUNTS, Amounts

PREEMPTIBLE = "LOW"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """GPUs."""

    quota_used: int = 0
    quota_limit: int = 0
    total_usage: int = 0
    total_capacity: int = 0
    total_free: int = 0

    @property
    def quota_free(self) -> int:
        return max(0, self.quota_limit - self.quota_used)

    def as_json(self) -> dict[str, str]:
        """OSMO writes these as texts."""
        names = ("quota_used", "quota_free", "quota_limit", "total_usage", "total_capacity", "total_free")
        return {name: str(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class Quota:
    """``sets`` are the node sets, each of pools by name; ``total`` counts a node once."""

    sets: tuple[tuple[str, ...], ...]
    usage: Mapping[str, Usage]
    total: Usage


def quota(
    guarantees: Mapping[str, float],
    nodes: Sequence[PoolNode],
    tasks: Sequence[PlacedTask],
    used: Mapping[tuple[str, str], Amounts],
) -> Quota:
    """The usage of pools; ``guarantees`` has each pool's guaranteed GPUs, -1 for unlimited."""
    by_pool: dict[str, list[PoolNode]] = defaultdict(list)
    for node in nodes:
        for pool in node.pools:
            by_pool[pool].append(node)
    usage = {
        pool: _usage(guarantee, by_pool[pool], [s for s in tasks if s.pool == pool], used, frozenset({pool}))
        for pool, guarantee in guarantees.items()
    }
    every_node = _usage(-1, nodes, [s for s in tasks if s.pool in guarantees], used, frozenset(guarantees))
    total = Usage(
        quota_used=sum(pool.quota_used for pool in usage.values()),
        quota_limit=sum(pool.quota_limit for pool in usage.values()),
        total_usage=every_node.total_usage,
        total_capacity=every_node.total_capacity,
        total_free=every_node.total_free,
    )
    return Quota(tuple(_node_sets(guarantees, nodes)), usage, total)


def _usage(
    guarantee: float,
    nodes: Sequence[PoolNode],
    tasks: Sequence[PlacedTask],
    used: Mapping[tuple[str, str], Amounts],
    pools: frozenset[str],
) -> Usage:
    capacity = sum(node.offered(pools).gpu for node in nodes if node.ready)
    running = [task for task in tasks if task.running]
    return Usage(
        quota_used=sum(task.requests.gpu for task in running if task.priority != PREEMPTIBLE),
        quota_limit=capacity if guarantee < 0 else int(guarantee),
        total_usage=sum(task.requests.gpu for task in running),
        total_capacity=capacity,
        total_free=sum(
            node.free(used.get(node.key, NO_AMOUNTS), pools.intersection(node.usable_by)).gpu
            for node in nodes
        ),
    )


def _node_sets(pools: Iterable[str], nodes: Iterable[PoolNode]) -> list[tuple[str, ...]]:
    """Pools that share nodes, transitively."""
    leader = {pool: pool for pool in pools}

    def find(pool: str) -> str:
        while leader[pool] != pool:
            leader[pool] = leader[leader[pool]]
            pool = leader[pool]
        return pool

    for node in nodes:
        first, *others = node.pools
        for other in others:
            leader[find(other)] = find(first)
    sets: dict[str, list[str]] = defaultdict(list)
    for pool in sorted(leader):
        sets[find(pool)].append(pool)
    return sorted(tuple(names) for names in sets.values())
