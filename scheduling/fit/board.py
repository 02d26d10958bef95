"""Free room while a gang is tried on a snapshot, counted for each kind of task in every domain.

A *kind* is one distinct demand. ``room(kind, region)`` answers in one sum how many tasks of a kind still fit
in a region; placing a task, or taking it back, changes only the counts of its node's domains. A board belongs
to one calculation; the snapshot is never written.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scheduling.fit.demand import Demand
from scheduling.fit.snapshot import NO_AMOUNTS, POOL_RANK, Amounts, Snapshot

ANY = -1
"""A cut that hides no node."""


@dataclass(frozen=True, slots=True)
class Region:
    """The nodes of one domain that carry the labels of all levels down to ``cut``.

    ``rank`` POOL_RANK is the pool; ``cut`` ANY includes nodes without labels and is used only there.
    """

    rank: int = POOL_RANK
    at: int = 0
    cut: int = ANY


POOL = Region()


class Board:
    """Room for kinds of tasks, while they are placed and taken back."""

    __slots__ = ("_free", "_rooms", "_slots", "_spans", "_sums", "journal", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.journal: list[tuple[int, Demand]] = []
        self._free: list[Amounts] = [node.free for node in snapshot.nodes]
        self._slots: dict[Demand, list[int]] = {}
        self._rooms: dict[Demand, list[list[int]]] = {}
        self._spans: dict[Region, range] = {}
        self._sums: list[list[list[int]]] | None = None

    def know(self, kind: Demand) -> None:
        """Count room for a kind, once."""
        if kind in self._slots:
            return
        nodes, free = self.snapshot.nodes, self._free
        counts = {amounts: times(amounts, kind.amounts) for amounts in set(free)}  # most nodes are alike
        slots = [counts[free[i]] if kind.may_use(node) else 0 for i, node in enumerate(nodes)]
        self._slots[kind] = slots
        self._rooms[kind] = [
            [sum(map(slots.__getitem__, domain.nodes)) for domain in row] for row in self.snapshot.domains
        ] + [[sum(slots)]]  # at POOL_RANK, which is the last place too

    def room(self, kind: Demand, region: Region) -> int:
        """How many tasks of one kind fit in a region, if no other kind goes there."""
        rows = self._rooms[kind]
        if region.cut in (region.rank, ANY):
            return rows[region.rank][region.at]
        span = self._span(region)
        return sum(rows[region.cut][span.start : span.stop])

    def slots(self, kind: Demand, node: int) -> int:
        return self._slots[kind][node]

    def free(self, node: int) -> Amounts:
        return self._free[node]

    def free_in(self, region: Region) -> Amounts:
        """What is free on all nodes of a region with a cut, nodes that take no new pods included."""
        if self._sums is None:
            self._sums = [
                [_total(map(self._free.__getitem__, domain.nodes)) for domain in row]
                for row in self.snapshot.domains
            ]
        row = self._sums[region.cut]
        if region.cut == region.rank:
            return tuple(row[region.at])
        return tuple(_total(row[at] for at in self._span(region)))

    def nodes(self, region: Region) -> Sequence[int]:
        """The nodes of a region, by name."""
        snapshot = self.snapshot
        if region.cut == ANY:
            return range(len(snapshot.nodes)) if region.rank == POOL_RANK else ()
        if region.cut == region.rank:
            return snapshot.domains[region.rank][region.at].nodes
        row = snapshot.domains[region.cut]
        return sorted(index for at in self._span(region) for index in row[at].nodes)

    def below(self, region: Region, rank: int, cut: int) -> Iterator[Region]:
        """The domains of a narrower rank in a region, seen under a cut."""
        for at in self.snapshot.span(region.rank, region.at, below=rank):
            yield Region(rank, at, cut)

    def put(self, kind: Demand, node: int) -> None:
        """Place a task of a kind."""
        self.journal.append((node, kind))
        self._change(node, kind.amounts, sign=-1)

    def rollback(self, mark: int) -> None:
        """Take back what was placed since the journal had this length."""
        while len(self.journal) > mark:
            node, kind = self.journal.pop()
            self._change(node, kind.amounts, sign=1)

    def _change(self, node: int, by: Amounts, *, sign: int) -> None:
        free = self._free[node] = tuple(
            have + sign * amount for have, amount in zip(self._free[node], by, strict=True)
        )
        places = self.snapshot.places[node]
        for row, at in zip(self._sums or (), places, strict=False):
            if at is not None:
                row[at] = [have + sign * amount for have, amount in zip(row[at], by, strict=True)]
        for kind, slots in self._slots.items():
            if not slots[node] and not kind.may_use(self.snapshot.nodes[node]):
                continue
            now = times(free, kind.amounts)
            if change := now - slots[node]:
                slots[node] = now
                rooms = self._rooms[kind]
                rooms[POOL_RANK][0] += change
                for rank, at in enumerate(places):
                    if at is not None:
                        rooms[rank][at] += change

    def _span(self, region: Region) -> range:
        span = self._spans.get(region)
        if span is None:
            span = self._spans[region] = self.snapshot.span(region.rank, region.at, below=region.cut)
        return span


def _total(every: Iterable[Sequence[int]]) -> list[int]:
    return [sum(amounts) for amounts in zip(NO_AMOUNTS, *every, strict=True)]


def times(free: Amounts, amounts: Amounts) -> int:
    """How often ``amounts`` fits in ``free``. Every task asks for at least one pod slot."""
    return min((have // want for have, want in zip(free, amounts, strict=True) if want), default=1 << 30)
