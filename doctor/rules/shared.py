"""Queues, topologies and priority classes: needed by a pool or by a group that is not released."""

from collections.abc import Iterator

from doctor.facts import Facts, Finding, Seen, Thing
from scheduling import names


def shared_rules(facts: Facts) -> Iterator[Finding]:
    for seen in facts.seen:
        queues, levels = _queues(facts, seen), _levels(facts, seen)
        for thing in seen.things:
            if thing.deleting_since is not None:
                continue
            if (thing.kind == "Queue" and thing.name not in queues) or (
                thing.kind == "Topology" and thing.levels not in levels
            ):
                yield _unneeded(seen, thing)


def _queues(facts: Facts, seen: Seen) -> set[str]:
    pools = [pool for pool in facts.pools if pool.cluster == seen.cluster]
    groups = [one for one in facts.groups.values() if one.cluster == seen.cluster and one.released_at is None]
    namespaces = {pool.namespace for pool in pools} | {group.namespace for group in groups}
    parents = {names.parent_queue(namespace) for namespace in namespaces}
    return {
        *parents,
        *(names.queue(pool.namespace, pool.name) for pool in pools),
        *(group.queue for group in groups if group.queue),
    }


def _levels(facts: Facts, seen: Seen) -> set[tuple[str, ...]]:
    """Each pool's levels cut at each of them, and what constraints of unreleased groups end at."""
    cuts = {
        pool.labels[: rank + 1]
        for pool in facts.pools
        if pool.cluster == seen.cluster
        for rank in range(len(pool.labels))
    }
    for group in facts.groups.values():
        if group.cluster == seen.cluster and group.released_at is None:
            cuts |= group.topologies
    return cuts


def _unneeded(seen: Seen, thing: Thing) -> Finding:
    return Finding(
        kind="leaked",
        rule="unneeded",
        message=f"{thing.label} is there though no pool and no unreleased group needs it.",
        since=thing.created,
        backend=seen.backend,
        object=thing.label,
        repair="sync",
        unsure=True,  # nothing says since when
        cluster=seen.cluster,
    )
