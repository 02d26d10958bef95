"""Where the boxes and arrows of a workflow's groups are drawn: left to right, in order of dependency.

Each group stands one column right of the last group it waits for. An arrow over several columns gets a narrow
lane in each it passes, so that it never runs behind a box. Columns are put in order by the mean place of what
leads to them, from left to right, and by the user's order where that says nothing. Pure and deterministic:
the same groups give the same drawing, so a page that loads itself again does not jump about. Rejected: a
library for graphs, and moving crossings about until there are none; workflows have a handful of groups.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

BOX_WIDTH = 190
BOX_HEIGHT = 62
ACROSS = 56
BETWEEN = 18
LANE = 14
MARGIN = 6
"""Sizes in units of the drawing, which are pixels unless it is scaled."""

MOST_DRAWN = 60
"""Groups above which nothing is drawn: such a picture tells nobody anything, and the list says it all."""

Lane = tuple[str, str, int]
"""A lane of an arrow: whence, whither, and the column it passes."""

Slot = str | Lane
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class GroupBox:
    """A group: the upper left corner of its box, and its column."""

    name: str
    x: float
    y: float
    column: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dependency: ``after`` waits for ``before``. ``path`` is an SVG path from one box to the other."""

    before: str
    after: str
    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """All boxes in the user's order, all arrows, and how much room they take."""

    boxes: tuple[GroupBox, ...]
    arrows: tuple[Arrow, ...]
    width: float
    height: float


def draw(upstream: Mapping[str, Sequence[str]]) -> Drawing | None:
    """Place each group, given the groups it waits for, in the user's order.

    None where there is nothing to see: fewer than two groups, or more than MOST_DRAWN. Names that are no
    group are left out; groups that wait for each other in a ring, which no check lets through, are drawn
    somewhere.
    """
    if not 2 <= len(upstream) <= MOST_DRAWN:
        return None
    before = {
        name: [fromkey for fromkey in dict.fromkeys(ups) if fromkey in upstream]
        for name, ups in upstream.items()
    }
    column = columns(before)
    edges = [(up, name) for name, ups in before.items() for up in ups if column[up] < column[name]]
    order = _ordered(list(before), column, edges)
    corner = _placed(order)
    boxes = tuple(GroupBox(name, *corner[name], column[name]) for name in before)
    arrows = tuple(Arrow(up, name, _path(up, name, column, corner)) for up, name in edges)
    width = len(order) * (BOX_WIDTH + ACROSS) - ACROSS + 2 * MARGIN
    return Drawing(boxes, arrows, width, max(map(_height, order)) + 2 * MARGIN)


def columns(before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The column of each group: right of the last of those it waits for, 0 for one that waits for none."""
    column: dict[str, int] = {}
    left = dict(before)
    while left:
        ready = [name for name, ups in left.items() if all(up in column for up in ups)]
        for name in ready or list(left)[:1]:  # a ring: broken at its first group
            column[name] = 1 + max((column[up] for up in left.pop(name) if up in column), default=-1)
    return column


def _ordered(
    names: Sequence[str], column: Mapping[str, int], edges: Sequence[tuple[str, str]]
) -> list[list[Slot]]:
    """The slots of each column from top to bottom: groups, and the lanes of arrows that pass."""
    rows: list[list[Slot]] = [[] for _ in range(1 + max(column.values()))]
    leading: dict[Slot, list[Slot]] = defaultdict(list)
    for name in names:
        rows[column[name]].append(name)
    for up, name in edges:
        last: Slot = up
        for passed in range(column[up] + 1, column[name]):
            lane: Lane = (up, name, passed)
            rows[passed].append(lane)
            leading[lane].append(last)
            last = lane
        leading[name].append(last)
    for before, slots in pairwise(rows):
        place = {slot: index / len(before) for index, slot in enumerate(before)}
        own = {slot: index / len(slots) for index, slot in enumerate(slots)}
        slots.sort(
            key=lambda slot: _mean([place[neighbour] for neighbour in leading[slot]], default=own[slot])
        )
    return rows


def _mean(values: Sequence[float], *, default: float) -> float:
    return sum(values) / len(values) if values else default


def _placed(order: Sequence[Sequence[Slot]]) -> dict[Slot, Point]:
    """The upper left corner of each slot; columns are centred on each other."""
    tallest = max(map(_height, order))
    corner: dict[Slot, Point] = {}
    for index, slots in enumerate(order):
        x = MARGIN + index * (BOX_WIDTH + ACROSS)
        y = MARGIN + (tallest - _height(slots)) / 2
        for slot in slots:
            corner[slot] = (x, y)
            y += _tall(slot) + BETWEEN
    return corner


def _height(slots: Sequence[Slot]) -> float:
    return sum(map(_tall, slots)) + BETWEEN * (len(slots) - 1)


def _tall(slot: Slot) -> float:
    return BOX_HEIGHT if isinstance(slot, str) else LANE


def _path(up: str, name: str, column: Mapping[str, int], corner: Mapping[Slot, Point]) -> str:
    """From the right edge of one box through its lanes to the left edge of the other."""
    x, y = _middle(corner[up], BOX_HEIGHT)
    x += BOX_WIDTH
    parts = [f"M{x:g},{y:g}"]
    for passed in range(column[up] + 1, column[name]):
        lane_x, lane_y = _middle(corner[up, name, passed], LANE)
        parts += [_curve((x, y), (lane_x, lane_y)), f"H{lane_x + BOX_WIDTH:g}"]
        x, y = lane_x + BOX_WIDTH, lane_y
    return "".join([*parts, _curve((x, y), _middle(corner[name], BOX_HEIGHT))])


def _middle(corner: Point, tall: float) -> Point:
    return corner[0], corner[1] + tall / 2


def _curve(start: Point, end: Point) -> str:
    half = (start[0] + end[0]) / 2
    return f"C{half:g},{start[1]:g} {half:g},{end[1]:g} {end[0]:g},{end[1]:g}"
