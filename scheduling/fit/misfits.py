"""Why some tasks of a gang have no place, however empty nodes are: what they ask for beside what nodes have.

A misfit is about tasks that fit on no node, or about sets whose tasks fit in different domains alone. A gang
without one asks for too many nodes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from scheduling.fit.board import Board, Region
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.order import regions
from scheduling.fit.snapshot import RESOURCES, FitNode
from scheduling.nodes.taints import taint_name
from scheduling.topology.levels import NO_CLIQUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Tasks that have no place, by name in order, and ``of`` how many they are."""

    tasks: tuple[str, ...]
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge(Misfit):
    """No node is large enough.

    ``amounts`` has each resource of which no node has enough: what a task asks for, and the most that a node
    has. Without any, nodes have enough of each, but none of all that a task asks for together.
    """

    amounts: Mapping[str, tuple[int, int]]
    together: Mapping[str, int]
    unnamed: Mapping[str, int]
    """On how many nodes each DRA driver has devices that no class gives as GPUs, where GPUs are lacking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tainted(Misfit):
    """All nodes carry taints that the tasks do not tolerate: how many nodes carry each ``key:effect``."""

    nodes: int
    taints: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSelected(Misfit):
    """No node carries the labels that the tasks select, or they exclude those that do.

    ``excluded`` counts those that they exclude by name, ``without_clique`` others in no NVLink clique, which
    they require.
    """

    selector: Mapping[str, str]
    excluded: int
    without_clique: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutClique(Misfit):
    """The tasks require an NVLink clique, and all nodes carry a value of its label that means none."""

    label: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart(Misfit):
    """Tasks of a set that must share one domain of ``key``; none has room for them and ``others``."""

    others: tuple[str, ...]
    key: str
    place: tuple[str, ...]
    other_place: tuple[str, ...]
    amounts: Mapping[str, int]


def misfit(empty: Board, gang: GangDemand) -> Misfit | None:
    """The first misfit, of the most tasks; ``empty`` is the board of the emptied nodes."""
    names: dict[Demand, list[str]] = {}
    for task in gang.tree.root.all_tasks():
        names.setdefault(gang.demands[task.name], []).append(task.name)
    for kind in sorted(names, key=lambda kind: -len(names[kind])):
        empty.know(kind)
        if not any(empty.slots(kind, at) for at in range(len(empty.snapshot.nodes))):
            return _nowhere(empty.snapshot.nodes, kind, tuple(names[kind]), of=len(gang.demands))
    return next(_apart(empty, gang), None)


def _nowhere(nodes: Sequence[FitNode], kind: Demand, tasks: tuple[str, ...], *, of: int) -> Misfit:
    bare = replace(kind, tolerations=_ALL, others=())
    anywhere = replace(bare, excluded=frozenset(), clique="")
    selected = [node for node in nodes if anywhere.may_use(node)]
    if kind.clique and selected and all(node.labels.get(kind.clique) in NO_CLIQUE for node in selected):
        return WithoutClique(label=kind.clique, nodes=len(selected), tasks=tasks, of=of)
    allowed = [node for node in selected if bare.may_use(node)]
    usable = [node for node in allowed if replace(kind, others=()).may_use(node)]
    if usable:
        return _too_large(usable, kind, tasks=tasks, of=of)
    if not allowed:
        named = replace(bare, clique="")
        excluded = sum(not named.may_use(node) for node in selected)
        return NotSelected(
            selector=dict(kind.selector),
            excluded=excluded,
            without_clique=len(selected) - excluded,
            tasks=tasks,
            of=of,
        )
    taints = Counter(taint_name(taint) for node in allowed for taint in kind.untolerated(node))
    return Tainted(nodes=len(allowed), taints=taints, tasks=tasks, of=of)


_ALL = ((("operator", "Exists"),),)


def _too_large(nodes: Sequence[FitNode], kind: Demand, *, tasks: tuple[str, ...], of: int) -> TooLarge:
    most = [max(each) for each in zip(*(node.allocatable for node in nodes), strict=True)]
    demanded = dict(zip(RESOURCES, kind.amounts, strict=True))
    amounts = {
        name: (amount, limit)
        for (name, amount), limit in zip(demanded.items(), most, strict=True)
        if amount > limit
    }
    for name, amount in kind.others:
        limit = max(dict(node.extended).get(name, amount) for node in nodes)
        if amount > limit:
            amounts[name] = (amount, limit)
    together = {name: amount for name, amount in (*demanded.items(), *kind.others) if amount}
    drivers = Counter(driver for node in nodes for driver in node.devices.unnamed)
    unnamed = drivers if "gpu" in amounts else {}
    return TooLarge(tasks=tasks, of=of, amounts=amounts, together=together, unnamed=unnamed)


def _apart(empty: Board, gang: GangDemand) -> Iterator[Apart]:
    """Sets of which some tasks fit in no domain in which the others fit, the narrowest last."""
    for node in gang.tree.root.walk():
        if node.constraint.required is None:
            continue
        kinds: dict[Demand, list[str]] = {}
        for task in node.all_tasks():
            kinds.setdefault(gang.demands[task.name], []).append(task.name)
        domains = regions(empty, node, cut=gang.cut_of(node))
        homes = {kind: [at for at in domains if empty.room(kind, at)] for kind in kinds}
        if not all(homes.values()):
            continue
        rising = sorted(kinds, key=lambda kind: len(kinds[kind]))
        pairs = (
            (few, other) for few, other in combinations(rising, 2) if not {*homes[few]} & {*homes[other]}
        )
        pair = next(pairs, None)
        if pair is None:
            continue
        few, other = pair
        yield Apart(
            tasks=tuple(kinds[few]),
            others=tuple(kinds[other]),
            of=sum(map(len, kinds.values())),
            key=empty.snapshot.levels[node.constraint.required].key,
            place=_path(empty, homes[few][0]),
            other_place=_path(empty, homes[other][0]),
            amounts={name: amount for name, amount in zip(RESOURCES, few.amounts, strict=True) if amount},
        )


def _path(board: Board, region: Region) -> tuple[str, ...]:
    return board.snapshot.domains[region.rank][region.at].path
