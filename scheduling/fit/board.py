"""Free room while a gang is tried on a snapshot, counted for each kind of task in every domain.

A *kind* is one distinct demand. ``room(kind, region)`` answers in one sum how many tasks of a kind still fit
in a region; placing a task, or taking it back, changes only the counts of its node's domains. A board belongs
to one calculation; the snapshot is never written. It begins as a copy of what the ``NodeIndex`` has.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.fit.demand import Demand
from scheduling.fit.node_index import Fullness, KindRoom, NodeIndex, Wants, fullness, share, times, total
from scheduling.fit.snapshot import POOL_RANK, ResourceVector, Snapshot

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

    __slots__ = ("_counted", "_free", "_index", "_rooms", "_slots", "_spans", "_sums", "journal", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.journal: list[tuple[int, Demand]] = []
        self._index = NodeIndex.of(snapshot.base or snapshot)
        self._free = list(self._index.free)
        for at in snapshot.changed:
            self._free[at] = snapshot.nodes[at].free
        self._slots: dict[Demand, list[int]] = {}
        self._rooms: dict[Demand, list[list[int]]] = {}
        self._counted: dict[Demand, KindRoom] = {}
        self._spans: dict[Region, range] = {}
        self._sums: list[list[ResourceVector]] | None = None

    def know(self, kind: Demand) -> None:
        """Count room for a kind, once."""
        if kind in self._slots:
            return
        counted = self._index.room(kind)
        self._counted[kind] = counted
        self._slots[kind] = list(counted.slots)
        self._rooms[kind] = [list(row) for row in counted.rooms]
        for node in self._different():
            usable = kind.may_use(self.snapshot.nodes[node])
            self._set_slots(kind, node, times(self._free[node], kind.amounts) if usable else 0)

    def _different(self) -> frozenset[int]:
        """The nodes that differ from those of the index, or may."""
        return self.snapshot.changed.union(node for node, _ in self.journal)

    def room(self, kind: Demand, region: Region) -> int:
        """How many tasks of one kind fit in a region, if no other kind goes there."""
        rows = self._rooms[kind]
        if region.cut in (region.rank, ANY):
            return rows[region.rank][region.at]
        span = self._span(region)
        return sum(rows[region.cut][span.start : span.stop])

    def slots(self, kind: Demand, node: int) -> int:
        return self._slots[kind][node]

    def free(self, node: int) -> ResourceVector:
        return self._free[node]

    def free_in(self, rank: int, at: int, *, cut: int) -> ResourceVector:
        """The amounts free on all nodes of a region with a cut, nodes that take no new pods included."""
        if self._sums is None:
            self._sums = self._counted_sums()
        row = self._sums[cut]
        if cut == rank:
            return row[at]
        return total(row[below] for below in self._span(Region(rank, at, cut)))

    def shares(self, wants: Wants, rank: int, *, cut: int) -> list[float]:
        """For each domain of a rank, seen under a cut, the part of what is free that is wanted."""
        shares = list(self._index.shares(wants, rank, cut=cut))
        for at in {self.snapshot.places[node][rank] for node in self._different()}:
            if at is not None:
                shares[at] = share(self.free_in(rank, at, cut=cut), wants)
        return shares

    def _counted_sums(self) -> list[list[ResourceVector]]:
        sums = [list(row) for row in self._index.domains_free]
        for node in self._different():
            pairs = zip(self._free[node], self._index.free[node], strict=True)
            _add(sums, self.snapshot.places[node], [now - before for now, before in pairs])
        return sums

    def in_order(self, kind: Demand) -> Iterator[int]:
        """All nodes with room for a kind as they are now, in the order in which they are filled."""
        different, slots = self._different(), self._slots[kind]
        free, nodes = self._free, self.snapshot.nodes

        def order(at: int) -> Fullness:
            return fullness(kind, at, has=nodes[at].allocatable, free=free[at])

        changed = sorted((at for at in different if slots[at]), key=order)
        same = (at for at in self._counted[kind].order if at not in different)
        return heapq.merge(same, changed, key=order)

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

    def _change(self, node: int, by: ResourceVector, *, sign: int) -> None:
        free = self._free[node] = tuple(
            have + sign * amount for have, amount in zip(self._free[node], by, strict=True)
        )
        if self._sums is not None:
            _add(self._sums, self.snapshot.places[node], [sign * amount for amount in by])
        for kind, slots in self._slots.items():
            if not slots[node] and not kind.may_use(self.snapshot.nodes[node]):
                continue
            self._set_slots(kind, node, times(free, kind.amounts))

    def _set_slots(self, kind: Demand, node: int, now: int) -> None:
        slots = self._slots[kind]
        if change := now - slots[node]:
            slots[node] = now
            rooms = self._rooms[kind]
            rooms[POOL_RANK][0] += change  # the last place too
            for rank, at in enumerate(self.snapshot.places[node]):
                if at is not None:
                    rooms[rank][at] += change

    def _span(self, region: Region) -> range:
        span = self._spans.get(region)
        if span is None:
            span = self._spans[region] = self.snapshot.span(region.rank, region.at, below=region.cut)
        return span


def _add(sums: list[list[ResourceVector]], places: Sequence[int | None], by: Sequence[int]) -> None:
    """Add amounts to every domain of a node."""
    for row, at in zip(sums, places, strict=False):
        if at is not None:
            row[at] = tuple(have + amount for have, amount in zip(row[at], by, strict=True))
