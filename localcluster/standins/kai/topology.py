"""Which sets of nodes a topology constraint allows, in the order KAI tries them.

A node stands in a Topology's tree only if it carries the label of *every* level, also of levels finer than
the one asked for ("Nodes without a label"). For one constraint KAI

1. descends to the narrowest domain that all candidate nodes share, stopping early only at the *preferred*
   level, and computes capacity below it alone. A required level broader than that domain then counts as
   empty: that is the shortcut fault of "Preferred beside required", kept here;
2. counts what fits per domain (equal pods: per node by the largest pod; otherwise by sums), without
   regard to selectors and taints ("Selectors and domains");
3. offers domains from the preferred level up to the required one (or the whole tree), narrowest level
   first, within a parent the fullest first (requested/free descending, then name).

With a preferred level, nodes of its emptiest domain score highest. Source: KAI v0.13
``plugins/topology/{common,job_filtering,node_scoring}.go``; "Silent errors" was seen on running ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from localcluster.standins.kai.board import Board
from localcluster.standins.kai.messages import NOT_ENOUGH, POD_ERRORS, FitError, human, words
from localcluster.standins.kai.values import Constraint, Node, Pod, Topology

ROOT = "root"
_NOTHING_FREE = 1000.0


@dataclass(slots=True)
class Domain:
    id: str
    level: str
    nodes: list[str] = field(default_factory=list)
    children: list["Domain"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Tree:
    """One Topology over the nodes that carry all its labels; ``domains[level][id]``."""

    name: str
    levels: tuple[str, ...]
    domains: Mapping[str, Mapping[str, Domain]]
    paths: Mapping[str, tuple[str, ...]]

    @property
    def root(self) -> Domain:
        return self.domains[ROOT][ROOT]


def tree_of(topology: Topology, nodes: Iterable[Node]) -> Tree:
    """Build the tree; domains are joined by ``.`` into ids as KAI does, so ids can collide as there."""
    domains: dict[str, dict[str, Domain]] = {ROOT: {ROOT: Domain(ROOT, ROOT)}}
    domains.update({level: {} for level in topology.levels})
    paths: dict[str, tuple[str, ...]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        if any(level not in node.labels for level in topology.levels):
            continue
        path = tuple(node.labels[level] for level in topology.levels)
        paths[node.name] = path
        above = domains[ROOT][ROOT]
        above.nodes.append(node.name)
        for depth, level in enumerate(topology.levels):
            name = ".".join(path[: depth + 1])
            domain = domains[level].get(name)
            if domain is None:
                domain = domains[level][name] = Domain(name, level)
                above.children.append(domain)
            domain.nodes.append(node.name)
            above = domain
    return Tree(topology.name, topology.levels, domains, paths)


@dataclass(frozen=True, slots=True)
class Place:
    """A candidate set of nodes."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subset:
    """The choices that a constraint allows: places in order, the scores of nodes, and why there are none."""

    places: tuple[Place, ...]
    scores: Mapping[str, int] | None = None
    errors: tuple[FitError, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """One constraint asked for some pods within the nodes its parent picked.

    ``occupied`` are nodes where pods of the same sub-group already run.
    """

    group: str
    subgroup: str
    constraint: Constraint
    pods: Sequence[Pod]
    nodes: tuple[str, ...]
    occupied: frozenset[str] = frozenset()


def subset(question: Question, *, tree: Tree | None, board: Board) -> Subset:
    """Answer which places the constraint allows."""
    constraint = question.constraint
    if tree is None:
        text = f"Requested topology {constraint.topology} does not exist"
        return Subset((), errors=(FitError(POD_ERRORS, (text,)),))
    return _Search(question, tree, board).run()


class _Search:
    """One evaluation; capacities live only as long as it does."""

    def __init__(self, question: Question, tree: Tree, board: Board) -> None:
        self.q, self.tree, self.board = question, tree, board
        self.want = _sum(question.pods)
        self.biggest = _max(question.pods)
        self.by_pods = _homogeneous(question.pods)
        self.capacity: dict[int, int] = {}
        self.free: dict[int, dict[str, int]] = {}

    def run(self) -> Subset:
        valid = [name for name in self.q.nodes if name in self.tree.paths]
        domain = self._common(valid)
        self._measure(domain)
        if self._misfit(domain):  # KAI drops the domain's own text here
            where = "the cluster" if domain.level == ROOT else domain.id
            text = self._unsatisfied(f"not enough resources in {where} to allocate the job")
            return Subset((), errors=(FitError(POD_ERRORS, (text,)),))
        order = self._ordered(domain)
        scores = self._scores(domain, order) if self.q.constraint.preferred else None
        levels = self._levels()
        if levels is None:
            return Subset(())  # only KAI's own log says why
        return self._choose(levels, order, set(valid), scores)

    def _common(self, valid: Sequence[str]) -> Domain:
        """The narrowest domain shared by all valid nodes, not below the preferred level."""
        shared: list[str] = []
        for depth, level in enumerate(self.tree.levels):
            values = {self.tree.paths[name][depth] for name in valid}
            if len(values) != 1 or "" in values:
                break
            shared.extend(values)
            if level == self.q.constraint.preferred:
                break
        if not shared:
            return self.tree.root
        return self.tree.domains[self.tree.levels[len(shared) - 1]][".".join(shared)]

    def _measure(self, domain: Domain) -> None:
        """Compute capacity of ``domain`` and all below; whatever stands elsewhere stays unmeasured."""
        free: dict[str, int] = {}
        capacity = 0
        if domain.children:
            for child in domain.children:
                self._measure(child)
                capacity += self.capacity[id(child)]
                for resource, amount in self.free[id(child)].items():
                    free[resource] = free.get(resource, 0) + amount
        else:
            for name in domain.nodes:
                capacity += self._accommodates(name)
                for resource in self.want:
                    free[resource] = free.get(resource, 0) + self.board.free(name, resource)
        self.capacity[id(domain)], self.free[id(domain)] = capacity, free

    def _accommodates(self, name: str) -> int:
        """How many of the largest pod this node can take, by resources alone."""
        least: int | None = None
        for resource, amount in self.biggest.items():
            if amount > 0:
                fits = max(self.board.free(name, resource) // amount, 0)
                least = fits if least is None else min(least, fits)
        return len(self.q.pods) if least is None else least

    def _ratio(self, domain: Domain) -> float:
        """Requested over free of the scarcest resource; nothing free (or not measured) is far above 1."""
        free = self.free.get(id(domain), {})
        ratio = 0.0
        for resource, amount in self.want.items():
            if amount > 0 and resource != "pods":
                have = free.get(resource, 0)
                ratio = max(ratio, amount / have if have > 0 else _NOTHING_FREE)
        return ratio

    def _misfit(self, domain: Domain) -> FitError | None:
        pods = len(self.q.pods)
        if self.by_pods and id(domain) in self.capacity:
            have = self.capacity[id(domain)]
            if have >= pods:
                return None
            text = f"node-group {domain.id} can allocate only {have} of {pods} required pods"
            return FitError(NOT_ENOUGH, (text,), subgroup=self.q.subgroup, domain=domain.id)
        if self._ratio(domain) <= 1:
            return None
        return self._shortage(domain)

    def _shortage(self, domain: Domain) -> FitError:
        free = self.free.get(id(domain), {})
        short: list[str] = []
        detailed: list[str] = []
        for resource, amount in self.want.items():
            have = free.get(resource, 0)
            if amount <= have or resource == "pods":
                continue
            short.append(f"node-group(s) didn't have enough resources: {words(resource)}")
            noun = "resources" if resource in ("cpu", "memory") else "resource"
            detailed.append(
                f"{domain.id} didn't have enough {noun}: {words(resource)}, "
                f"requested: {human(resource, amount)}, available: {human(resource, have)}"
            )
        return FitError(NOT_ENOUGH, tuple(short), tuple(detailed), subgroup=self.q.subgroup, domain=domain.id)

    def _unsatisfied(self, suffix: str = "") -> str:
        subject = f"job <{self.q.group}>"
        if self.q.subgroup and self.q.subgroup != "default":
            subject += f", subgroup {self.q.subgroup}"
        required = self.q.constraint.required
        text = f"topology {self.tree.name}, requirement {required} couldn't be satisfied for {subject}"
        return f"{text}: {suffix}" if suffix else text

    def _ordered(self, start: Domain) -> list[Domain]:
        """``start`` and all below it breadth first, children of one parent by fullest first."""
        deepest = self.q.constraint.preferred or self.q.constraint.required
        ordered: list[Domain] = [start]
        queue = [(start, bool(deepest))]
        while queue:
            domain, sorting = queue.pop(0)
            children = domain.children
            if sorting:
                children = sorted(children, key=lambda child: (-self._ratio(child), child.id))
            below = sorting and domain.level != deepest
            ordered.extend(children)
            queue.extend((child, below) for child in children)
        return ordered

    def _scores(self, start: Domain, order: Sequence[Domain]) -> dict[str, int]:
        """Tens of the rank of each node's preferred-level domain, the one with most room highest."""
        level = self.q.constraint.preferred
        ranked = [start] if start.level == level else _depth_first(start, order, level)
        scores: dict[str, int] = {}
        for rank, domain in enumerate(ranked, start=1):
            for name in domain.nodes:
                scores[name] = rank * 10 // len(ranked)
        return scores

    def _levels(self) -> list[str] | None:
        """Levels to try, narrowest first; None where KAI only logs an error ("Silent errors")."""
        required, preferred = self.q.constraint.required, self.q.constraint.preferred
        if not required and not preferred:
            return None
        candidates: list[str] = []
        past_required = past_preferred = False
        for level in (*reversed(self.tree.levels), ROOT):
            past_preferred = past_preferred or level == preferred
            past_required = past_required or level == required
            if past_preferred or past_required:
                candidates.append(level)
            if past_required:
                break
        if (required and not past_required) or (preferred and not past_preferred):
            return None
        return candidates

    def _choose(
        self, levels: Sequence[str], order: Sequence[Domain], valid: set[str], scores: dict[str, int] | None
    ) -> Subset:
        fitting: dict[int, Domain] = {}
        errors: list[FitError] = []
        for place, level in enumerate(levels):
            for domain in self._offered(level):
                error = self._misfit(domain)
                if error is None:
                    fitting[id(domain)] = domain
                elif place == len(levels) - 1:
                    errors.append(error)
        if not fitting:
            errors.append(FitError(POD_ERRORS, (self._unsatisfied(),)))
            return Subset((), errors=tuple(errors))
        ranks = {id(domain): rank for rank, domain in enumerate(order)}
        depth = {level: number for number, level in enumerate(levels)}
        chosen = sorted(fitting.values(), key=lambda d: (depth[d.level], ranks.get(id(d), len(ranks)), d.id))
        places = tuple(Place(tuple(name for name in domain.nodes if name in valid)) for domain in chosen)
        return Subset(places, scores)

    def _offered(self, level: str) -> list[Domain]:
        """Domains of a level; a required level with running pods offers only the domain they are in."""
        domains = [self.tree.domains[level][name] for name in sorted(self.tree.domains[level])]
        required = self.q.constraint.required
        if not required or not self.q.occupied:
            return domains
        occupied = [d for d in self.tree.domains[required].values() if self.q.occupied.intersection(d.nodes)]
        inside = {name for domain in occupied for name in domain.nodes}
        return [domain for domain in domains if inside.issuperset(domain.nodes)]


def _depth_first(start: Domain, order: Sequence[Domain], level: str) -> list[Domain]:
    """Domains of ``level`` below ``start`` in the order of a walk over the sorted tree."""
    rank = {id(domain): number for number, domain in enumerate(order)}
    domains: list[Domain] = []
    stack = [start]
    while stack:
        domain = stack.pop()
        if domain.level == level:
            domains.append(domain)
            continue
        stack.extend(sorted(domain.children, key=lambda child: rank[id(child)], reverse=True))
    return domains


def _sum(pods: Sequence[Pod]) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.shape.requests:
            total[resource] = total.get(resource, 0) + amount
    return total


def _max(pods: Sequence[Pod]) -> dict[str, int]:
    most: dict[str, int] = {}
    for shape in {pod.shape for pod in pods}:
        for resource, amount in shape.requests:
            most[resource] = max(most.get(resource, 0), amount)
    return most


def _homogeneous(pods: Sequence[Pod]) -> bool:
    """Whether all pods ask for the same kinds of resources (beyond cpu and memory)."""
    counts: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.shape.requests:
            if amount > 0 and resource not in ("cpu", "memory"):
                counts[resource] = counts.get(resource, 0) + 1
    return all(count == len(pods) for count in counts.values())
