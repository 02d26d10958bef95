"""What is worked out once for a snapshot's nodes: room for kinds of tasks, and the order in which they fill.

Counting visits every node and every domain. So it is done for one snapshot, and whatever comes of it by
``Snapshot.with_nodes`` (usage, a cordoned node) recounts only the nodes that differ. Nothing here is changed
once it is returned: a ``Board`` copies it. Safe for threads, which may count the same at the same time.

It lives as long as its snapshot, and keeps the MOST_KINDS kinds that were counted last.
"""

from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache, partial

from scheduling.fit.demand import Demand
from scheduling.fit.snapshot import NO_AMOUNTS, RESOURCES, ResourceVector, Snapshot

MOST_KINDS = 8
_GPU, _CPU = RESOURCES.index("gpu"), RESOURCES.index("cpu")

MOST_SHARES = 64
_NOTHING_FREE = 1000.0

Wants = tuple[tuple[int, int], ...]
"""Each resource that is wanted, by its place in ``Amounts``, and how much of it."""

Fullness = tuple[bool, int, int]
"""Sorts nodes as a task of one kind takes them: see ``fullness``."""


class KindRoom:
    """The room for one kind of task: ``slots[node]`` on a node, ``rooms[rank][at]`` in a domain.

    ``rooms[-1][0]`` is that on all nodes.
    """

    def __init__(self, index: "NodeIndex", kind: Demand) -> None:
        self._index, self._kind = index, kind

    @cached_property
    def slots(self) -> Sequence[int]:
        kind, nodes, free = self._kind, self._index.snapshot.nodes, self._index.free
        counts = {amounts: times(amounts, kind.amounts) for amounts in set(free)}  # most nodes are alike
        return [counts[free[at]] if kind.may_use(node) else 0 for at, node in enumerate(nodes)]

    @cached_property
    def rooms(self) -> Sequence[Sequence[int]]:
        slots = self.slots
        rooms = [
            [sum(map(slots.__getitem__, domain.nodes)) for domain in row]
            for row in self._index.snapshot.domains
        ]
        return [*rooms, [sum(slots)]]

    @cached_property
    def order(self) -> Sequence[int]:
        """The nodes with room, those that are filled first first."""
        kind, nodes, free = self._kind, self._index.snapshot.nodes, self._index.free
        return array(
            "L",
            sorted(
                (at for at, count in enumerate(self.slots) if count),
                key=lambda at: fullness(kind, at, has=nodes[at].allocatable, free=free[at]),
            ),
        )


class NodeIndex:
    """Of one snapshot. ``free`` is what is free on each node."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.free: Sequence[ResourceVector] = [node.free for node in snapshot.nodes]
        self.room = lru_cache(MOST_KINDS)(partial(KindRoom, self))
        self.shares = lru_cache(MOST_SHARES)(self._shares)

    @classmethod
    def of(cls, snapshot: Snapshot) -> "NodeIndex":
        """The one of a snapshot that has no base."""
        index = snapshot.derived.get(cls)
        if not isinstance(index, cls):
            index = snapshot.derived[cls] = cls(snapshot)
        return index

    def _shares(self, wants: Wants, rank: int, *, cut: int) -> Sequence[float]:
        """For each domain of a rank, seen under a cut, the part of what is free that is wanted."""
        free = self.domains_free
        return [
            share(
                free[rank][at]
                if cut == rank
                else total(free[cut][below] for below in self.snapshot.span(rank, at, below=cut)),
                wants,
            )
            for at in range(len(free[rank]))
        ]

    @cached_property
    def domains_free(self) -> Sequence[Sequence[ResourceVector]]:
        """The amounts free in each domain, by rank, nodes that take no new pods included."""
        return [
            [total(map(self.free.__getitem__, domain.nodes)) for domain in row]
            for row in self.snapshot.domains
        ]


def fullness(kind: Demand, at: int, *, has: ResourceVector, free: ResourceVector) -> Fullness:
    """Sorts nodes as a scheduler fills them: without GPUs for a task without, the fullest, by name."""
    if kind.amounts[_GPU]:
        return False, free[_GPU], at
    return has[_GPU] > 0, free[_CPU], at


def share(free: ResourceVector, wants: Wants) -> float:
    """The part of what is free that is wanted, of the scarcest resource."""
    return max((want / free[i] if free[i] > 0 else _NOTHING_FREE for i, want in wants), default=0.0)


def total(every: Iterable[ResourceVector]) -> ResourceVector:
    return tuple(sum(amounts) for amounts in zip(NO_AMOUNTS, *every, strict=True))


def times(free: ResourceVector, amounts: ResourceVector) -> int:
    """How often ``amounts`` fits in ``free``. Every task asks for at least one pod slot."""
    return min((have // want for have, want in zip(free, amounts, strict=True) if want), default=1 << 30)
