"""The nodes of a pool at one moment, indexed by the domains of its levels.

Built once for a state of the cluster and then only read; what a calculation changes stands on a ``Board``
of its own. Nodes and domains are addressed by their place in a tuple, so that a calculation over thousands
of them works on lists of numbers.

A domain of a level is a path of label values where the scheduler's domains are paths (KAI), and one label
value elsewhere. The nodes a constraint sees are those that carry every label its Topology lists: the *cut*.
Domains of one level are sorted by path, so what lies under a broader domain is one run of them (``span``)
and counting the nodes of a domain that are visible under a cut is summing that run.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduling.levels import Levels, domain_of

RESOURCES = ("gpu", "cpu", "memory", "storage", "pods", "channels")
"""What amounts count, in this order; cpu in thousandths of a core, memory and storage in bytes."""

Amounts = tuple[int, ...]
NOTHING: Amounts = (0,) * len(RESOURCES)

WHOLE = -1
"""The rank of the pool itself, which is broader than every level."""


def amounts(**given: int) -> Amounts:
    """Amounts by name; what is left out is 0."""
    return tuple(given.get(name, 0) for name in RESOURCES)


@dataclass(frozen=True, slots=True)
class Holding:
    """What somebody holds of a node. ``until`` is when it ends at the latest, in epoch seconds, if known."""

    holder: str
    amounts: Amounts
    until: float | None = None


OTHERS = "pods of others"
"""The name under which people are told of what nobody's workflow holds; no workflow can have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitNode:
    """A node. ``closed`` says in words why nothing new goes there (cordoned, not ready), empty if it does.

    ``others`` is what pods hold that no workflow made: it has no end that is known.
    """

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    holdings: tuple[Holding, ...] = ()
    others: Amounts = NOTHING
    taints: tuple[Mapping[str, str], ...] = ()
    closed: str = ""

    @property
    def free(self) -> Amounts:
        """What is not held; never below 0, because what is held may be counted later than what is there."""
        if not self.holdings:
            return self.without_work
        left = list(self.without_work)
        for holding in self.holdings:
            for i, amount in enumerate(holding.amounts):
                left[i] -= amount
        return tuple(max(0, amount) for amount in left)

    @property
    def without_work(self) -> Amounts:
        """What would be free if every workflow on it had ended."""
        if self.others == NOTHING:
            return self.allocatable
        pairs = zip(self.allocatable, self.others, strict=True)
        return tuple(max(0, amount - held) for amount, held in pairs)


@dataclass(frozen=True, slots=True)
class Domain:
    """One concrete domain; ``path`` holds its label values, broadest first (one value where not by paths)."""

    rank: int
    path: tuple[str, ...]
    nodes: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``domains[rank]`` in order of path; ``places[node][rank]`` is the node's domain there, or None."""

    levels: Levels
    paths: bool
    nodes: tuple[FitNode, ...] = field(repr=False)
    domains: tuple[tuple[Domain, ...], ...] = field(repr=False)
    places: tuple[tuple[int | None, ...], ...] = field(repr=False)

    @classmethod
    def of(cls, nodes: Iterable[FitNode], levels: Levels, *, paths: bool) -> "Snapshot":
        """Index nodes; ``paths`` says that domains are paths of labels (``topology.path_domains``)."""
        rows = tuple(sorted(nodes, key=lambda node: node.name))
        found: list[dict[tuple[str, ...], list[int]]] = [defaultdict(list) for _ in levels]
        for index, node in enumerate(rows):
            values = domain_of(node.labels, levels)
            for rank, value in enumerate(values):
                if value is None:
                    if paths:
                        break
                    continue
                path = tuple(v for v in values[: rank + 1] if v is not None) if paths else (value,)
                found[rank][path].append(index)
        domains = tuple(
            tuple(Domain(rank, path, tuple(by_path[path])) for path in sorted(by_path))
            for rank, by_path in enumerate(found)
        )
        places: list[list[int | None]] = [[None] * len(levels) for _ in rows]
        for rank, row in enumerate(domains):
            for at, domain in enumerate(row):
                for index in domain.nodes:
                    places[index][rank] = at
        return cls(tuple(levels), paths, rows, domains, tuple(map(tuple, places)))

    def span(self, rank: int, at: int, *, below: int) -> range:
        """The domains of rank ``below`` that lie in a domain; ``rank`` WHOLE means in the pool."""
        row = self.domains[below]
        if rank == WHOLE:
            return range(len(row))
        if below == rank:
            return range(at, at + 1)
        prefix = self.domains[rank][at].path
        depth = len(prefix)
        low = bisect_left(row, prefix, key=lambda domain: domain.path[:depth])
        return range(low, bisect_right(row, prefix, lo=low, key=lambda domain: domain.path[:depth]))

    def edited(
        self, change: Callable[[FitNode], FitNode | None], *, added: Sequence[FitNode] = ()
    ) -> "Snapshot":
        """The same with every node changed, or gone where ``change`` gives None, and some added."""
        kept = (changed for node in self.nodes if (changed := change(node)) is not None)
        return Snapshot.of([*kept, *added], self.levels, paths=self.paths)

    def with_levels(self, levels: Levels) -> "Snapshot":
        """The same nodes under other levels."""
        return Snapshot.of(self.nodes, levels, paths=self.paths)

    def emptied(self) -> "Snapshot":
        """The same as if nothing ran and every node were open."""
        return replace(
            self, nodes=tuple(replace(n, holdings=(), others=NOTHING, closed="") for n in self.nodes)
        )
