"""A laid-out map as SVG text: no library, no script, every text escaped. Pure.

Every colour has a shape and a text besides: used GPUs fill a square from below, a cordoned node is hatched,
one that is not ready is crossed out, a tainted one is dotted, and each box has a title. In a page the boxes
of places are links; in a file there are none, and the style is inside.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from pages.map.captions import about_place, about_room
from pages.map.layout import HEAD, PAD, BoxKind, MapBox, Picture
from pages.map.letters import NAME, SMALL, TEXT
from pages.map.nodes import MOST_TAGS, card, cell
from pages.map.shapes import cross, escaped, position, px, quoted, rect, set_tags, tag_width
from pages.map.tree import MapNode, MapPlace, Mark, NodeTally, Shut
from scheduling.sentences import count_of

Link = Callable[[MapPlace], str]
"""The address at which a place is drawn in full; empty where there is nothing more to see."""


PATTERNS = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><path class="ink" d="M1 0V6" stroke-width="2"/>'
    '<path class="ink back" d="M3 0V6" stroke-width="2"/></pattern>'
    '<pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<circle class="dot" cx="2.5" cy="2.5" r="1.4"/></pattern></defs>'
)


@dataclass(frozen=True, slots=True)
class Caption:
    """A line below a picture without a page; it may begin with the letter of a set."""

    text: str
    mark: Mark | None = None


def draw(
    picture: Picture,
    *,
    title: str,
    description: str,
    link: Link | None = None,
    style: str = "",
    captions: Sequence[Caption] = (),
) -> str:
    """The whole picture with its legend. ``style`` is put inside a file."""
    box = picture.box
    width = max(box.width, _LEAST)
    legend = list(_legend(width, top=box.height + 8))
    below = box.height + 8 + _LINE * (1 + legend.count(_BREAK))
    lines = list(_lines(captions, width))
    height = below + len(lines) * _LINE + (6 if lines else 0)
    edge = _EDGE if style else 0.0
    broad, tall = px(width + 2 * edge), px(height + 2 * edge)
    size = f'width="{broad}" height="{tall}" viewBox="{px(-edge)} {px(-edge)} {broad} {tall}"'
    role = "group" if link else "img"
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="map" role="{role}" ',
            f'aria-labelledby="map-title map-desc" {size}>',
            f'<title id="map-title">{escaped(title)}</title>',
            f'<desc id="map-desc">{escaped(description)}</desc>',
            f"<style>{escape(style)}</style>" if style else "",
            f'<rect class="ground" x="{px(-edge)}" y="{px(-edge)}" width="{broad}" height="{tall}"/>'
            if style
            else "",
            PATTERNS,
            *_drawn(box, link or (lambda _place: ""), outermost=True),
            *legend,
            *_captions(lines, top=below + 6),
            "</svg>\n",
        )
    )


_LINE = 20.0
_LEAST = 620.0
_EDGE = 10.0
_BREAK = ""


def _legend(width: float, *, top: float) -> Iterator[str]:
    """The meaning of each appearance of a node, in as many lines as it takes; ``_BREAK`` ends a line."""
    x = 0.0
    yield '<g class="legend">'
    for words, symbols in _BADGES:
        broad = 24 + SMALL.width(words) + 14
        if x and x + broad > width:
            x, top = 0.0, top + _LINE
            yield _BREAK
        for name, share in symbols:
            yield rect(name, x, top + 14 * (1 - share), 14, 14 * share, round_by=2)
        if words == Shut.NOT_READY:
            yield cross(x, top, 14)
        yield f'<text class="small" x="{px(x + (19 if symbols else 0))}" y="{px(top + 11)}">{words}</text>'
        x += broad
    yield "</g>"


_BADGES: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = (
    ("free", (("free", 1),)),
    ("some GPUs held", (("free", 1), ("held", 0.4))),
    ("all held", (("held", 1),)),
    ("cordoned", (("free", 1), ("hatched", 1))),
    ("not ready", (("free", 1), ("crossed", 1))),
    ("tainted", (("free", 1), ("dotted", 1))),
    ("outside: lacks a level's label", (("frame beyond", 1),)),
    ("7/18: nodes wholly free, of all", ()),
)


def _lines(captions: Sequence[Caption], width: float) -> Iterator[Caption]:
    """The captions in lines of this breadth; the first of each has its letter."""
    for caption in captions:
        first, *more = TEXT.lines(caption.text, width - _indent(caption))
        yield Caption(first, caption.mark)
        yield from map(Caption, more)


def _indent(caption: Caption) -> float:
    return tag_width(caption.mark.letter) + 6 if caption.mark else 0.0


def _captions(captions: Sequence[Caption], *, top: float) -> Iterator[str]:
    for at, caption in enumerate(captions):
        y = top + at * _LINE
        left = _indent(caption)
        if caption.mark:
            yield from set_tags([(caption.mark, caption.mark.letter)], right=left - 6, top=y)
        yield f'<text x="{px(left)}" y="{px(y + 11)}">{escaped(caption.text)}</text>'


def _drawn(box: MapBox, link: Link, *, outermost: bool = False) -> Iterator[str]:
    if isinstance(box.of, MapNode):
        yield from card(box, box.of) if box.kind is BoxKind.CARD else cell(box, box.of)
        return
    yield from _place(box, box.of, "" if outermost else link(box.of))
    for inner in box.inside:
        yield from _drawn(inner, link)


def _place(box: MapBox, place: MapPlace, address: str) -> Iterator[str]:
    words = about_place(place)
    if address:
        yield f'<a href="{quoted(address)}"><title>{escaped(f"{words} Open.")}</title>'
    yield f'<g class="{_place_class(box, place)}"><title>{escaped(words)}</title>'
    yield f'<rect class="frame" {position(box)} rx="6"/>'
    yield from _bar(box, place) if box.kind is BoxKind.BAR else _head(box, place)
    yield "</g>"
    if address:
        yield "</a>"


def _place_class(box: MapBox, place: MapPlace) -> str:
    words = [box.kind.value]
    if place.outside:
        words.append("outside")
    if place.run:
        words.append("run")
    if place.room:
        words.append("short" if place.room.lacks else "fits")
    if place.sets or (box.kind is BoxKind.BAR and place.marks):
        words.append("chosen")
    return " ".join(words)


def _head(box: MapBox, place: MapPlace) -> Iterator[str]:
    """The title's line: the name, and as many figures as there is room for."""
    room = box.width - 2 * PAD
    left = box.x + PAD
    base = box.y + HEAD - 8
    key = f"{place.key} " if place.key and not place.outside else ""
    if TEXT.width(key) + NAME.width(place.label) > room * 0.75:
        key = ""
    name = NAME.fitted(place.label, room - TEXT.width(key))
    key_text = f'<tspan class="key">{escaped(key)}</tspan>' if key else ""
    yield f'<text class="name" x="{px(left)}" y="{px(base)}">{key_text}{escaped(name)}</text>'
    right = box.x + box.width - PAD
    tags = [(mark, f"{mark.letter} {mark.tasks}") for mark in place.sets[:MOST_TAGS]]
    tags_width = sum(tag_width(text) + 2 for _mark, text in tags)
    free = room - TEXT.width(key) - NAME.width(name) - 6
    if tags and tags_width <= free:
        yield from set_tags(tags, right=right, top=box.y + 5)
        right, free = right - tags_width - 4, free - tags_width - 4
    figures = next((text for text in _figures(place) if SMALL.width(text) <= free), "")
    if figures:
        yield f'<text class="figure" x="{px(right)}" y="{px(base)}">{escaped(figures)}</text>'


def _figures(place: MapPlace) -> Iterator[str]:
    """The texts for the right end of a title, the longest first."""
    tally = place.tally
    nodes = f"{tally.free} of {count_of(tally.nodes, 'node')} free"
    if place.room:
        yield f"{about_room(place.room)} · {nodes}"
        yield about_room(place.room)
        yield f"{place.room.free} of {place.room.tasks}"
        yield f"{place.room.free}/{place.room.tasks}"
        return
    if tally.gpus:
        yield f"{nodes} · {tally.free_gpus} of {tally.gpus} GPUs"
    yield nodes
    yield f"{tally.free} of {tally.nodes} free"
    yield f"{tally.free}/{tally.nodes}"


def _bar(box: MapBox, place: MapPlace) -> Iterator[str]:
    """A place in one box: its name, its nodes by use, and how many are free."""
    room = box.width - 2 * PAD
    left = box.x + PAD
    marks = (place.sets or place.marks)[:MOST_TAGS]
    tags = [(mark, mark.letter) for mark in marks]
    tags_width = sum(tag_width(text) + 2 for _mark, text in tags)
    name = NAME.fitted(place.label, room - tags_width)
    yield f'<text class="name" x="{px(left)}" y="{px(box.y + 15)}">{escaped(name)}</text>'
    yield from set_tags(tags, right=box.x + box.width - 4, top=box.y + 4)
    yield from _shares(place.tally, x=left, y=box.y + 20, width=room)
    text = next((text for text in _bar_words(place) if SMALL.width(text) <= room), "")
    yield f'<text class="small" x="{px(left)}" y="{px(box.y + box.height - 5)}">{escaped(text)}</text>'


def _bar_words(place: MapPlace) -> Iterator[str]:
    if place.room:
        yield about_room(place.room)
        yield f"{place.room.free} of {place.room.tasks}"
        return
    yield f"{place.tally.free} of {count_of(place.tally.nodes, 'node')} free"
    yield f"{place.tally.free} of {place.tally.nodes} free"
    yield f"{place.tally.free}/{place.tally.nodes}"


def _shares(tally: NodeTally, *, x: float, y: float, width: float) -> Iterator[str]:
    yield f'<rect class="trough" x="{px(x)}" y="{px(y)}" width="{px(width)}" height="9" rx="2"/>'
    at = x
    parts = (("full", tally.full), ("part", tally.part), ("closed", tally.closed))
    for name, share in parts:
        if not share:
            continue
        broad = width * share / tally.nodes
        yield rect(f"u {name}", at, y, broad, 9)
        if name == "closed":
            yield rect("hatched", at, y, broad, 9)
        at += broad
