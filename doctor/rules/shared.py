"""Rules over objects that schedulers keep for pools: a pool or an unreleased group needs each."""

from collections.abc import Iterator

from doctor.facts import ClusterObject, Facts, Finding, GroupRow, ObservedCluster


def shared_rules(facts: Facts) -> Iterator[Finding]:
    for cluster in facts.clusters:
        needed, levels = _needed(facts, cluster), _levels(facts, cluster)
        for obj in cluster.objects:
            if not obj.is_shared or obj.deleting_since is not None:
                continue
            if obj.levels not in levels if obj.levels is not None else _key(obj) not in needed:
                yield _unneeded(cluster, obj)


def _needed(facts: Facts, cluster: ObservedCluster) -> set[tuple[str, str]]:
    """What pools need, the queues that unreleased groups name, and the parents of both."""
    queues = {group.queue for group in _unreleased(facts, cluster)}
    shared = [obj for obj in cluster.objects if obj.is_shared]
    needed = {key for pool in facts.pools if pool.cluster == cluster.uid for key in pool.objects}
    needed |= {_key(obj) for obj in shared if obj.name in queues}
    return needed | {(obj.api, obj.parent) for obj in shared if _key(obj) in needed}


def _levels(facts: Facts, cluster: ObservedCluster) -> set[tuple[str, ...]]:
    """The lists of levels that pools need, and those that constraints of unreleased groups end at."""
    levels = {labels for pool in facts.pools if pool.cluster == cluster.uid for labels in pool.levels}
    return levels.union(*(group.topologies for group in _unreleased(facts, cluster)))


def _unreleased(facts: Facts, cluster: ObservedCluster) -> list[GroupRow]:
    groups = facts.groups.values()
    return [group for group in groups if group.cluster == cluster.uid and group.released_at is None]


def _key(obj: ClusterObject) -> tuple[str, str]:
    return obj.api, obj.name


def _unneeded(cluster: ObservedCluster, obj: ClusterObject) -> Finding:
    return Finding(
        kind="leaked",
        rule="unneeded",
        message=f"{obj.label} exists although no pool and no unreleased group needs it.",
        since=obj.created,
        backend=cluster.backend,
        object=obj.label,
        repair="sync",
        unsure=True,  # nothing records since when
        cluster=cluster.uid,
    )
