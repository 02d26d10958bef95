"""Conditions of pools that follow from their cluster. Pure: values in, conditions out.

They answer four questions. Does the queue that its gangs join admit them (``QueueReady``, only where they
join one)? Do the Topology objects list the levels that the pool relies on (``TopologyDrift``)? Do its nodes
carry the labels (``TopologyLabelsIncomplete``)? Does another scheduler count its nodes as free
(``NodesShared``)? All pools of a cluster are evaluated at once, because the last question needs the nodes of
the others.

There is no condition about what was never listed: an empty list and an unknown one must not look alike. A
scheduler is identified by the schedulerName of pods, because two kinds of backend may use one scheduler
process.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

from pools.conditions import Condition
from scheduling.kubernetes_syntax import selects
from scheduling.queues.joined_queues import JoinedQueue, QueueFault
from scheduling.sentences import agree, count_of, plain_listing
from scheduling.topology.coverage import LabelCoverage, LevelCoverage, SharedValue, cover
from scheduling.topology.drift import Drift, InSync, TopologyNotFound, compare
from scheduling.topology.levels import Levels

DRIFT = "TopologyDrift"
INCOMPLETE = "TopologyLabelsIncomplete"
SHARED = "NodesShared"
QUEUE = "QueueReady"
TYPES = (DRIFT, INCOMPLETE, SHARED, QUEUE)

NAMED = 3
"""Nodes, values and pools that a message names before it only counts."""

Nodes = Mapping[str, Mapping[str, str]]
"""Labels of nodes by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyObject:
    """A Topology object that a pool relies on: expected levels, and listed labels, None if it is absent."""

    name: str
    levels: Levels
    labels: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedPool:
    """A pool and what its scheduler keeps for it."""

    name: str

    scheduler: str
    """The schedulerName of its pods."""

    node_selector: Mapping[str, str]
    levels: Levels

    paths: bool
    """Whether domains are paths of labels."""

    external: bool
    """Whether its topologies belong to somebody else."""

    topologies: Sequence[TopologyObject] | None
    """None: the cluster's were never listed; empty: the scheduler has none."""

    joins: bool = False
    """Whether its gangs join a queue of somebody else's."""

    queue: JoinedQueue | None = None
    """That queue; None: it was not listed."""

    counts_by_flavor: bool = False
    """Whether its scheduler hands out nodes twice that are of two flavors."""

    hides_unlabelled: bool = False
    """Whether its scheduler sees no node that lacks a label."""


def evaluate(pools: Sequence[EvaluatedPool], nodes: Nodes) -> dict[str, list[Condition]]:
    """The conditions of each pool of one cluster, by its name, from all nodes of the cluster."""
    members = {pool.name: nodes_of(pool.node_selector, nodes) for pool in pools}
    sharers = _sharers(pools, members)
    return {
        pool.name: [
            *_drift(pool),
            *_incomplete(pool, members[pool.name]),
            _shared(pool, members[pool.name], sharers),
            *_queue(pool, members[pool.name]),
        ]
        for pool in pools
    }


def nodes_of(selector: Mapping[str, str], nodes: Nodes) -> Nodes:
    """The nodes that a selector matches."""
    return {name: labels for name, labels in nodes.items() if selects(selector, labels)}


def _drift(pool: EvaluatedPool) -> Iterator[Condition]:
    if not pool.levels or pool.topologies == ():
        return
    if pool.topologies is None:
        message = "The cluster's Topology objects have not been listed yet."
        yield Condition(type=DRIFT, status="Unknown", reason="NotObserved", message=message)
        return
    states = [(topology, compare(topology.labels, expected=topology.levels)) for topology in pool.topologies]
    wrong = [(topology, state) for topology, state in states if not isinstance(state, InSync)]
    if not wrong:
        yield Condition(type=DRIFT, status="False", reason=InSync.reason)
        return
    drifted = [entry for entry in wrong if isinstance(entry[1], Drift)]
    worst = (drifted or wrong)[0][1]
    differences = " ".join(_difference(topology, state) for topology, state in (drifted or wrong)[:NAMED])
    yield Condition(
        type=DRIFT, status=worst.status, reason=worst.reason, message=f"{differences} {_remedy(pool, worst)}"
    )


def _difference(topology: TopologyObject, state: Drift | TopologyNotFound | InSync) -> str:
    if isinstance(state, Drift):
        labels = ", ".join(state.observed) or "no level"
        return f"Topology {topology.name} lists {labels} where {', '.join(state.expected)} is expected."
    return f"Topology {topology.name} is not in the cluster."


def _remedy(pool: EvaluatedPool, state: Drift | TopologyNotFound | InSync) -> str:
    if pool.external:
        return "The service never writes it: correct it there, or set the pool's keys to its levels."
    if isinstance(state, Drift):
        return "It is managed: the service replaces it with one that lists the expected levels."
    return "It is managed: the service creates it again."


def _incomplete(pool: EvaluatedPool, members: Nodes) -> Iterator[Condition]:
    if not pool.levels:
        return
    if not members:
        message = "No node is the pool's, so nothing is known of their labels."
        yield Condition(type=INCOMPLETE, status="Unknown", reason="NoNodes", message=message)
        return
    coverage = cover(members, pool.levels, named=NAMED, paths=pool.paths)
    if coverage.is_complete and not coverage.shared:
        yield Condition(type=INCOMPLETE, status="False", reason="Complete")
        return
    lacking = [_lacking(pool, coverage, level) for level in coverage.levels if level.lacking]
    values = [_parents(pool, value) for value in coverage.shared[:NAMED]]
    if len(coverage.shared) > NAMED:
        values.append(f"So do {len(coverage.shared) - NAMED} more values.")
    reason = "NodesLackLabels" if lacking else "ValuesUnderTwoParents"
    yield Condition(type=INCOMPLETE, status="True", reason=reason, message=" ".join(lacking + values))


def _lacking(pool: EvaluatedPool, coverage: LabelCoverage, level: LevelCoverage) -> str:
    verb, pronoun = agree(level.lacking, "lacks", "lack"), agree(level.lacking, "it", "them")
    blind = "its scheduler does not see" if pool.hides_unlabelled else "no requirement on it sees"
    return (
        f"{level.lacking} of the pool's {count_of(coverage.nodes, 'node')} {verb} label {level.level.label} "
        f'of key "{level.level.key}", so {blind} {pronoun}: '
        f"{plain_listing(level.lacking_names, limit=NAMED, total=level.lacking)}."
    )


def _parents(pool: EvaluatedPool, value: SharedValue) -> str:
    meaning = (
        "they count as different domains"
        if pool.paths
        else "a requirement on this key alone cannot tell them apart"
    )
    return (
        f'{value.level.key} "{value.value}" stands under {value.broader.key} '
        f"{plain_listing(value.parents, limit=NAMED)}: {meaning}."
    )


def _sharers(
    pools: Sequence[EvaluatedPool], members: Mapping[str, Nodes]
) -> Mapping[str, list[EvaluatedPool]]:
    """The pools of each node that several schedulers use."""
    by_node: dict[str, list[EvaluatedPool]] = defaultdict(list)
    for pool in pools:
        for name in members[pool.name]:
            by_node[name].append(pool)
    return {name: sharing for name, sharing in by_node.items() if len({p.scheduler for p in sharing}) > 1}


def _shared(pool: EvaluatedPool, members: Nodes, sharers: Mapping[str, list[EvaluatedPool]]) -> Condition:
    shared_nodes = sorted(members.keys() & sharers.keys())
    if not shared_nodes:
        return Condition(type=SHARED, status="False", reason="NotShared")
    others: AbstractSet[tuple[str, str]] = {
        (other.name, other.scheduler)
        for name in shared_nodes
        for other in sharers[name]
        if other.scheduler != pool.scheduler
    }
    named = [f'"{name}" (scheduler {scheduler})' for name, scheduler in sorted(others)]
    message = (
        f"{count_of(len(shared_nodes), 'node')} of the pool {agree(len(shared_nodes), 'is', 'are')} also of "
        f"{plain_listing(named, limit=NAMED)}, and neither scheduler sees the other's pods: "
        f"{plain_listing(shared_nodes, limit=NAMED)}. Give the pools node selectors that exclude each other."
    )
    return Condition(type=SHARED, status="True", reason="SeveralSchedulers", message=message)


def _queue(pool: EvaluatedPool, members: Nodes) -> Iterator[Condition]:
    """Whether the queue that its gangs join admits them, with nodes, and all of the pool's."""
    if not pool.joins:
        return
    if pool.queue is None:
        message = "The cluster's queues and flavors have not been listed yet."
        yield Condition(type=QUEUE, status="Unknown", reason="NotObserved", message=message)
        return
    partial = (
        *pool.queue.partial_faults,
        *_outside_flavors(pool.queue, members),
        *(_in_two_flavors(pool.queue, members) if pool.counts_by_flavor else ()),
    )
    faults = [*pool.queue.faults, *_hostless(pool), *partial]
    if not faults:
        yield Condition(type=QUEUE, status="True", reason="Ready")
        return
    message = " ".join(fault.message for fault in faults[:NAMED])
    yield Condition(type=QUEUE, status="False", reason=faults[0].reason, message=message)


def _hostless(pool: EvaluatedPool) -> Iterator[QueueFault]:
    """The Topology objects whose narrowest level is not the one that is needed last, the host."""
    for topology in pool.topologies or ():
        host = topology.levels[-1].label
        if topology.labels and topology.labels[-1] != host:
            message = (
                f"Topology {topology.name} does not end with {host}, so its scheduler names no nodes and no "
                "group can start."
            )
            yield QueueFault("NoHostLevel", message)


def _in_two_flavors(queue: JoinedQueue, members: Nodes) -> Iterator[QueueFault]:
    """The pool's nodes that are of a flavor of its queue and of another one."""
    pairs = [
        *((flavor, other) for flavor in queue.flavors for other in queue.others),
        *combinations(queue.flavors, 2),
    ]
    others: dict[str, None] = {}
    shared: set[str] = set()
    for flavor, other in pairs:
        of_both = [
            name
            for name, labels in members.items()
            if selects(flavor.node_labels, labels) and selects(other.node_labels, labels)
        ]
        shared.update(of_both)
        others.update(dict.fromkeys([other.name] if of_both else []))
    if shared:
        named = plain_listing(sorted(others), limit=NAMED)
        message = (
            f"{count_of(len(shared), 'node')} of the pool {agree(len(shared), 'is', 'are')} also of flavor "
            f"{named}. This version of its scheduler counts use in each flavor by itself, so it may give "
            f"such a node to two groups: {plain_listing(sorted(shared), limit=NAMED)}."
        )
        yield QueueFault("FlavorsOverlap", message)


def _outside_flavors(queue: JoinedQueue, members: Nodes) -> Iterator[QueueFault]:
    """The pool's nodes that no flavor of its queue has."""
    if not queue.flavors:
        return
    outside = sorted(
        name
        for name, labels in members.items()
        if not any(selects(flavor.node_labels, labels) for flavor in queue.flavors)
    )
    if outside:
        flavors = plain_listing([flavor.name for flavor in queue.flavors], limit=NAMED)
        verb = agree(len(outside), "is", "are")
        message = (
            f"{len(outside)} of the pool's {count_of(len(members), 'node')} {verb} of none of its queue's "
            f"flavors ({flavors}), so no group gets {agree(len(outside), 'it', 'them')}: "
            f"{plain_listing(outside, limit=NAMED)}."
        )
        yield QueueFault("NodesOutsideFlavors", message)
