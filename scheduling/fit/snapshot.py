"""The nodes of a pool at one moment, indexed by the domains of its levels.

Built once for a state of the cluster and then only read; each calculation changes a ``Board`` of its own.
Nodes and domains are addressed by their place in a tuple, so that a calculation over thousands of them works
on lists of numbers.

A domain of a level is a path of label values where the scheduler's domains are paths (KAI), and one label
value elsewhere. The nodes a constraint sees are those that carry every label its Topology lists: the *cut*.
Domains of one level are sorted by path, so the domains under a broader domain are one run of them (``span``)
and counting the nodes of a domain that are visible under a cut is summing that run.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from scheduling.kubernetes_syntax import GPU
from scheduling.nodes.devices import CLAIMS_UNKNOWN, NO_DEVICES, SHUNNED, NodeDevices
from scheduling.nodes.taints import Taint, passes_by_condition
from scheduling.topology.levels import DomainPath, Levels, domain_of, has_domain

RESOURCES = ("gpu", "cpu", "memory", "storage", "pods", "channels")
"""The entries of ``Amounts``, in this order; cpu in thousandths of a core, memory and storage in bytes."""

ResourceVector = tuple[int, ...]
NO_AMOUNTS: ResourceVector = (0,) * len(RESOURCES)
_GPU = RESOURCES.index("gpu")
PODS = RESOURCES.index("pods")
_CHANNELS = RESOURCES.index("channels")

MANY_GPUS = 1 << 12
"""Of a node of which it is not known how many it offers: more than any task asks for."""

POOL_RANK = -1
"""The rank of the pool itself, which is broader than every level."""

_FEW, _FEW_OF = 16, 32
"""A snapshot derives from another while at most 16 of its nodes differ, or one in 32: to count all nodes anew
costs as much as to recount many more."""


def amounts(**by_name: int) -> ResourceVector:
    """Amounts by name; missing names are 0."""
    return tuple(by_name.get(name, 0) for name in RESOURCES)


@dataclass(frozen=True, slots=True)
class Holding:
    """Room that a workflow holds on a node. ``until`` is its latest end in epoch seconds, None if unknown."""

    holder: str
    amounts: ResourceVector
    until: float | None = None


@dataclass(frozen=True, slots=True, order=True)
class Evictable:
    """By what a scheduler may preempt a pod: for a gang of this queue of higher priority."""

    queue: str
    priority: int


@dataclass(frozen=True, slots=True)
class OthersShare:
    """What other tenants' pods in a namespace that may be preempted alike use of a node."""

    namespace: str
    amounts: ResourceVector
    evictable: Evictable | None = None


OthersShares = tuple[OthersShare, ...]
"""The shares that are largest; the usage of other tenants' pods may be more."""

NodeUsage = tuple[tuple[Holding, ...], ResourceVector, OthersShares]
"""The amounts that workflows hold on a node, and the usage of other tenants' pods, whole and by share."""

OTHERS = "other tenants' pods"
"""The name that stands for pods of no workflow of this service; no workflow can have this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitNode:
    """A node."""

    name: str
    labels: Mapping[str, str]
    allocatable: ResourceVector
    holdings: tuple[Holding, ...] = ()

    others: ResourceVector = NO_AMOUNTS
    """The usage of pods that no workflow created; their end is unknown."""

    others_by: OthersShares = ()

    taints: tuple[Taint, ...] = ()

    passing: Mapping[str, datetime | None] = field(default_factory=dict)
    """The keys of taints that may pass, and since when each stands, None if that is not known."""

    closed: str = ""
    """Why it takes no new pods (cordoned, not ready, in the eyes of one pool tainted); empty if it does."""

    extended: tuple[tuple[str, int], ...] = ()
    """What it offers of each further resource that some node publishes by number, whatever is in use."""

    devices: NodeDevices = NO_DEVICES
    """The devices of DRA drivers, of which ``allocatable`` and ``extended`` have those that are counted."""

    uncounted: str = ""
    """Why it is not known how many GPUs the scheduler gives of it; empty if that is known."""

    lacks_channel: bool = False
    """Whether it is known to offer no NVLink channel at the moment, of which it is counted to have one."""

    @property
    def free(self) -> ResourceVector:
        """The free amounts; never below 0, because usage and allocatable are observed at different times."""
        if not self.holdings:
            return self.without_work
        left = list(self.without_work)
        for holding in self.holdings:
            for i, amount in enumerate(holding.amounts):
                left[i] -= amount
        return tuple(max(0, amount) for amount in left)

    def free_of(self, resource: int) -> int:
        """The free amount of one resource, by its place in the amounts."""
        left = self.without_work[resource]
        for holding in self.holdings:
            left -= holding.amounts[resource]
        return max(0, left)

    @property
    def channel_is_held(self) -> bool:
        """Whether a workflow on the node claims its NVLink channel."""
        return any(holding.amounts[_CHANNELS] for holding in self.holdings)

    @property
    def gpus(self) -> int:
        return self.allocatable[_GPU]

    @property
    def doubt(self) -> str:
        """Why it is not known how many GPUs it has free; empty if that is known."""
        return self.uncounted or (CLAIMS_UNKNOWN if GPU in self.devices.counted else "")

    @property
    def gpu_note(self) -> str:
        """What a number of its GPUs leaves out; empty for nothing."""
        return self.devices.gpu_note(self.gpus, self.uncounted)

    @property
    def free_gpus(self) -> int:
        """0 for a node that takes no new pods."""
        return 0 if self.closed else self.free_of(_GPU)

    @property
    def without_work(self) -> ResourceVector:
        """The amounts that would be free if every workflow on the node had ended."""
        if self.others == NO_AMOUNTS:
            return self._offered
        pairs = zip(self._offered, self.others, strict=True)
        return tuple(max(0, amount - occupied) for amount, occupied in pairs)

    @property
    def _offered(self) -> ResourceVector:
        if not self.lacks_channel:
            return self.allocatable
        return (*self.allocatable[:_CHANNELS], 0, *self.allocatable[_CHANNELS + 1 :])


@dataclass(frozen=True, slots=True)
class Domain:
    """One concrete domain; ``path`` holds its label values, broadest first (one value where not by paths)."""

    rank: int
    path: tuple[str, ...]
    nodes: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Nodes, and the domains that they are in."""

    levels: Levels
    paths: bool
    nodes: tuple[FitNode, ...] = field(repr=False)

    domains: tuple[tuple[Domain, ...], ...] = field(repr=False)
    """By rank, in order of path."""

    places: tuple[tuple[int | None, ...], ...] = field(repr=False)
    """By node and rank: the node's domain there, or None."""

    is_complete: bool = True
    """Whether these are all nodes of the cluster.

    A scheduler that counts room in a domain counts its other nodes too, which selectors hide from the tasks
    (KAI does), so a domain is never proven too small by that count alone.
    """

    base: "Snapshot | None" = field(default=None, init=False, repr=False, compare=False)
    """The snapshot that became this one by ``with_nodes``; None for others."""

    changed: frozenset[int] = field(default=frozenset(), init=False, repr=False, compare=False)
    """The places of the nodes that may differ from ``base``; empty for others."""

    derived: dict[type, object] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was worked out of a snapshot, by its class, mostly of one that has no base."""

    @classmethod
    def of(
        cls, nodes: Iterable[FitNode], levels: Levels, *, paths: bool, is_complete: bool = True
    ) -> "Snapshot":
        """Index nodes; ``paths`` says that domains are paths of labels (``topology.path_domains``)."""
        rows = tuple(sorted(nodes, key=lambda node: node.name))
        by_level: list[dict[tuple[str, ...], list[int]]] = [defaultdict(list) for _ in levels]
        for index, node in enumerate(rows):
            values = _domains_of(node, levels)
            for rank, value in enumerate(values):
                if value is None:
                    if paths:
                        break
                    continue
                path = tuple(v for v in values[: rank + 1] if v is not None) if paths else (value,)
                by_level[rank][path].append(index)
        domains = tuple(
            tuple(Domain(rank, path, tuple(by_path[path])) for path in sorted(by_path))
            for rank, by_path in enumerate(by_level)
        )
        places: list[list[int | None]] = [[None] * len(levels) for _ in rows]
        for rank, row in enumerate(domains):
            for at, domain in enumerate(row):
                for index in domain.nodes:
                    places[index][rank] = at
        return cls(tuple(levels), paths, rows, domains, tuple(map(tuple, places)), is_complete)

    def span(self, rank: int, at: int, *, below: int) -> range:
        """The domains of rank ``below`` that lie in a domain; ``rank`` POOL_RANK means in the pool."""
        row = self.domains[below]
        if rank == POOL_RANK:
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
        """The snapshot with every node changed, or removed where ``change`` gives None, and nodes added."""
        nodes = (changed for node in self.nodes if (changed := change(node)) is not None)
        return Snapshot.of([*nodes, *added], self.levels, paths=self.paths, is_complete=self.is_complete)

    def by_levels(self, levels: Levels) -> "Snapshot":
        """The same nodes, in the same order, indexed by other levels."""
        return Snapshot.of(self.nodes, levels, paths=self.paths, is_complete=self.is_complete)

    def with_nodes(self, changes: Mapping[int, FitNode]) -> "Snapshot":
        """The snapshot with other nodes in these places; they keep their names and labels.

        While few differ, what was worked out of the first such snapshot serves this one too.
        """
        if not changes:
            return self
        nodes = list(self.nodes)
        for at, node in changes.items():
            nodes[at] = node
        snapshot = replace(self, nodes=tuple(nodes))
        changed = self.changed.union(changes)
        if len(changed) <= max(_FEW, len(nodes) // _FEW_OF):
            object.__setattr__(snapshot, "base", self.base or self)
            object.__setattr__(snapshot, "changed", changed)
        return snapshot

    def with_usage(self, usage: Mapping[str, NodeUsage]) -> "Snapshot":
        """The snapshot with this usage of these nodes, by name; other names are ignored."""
        changes: dict[int, FitNode] = {}
        for name, (holdings, others, others_by) in usage.items():
            at = self.place(name)
            if at is None:
                continue
            node = self.nodes[at]
            if (holdings, others, others_by) != (node.holdings, node.others, node.others_by):
                changes[at] = replace(node, holdings=holdings, others=others, others_by=others_by)
        return self.with_nodes(changes)

    def place(self, name: str) -> int | None:
        """The place of a node, None if there is none of this name."""
        base = self.base or self
        places = base.derived.get(dict)
        if not isinstance(places, dict):
            places = base.derived[dict] = {node.name: at for at, node in enumerate(base.nodes)}
        return places.get(name)

    def node(self, name: str) -> FitNode:
        """The node of this name; raises KeyError."""
        at = self.place(name)
        if at is None:
            raise KeyError(name)
        return self.nodes[at]

    def usable(self) -> "Snapshot":
        """The snapshot without any pods, and without the nodes that are closed."""
        return self.edited(lambda node: None if node.closed else _emptied(node))

    def hopeful(self) -> "Snapshot":
        """The snapshot with as many GPUs as can be on nodes of which it is not known how many they offer."""
        if self.base is not None:
            base = self.base.hopeful()
            if base is self.base and not any(self.nodes[at].uncounted for at in self.changed):
                return self
            return base.with_nodes({at: hopeful_node(self.nodes[at]) for at in self.changed})
        hopeful = self.derived.get(FitNode)
        if not isinstance(hopeful, Snapshot):
            is_known = not any(node.uncounted for node in self.nodes)
            hopeful = self if is_known else replace(self, nodes=tuple(map(hopeful_node, self.nodes)))
            self.derived[FitNode] = hopeful
        return hopeful

    def emptied(self) -> "Snapshot":
        """The snapshot without any pods, every node open, with an NVLink channel and no taint that passes."""
        if self.base is not None:
            base = self.base.emptied()
            return base.with_nodes({at: _emptied(self.nodes[at]) for at in self.changed})
        empty = self.derived.get(Snapshot)
        if not isinstance(empty, Snapshot):
            empty = replace(self, nodes=tuple(_emptied(node) for node in self.nodes))
            self.derived[Snapshot] = empty
        return empty


def _domains_of(node: FitNode, levels: Levels) -> DomainPath:
    """The node's domains; one of no NVLink clique is alone in its own, since its scheduler sees a label."""
    values = domain_of(node.labels, levels)
    if "" not in values:
        return values
    return tuple(
        value if value is None or has_domain(value, level) else node.name
        for level, value in zip(levels, values, strict=True)
    )


def with_gpus(of: ResourceVector, count: int) -> ResourceVector:
    """The amounts with this many GPUs."""
    return (*of[:_GPU], count, *of[_GPU + 1 :])


def hopeful_node(node: FitNode) -> FitNode:
    """The node with as many GPUs as can be, where it is not known how many it offers."""
    if node.uncounted in ("", SHUNNED):  # which gives at most what the node offers by number
        return node
    return replace(node, allocatable=with_gpus(node.allocatable, MANY_GPUS))


def _emptied(node: FitNode) -> FitNode:
    if not (node.holdings or node.closed or node.taints or node.lacks_channel) and node.others == NO_AMOUNTS:
        return node
    taints = tuple(taint for taint in node.taints if not _passes(taint.get("key", ""), node))
    return replace(
        node,
        holdings=(),
        others=NO_AMOUNTS,
        others_by=(),
        closed="",
        taints=taints,
        passing={},
        lacks_channel=False,
    )


def _passes(key: str, node: FitNode) -> bool:
    return key in node.passing or passes_by_condition(key)
