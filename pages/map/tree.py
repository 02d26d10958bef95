"""The tree that a map draws: places within places, with the nodes in the innermost. Pure.

A *place* is a domain of one of the pool's levels, drawn inside the domain of the level above; or the box
for the nodes of a domain that lack the next level's label, which stand *outside*; or, where a place holds
more than can be drawn or read at once, a *run* of its nodes or domains in order of name. So there is always
a level at which a picture fits, whatever a cluster looks like, and every node is in exactly one place.

A place's path names it in addresses: label values, broadest first. ``@2`` is the second run and ``!rack``
the box of those without key ``rack``; neither can be a label's value.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from pages.short_names import short_names
from scheduling.natural_order import natural
from scheduling.topology.levels import DomainPath

PlacePath = tuple[str, ...]

MOST_TOGETHER = 300
"""Nodes or domains that stand in one place; more are divided into runs."""

RUN = 100
HUES = 6


class Use(StrEnum):
    """How much of a node's GPUs is used; for a node without GPUs, whether it has any task."""

    FREE = "free"
    PART = "part"
    FULL = "full"


class Shut(StrEnum):
    """Why a node accepts no new pods."""

    NO = ""
    CORDONED = "cordoned"
    NOT_READY = "not ready"
    TAINTED = "tainted"


@dataclass(frozen=True, slots=True)
class Mark:
    """Tasks of one set of the chosen workflow. ``hue`` is the set's place in the legend."""

    letter: str
    hue: int
    tasks: int

    @property
    def tint(self) -> int:
        """The colour of the set."""
        return self.hue % HUES


class MapNode(NamedTuple):  # of which a map makes thousands, so a tuple: it is made in a third of the time
    """A node. ``users`` are texts about the tasks on it; ``gpus`` and ``free`` count whole GPUs.

    ``label`` is the part of its name that tells it from the nodes beside it.
    """

    name: str
    gpus: int
    free: int
    use: Use
    shut: Shut = Shut.NO
    taint: str = ""
    suspect: bool = False
    gpu_note: str = ""
    users: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    label: str = ""

    @property
    def is_open(self) -> bool:
        return self.shut is Shut.NO


@dataclass(frozen=True, slots=True)
class NodeTally:
    """The content of a place: nodes by use, closed ones apart, and the free GPUs of open nodes."""

    free: int = 0
    part: int = 0
    full: int = 0
    closed: int = 0
    gpus: int = 0
    free_gpus: int = 0

    @property
    def nodes(self) -> int:
        return self.free + self.part + self.full + self.closed


@dataclass(frozen=True, slots=True)
class SetRoom:
    """A domain's room for the chosen set: for ``free`` of its ``tasks`` now, for ``empty`` when empty."""

    tasks: int
    free: int
    empty: int

    @property
    def lacks(self) -> int:
        return max(0, self.tasks - self.free)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlace:
    """A domain, a run, the nodes outside a level, or the pool.

    ``key`` is the level's; ``outside`` means that its nodes lack that key's label. ``holders`` have tasks on
    its nodes, most nodes first. ``marks`` are the tasks on its nodes by their narrowest set, ``sets`` the
    sets of its own level that have tasks here. ``room`` is set where a waiting set was compared with it.
    ``label`` is the part of its name that tells it from the places beside it.
    """

    name: str
    label: str
    path: PlacePath = ()
    key: str = ""
    outside: bool = False
    run: bool = False
    inside: tuple["MapPlace", ...] = field(default=(), repr=False)
    nodes: tuple[MapNode, ...] = field(default=(), repr=False)
    tally: NodeTally = NodeTally()
    holders: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    marks: tuple[Mark, ...] = ()
    sets: tuple[Mark, ...] = ()
    room: SetRoom | None = None


class LocatedNode(NamedTuple):
    """A node with its label values (one for each level) and the workflows that use it."""

    node: MapNode
    domain: DomainPath
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """The sets of the chosen workflow in one domain, and the domain's room for them."""

    sets: tuple[Mark, ...] = ()
    room: SetRoom | None = None


ChosenIn = Callable[[int, PlacePath], Chosen]
"""The same by a domain's rank and path."""

NOTHING_CHOSEN = Chosen()


def grow(
    nodes: Sequence[LocatedNode],
    *,
    pool: str,
    keys: Sequence[str],
    chosen_in: ChosenIn = lambda _rank, _path: NOTHING_CHOSEN,
) -> MapPlace:
    """The whole pool as one tree of nodes in the natural order of their names.

    ``keys`` are those of the levels, broadest first.
    """
    return _Grower(keys, chosen_in).place(nodes, name=pool, label=pool, path=())


@dataclass(frozen=True, slots=True)
class _Grower:
    keys: Sequence[str]
    chosen_in: ChosenIn

    def place(self, nodes: Sequence[LocatedNode], *, name: str, label: str, path: PlacePath) -> MapPlace:
        """A domain, whose rank is one less than the length of its path; the pool for an empty path."""
        depth = len(path)
        key = self.keys[depth - 1] if depth else ""
        chosen = self.chosen_in(depth - 1, path) if depth else NOTHING_CHOSEN
        if depth == len(self.keys):
            return _leaf(nodes, name=name, label=label, path=path, key=key, chosen=chosen)
        by_value: dict[str | None, list[LocatedNode]] = {}
        for node in nodes:
            by_value.setdefault(node.domain[depth], []).append(node)
        without = by_value.pop(None, [])
        values = sorted((value for value in by_value if value is not None), key=natural)
        names = [value or "(empty)" for value in values]
        labels = short_names(names, within=name if path else "")
        inside = [
            self.place(by_value[value], name=inner, label=short.part, path=(*path, value))
            for value, inner, short in zip(values, names, labels, strict=True)
        ]
        if without:
            inside.append(_outside(without, path=path, key=self.keys[depth]))
        runs = _runs(inside, path)
        return _around(runs, name=name, label=label, path=path, key=key, chosen=chosen)


def _outside(nodes: Sequence[LocatedNode], *, path: PlacePath, key: str) -> MapPlace:
    name = f"without {key}"
    return _leaf(nodes, name=name, label=name, path=(*path, f"!{key}"), key=key, outside=True)


def _leaf(
    nodes: Sequence[LocatedNode],
    *,
    name: str,
    label: str,
    path: PlacePath,
    key: str,
    outside: bool = False,
    chosen: Chosen = NOTHING_CHOSEN,
) -> MapPlace:
    labels = short_names([node.node.name for node in nodes], within=name if path else "")
    drawn = [node.node._replace(label=short.part) for node, short in zip(nodes, labels, strict=True)]
    if len(nodes) > MOST_TOGETHER:
        parts = [
            _run_of_nodes(nodes[at : at + RUN], drawn[at : at + RUN], (*path, f"@{at // RUN + 1}"))
            for at in _starts(nodes)
        ]
        return _around(parts, name=name, label=label, path=path, key=key, outside=outside, chosen=chosen)
    return MapPlace(
        name=name,
        label=label,
        path=path,
        key=key,
        outside=outside,
        nodes=tuple(drawn),
        tally=_tally(nodes),
        holders=_most([(holder, 1) for node in nodes for holder in node.holders]),
        marks=_marks(node.node.marks for node in nodes),
        sets=chosen.sets,
        room=chosen.room,
    )


def _run_of_nodes(nodes: Sequence[LocatedNode], drawn: Sequence[MapNode], path: PlacePath) -> MapPlace:
    return MapPlace(
        name=f"{drawn[0].name} to {drawn[-1].name}",
        label=f"{drawn[0].label} to {drawn[-1].label}",
        path=path,
        run=True,
        nodes=tuple(drawn),
        tally=_tally(nodes),
        holders=_most([(holder, 1) for node in nodes for holder in node.holders]),
        marks=_marks(node.node.marks for node in nodes),
    )


def _runs(places: list[MapPlace], path: PlacePath) -> list[MapPlace]:
    if len(places) <= MOST_TOGETHER:
        return places
    parts = [places[at : at + RUN] for at in _starts(places)]
    return [
        _around(
            part,
            name=f"{part[0].name} to {part[-1].name}",
            label=f"{part[0].label} to {part[-1].label}",
            path=(*path, f"@{number}"),
            key="",
            run=True,
        )
        for number, part in enumerate(parts, 1)
    ]


def _starts(many: Sequence[object]) -> range:
    return range(0, len(many), RUN)


def _around(
    inside: Sequence[MapPlace],
    *,
    name: str,
    label: str,
    path: PlacePath,
    key: str,
    outside: bool = False,
    run: bool = False,
    chosen: Chosen = NOTHING_CHOSEN,
) -> MapPlace:
    inner_tallies = [place.tally for place in inside]
    return MapPlace(
        name=name,
        label=label,
        path=path,
        key=key,
        outside=outside,
        run=run,
        inside=tuple(inside),
        tally=NodeTally(
            free=sum(tally.free for tally in inner_tallies),
            part=sum(tally.part for tally in inner_tallies),
            full=sum(tally.full for tally in inner_tallies),
            closed=sum(tally.closed for tally in inner_tallies),
            gpus=sum(tally.gpus for tally in inner_tallies),
            free_gpus=sum(tally.free_gpus for tally in inner_tallies),
        ),
        holders=_most([entry for place in inside for entry in place.holders]),
        marks=_marks(place.marks for place in inside),
        sets=chosen.sets,
        room=chosen.room,
    )


def _tally(nodes: Sequence[LocatedNode]) -> NodeTally:
    by_use = dict.fromkeys(Use, 0)
    closed = gpus = free_gpus = 0
    for node, _domain, _holders in nodes:
        gpus += node.gpus
        if node.is_open:
            by_use[node.use] += 1
            free_gpus += node.free
        else:
            closed += 1
    return NodeTally(
        free=by_use[Use.FREE],
        part=by_use[Use.PART],
        full=by_use[Use.FULL],
        closed=closed,
        gpus=gpus,
        free_gpus=free_gpus,
    )


def _most(entries: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for name, count in entries:
        counts[name] = counts.get(name, 0) + count
    return tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _marks(marks_by_place: Iterable[tuple[Mark, ...]]) -> tuple[Mark, ...]:
    counts: dict[tuple[int, str], int] = {}
    for marks in marks_by_place:
        for mark in marks:
            counts[mark.hue, mark.letter] = counts.get((mark.hue, mark.letter), 0) + mark.tasks
    return tuple(Mark(letter, hue, tasks) for (hue, letter), tasks in sorted(counts.items()))


def trail(tree: MapPlace, path: PlacePath) -> tuple[MapPlace, ...]:
    """The places from the pool to the one at a path; runs may be left out. Empty if there is none."""
    if tree.path == path:
        return (tree,)
    for place in tree.inside:
        if (place.path == path[: len(place.path)] or place.run) and (inner_trail := trail(place, path)):
            return (tree, *inner_trail)
    return ()


def find(tree: MapPlace, path: PlacePath) -> MapPlace | None:
    """The place at a path."""
    places = trail(tree, path)
    return places[-1] if places else None


def peopled(place: MapPlace, users: Mapping[str, tuple[str, ...]]) -> MapPlace:
    """The place with texts about the tasks on each node."""
    return replace(
        place,
        inside=tuple(peopled(inner, users) for inner in place.inside),
        nodes=tuple(node._replace(users=users.get(node.name, ())) for node in place.nodes),
    )
