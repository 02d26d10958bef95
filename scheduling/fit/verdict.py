"""The answer: never, not now, or now; and the numbers behind it.

NOW: the scheduler's own order finds a place (``proven`` is False where that order is not known and another
would not). NEVER: no choice of domains holds the gang on empty, open
nodes; this is proven, so a pool may refuse it. NOT_NOW is everything between, with the nearest domain, what
it lacks and who holds it until when. Where the scheduler's order misses a placement that another order of
the sets would find, the verdict says so: waiting alone may not help.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from scheduling.fit.board import POOL, Board, Region, times
from scheduling.fit.greedy import Placer, fits
from scheduling.fit.order import is_placed_in_any_order
from scheduling.fit.order import regions as regions_of
from scheduling.fit.search import Possible, possible
from scheduling.fit.snapshot import OTHERS, WHOLE, Snapshot
from scheduling.fit.wanted import GangDemand, Wanted
from scheduling.requirements import SetPath
from scheduling.tree import ConstraintNode

MOST_DOMAINS = 5
MOST_HOLDERS = 10


class Answer(StrEnum):
    NEVER = "never"
    NOT_NOW = "not_now"
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who holds room in a domain, on how many of its nodes, and until when at the latest."""

    name: str
    nodes: int
    until: float | None


@dataclass(frozen=True, slots=True)
class DomainRoom:
    """One domain as one set sees it, counted in its tasks (each as large as the largest).

    ``path`` is empty for the whole pool. ``closed`` counts nodes that take nothing now; ``holders`` are those
    who end soonest first; ``free_at`` is when enough of them have ended at the latest, None if unknown.
    """

    path: tuple[str, ...]
    free: int
    empty: int
    missing: int
    closed: int = 0
    holders: tuple[Holder, ...] = ()
    free_at: float | None = None


@dataclass(frozen=True, slots=True)
class SetFit:
    """One set with a required level, or the whole gang: what it needs, and the domains for it.

    ``alike`` counts the sets that are told in one: as large, asking for the same, in the same broader set.
    ``fit_now`` and ``fit_empty`` count domains that could hold it alone; ``unlabelled`` counts nodes with
    room that its constraint does not see. ``nearest`` are those that lack least, the nearest first.
    """

    path: SetPath
    alike: int
    key: str | None
    label: str | None
    tasks: int
    domains: int
    fit_now: int
    fit_empty: int
    unlabelled: int
    nearest: tuple[DomainRoom, ...]

    @property
    def is_blocked(self) -> bool:
        return not self.fit_now


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, what stands in its way, or where the gang would go.

    ``places`` is a placement as the scheduler would find it now: node by task. ``most_placed`` is how many
    tasks it places at best before it gives up. ``another_order``: other sets first would fit now. ``proven``
    is False where NOT_NOW may in truth be NEVER, because the search was given up or its conditions are only
    necessary ones; and where NOW hangs on the order in which the scheduler takes tasks, which is not known.
    ``room`` is for how many tasks, each as large as the largest, the pool has room now, wherever they stand:
    with room for all ``tasks`` it is the topology that is in the way.
    """

    answer: Answer
    sets: tuple[SetFit, ...]
    places: Mapping[str, str] = field(default_factory=dict)
    most_placed: int = 0
    another_order: bool = False
    proven: bool = True
    tasks: int = 0
    room: int = 0

    @property
    def blocked(self) -> tuple[SetFit, ...]:
        """The sets that no domain holds now, the narrowest last."""
        return tuple(one for one in self.sets if one.is_blocked)


def judge(snapshot: Snapshot, gang: GangDemand) -> Verdict:
    """Say whether a gang would be placed on these nodes."""
    board = Board(snapshot)
    placer = Placer(board, gang)
    if placer.run():
        places = {task: snapshot.nodes[node].name for task, node in placer.where}
        board.rollback(0)
        certain = gang.counts_largest or is_placed_in_any_order(board, gang)
        count = len(places)
        return Verdict(Answer.NOW, (), places, count, proven=certain, tasks=count, room=count)
    whole = gang.wanted(gang.tree.root)
    room = board.room(whole.measure, POOL)
    empty = Board(snapshot.emptied())
    ever = possible(empty, gang)
    sets = tuple(_set_fit(board, empty, alike[0], wants, alike=len(alike)) for alike, wants in _sets(gang))
    if ever is Possible.NO:
        return Verdict(Answer.NEVER, sets, most_placed=placer.most, tasks=whole.count, room=room)
    return Verdict(
        Answer.NOT_NOW,
        sets,
        most_placed=placer.most,
        another_order=possible(board, gang) is Possible.YES,
        proven=ever is Possible.YES,
        tasks=whole.count,
        room=room,
    )


def rooms(snapshot: Snapshot, gang: GangDemand, *, path: SetPath) -> tuple[DomainRoom, ...]:
    """Every domain of a set's required level as the set sees it, in order of path, without holders.

    ``path`` is that of a ``SetFit``; the pool itself for one without a required level.
    """
    node = next(node for node in gang.tree.root.walk() if node.path == path)
    wants = gang.wanted(node)
    board, empty = Board(snapshot), Board(snapshot.emptied())
    for kind in wants.counted:
        board.know(kind)
        empty.know(kind)
    return tuple(
        DomainRoom(
            path=_path(snapshot, region),
            free=board.room(wants.measure, region),
            empty=empty.room(wants.measure, region),
            missing=_missing(board, wants, region),
        )
        for region in regions_of(board, node)
    )


def _sets(gang: GangDemand) -> list[tuple[list[ConstraintNode], Wanted]]:
    """The whole gang, then every set with a required level, those that are alike together; in tree order."""
    root = gang.tree.root
    found: dict[Hashable, tuple[list[ConstraintNode], Wanted]] = {}
    for node in root.walk():
        if node is root or node.constraint.required is not None:
            wants = gang.wanted(node)
            looks = (node.path[:-1], node.constraint, wants, bool(node.sets))
            found.setdefault(looks, ([], wants))[0].append(node)
    return list(found.values())


def _set_fit(board: Board, empty: Board, node: ConstraintNode, wants: Wanted, *, alike: int) -> SetFit:
    for kind in wants.counted:
        board.know(kind)
        empty.know(kind)
    regions = regions_of(board, node)
    now = [region for region in regions if fits(board, wants, region)]
    ever = [region for region in regions if fits(empty, wants, region)]
    level = board.snapshot.levels[node.constraint.required] if node.constraint.required is not None else None
    return SetFit(
        path=node.path,
        alike=alike,
        key=level.key if level else None,
        label=level.label if level else None,
        tasks=wants.count,
        domains=len(regions),
        fit_now=len(now),
        fit_empty=len(ever),
        unlabelled=_unlabelled(empty, node, wants),
        nearest=() if now else _nearest(board, empty, wants, ever or regions),
    )


def _unlabelled(empty: Board, node: ConstraintNode, wants: Wanted) -> int:
    """Nodes that could take a task of the set, had they the labels its constraint reads."""
    narrowest = node.constraint.narrowest
    if narrowest is None:
        return 0
    places = empty.snapshot.places
    return sum(
        place[narrowest] is None and any(empty.slots(kind, at) for kind, _ in wants.kinds)
        for at, place in enumerate(places)
    )


def _nearest(board: Board, empty: Board, wants: Wanted, regions: Sequence[Region]) -> tuple[DomainRoom, ...]:
    rooms = [
        (_missing(board, wants, region), -empty.room(wants.measure, region), region) for region in regions
    ]
    rooms.sort(key=lambda entry: (entry[0], entry[1], entry[2].at))
    return tuple(_room(board, empty, wants, region) for _, _, region in rooms[:MOST_DOMAINS])


def _missing(board: Board, wants: Wanted, region: Region) -> int:
    """Tasks for which there is no room: by the largest, or the sum over kinds where that is more."""
    short = sum(max(0, count - board.room(kind, region)) for kind, count in wants.kinds)
    return max(short, wants.count - board.room(wants.measure, region) if wants.alike else 0)


def _room(board: Board, empty: Board, wants: Wanted, region: Region) -> DomainRoom:
    snapshot = board.snapshot
    nodes = [at for at in empty.nodes(region) if empty.slots(wants.measure, at)]
    holders, free_at = _holders(board, empty, wants, region, nodes)
    return DomainRoom(
        path=_path(snapshot, region),
        free=board.room(wants.measure, region),
        empty=empty.room(wants.measure, region),
        missing=_missing(board, wants, region),
        closed=sum(bool(snapshot.nodes[at].closed) for at in nodes),
        holders=holders,
        free_at=free_at,
    )


def _path(snapshot: Snapshot, region: Region) -> tuple[str, ...]:
    return () if region.rank == WHOLE else snapshot.domains[region.rank][region.at].path


def _holders(
    board: Board, empty: Board, wants: Wanted, region: Region, nodes: Sequence[int]
) -> tuple[tuple[Holder, ...], float | None]:
    """Who holds room on these nodes, soonest end first, and when there is enough at the latest.

    A node counts as regained when every workflow on it has ended: exact for nodes used whole, late otherwise.
    Pods of others stay, and are named where they cost a task its place.
    """
    on: dict[str, int] = defaultdict(int)
    ends: dict[str, float] = {}
    regained: list[tuple[float, int]] = []
    for at in nodes:
        node = board.snapshot.nodes[at]
        gain = empty.slots(wants.measure, at) - board.slots(wants.measure, at)
        if not gain:
            continue
        for holding in node.holdings:
            on[holding.holder] += 1
            ends[holding.holder] = math.inf if holding.until is None else holding.until
        stays = empty.slots(wants.measure, at) - times(node.without_work, wants.measure.amounts)
        if stays:
            on[OTHERS] += 1
            ends[OTHERS] = math.inf
        last = max((ends[holding.holder] for holding in node.holdings), default=math.inf)
        regained.append((math.inf if node.closed else last, gain - stays))
    missing, free_at = _missing(board, wants, region), None
    for until, gain in sorted(regained):
        missing -= gain
        if missing <= 0:
            free_at = until if until < math.inf else None
            break
    names = sorted(on, key=lambda name: (ends[name], name))[:MOST_HOLDERS]
    holders = tuple(Holder(n, on[n], ends[n] if ends[n] < math.inf else None) for n in names)
    return holders, free_at
