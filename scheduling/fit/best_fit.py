"""Place a gang as a scheduler does that assigns nodes to lists of equal pods: by the best fit.

The rules are Kueue's (topology-aware scheduling as its documentation describes it; use cases and slices
observed on its main branch of August 2026):

- A gang is a sequence of *pod sets*: a leaf set, a set with equal sub-sets as slices, or free tasks alike.
  They are placed one after the other, each beside those before it, and none is moved.
- A pod set goes into one domain of its level, of those with room for all of it the one with the least. Where
  there is none, a requirement fails; a preference goes up level by level, and at last spreads over the
  broadest domains.
- Inside, room is taken from the domains with most room first, and the last of them is the smallest that holds
  the rest. Slices are counted down to their own level, pods from there to the nodes.
- Tasks without a constraint take the smallest remainders first.
- A node that lacks the label of any level is out of sight for all of them.
- NVLink channels are not counted. A pod set with a claim gets no node whose channel other work holds, as its
  Workload asks; a place where a node has too few channels for the set's own claims is none.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from scheduling.fit.board import ANY, POOL, Board, Region
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import RESOURCES
from scheduling.gang.slices import Slices, slices_of
from scheduling.gang.tree import Constraint, ConstraintNode
from scheduling.topology.requirements import GangTask

_CHANNELS = RESOURCES.index("channels")

DomainShare = tuple[int, int]
"""A domain of a level, or a node, and how many pods or slices it takes."""


@dataclass(frozen=True, slots=True)
class _PodSet:
    """Tasks alike, in order; ``size`` of them are a slice, which stays in a domain of ``slice_level``.

    ``level`` is where all of them should stand together. The hosts are the level below the last rank.
    """

    tasks: Sequence[GangTask]
    kind: Demand
    level: int
    slice_level: int
    size: int
    is_required: bool
    is_free: bool

    @property
    def units(self) -> int:
        return len(self.tasks) // self.size


class BestFitPlacer:
    """One attempt to place a gang on a board, with the attributes of ``greedy.Placer``."""

    def __init__(self, board: Board, gang: GangDemand) -> None:
        self.board, self.gang = board, gang
        self.where: list[tuple[str, int]] = []
        self.most = 0
        self._hosts = len(board.snapshot.levels)
        self._cut = ANY if gang.cut is None else gang.cut
        self._is_expressible = True  # unless sets inside a set are not equal
        self._pod_sets = tuple(self._read(gang.tree.root))

    @property
    def knows_order(self) -> bool:
        """Whether the scheduler places the pod sets in this very order: believed, so known of one alone."""
        return len(self._pod_sets) == 1

    def run(self) -> bool:
        """Place everything, or nothing."""
        mark = len(self.board.journal)
        if self._is_expressible and all(map(self._place, self._pod_sets)) and self._has_channels():
            return True
        self.board.rollback(mark)
        self.where.clear()
        return False

    def _read(self, node: ConstraintNode) -> Iterator[_PodSet]:
        """The pod sets of a set, in the order of the tree."""
        if node.sets and node.constraint:
            slices = slices_of(node)
            if isinstance(slices, str):
                self._is_expressible = False
            else:
                yield self._pod_set(slices.tasks, node.constraint, slices)
            return
        for part in node.parts:
            if part is not None:
                yield from self._read(part)
                continue
            by_kind: dict[Demand, list[GangTask]] = {}
            for task in node.tasks:
                by_kind.setdefault(_without_channels(self.gang.demands[task.name]), []).append(task)
            for alike in by_kind.values():
                yield self._pod_set(alike, node.constraint, None)

    def _pod_set(self, tasks: Sequence[GangTask], constraint: Constraint, slices: Slices | None) -> _PodSet:
        demands = [self.gang.demands[task.name] for task in tasks]
        claims = any(demand.amounts[_CHANNELS] for demand in demands)
        level = constraint.required if constraint.required is not None else constraint.preferred
        outermost = 0 if slices else self._hosts
        return _PodSet(
            tasks=tasks,
            kind=replace(_without_channels(demands[0]), avoids_held=claims),
            level=outermost if level is None else level,
            slice_level=slices.level if slices else self._hosts,
            size=slices.size if slices else 1,
            is_required=constraint.required is not None,
            is_free=level is None,
        )

    def _place(self, pod_set: _PodSet) -> bool:
        self.board.know(pod_set.kind)
        rooms = _Rooms(self.board, pod_set, hosts=self._hosts, cut=self._cut)
        level, shares = _together(rooms, pod_set, pod_set.level)
        if not shares:
            self.most = max(self.most, len(self.where))
            return False
        while level < pod_set.slice_level:
            inner = [below for at, _ in shares for below in rooms.below(level, at)]
            level += 1
            shares = _spread(
                rooms.ordered(level, inner), pod_set.units, rooms.units(level), free=pod_set.is_free
            )
        counts = [(at, units * pod_set.size) for at, units in shares]
        for rank in range(level, self._hosts):
            counts = [
                share
                for at, pods in counts
                for share in _spread(
                    rooms.ordered(rank + 1, rooms.below(rank, at)),
                    pods,
                    rooms.pods(rank + 1),
                    free=pod_set.is_free,
                )
            ]
        self._put(pod_set, dict(counts))
        return True

    def _put(self, pod_set: _PodSet, counts: dict[int, int]) -> None:
        """Give the tasks their nodes in order, domain by domain."""
        nodes = iter([node for node in sorted(counts, key=self._path) for _ in range(counts[node])])
        for task, node in zip(pod_set.tasks, nodes, strict=True):
            self.board.put(pod_set.kind, node)
            self.where.append((task.name, node))
        self.most = max(self.most, len(self.where))

    def _path(self, node: int) -> tuple[int, ...]:
        places = self.board.snapshot.places[node]
        return (*(-1 if at is None else at for at in places), node)

    def _has_channels(self) -> bool:
        """Whether every node has the channels that its tasks claim."""
        claims = Counter(node for task, node in self.where if self.gang.demands[task].amounts[_CHANNELS])
        lacking = [node for node, count in claims.items() if count > self.board.free(node)[_CHANNELS]]
        self.most -= sum(claims[node] - max(0, self.board.free(node)[_CHANNELS]) for node in lacking)
        return not lacking


def _without_channels(demand: Demand) -> Demand:
    amounts = tuple(0 if i == _CHANNELS else amount for i, amount in enumerate(demand.amounts))
    return replace(demand, amounts=amounts)


class _Rooms:
    """How many pods, and slices, of a pod set each domain has room for, before any of it is placed."""

    def __init__(self, board: Board, pod_set: _PodSet, *, hosts: int, cut: int) -> None:
        self._board, self._pod_set, self._hosts, self._cut = board, pod_set, hosts, cut
        self._units: dict[int, dict[int, int]] = {}

    def all(self, level: int) -> Iterable[int]:
        """Every domain of a level; of hosts those that are in sight."""
        if level == self._hosts:
            return self._board.nodes(POOL) if self._cut == ANY else self._in_sight()
        return range(len(self._board.snapshot.domains[level]))

    def _in_sight(self) -> list[int]:
        return [at for at, places in enumerate(self._board.snapshot.places) if places[self._cut] is not None]

    def below(self, level: int, at: int) -> Iterable[int]:
        """The domains in a domain, one level further down."""
        if level + 1 == self._hosts:
            return self._board.nodes(Region(level, at, self._cut))
        return self._board.snapshot.span(level, at, below=level + 1)

    def pods(self, level: int) -> Callable[[int], int]:
        board, kind = self._board, self._pod_set.kind
        if level == self._hosts:
            return lambda node: board.slots(kind, node)
        return lambda at: board.room(kind, Region(level, at, self._cut))

    def units(self, level: int) -> Callable[[int], int]:
        """How many whole slices; pods, where a slice is a pod."""
        pod_set = self._pod_set
        if pod_set.size == 1 or level >= pod_set.slice_level:
            pods = self.pods(level)
            return lambda at: pods(at) // pod_set.size
        inner = self.units(level + 1)
        counts = self._units.setdefault(level, {})

        def units(at: int) -> int:
            if at not in counts:
                counts[at] = sum(map(inner, self.below(level, at)))
            return counts[at]

        return units

    def ordered(self, level: int, domains: Iterable[int]) -> list[int]:
        """Most room first, for free tasks least first; then by fewer pods, then by path."""
        units, pods = self.units(level), self.pods(level)
        sign = 1 if self._pod_set.is_free else -1
        return sorted(domains, key=lambda at: (sign * units(at), pods(at), self._path(level, at)))

    def _path(self, level: int, at: int) -> tuple[int, ...]:
        """Domains are in order of path already; a node stands in its narrowest domain."""
        if level < self._hosts:
            return (at,)
        return (self._board.snapshot.places[at][self._cut] or 0, at) if self._cut != ANY else (at,)


def _together(rooms: _Rooms, pod_set: _PodSet, level: int) -> tuple[int, list[DomainShare]]:
    """The level at which the pod set stands, and what each domain there takes; nothing without a place."""
    domains, units = rooms.ordered(level, rooms.all(level)), rooms.units(level)
    enough = [at for at in domains if units(at) >= pod_set.units]
    if enough:
        return level, [(min(enough, key=units), pod_set.units)]
    if pod_set.is_required:
        return level, []
    if level and not pod_set.is_free:
        return _together(rooms, pod_set, level - 1)
    if sum(map(units, domains)) < pod_set.units:
        return level, []
    return level, _spread(domains, pod_set.units, units, free=pod_set.is_free)


def _spread(
    domains: Sequence[int], count: int, room: Callable[[int], int], *, free: bool
) -> list[DomainShare]:
    """Take ``count`` from domains in their order; the last is the smallest that holds what is left."""
    shares: list[DomainShare] = []
    for place, at in enumerate(domains):
        if not count:
            break
        chosen = at
        if not free and room(at) >= count:
            chosen = min((other for other in domains[place:] if room(other) >= count), key=room)
        if part := min(room(chosen), count):
            shares.append((chosen, part))
            count -= part
    return shares
