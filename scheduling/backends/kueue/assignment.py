"""Which task gets which node of those that Kueue assigned to a pod set.

Kueue answers with nodes and numbers of pods (``topologyAssignment``); which pod stands where is ours
to say. Task order is kept: nodes are taken domain by domain, in the order of their labels, so neighbours in
rank are neighbours in topology, and rank 0 is on the first node. Slices never straddle a domain of their
level, and a pod set with a required level never leaves one domain of it, nor one that it is kept in: an
assignment in which they would is refused instead of used. So is one that is not of the form of its
definition, whoever wrote it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduling.backends.kueue.pod_sets import PodSet
from scheduling.errors import InvalidSpec
from scheduling.natural_order import natural
from scheduling.sentences import count_of, plain_listing
from scheduling.topology.levels import HOSTNAME_LABEL, DomainPath

MOST_NAMED = 3

NodeCounts = tuple[tuple[str, int], ...]
"""Nodes by their label kubernetes.io/hostname, each with its number of pods."""


def pod_set_answers(pod_group: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The status that a Workload has of each pod set, by name. Raises InvalidSpec if it cannot be read."""
    admission = (pod_group.get("status") or {}).get("admission") or {}
    try:
        answers = {str(entry["name"]): entry for entry in admission.get("podSetAssignments") or ()}
    except _UNREADABLE as error:
        raise InvalidSpec(_NO_ANSWER) from error
    if len(answers) < len(admission.get("podSetAssignments") or ()):
        raise InvalidSpec("Kueue's answer names a pod set twice.")
    return answers


def read_assignment(assignment: Mapping[str, Any], *, pods: int) -> NodeCounts:
    """The nodes of a ``topologyAssignment`` for so many pods. Raises InvalidSpec if it names none."""
    try:
        levels = assignment.get("levels") or []
        if not levels or levels[-1] != HOSTNAME_LABEL:
            last = levels[-1] if levels else "no level"
            raise InvalidSpec(f"Kueue's assignment ends at {last}, not at {HOSTNAME_LABEL}.")
        return tuple(pair for part in assignment.get("slices") or () for pair in _nodes(part, pods))
    except _UNREADABLE as error:
        raise InvalidSpec(_NO_ANSWER) from error


_UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError)
_NO_ANSWER = "Kueue's assignment is not of the form that its definition gives it."


def _nodes(part: Mapping[str, Any], pods: int) -> Iterator[tuple[str, int]]:
    count = int(part["domainCount"])
    if not 0 < count <= pods:
        raise InvalidSpec(f"Kueue's assignment gives {count} nodes to {count_of(pods, 'pod')}.")
    nodes = _spread(part["valuesPerLevel"][-1], count)
    pod_counts = part["podCounts"]
    counts = (
        [int(pod_counts["universal"])] * count
        if "universal" in pod_counts
        else [int(n) for n in pod_counts["individual"]]
    )
    if len(nodes) != count or len(counts) != count:
        raise InvalidSpec(f"Kueue's assignment gives {len(nodes)} nodes and {len(counts)} counts of {count}.")
    if min(counts) < 1:
        raise InvalidSpec(f"Kueue's assignment gives {min(counts)} pods to a node.")
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
    domains: Mapping[str, DomainPath],
    *,
    present: Mapping[str, str],
) -> dict[str, str]:
    """The node of each task. ``domains`` are the places of the nodes, one label value for each level.

    Tasks with a ``present`` node stay there, whether Kueue still counts it or not. Raises InvalidSpec for
    nodes that do not hold the pod set, that are not in one domain of its required level, or whose domains
    cut a slice.
    """
    total = sum(count for _, count in nodes)
    if total != len(pod_set.tasks):
        raise InvalidSpec(
            f"Kueue assigned {count_of(total, 'pod')} to {pod_set.words}, which has {len(pod_set.tasks)}."
        )
    room: dict[str, int] = {}
    for node, count in nodes:
        room[node] = room.get(node, 0) + count
    _check_required(pod_set, room, domains)
    _check_domain(pod_set, room, domains)
    if pod_set.slice_level is not None:
        _check_slices(pod_set, room, domains)
    staying = {task.name: present[task.name] for task in pod_set.tasks if task.name in present}
    for node in staying.values():
        room[node] = max(room.get(node, 0) - 1, 0)
    in_order = sorted(room, key=lambda node: _place(node, domains.get(node, ())))
    slots = [node for node in in_order for _ in range(room[node])]
    if pod_set.slice_level is not None:
        return {**staying, **_by_slice(pod_set, slots, domains, staying)}
    moving = [task.name for task in pod_set.tasks if task.name not in staying]
    return {**staying, **dict(zip(moving, slots, strict=False))}


def _by_slice(
    pod_set: PodSet, slots: Sequence[str], domains: Mapping[str, DomainPath], staying: Mapping[str, str]
) -> dict[str, str]:
    """Nodes for the tasks that do not stay: beside those of their slice that do, else a domain for all."""
    depth, names = (pod_set.slice_level or 0) + 1, [task.name for task in pod_set.tasks]
    free: dict[DomainPath, list[str]] = {}
    for node in slots:
        free.setdefault(domains[node][:depth], []).append(node)
    slices = [names[at : at + pod_set.slice_size] for at in range(0, len(names), pod_set.slice_size)]
    nodes: dict[str, str] = {}
    for part in sorted(slices, key=lambda part: staying.keys().isdisjoint(part)):
        moving = [name for name in part if name not in staying]
        homes = [domains.get(staying[name], ())[:depth] for name in part if name in staying]
        home = homes[0] if homes else next((at for at in free if len(free[at]) >= len(moving)), ())
        if len(free.get(home, ())) < len(moving):
            raise InvalidSpec(
                f"Kueue assigned no {count_of(len(moving), 'place')} to {pod_set.words} where its set is."
            )
        for name in moving:
            nodes[name] = free[home].pop(0)
    return nodes


def _check_required(pod_set: PodSet, room: Mapping[str, int], domains: Mapping[str, DomainPath]) -> None:
    level = pod_set.constraint.required
    if level is None:
        return
    places = sorted({_words(_domain_of(node, domains)[: level + 1]) for node in room})
    if len(places) > 1:
        raise InvalidSpec(
            f"Kueue assigned {pod_set.words} to more than one domain: "
            f"{plain_listing(places, limit=MOST_NAMED)}."
        )


def _check_domain(pod_set: PodSet, room: Mapping[str, int], domains: Mapping[str, DomainPath]) -> None:
    domain = pod_set.domain
    if outside := [node for node in room if domain and _domain_of(node, domains)[: len(domain)] != domain]:
        raise InvalidSpec(
            f"Kueue assigned {pod_set.words} nodes outside of {_words(domain)}: "
            f"{plain_listing(outside, limit=MOST_NAMED)}."
        )


def _check_slices(pod_set: PodSet, counts: Mapping[str, int], domains: Mapping[str, DomainPath]) -> None:
    assert pod_set.slice_level is not None
    by_domain: dict[DomainPath, int] = {}
    for node, count in counts.items():
        domain = _domain_of(node, domains)[: pod_set.slice_level + 1]
        by_domain[domain] = by_domain.get(domain, 0) + count
    for domain, count in by_domain.items():
        if count % pod_set.slice_size:
            raise InvalidSpec(
                f"Kueue assigned {count_of(count, 'pod')} of {pod_set.words} to {_words(domain)}, which cuts "
                f"a set of {pod_set.slice_size}."
            )


def _domain_of(node: str, domains: Mapping[str, DomainPath]) -> DomainPath:
    if node not in domains:
        raise InvalidSpec(f"Node {node}, which Kueue assigned, is not known yet.")
    return domains[node]


def _words(domain: DomainPath) -> str:
    return "/".join(value or "none" for value in domain)


def _place(node: str, domain: DomainPath) -> tuple[tuple[tuple[int, int, str], ...], ...]:
    return tuple(natural(value or "") for value in (*domain, node))
