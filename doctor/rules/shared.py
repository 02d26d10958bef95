"""Objects that schedulers keep for pools: needed by a pool or by a group that is not released."""

from collections.abc import Iterator

from doctor.facts import Facts, Finding, GroupRow, Seen, Thing


def shared_rules(facts: Facts) -> Iterator[Finding]:
    for seen in facts.seen:
        objects, levels = _objects(facts, seen), _levels(facts, seen)
        for thing in seen.things:
            if not thing.is_shared or thing.deleting_since is not None:
                continue
            if thing.levels not in levels if thing.levels is not None else _key(thing) not in objects:
                yield _unneeded(seen, thing)


def _objects(facts: Facts, seen: Seen) -> set[tuple[str, str]]:
    """What pools need, what unreleased groups name as their queue, and what these stand below."""
    queues = {group.queue for group in _unreleased(facts, seen)}
    shared = [thing for thing in seen.things if thing.is_shared]
    objects = {key for pool in facts.pools if pool.cluster == seen.cluster for key in pool.objects}
    objects |= {_key(thing) for thing in shared if thing.name in queues}
    return objects | {(thing.api, thing.parent) for thing in shared if _key(thing) in objects}


def _levels(facts: Facts, seen: Seen) -> set[tuple[str, ...]]:
    """The lists of levels that pools need, and those that constraints of unreleased groups end at."""
    levels = {labels for pool in facts.pools if pool.cluster == seen.cluster for labels in pool.levels}
    return levels.union(*(group.topologies for group in _unreleased(facts, seen)))


def _unreleased(facts: Facts, seen: Seen) -> list[GroupRow]:
    groups = facts.groups.values()
    return [group for group in groups if group.cluster == seen.cluster and group.released_at is None]


def _key(thing: Thing) -> tuple[str, str]:
    return thing.api, thing.name


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
