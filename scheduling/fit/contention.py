"""Other work beside a gang: what is placed before it, and what could be preempted or moved for it. Pure.

A scheduler takes the groups of one queue in its order and gives each what room there is, so a gang that would
fit alone may come too late. Room that preemptible work has may become free for it: the scheduler ends such
work (preemption), or moves it elsewhere where that gives the gang a place (consolidation).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from operator import sub

from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.node_index import total
from scheduling.fit.placing import placer_of
from scheduling.fit.snapshot import FitNode, Holding, OthersShare, Snapshot


class PreemptionAnswer(StrEnum):
    """Whether preempting the work below a gang would give it a place; NONE: there is no such work.

    LATER: it would, once that work has run for the time for which its queue spares it.
    """

    HELPS = "helps"
    LATER = "later"
    DOES_NOT_HELP = "does_not_help"
    NONE = "none"
    NOT_NEEDED = "not_needed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Preemption:
    """``workflows`` are those that the scheduler may preempt for the gang, by name.

    ``others`` counts other tenants' pods that it may, and ``namespaces`` are theirs, by name.
    ``spared_until`` is when the last of them has run for its minimum time, for LATER. ``delay`` is for how
    many seconds the gang waits before any work is preempted for it.
    """

    answer: PreemptionAnswer
    workflows: tuple[str, ...] = ()
    spared_until: datetime | None = None
    delay: float = 0
    others: int = 0
    namespaces: tuple[str, ...] = ()


class DisplacementAnswer(StrEnum):
    """Whether moving, or reclaiming, running work may give a gang a place; NONE: there is no such work.

    POSSIBLE: if what is moved finds another place, or what is reclaimed is above its queue's share; neither
    is known.
    """

    POSSIBLE = "possible"
    DOES_NOT_HELP = "does_not_help"
    NONE = "none"
    NOT_NEEDED = "not_needed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Displacement:
    """``workflows`` are those that the scheduler may move or reclaim for the gang, by name."""

    answer: DisplacementAnswer
    workflows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A gang's place in its queue: how many groups that wait go before it, and how many of those came later.

    ``workflows`` are the first of them, by name; ``takes_room``: they take the room that it would have had.
    """

    groups: int = 0
    younger: int = 0
    workflows: tuple[str, ...] = ()
    takes_room: bool = False


@dataclass(frozen=True, slots=True)
class Contention:
    """``place`` is None where nothing is known of the other work of the queue."""

    preemption: Preemption
    place: QueuePlace | None
    consolidation: Displacement = Displacement(DisplacementAnswer.UNKNOWN)

    reclaim: Displacement = Displacement(DisplacementAnswer.UNKNOWN)
    """The work of other queues that the scheduler may end for a gang within its queue's guarantee."""


UNKNOWN_CONTENTION = Contention(Preemption(PreemptionAnswer.UNKNOWN), None)


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang that the scheduler takes earlier."""

    workflow: str
    demand: GangDemand


def after(snapshot: Snapshot, gangs: Sequence[WaitingGang]) -> Snapshot:
    """The snapshot once each of these gangs that finds a place has it; they are tried in order.

    A gang that was accepted before its pool's levels changed is tried on its own levels. Of those the nodes
    of the snapshot may lack labels, and then it finds no place.

    What they take is kept with the snapshot, and dies with it or as other gangs are asked for: while nothing
    begins or ends, the same gangs wait before each that comes.
    """
    placed = snapshot.derived.get(_Placed)
    if not isinstance(placed, _Placed) or not placed.is_of(gangs):
        placed = snapshot.derived[_Placed] = _Placed(tuple(gangs), _placed(snapshot, gangs))
    return snapshot.with_nodes(placed.nodes)


def _placed(snapshot: Snapshot, gangs: Sequence[WaitingGang]) -> dict[int, FitNode]:
    """The nodes that the gangs change, by their places in the snapshot."""
    if not gangs:
        return {}
    left = snapshot
    for levels, alike in groupby(gangs, key=lambda gang: gang.demand.tree.levels):
        left = _after(left if levels == left.levels else left.by_levels(levels), list(alike))
    pairs = enumerate(zip(snapshot.nodes, left.nodes, strict=True))
    return {at: node for at, (before, node) in pairs if node is not before}


@dataclass(frozen=True, slots=True)
class _Placed:
    """The nodes that these gangs change in a snapshot; not the snapshot after them, which refers to it."""

    gangs: tuple[WaitingGang, ...]
    nodes: Mapping[int, FitNode]

    def is_of(self, gangs: Sequence[WaitingGang]) -> bool:
        """Whether these are the same gangs: of the same workflows, with the same objects as their demands."""
        return len(gangs) == len(self.gangs) and all(
            gang.workflow == own.workflow and gang.demand is own.demand
            for gang, own in zip(gangs, self.gangs, strict=True)
        )


def _after(snapshot: Snapshot, gangs: Sequence[WaitingGang]) -> Snapshot:
    """The same for gangs of the snapshot's levels."""
    board = Board(snapshot)
    holdings: dict[int, list[Holding]] = defaultdict(list)
    for gang in gangs:
        placer = placer_of(board, gang.demand)
        if placer.run():
            for task, node in placer.where:
                holdings[node].append(Holding(gang.workflow, gang.demand.demands[task].amounts))
    return snapshot.with_nodes(
        {
            at: replace(snapshot.nodes[at], holdings=(*snapshot.nodes[at].holdings, *more))
            for at, more in holdings.items()
        }
    )


def preempted(
    snapshot: Snapshot, workflows: Collection[str], shares: Collection[OthersShare] = ()
) -> Snapshot:
    """The snapshot without the work of these workflows, and without these shares of other tenants."""
    return snapshot.with_nodes(
        {
            at: _without(node, workflows, shares)
            for at, node in enumerate(snapshot.nodes)
            if any(holding.holder in workflows for holding in node.holdings)
            or (shares and any(share in shares for share in node.others_by))
        }
    )


def _without(node: FitNode, workflows: Collection[str], shares: Collection[OthersShare]) -> FitNode:
    gone = total(share.amounts for share in node.others_by if share in shares)
    return replace(
        node,
        holdings=tuple(each for each in node.holdings if each.holder not in workflows),
        others=tuple(map(sub, node.others, gone)),
        others_by=tuple(share for share in node.others_by if share not in shares),
    )


def has_place(snapshot: Snapshot, gang: GangDemand) -> bool:
    return placer_of(Board(snapshot), gang).run()
