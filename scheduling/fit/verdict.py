"""The verdict: never, not now, or now; and the numbers behind it.

NOW: the scheduler's own order finds a place. ``proven`` is False where that order is unknown and another
order would not find one. NEVER: no choice of domains holds the gang on empty, open nodes, at any of its
stages. This is proven, so a pool may refuse the gang. NOT_NOW is everything between: it names the nearest
domain, what the domain lacks, and who holds it until when.

Where the order of the sets is ours to choose, NOW may need another order, which the verdict names. Where a
placement exists that no order was found for, NOT_NOW says so: waiting alone may not help.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

from scheduling.fit.board import POOL, Board, Region
from scheduling.fit.contention import UNKNOWN_CONTENTION, Contention
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand, SetDemand
from scheduling.fit.greedy import ONE_GPU, Placer, holds
from scheduling.fit.misfits import Misfit, misfit
from scheduling.fit.node_index import times
from scheduling.fit.order import is_placed_in_any_order
from scheduling.fit.order import regions as regions_of
from scheduling.fit.pin_choice import pins_for
from scheduling.fit.placing import placer_of
from scheduling.fit.reorder import reordering
from scheduling.fit.search import Possible, possible
from scheduling.fit.snapshot import OTHERS, POOL_RANK, RESOURCES, FitNode, Snapshot
from scheduling.fit.usable import TaintedNodes, by_taint
from scheduling.gang.pins import Pins
from scheduling.gang.set_order import SetOrder, order_of
from scheduling.gang.tree import ConstraintNode
from scheduling.nodes.taints import Taint
from scheduling.queues.queue_state import NO_QUEUES, QuotaVerdict
from scheduling.topology.requirements import SetPath

_GPU = RESOURCES.index("gpu")
_CHANNELS = RESOURCES.index("channels")

MOST_DOMAINS = 5
MOST_HOLDERS = 10


class Answer(StrEnum):
    NEVER = "never"
    NOT_NOW = "not_now"
    NOW = "now"


class Obstacle(StrEnum):
    """The first obstacle of a gang: its queue, groups before it, room in the pool, or room in one domain."""

    QUOTA = "quota"
    PRIORITY = "priority"
    ROOM = "room"
    TOPOLOGY = "topology"


@dataclass(frozen=True, slots=True)
class Occupant:
    """A workflow with pods in a domain: on how many of its nodes, and until when at the latest."""

    name: str
    nodes: int
    until: datetime | None

    namespaces: tuple[str, ...] = ()
    """Of other tenants' pods: whose they are, those on most nodes first."""


@dataclass(frozen=True, slots=True)
class DomainCapacity:
    """The capacity of one domain for one set, in tasks as large as the set's largest."""

    path: tuple[str, ...]
    """Empty for the pool."""

    free: int
    empty: int
    missing: int

    closed: int = 0
    """Nodes that take no new pods."""

    tainted: tuple[TaintedNodes, ...] = ()
    """Open nodes, by taints that may pass and that no task of the set tolerates."""

    without_channel: int = 0
    """Nodes without the NVLink channel that its tasks claim."""

    holders: tuple[Occupant, ...] = ()
    """In order of their end."""

    free_at: datetime | None = None
    """The latest time at which enough of them have ended, None if unknown."""


@dataclass(frozen=True, slots=True)
class SetVerdict:
    """One set with a required level, or the whole gang: its needs, and the domains for it."""

    path: SetPath

    alike: int
    """How many equal sets share this entry: same size, same requests, same broader set."""

    key: str | None
    label: str | None
    tasks: int
    domains: int

    fit_now: int
    """How many domains could hold the set if it were alone."""

    fit_empty: int
    """How many could when empty."""

    unlabelled: int
    """How many nodes with room its constraint does not see."""

    nearest: tuple[DomainCapacity, ...]
    """The domains that lack least, nearest first."""

    @property
    def is_blocked(self) -> bool:
        return not self.fit_now


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, with the obstacles or with the places that the gang would get."""

    answer: Answer
    sets: tuple[SetVerdict, ...]

    places: Mapping[str, str] = field(default_factory=dict)
    """The placement that the scheduler would find now: node by task."""

    most_placed: int = 0
    """How many tasks it places before it gives up."""

    another_order: bool = False
    """Whether the gang would fit now in another order of sets, but none was found that could be chosen."""

    order: SetOrder = ()
    """The order of sets that NOW needs, where that is not the gang's."""

    pins: Pins = ()
    """The sets that NOW needs to be pinned to a domain."""

    proven: bool = True
    """False in three cases.

    NOT_NOW might really be NEVER, because the search hit its limit or its conditions are only necessary ones;
    or NOW depends on the scheduler's order of tasks, which is unknown, or on resources that are not counted.
    """

    tasks: int = 0

    room: int = 0
    """How many tasks, each as large as the largest, the pool has room for now on any nodes.

    If it is at least ``tasks``, the obstacle is the topology.
    """

    room_empty: int = 0
    """The same on empty, open nodes."""

    uncounted: tuple[str, ...] = ()
    """Further resources that tasks ask for; how much of them is in use is not known."""

    doubts: Mapping[str, int] = field(default_factory=dict)
    """Why it is not known how many GPUs nodes offer or have free, and of how many nodes: those of the places
    of NOW, or all that the tasks may use."""

    misfit: Misfit | None = None
    """Of NEVER: the tasks that fit on no node, or on none beside the others."""

    quota: QuotaVerdict = NO_QUEUES
    """Whether the gang's queues admit it."""

    contention: Contention = UNKNOWN_CONTENTION
    """What is known of the other work there."""

    @property
    def has_place(self) -> bool:
        """Whether the nodes have a place for the gang now, whatever its queues say."""
        return self.most_placed == self.tasks

    @property
    def obstacle(self) -> Obstacle | None:
        """The first obstacle, in the order in which a scheduler looks; None if nothing is."""
        if self.quota.shortages:
            return Obstacle.QUOTA
        if self.answer is Answer.NOW:
            return None
        if self.contention.place and self.contention.place.takes_room:
            return Obstacle.PRIORITY
        room = self.room_empty if self.answer is Answer.NEVER else self.room
        return Obstacle.TOPOLOGY if room >= self.tasks else Obstacle.ROOM

    @property
    def blocked(self) -> tuple[SetVerdict, ...]:
        """The sets that no domain has room for now, the narrowest last."""
        return tuple(verdict for verdict in self.sets if verdict.is_blocked)


def judge(snapshot: Snapshot, gang: GangDemand) -> Verdict:
    """Judge whether a gang would be placed on these nodes."""
    verdict = _judge(snapshot.hopeful(), gang)
    uncounted = tuple(sorted({name for demand in gang.demands.values() for name, _ in demand.others}))
    doubts = _doubts(snapshot, gang, verdict)
    if not uncounted and not doubts:
        return verdict
    proven = verdict.proven and not doubts and verdict.answer is not Answer.NOW
    return replace(verdict, uncounted=uncounted, doubts=doubts, proven=proven)


def _doubts(snapshot: Snapshot, gang: GangDemand, verdict: Verdict) -> Mapping[str, int]:
    """What is not known of GPUs; of NEVER nothing, which more GPUs could not help."""
    doubtful = [node for node in snapshot.nodes if node.doubt]
    kinds = {kind for kind in gang.demands.values() if kind.amounts[_GPU]} if doubtful else set()
    if not kinds or verdict.answer is Answer.NEVER:
        return {}
    if verdict.answer is Answer.NOW:
        names = {node for task, node in verdict.places.items() if gang.demands[task].amounts[_GPU]}
        return Counter(node.doubt for node in doubtful if node.name in names)
    usable = (node for node in doubtful if node.uncounted and any(kind.may_use(node) for kind in kinds))
    return Counter(node.uncounted for node in usable)


def _judge(snapshot: Snapshot, gang: GangDemand) -> Verdict:
    board = Board(snapshot)
    placer = placer_of(board, gang)
    if placer.run():
        places = {task: snapshot.nodes[node].name for task, node in placer.where}
        board.rollback(0)
        certain = placer.knows_order or is_placed_in_any_order(board, gang)
        certain &= snapshot.is_complete or not gang.counts_elsewhere
        count = len(places)
        return Verdict(Answer.NOW, (), places, count, proven=certain, tasks=count, room=count)
    demand = gang.set_demand(gang.tree.root)
    elsewhere = possible(board, gang)
    room = board.room(demand.measure, POOL)
    if (
        elsewhere is not Possible.NO
        and isinstance(placer, Placer)
        and (reordered := _reordered(board, gang, placer))
    ):
        return reordered
    if gang.is_pinnable and (pins := pins_for(board, gang)):
        return _pinned(board, gang.pinned(pins), pins)
    empty = Board(snapshot.emptied())
    last = gang.at_last_stage()
    counts = snapshot.is_complete and not gang.is_pinnable
    ever = possible(empty, last if counts else last.counted_apart())
    sets = tuple(
        _set_fit(board, empty, nodes[0], needs, alike=len(nodes), cut=gang.cut_of(nodes[0]))
        for nodes, needs in _sets(gang)
    )
    verdict = Verdict(
        Answer.NEVER,
        sets,
        most_placed=placer.most,
        tasks=demand.count,
        room=room,
        room_empty=empty.room(demand.measure, POOL),
    )
    if ever is Possible.NO:
        return replace(verdict, misfit=misfit(empty, last))
    return replace(
        verdict,
        answer=Answer.NOT_NOW,
        another_order=elsewhere is Possible.YES,
        proven=ever is Possible.YES,
    )


def _reordered(board: Board, gang: GangDemand, placer: Placer) -> Verdict | None:
    """NOW in another order, where there is one that is ours to choose."""
    change = reordering(board, gang, failed=placer) if gang.is_orderable else None
    if change is None:
        return None
    places = {task: board.snapshot.nodes[node].name for task, node in change.where}
    return Verdict(
        Answer.NOW,
        (),
        places,
        len(places),
        order=order_of(change.gang.tree),
        proven=gang.is_ordered,
        tasks=len(places),
        room=len(places),
    )


def _pinned(board: Board, gang: GangDemand, pins: Pins) -> Verdict:
    """NOW with sets pinned to a domain, which the gang already has in place of their constraints."""
    placer = placer_of(board, gang)
    placer.run()
    places = {task: board.snapshot.nodes[node].name for task, node in placer.where}
    board.rollback(0)
    count = len(places)
    certain = placer.knows_order or is_placed_in_any_order(board, gang)
    return Verdict(Answer.NOW, (), places, count, pins=pins, proven=certain, tasks=count, room=count)


def rooms(snapshot: Snapshot, gang: GangDemand, *, path: SetPath) -> tuple[DomainCapacity, ...]:
    """The capacity of every domain of a set's required level, in order of path, without holders.

    ``path`` is that of a ``SetVerdict``. A set without a required level has one domain, the pool.
    """
    node = next(node for node in gang.tree.root.walk() if node.path == path)
    demand = gang.set_demand(node)
    board, empty = Board(snapshot), Board(snapshot.emptied())
    for kind in demand.counted:
        board.know(kind)
        empty.know(kind)
    return tuple(
        DomainCapacity(
            path=_path(snapshot, region),
            free=board.room(demand.measure, region),
            empty=empty.room(demand.measure, region),
            missing=_missing(board, demand, region),
        )
        for region in regions_of(board, node, cut=gang.cut_of(node))
    )


def _sets(gang: GangDemand) -> list[tuple[list[ConstraintNode], SetDemand]]:
    """The whole gang, then every set with a required level, equal sets together; in tree order."""
    root = gang.tree.root
    alike: dict[Hashable, tuple[list[ConstraintNode], SetDemand]] = {}
    for node in root.walk():
        if node is root or node.constraint.required is not None:
            demand = gang.set_demand(node)
            fingerprint = (node.path[:-1], node.constraint, demand, bool(node.sets))
            alike.setdefault(fingerprint, ([], demand))[0].append(node)
    return list(alike.values())


def _set_fit(
    board: Board, empty: Board, node: ConstraintNode, demand: SetDemand, *, alike: int, cut: int | None
) -> SetVerdict:
    for kind in demand.counted:
        board.know(kind)
        empty.know(kind)
    regions = regions_of(board, node, cut=cut)
    now = [region for region in regions if holds(board, demand, region)]
    ever = [region for region in regions if holds(empty, demand, region)]
    level = board.snapshot.levels[node.constraint.required] if node.constraint.required is not None else None
    return SetVerdict(
        path=node.path,
        alike=alike,
        key=level.key if level else None,
        label=level.label if level else None,
        tasks=demand.count,
        domains=len(regions),
        fit_now=len(now),
        fit_empty=len(ever),
        unlabelled=_unlabelled(empty, demand, cut=cut),
        nearest=() if now else _nearest(board, empty, demand, ever or regions),
    )


def _unlabelled(empty: Board, demand: SetDemand, *, cut: int | None) -> int:
    """Count nodes that could take a task of the set if they had the labels its constraint reads."""
    if cut is None:
        return 0
    places = empty.snapshot.places
    return sum(
        place[cut] is None and any(empty.slots(kind, at) for kind, _ in demand.kinds)
        for at, place in enumerate(places)
    )


def _nearest(
    board: Board, empty: Board, demand: SetDemand, regions: Sequence[Region]
) -> tuple[DomainCapacity, ...]:
    rooms = [
        (_missing(board, demand, region), -empty.room(demand.measure, region), region) for region in regions
    ]
    rooms.sort(key=lambda entry: (entry[0], entry[1], entry[2].at))
    return tuple(_room(board, empty, demand, region) for _, _, region in rooms[:MOST_DOMAINS])


def _missing(board: Board, demand: SetDemand, region: Region) -> int:
    """Count tasks without room: by the largest task, summed over kinds, or by the GPUs of all."""
    short = sum(max(0, count - board.room(kind, region)) for kind, count in demand.kinds)
    board.know(ONE_GPU)
    gpus = max(0, demand.gpus - board.room(ONE_GPU, region))
    largest = max(kind.amounts[_GPU] for kind, _ in demand.kinds)
    return max(
        short,
        -(-gpus // largest) if gpus else 0,
        0 if demand.largest is None else demand.count - board.room(demand.largest, region),
    )


def _room(board: Board, empty: Board, demand: SetDemand, region: Region) -> DomainCapacity:
    snapshot = board.snapshot
    nodes = [at for at in empty.nodes(region) if empty.slots(demand.measure, at)]
    holders, free_at = _holders(board, empty, demand, region, nodes)
    return DomainCapacity(
        path=_path(snapshot, region),
        free=board.room(demand.measure, region),
        empty=empty.room(demand.measure, region),
        missing=_missing(board, demand, region),
        closed=sum(bool(snapshot.nodes[at].closed) for at in nodes),
        tainted=_tainted([snapshot.nodes[at] for at in nodes], demand),
        without_channel=sum(_lacks_channel(snapshot.nodes[at], demand.measure) for at in nodes),
        holders=holders,
        free_at=free_at,
    )


def _tainted(nodes: Sequence[FitNode], demand: SetDemand) -> tuple[TaintedNodes, ...]:
    """The open nodes that taints keep from every task of the set, by taint, most nodes first."""
    shut = [(node, taint) for node in nodes if not node.closed for taint in _barring_all(node, demand)]
    return by_taint(shut)


def _barring_all(node: FitNode, demand: SetDemand) -> list[Taint]:
    """The taints that keep away the tasks of every kind; none where some task may use the node."""
    if not node.taints:
        return []
    by_kind = [kind.untolerated(node) for kind, _ in demand.kinds]
    return by_kind[0] if all(by_kind) else []


def _lacks_channel(node: FitNode, demand: Demand) -> bool:
    """Whether the demand claims an NVLink channel that the node does not offer."""
    return node.lacks_channel and bool(demand.amounts[_CHANNELS])


def _path(snapshot: Snapshot, region: Region) -> tuple[str, ...]:
    return () if region.rank == POOL_RANK else snapshot.domains[region.rank][region.at].path


def _holders(
    board: Board, empty: Board, demand: SetDemand, region: Region, nodes: Sequence[int]
) -> tuple[tuple[Occupant, ...], datetime | None]:
    """The workflows that hold room on these nodes, soonest end first, and when enough room is free.

    A node counts as free again when every workflow on it has ended: exact for nodes used by one workflow,
    late otherwise. Other tenants' pods stay; they are named where a task loses its place to them.
    """
    on: dict[str, int] = defaultdict(int)
    ends: dict[str, float] = {}
    regained: list[tuple[float, int]] = []
    namespaces: Counter[str] = Counter()
    for at in nodes:
        node = board.snapshot.nodes[at]
        gain = empty.slots(demand.measure, at) - board.slots(demand.measure, at)
        if not gain:
            continue
        for holding in node.holdings:
            on[holding.holder] += 1
            ends[holding.holder] = math.inf if holding.until is None else holding.until
        stays = empty.slots(demand.measure, at) - times(node.without_work, demand.measure.amounts)
        lacks_channel = _lacks_channel(node, demand.measure)
        if stays and not lacks_channel:
            on[OTHERS] += 1
            ends[OTHERS] = math.inf
            namespaces.update(_in_the_way(node, demand.measure, slots=empty.slots(demand.measure, at)))
        last = max((ends[holding.holder] for holding in node.holdings), default=math.inf)
        is_shut = bool(node.closed) or lacks_channel or bool(_barring_all(node, demand))
        regained.append((math.inf if is_shut else last, gain - stays))
    missing, free_at = _missing(board, demand, region), None
    for until, gain in sorted(regained):
        missing -= gain
        if missing <= 0:
            free_at = _instant(until)
            break
    names = sorted(on, key=lambda name: (ends[name], name))[:MOST_HOLDERS]
    whose = tuple(sorted(namespaces, key=lambda name: (-namespaces[name], name))[:MOST_HOLDERS])
    holders = (
        Occupant(name, on[name], _instant(ends[name]), whose if name == OTHERS else ()) for name in names
    )
    return tuple(holders), free_at


def _in_the_way(node: FitNode, demand: Demand, *, slots: int) -> list[str]:
    """The namespaces whose pods use what the node lacks for so many tasks."""
    free = node.without_work
    short = [i for i, amount in enumerate(demand.amounts) if amount and free[i] // amount < slots]
    shares = (share for share in node.others_by if any(share.amounts[i] for i in short))
    return sorted({share.namespace for share in shares})


def _instant(epoch: float) -> datetime | None:
    return datetime.fromtimestamp(epoch, UTC) if epoch < math.inf else None
