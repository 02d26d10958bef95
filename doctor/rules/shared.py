"""Rules over objects that schedulers keep for pools: a pool or an unreleased group needs each.

Queues of somebody else's scheduler that the service makes are also there, and as their pool needs them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from doctor.facts import ClusterObject, Facts, Finding, GroupRow, ObservedCluster, PoolRow


def shared_rules(facts: Facts) -> Iterator[Finding]:
    for cluster in facts.clusters:
        needed, levels = _needed(facts, cluster), _levels(facts, cluster)
        for obj in cluster.objects:
            if not obj.is_shared or obj.deleting_since is not None:
                continue
            if obj.levels not in levels if obj.levels is not None else _key(obj) not in needed:
                yield _unneeded(cluster, obj)
        if not cluster.unread_queues:
            yield from _queues(facts, cluster)


def _needed(facts: Facts, cluster: ObservedCluster) -> set[tuple[str, str]]:
    """The objects that pools need, the queues that unreleased groups name, and all that these lead to."""
    queues = {group.queue for group in _unreleased(facts, cluster)}
    shared = [obj for obj in cluster.objects if obj.is_shared]
    needed = {key for pool in facts.pools if pool.cluster == cluster.uid for key in pool.objects}
    needed |= {key for pool in facts.pools if pool.cluster == cluster.uid for key in pool.queues}
    needed |= {_key(obj) for obj in shared if obj.name in queues}
    named = {_key(obj): obj.leads_to for obj in shared}
    to_follow = list(needed)
    while to_follow:
        for key in named.get(to_follow.pop(), ()):
            if key not in needed:
                needed.add(key)
                to_follow.append(key)
    return needed


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


def _queues(facts: Facts, cluster: ObservedCluster) -> Iterator[Finding]:
    present = {_key(obj): obj for obj in cluster.objects if obj.spec is not None}
    for pool in facts.pools:
        for key, spec in pool.queues.items() if pool.cluster == cluster.uid else ():
            obj = present.get(key)
            if obj is None:
                yield _missing(cluster, pool, *key)
            elif obj.deleting_since is None and (field := _difference(obj.spec, spec)):
                yield _different(cluster, pool, obj, field)


_NOT_OURS = frozenset({"cohortName", "admissionChecksStrategy"})
"""Fields that change what a queue means, and that the service never sets."""


def _difference(observed: Any, needed: Any, path: str = "spec") -> str:
    """The first field that is not as it is needed; empty for none. Other fields beside are theirs."""
    if isinstance(needed, Mapping) and isinstance(observed, Mapping):
        if foreign := sorted(_NOT_OURS & (observed.keys() - needed.keys())):
            return f"{path}.{foreign[0]}"
        fields = (_difference(observed.get(key), value, f"{path}.{key}") for key, value in needed.items())
        return next(filter(None, fields), "")
    if isinstance(needed, list) and isinstance(observed, list) and len(needed) == len(observed):
        entries = enumerate(zip(observed, needed, strict=True))
        return next(filter(None, (_difference(*pair, f"{path}[{at}]") for at, pair in entries)), "")
    return "" if observed == needed else path


def _missing(cluster: ObservedCluster, pool: PoolRow, api: str, name: str) -> Finding:
    label = f"{api.partition('.')[0]} {name}"
    return Finding(
        kind="half-made",
        rule="queue-missing",
        message=f"{label} does not exist, and pool {pool.name} needs it.",
        backend=cluster.backend,
        object=label,
        repair="sync",
        unsure=True,  # the next sync makes it
        cluster=cluster.uid,
    )


def _different(cluster: ObservedCluster, pool: PoolRow, obj: ClusterObject, field: str) -> Finding:
    return Finding(
        kind="inconsistent",
        rule="queue-differs",
        message=f"{obj.label} is not as pool {pool.name} needs it: {field} differs.",
        backend=cluster.backend,
        object=obj.label,
        repair="sync",
        unsure=True,  # the next sync puts it right
        cluster=cluster.uid,
    )
