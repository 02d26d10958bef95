"""Which task gets which node of those that Kueue assigned to a pod set.

Kueue answers with nodes and numbers of pods (``topologyAssignment``); which pod stands where is ours
to say. Task order is kept: nodes are taken domain by domain, in the order of their labels, so neighbours in
rank are neighbours in topology, and rank 0 is on the first node. Slices never straddle a domain of their
level: an assignment in which they would have to is refused instead of used.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduling.backends.kueue.pod_sets import PodSet
from scheduling.errors import InvalidSpec
from scheduling.levels import HOSTNAME_LABEL, Domain
from scheduling.natural_order import natural
from scheduling.sentences import count_of

NodeCounts = tuple[tuple[str, int], ...]
"""Nodes by their label kubernetes.io/hostname, each with its number of pods."""


def read_assignment(assignment: Mapping[str, Any]) -> NodeCounts:
    """The nodes of a pod set's ``topologyAssignment``. Raises InvalidSpec if it names no nodes."""
    levels = assignment.get("levels") or []
    if not levels or levels[-1] != HOSTNAME_LABEL:
        raise InvalidSpec(f"Kueue's assignment ends at {levels[-1:] or 'no level'}, not at {HOSTNAME_LABEL}.")
    return tuple(pair for part in assignment.get("slices") or () for pair in _nodes(part))


def _nodes(part: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    count = int(part["domainCount"])
    values, pods = part["valuesPerLevel"][-1], part["podCounts"]
    nodes = _spread(values, count)
    counts = [int(pods["universal"])] * count if "universal" in pods else [int(n) for n in pods["individual"]]
    if len(nodes) != count or len(counts) != count:
        raise InvalidSpec(f"Kueue's assignment gives {len(nodes)} nodes and {len(counts)} counts of {count}.")
    yield from zip(nodes, counts, strict=True)


def _spread(values: Mapping[str, Any], count: int) -> list[str]:
    if "universal" in values:
        return [str(values["universal"])] * count
    individual = values["individual"]
    prefix, suffix = str(individual.get("prefix", "")), str(individual.get("suffix", ""))
    return [f"{prefix}{root}{suffix}" for root in individual["roots"]]


def nodes_of_tasks(
    pod_set: PodSet,
    nodes: Sequence[tuple[str, int]],
    domains: Mapping[str, Domain],
    *,
    present: Mapping[str, str],
) -> dict[str, str]:
    """The node of each task. ``domains`` are the places of the nodes, one label value for each level.

    Tasks with a ``present`` node stay there, whether Kueue still counts it or not. Raises InvalidSpec for
    nodes that do not hold the pod set, or whose domains cut a slice.
    """
    total = sum(count for _, count in nodes)
    if total != len(pod_set.tasks):
        raise InvalidSpec(
            f"Kueue assigned {count_of(total, 'pod')} to {pod_set.words}, which has {len(pod_set.tasks)}."
        )
    room: dict[str, int] = {}
    for node, count in nodes:
        room[node] = room.get(node, 0) + count
    if pod_set.slice_level is not None:
        _check_slices(pod_set, room, domains)
    in_order = sorted(room, key=lambda node: _place(node, domains.get(node, ())))
    staying = {task.name: present[task.name] for task in pod_set.tasks if task.name in present}
    for node in staying.values():
        room[node] = max(room.get(node, 0) - 1, 0)
    moving = [task.name for task in pod_set.tasks if task.name not in staying]
    slots = [node for node in in_order for _ in range(room[node])]
    return {**staying, **dict(zip(moving, slots, strict=False))}


def _check_slices(pod_set: PodSet, counts: Mapping[str, int], domains: Mapping[str, Domain]) -> None:
    assert pod_set.slice_level is not None
    by_domain: dict[Domain, int] = {}
    for node, count in counts.items():
        if node not in domains:
            raise InvalidSpec(f"Node {node}, which Kueue assigned, is not known yet.")
        domain = domains[node][: pod_set.slice_level + 1]
        by_domain[domain] = by_domain.get(domain, 0) + count
    for domain, count in by_domain.items():
        if count % pod_set.slice_size:
            place = "/".join(value or "none" for value in domain)
            raise InvalidSpec(
                f"Kueue assigned {count_of(count, 'pod')} of {pod_set.words} to {place}, which cuts a set of "
                f"{pod_set.slice_size}."
            )


def _place(node: str, domain: Domain) -> tuple[tuple[tuple[int, int, str], ...], ...]:
    return tuple(natural(value or "") for value in (*domain, node))
