"""Where each place and node of a pool is drawn: boxes within boxes, as much detail as can still be read.

A few nodes are *cards* with a name and their GPUs; hundreds are *cells*; of thousands the narrowest level of
which there are few enough boxes is drawn, each a *bar* of its nodes by use. A place that is opened is laid
out anew, so every node can be reached in a few steps.

A box takes the room its content needs; a box's children stand in rows, in the tree's order, all boxes of a
row as tall as the tallest. How broad the rows are is tried out for some proportions, and the lowest picture
wins. Pure and deterministic: the same pool gives the same picture. Rejected: treemaps and packing, which
move boxes about when one node comes or goes, so that nobody can learn where a rack stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, sqrt

from pages.map.letters import NAME, SMALL
from pages.map.tree import MapNode, MapPlace

WIDTH = 1180
"""How broad a picture may be, if no single box is broader; in pixels unless it is scaled."""

MOST_CARDS = 48
MOST_CELLS = 700
MOST_PLACES = 400
"""Nodes drawn as cards and as cells; boxes of places drawn around or instead of them."""

PAD = 8
GAP = 8
HEAD = 24
_CLOSE = 3
_SHAPES = (0.5, 0.9, 1.4, 2.0, 3.0, 5.0, 9.0)
"""Proportions of width to height that are tried for the boxes within the outermost."""

_MOST_TITLE = 110
_NEARLY = 0.6
_FULL = 0.72
"""Shares of a breadth from which on a picture, and a row in it, is drawn out to it."""


class BoxKind(StrEnum):
    """What a box is: a place around others, a place as one bar, a node in full, a node as a square."""

    PLACE = "place"
    BAR = "bar"
    CARD = "card"
    CELL = "cell"


SIZES = {BoxKind.BAR: (112.0, 46.0), BoxKind.CARD: (158.0, 62.0), BoxKind.CELL: (20.0, 20.0)}


@dataclass(frozen=True, slots=True)
class MapBox:
    """A rectangle and what it represents; its parts are inside it."""

    kind: BoxKind
    x: float
    y: float
    width: float
    height: float
    of: MapPlace | MapNode
    inside: tuple["MapBox", ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """The box of the open place, with everything inside. ``nodes`` says how nodes are drawn."""

    box: MapBox
    nodes: BoxKind


@dataclass(frozen=True, slots=True)
class _Sized:
    """A box before it has a position: its parts have these offsets."""

    kind: BoxKind
    width: float
    height: float
    of: MapPlace | MapNode
    parts: tuple["_Part", ...] = ()


_Part = tuple[float, float, _Sized]
"""How far right and down of the box's corner a part of it stands."""


def lay_out(place: MapPlace, *, width: float = WIDTH) -> Picture:
    """Lay out a place in as much detail as can be read."""
    kind, depth = detail(place)
    tried = [_sized(place, kind=kind, depth=depth, shape=shape, limit=width, first=True) for shape in _SHAPES]
    best = min(tried, key=lambda box: (box.width > width, box.height, box.width))
    return Picture(_placed(best, 0.0, 0.0), kind)


def detail(place: MapPlace) -> tuple[BoxKind, int]:
    """How nodes are drawn, and how many levels below the place are."""
    rows = _by_depth(place)
    places = sum(map(len, rows))
    nodes = place.tally.nodes
    if nodes <= MOST_CARDS and places <= MOST_PLACES:
        return BoxKind.CARD, len(rows)
    if nodes <= MOST_CELLS and places <= MOST_PLACES:
        return BoxKind.CELL, len(rows)
    depth, box_count = 1, 1
    for row in rows[1:]:
        box_count += len(row)
        if box_count > MOST_PLACES:
            break
        depth += 1
    return BoxKind.BAR, max(1, depth - 1)


def _by_depth(place: MapPlace) -> list[Sequence[MapPlace]]:
    rows: list[Sequence[MapPlace]] = [(place,)]
    while below := [inner for row in rows[-1] for inner in row.inside]:
        rows.append(below)
    return rows


def _sized(place: MapPlace, *, kind: BoxKind, depth: int, shape: float, limit: float, first: bool) -> _Sized:
    """A place with its content; ``limit`` bounds its width."""
    if kind is BoxKind.BAR and (depth == 0 or not place.inside) and not first:
        return _Sized(BoxKind.BAR, *SIZES[BoxKind.BAR], place)
    room = limit - 2 * PAD
    if place.inside:
        parts: list[_Sized] = [
            _sized(inner, kind=kind, depth=depth - 1, shape=shape, limit=room, first=False)
            for inner in place.inside
        ]
        gap = float(GAP)
    else:
        drawn = BoxKind.CELL if kind is BoxKind.BAR else kind
        parts = [_Sized(drawn, *SIZES[drawn], node) for node in place.nodes]
        gap = float(_CLOSE if drawn is BoxKind.CELL else GAP)
    rows = _rows(parts, gap=gap, wrap=room if first else min(room, _wrap(parts, gap=gap, shape=shape)))
    if place.inside:
        rows = _filled(rows, gap=gap, to=room if first else 0.0)
    return _around(place, rows, gap=gap)


def _wrap(parts: Sequence[_Sized], *, gap: float, shape: float) -> float:
    """How broad rows should be for a box of about this shape; equal parts make equal rows."""
    if not parts:
        return 0.0
    area = sum((part.width + gap) * (part.height + gap) for part in parts)
    broadest = max(part.width for part in parts)
    target = max(broadest, sqrt(area * shape))
    if min(part.width for part in parts) == broadest:
        columns = max(1, round((target + gap) / (broadest + gap)))
        columns = ceil(len(parts) / ceil(len(parts) / columns))
        return columns * (broadest + gap) - gap
    return target


def _rows(parts: Sequence[_Sized], *, gap: float, wrap: float) -> list[list[_Sized]]:
    """Parts in rows no broader than ``wrap``, but for a row of one."""
    rows: list[list[_Sized]] = []
    left = -1.0
    for part in parts:
        if part.width + gap > left + 1e-6 or not rows:
            rows.append([])
            left = wrap + gap
        rows[-1].append(part)
        left -= part.width + gap
    return rows


def _filled(rows: list[list[_Sized]], *, gap: float, to: float) -> list[list[_Sized]]:
    """Boxes of a row as tall as its tallest, rows drawn out to the breadth of the broadest, or to ``to``.

    Equal boxes all take the same share, so that columns stay in line; of others the last stays as it is.
    """
    if not rows:
        return rows
    breadths = [sum(box.width for box in row) + gap * (len(row) - 1) for row in rows]
    broadest = max(breadths)
    breadth = max(broadest, to) if broadest >= _NEARLY * to else broadest
    share = (breadth - broadest) / max(map(len, rows))
    alike = len({box.width for row in rows for box in row if not _is_outside(box)}) == 1
    filled = []
    for row, has in zip(rows, breadths, strict=True):
        tall = max(box.height for box in row)
        own = (breadth - has) / len(row) if not alike and has >= _FULL * broadest else share
        filled.append([_stretched(box, by=own, height=tall) for box in row])
    return filled


def _is_outside(box: _Sized) -> bool:
    return isinstance(box.of, MapPlace) and box.of.outside


def _stretched(box: _Sized, *, by: float, height: float) -> _Sized:
    """The same box, wider and taller, with its content widened; cells keep their size."""
    if _is_outside(box):
        return box
    if box.kind is not BoxKind.PLACE:
        return replace(box, width=box.width + by)
    return replace(box, width=box.width + by, height=height, parts=_spread(box.parts, by=by))


def _spread(parts: tuple[_Part, ...], *, by: float) -> tuple[_Part, ...]:
    """Parts of a box that has become wider: each column gets its share, so that columns stay in line."""
    if not by or not parts or parts[0][2].kind is BoxKind.CELL:
        return parts
    rows: dict[float, list[_Part]] = {}
    for part in parts:
        rows.setdefault(part[1], []).append(part)
    share = by / max(map(len, rows.values()))
    return tuple(
        (across + at * share, down, _stretched(box, by=share, height=box.height))
        for row in rows.values()
        for at, (across, down, box) in enumerate(row)
    )


def _around(place: MapPlace, rows: Sequence[Sequence[_Sized]], *, gap: float) -> _Sized:
    parts: list[_Part] = []
    figure = SMALL.width(f"{place.tally.free}/{place.tally.nodes}") + GAP
    down, broadest = float(HEAD), min(_MOST_TITLE, NAME.width(place.label)) + figure
    for row in rows:
        across = float(PAD)
        for box in row:
            parts.append((across, down, box))
            across += box.width + gap
        broadest = max(broadest, across - gap - PAD)
        down += max(box.height for box in row) + gap
    bottom = down - gap if rows else down
    return _Sized(BoxKind.PLACE, broadest + 2 * PAD, bottom + PAD, place, tuple(parts))


def _placed(box: _Sized, x: float, y: float) -> MapBox:
    inside = tuple(_placed(part, x + across, y + down) for across, down, part in box.parts)
    return MapBox(box.kind, x, y, box.width, box.height, box.of, inside)
