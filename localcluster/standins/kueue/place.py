"""Where the pods of one pod set go: topology-aware placement, pure.

Kueue's documentation calls the two orders best fit (required and preferred: the fullest domain that still has
room for all, else the emptiest first) and least free capacity (unconstrained). Counts go up the tree from its
leaves, then the choice goes down level by level (Kueue v0.19 tas_flavor_snapshot.go).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from localcluster.standins.affinity import holds_on
from localcluster.standins.kueue.values import (
    HOSTNAME,
    PODS,
    Assignment,
    Flavor,
    Node,
    PodSet,
    Request,
    Topology,
)
from localcluster.standins.quantities import UNIT, Amounts, add

Path = tuple[str, ...]
LeafUsage = Mapping[Path, Amounts]
"""Use of leaves beside what the tree knows, by path."""


class DoesNotFit(Exception):
    """Why there is no place, in Kueue's words."""


@dataclass(slots=True)
class Domain:
    """A domain; ``pods`` and ``slices`` are how many of the pod set at hand would fit."""

    path: Path
    free: dict[str, int] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    children: list["Domain"] = field(default_factory=list)
    pods: int = 0
    slices: int = 0

    def below(self, depth: int) -> Iterator["Domain"]:
        """The domains ``depth`` levels below."""
        if depth == 0:
            yield self
        else:
            for child in self.children:
                yield from child.below(depth - 1)


@dataclass(frozen=True, slots=True)
class Tree:
    """The nodes of a flavor as its Topology orders them; those that lack a level's label are not in it."""

    topology: Topology
    flavor: Flavor
    roots: tuple[Domain, ...]

    @property
    def levels(self) -> tuple[str, ...]:
        return self.topology.levels

    @property
    def by_node(self) -> bool:
        return self.levels[-1] == HOSTNAME

    def at(self, level: int) -> list[Domain]:
        return [domain for root in self.roots for domain in root.below(level)]

    @property
    def leaves(self) -> list[Domain]:
        return self.at(len(self.levels) - 1)

    def path_of(self, values: Path) -> Path | None:
        """The full path of an assignment's domain; None if it is there no more."""
        return next((leaf.path for leaf in self.leaves if leaf.path[-len(values) :] == values), None)


@dataclass(frozen=True, slots=True)
class Search:
    """One pod set's wish, with levels as numbers (0 is the broadest)."""

    count: int
    size: int
    level: int
    slice_level: int
    required: bool
    unconstrained: bool

    @property
    def units(self) -> int:
        return self.count // self.size


def tree(topology: Topology, flavor: Flavor, nodes: Iterable[Node], used: Mapping[str, Amounts]) -> Tree:
    """Order the ready nodes with the flavor's labels; ``used`` is by node."""
    domains: dict[Path, Domain] = {}
    for node in sorted(nodes, key=lambda each: each.name):
        path = tuple(node.labels.get(level, "") for level in topology.levels)
        if not all(path) or not node.ready or node.unschedulable:
            continue
        if not flavor.labels.items() <= node.labels.items():
            continue
        for depth in range(1, len(path) + 1):
            if path[:depth] not in domains:
                domains[path[:depth]] = Domain(path[:depth])
                if depth > 1:
                    domains[path[: depth - 1]].children.append(domains[path[:depth]])
        leaf = domains[path]
        leaf.nodes.append(node)
        for name, amount in node.allocatable.items():
            leaf.free[name] = leaf.free.get(name, 0) + amount - used.get(node.name, {}).get(name, 0)
    return Tree(topology, flavor, tuple(domain for path, domain in domains.items() if len(path) == 1))


def has_levels(topology: Topology, request: Request | None) -> bool:
    """Whether the Topology has every level that is named."""
    named = (request.required, request.preferred, request.slice_level) if request else ()
    return all(level in topology.levels for level in named if level)


def find(where: Tree, pod_set: PodSet, *, usage: LeafUsage, within: Path = ()) -> Assignment:
    """Assign every pod a leaf below ``within``; raises DoesNotFit."""
    search = _search(where, pod_set)
    excluded = _count(where, pod_set, search, usage, within)
    level, chosen = _level(where, search, search.level, excluded)
    shares = _share(chosen, search.units, least=search.unconstrained, slices=True)
    while level < min(len(where.levels) - 1, search.slice_level):
        below = _ordered((child for domain, _ in shares for child in domain.children), search)
        shares = _share(below, search.units, least=search.unconstrained, slices=True)
        level += 1
    counts = [(domain, units * search.size) for domain, units in shares]
    for _ in range(level, len(where.levels) - 1):
        counts = [
            share
            for domain, pods in counts
            for share in _share(
                _ordered(domain.children, search), pods, least=search.unconstrained, slices=False
            )
        ]
    return assignment(where, {domain.path: pods for domain, pods in counts if pods})


def find_group(
    where: Tree, workers: PodSet, leader: PodSet, *, usage: LeafUsage
) -> tuple[Assignment, Assignment]:
    """Assign workers and beside them one pod of the leader, however many it has."""
    alone = PodSet(leader.name, 1, leader.requests, None, leader.selector, leader.tolerations)
    level = _search(where, workers).level
    failure: DoesNotFit | None = None
    for domain in _ordered_for(where, workers, level, usage):
        try:
            placed = find(where, workers, usage=usage, within=domain.path)
            return placed, find(where, alone, usage=plus(where, usage, placed, workers), within=domain.path)
        except DoesNotFit as error:
            failure = failure or error
    if workers.request and workers.request.required:
        raise failure or DoesNotFit(f"no topology domains at level: {where.levels[level]}")
    placed = find(where, workers, usage=usage)
    return placed, find(where, alone, usage=plus(where, usage, placed, workers))


def _ordered_for(where: Tree, pod_set: PodSet, level: int, usage: LeafUsage) -> list[Domain]:
    """The domains of a level that have room for the pod set, fullest first."""
    search = _search(where, pod_set)
    _count(where, pod_set, search, usage, ())
    fitting = [domain for domain in where.at(level) if domain.slices >= search.units]
    return sorted(fitting, key=lambda domain: (domain.slices, domain.pods, domain.path))


def replacement(
    where: Tree, pod_set: PodSet, rest: Assignment, count: int, *, usage: LeafUsage
) -> tuple[Assignment, Assignment]:
    """Place ``count`` pods again whose node is lost; return the whole new assignment and the new part."""
    paths = {where.path_of(values): pods for values, pods in rest.domains}
    if None in paths:
        raise DoesNotFit("the existing topologyAssignment is invalid")
    pods_by_leaf = {path: pods for path, pods in paths.items() if path is not None}
    request, within = pod_set.request, _home(where, pod_set, pods_by_leaf, count)
    if request and request.slice_level and count % (request.slice_size or 1):
        request = Request(request.required, request.preferred, request.unconstrained or not _named(request))
    again = PodSet(pod_set.name, count, pod_set.requests, request, pod_set.selector, pod_set.tolerations)
    part = find(where, again, usage=usage, within=within)
    merged = Counter(pods_by_leaf)
    for values, pods in part.domains:
        if (path := where.path_of(values)) is not None:
            merged[path] += pods
    return assignment(where, merged), part


def _home(where: Tree, pod_set: PodSet, pods_by_leaf: Mapping[Path, int], count: int) -> Path:
    """The domain in which lost pods must be replaced: of their slice, or of the whole pod set."""
    request = pod_set.request
    if not pods_by_leaf or request is None:
        return ()
    if request.slice_level and count % (size := request.slice_size or 1):
        depth = where.levels.index(request.slice_level) + 1
        counts: Counter[Path] = Counter()
        for path, pods in pods_by_leaf.items():
            counts[path[:depth]] += pods
        return next((path for path, pods in counts.items() if (pods + count) % size == 0), ())
    if request.required:
        return next(iter(pods_by_leaf))[: where.levels.index(request.required) + 1]
    return ()


def assignment(where: Tree, counts: Mapping[Path, int]) -> Assignment:
    """Counts by leaf as Kueue writes them: in order, and by host alone where there are hosts."""
    first = len(where.levels) - 1 if where.by_node else 0
    domains = tuple((path[first:], pods) for path, pods in sorted(counts.items()))
    return Assignment(where.levels[first:], domains)


def plus(where: Tree, usage: LeafUsage, placed: Assignment, pod_set: PodSet) -> dict[Path, Amounts]:
    """The use of leaves once the pods of an assignment are there."""
    after = dict(usage)
    for values, pods in placed.domains:
        if (path := where.path_of(values)) is not None:
            after[path] = add(after.get(path, {}), times(single(pod_set.requests), pods))
    return after


def single(requests: Amounts) -> dict[str, int]:
    """The amounts that one pod takes, its place among the node's pods included."""
    return {**requests, PODS: UNIT}


def times(amounts: Amounts, count: int) -> dict[str, int]:
    return {name: amount * count for name, amount in amounts.items()}


def _named(request: Request) -> bool:
    return bool(request.required or request.preferred)


def _search(where: Tree, pod_set: PodSet) -> Search:
    request = pod_set.request or Request(unconstrained=True)
    sliced = request.slice_level is not None
    if sliced and request.slice_size is None:
        raise DoesNotFit("slice topology requested, but slice size not provided")
    level = request.required or request.preferred or (where.levels[0] if sliced else where.levels[-1])
    slice_level = request.slice_level or where.levels[-1]
    for named, use in ((level, ""), (slice_level, " for slices")):
        if named not in where.levels:
            raise DoesNotFit(f"no requested topology level{use}: {named}")
    search = Search(
        count=pod_set.count,
        size=request.slice_size if sliced and request.slice_size else 1,
        level=where.levels.index(level),
        slice_level=where.levels.index(slice_level),
        required=bool(request.required),
        unconstrained=not _named(request),
    )
    if search.level > search.slice_level:
        raise DoesNotFit(f"podset slice topology {slice_level} is above the podset topology {level}")
    return search


def _count(where: Tree, pod_set: PodSet, search: Search, usage: LeafUsage, within: Path) -> Counter[str]:
    """Fill in how many pods and slices fit in each domain; return why leaves are out, with how many."""
    excluded: Counter[str] = Counter()
    for leaf in where.leaves:
        reason = _exclusion(where, leaf, pod_set, within)
        free = add(leaf.free, times(usage.get(leaf.path, {}), -1))
        demand = {name: amount for name, amount in single(pod_set.requests).items() if amount > 0}
        fits = {name: max(free.get(name, 0), 0) // amount for name, amount in demand.items()}
        leaf.pods = 0 if reason else min(fits.values())
        if not reason and leaf.pods == 0:
            reason = f'resource "{min(fits, key=lambda name: (fits[name], name))}"'
        if reason:
            excluded[reason] += 1
    for root in where.roots:
        _sum(root, search, 0)
    return excluded


def _exclusion(where: Tree, leaf: Domain, pod_set: PodSet, within: Path) -> str:
    if leaf.path[: len(within)] != within:
        return "topologyDomain"
    if not where.by_node:
        return ""
    (node,) = leaf.nodes
    tolerations = (*pod_set.tolerations, *where.flavor.tolerations)
    for taint in node.taints:
        hard = taint.effect in ("NoSchedule", "NoExecute")
        if hard and not any(toleration.tolerates(taint) for toleration in tolerations):
            return f'taint "{taint.key}={taint.value}:{taint.effect}"'
    if not dict(pod_set.selector).items() <= node.labels.items():
        return "nodeSelector"
    return "" if holds_on(pod_set.affinity, name=node.name, labels=node.labels) else "affinity"


def _sum(domain: Domain, search: Search, level: int) -> None:
    for child in domain.children:
        _sum(child, search, level + 1)
    if domain.children:
        domain.pods = sum(child.pods for child in domain.children)
    domain.slices = sum(child.slices for child in domain.children)
    if level == search.slice_level:
        domain.slices = domain.pods // search.size


def _level(where: Tree, search: Search, level: int, excluded: Counter[str]) -> tuple[int, list[Domain]]:
    """The level at which the pods stand together, going up for a preference, and its domains to use."""
    domains = _ordered(where.at(level), search)
    if not domains:
        raise DoesNotFit(f"no topology domains at level: {where.levels[level]}")
    if fitting := [domain for domain in domains if domain.slices >= search.units]:
        return level, [min(fitting, key=lambda domain: domain.slices)]
    if search.required:
        raise DoesNotFit(_message(where, max(domain.slices for domain in domains), search, excluded))
    if level and not search.unconstrained:
        return _level(where, search, level - 1, excluded)
    if (room := sum(domain.slices for domain in domains)) < search.units:
        raise DoesNotFit(_message(where, room, search, excluded))
    shares = _share(domains, search.units, least=search.unconstrained, slices=True)
    return level, [domain for domain, _ in shares]


def _ordered(domains: Iterable[Domain], search: Search) -> list[Domain]:
    sign = 1 if search.unconstrained else -1
    return sorted(domains, key=lambda domain: (sign * domain.slices, domain.pods, domain.path))


def _share(domains: Sequence[Domain], units: int, *, least: bool, slices: bool) -> list[tuple[Domain, int]]:
    """Spread ``units`` (slices or pods) over domains in order; best fit chooses the last domain by room."""

    def room(domain: Domain) -> int:
        return domain.slices if slices else domain.pods

    shares, waiting = [], list(domains)
    while units > 0 and waiting:
        domain = waiting[0]
        if not least and room(domain) >= units:
            domain = min((each for each in waiting if room(each) >= units), key=room)
        waiting.remove(domain)
        if share := min(room(domain), units):
            shares.append((domain, share))
            units -= share
    return shares


def _message(where: Tree, room: int, search: Search, excluded: Counter[str]) -> str:
    unit = "pod" if search.size == 1 else "slice"
    fit = f"allows to fit only {room} out of" if room else "doesn't allow to fit any of"
    text = f'topology "{where.topology.name}" {fit} {search.units} {unit}(s)'
    if not excluded:
        return text
    reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(excluded.items()))
    return f"{text}. Total nodes: {len(where.leaves)}; excluded: {reasons}"
