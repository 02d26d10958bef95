"""A laid-out map as SVG text: no library, no script, every text escaped. Pure.

What a colour says is said besides by shape and by words: held GPUs fill a square from below, a cordoned
node is hatched, one that is not ready is crossed out, a tainted one is dotted, and each box has a title.
In a page the boxes of places are links; alone, in a file, there are none and the style is inside.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from pages.map.layout import HEAD, PAD, BoxKind, MapBox, Picture
from pages.map.sentences import about_node, about_place, about_room
from pages.map.tree import MapNode, MapPlace, Mark, NodeTally, Shut, Use
from scheduling.sentences import count_of

Link = Callable[[MapPlace], str]
"""The address at which a place is drawn in full; empty where there is nothing more to see."""

_LETTER = 6.4
_SMALL = 5.9
_MOST_PIPS = 16
MOST_TAGS = 3

PATTERNS = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><path class="ink" d="M1 0V6" stroke-width="2"/>'
    '<path class="ink back" d="M3 0V6" stroke-width="2"/></pattern>'
    '<pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<circle class="dot" cx="2.5" cy="2.5" r="1.4"/></pattern></defs>'
)


@dataclass(frozen=True, slots=True)
class Caption:
    """What stands below a picture that goes without a page: a line, with a set's letter before it."""

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
    """The whole picture with its legend. ``style`` is put inside, for a file that stands alone."""
    box = picture.box
    width = max(box.width, _LEAST)
    legend = list(_legend(width, top=box.height + 8))
    below = box.height + 8 + _LINE * (1 + legend.count(_BREAK))
    height = below + len(captions) * _LINE + (6 if captions else 0)
    edge = _EDGE if style else 0.0
    broad, tall = _n(width + 2 * edge), _n(height + 2 * edge)
    size = f'width="{broad}" height="{tall}" viewBox="{_n(-edge)} {_n(-edge)} {broad} {tall}"'
    role = "group" if link else "img"
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="map" role="{role}" ',
            f'aria-labelledby="map-title map-desc" {size}>',
            f'<title id="map-title">{_text(title)}</title><desc id="map-desc">{_text(description)}</desc>',
            f"<style>{escape(style)}</style>" if style else "",
            f'<rect class="ground" x="{_n(-edge)}" y="{_n(-edge)}" width="{broad}" height="{tall}"/>'
            if style
            else "",
            PATTERNS,
            *_drawn(box, link or (lambda _place: ""), outermost=True),
            *legend,
            *_captions(captions, top=below + 6),
            "</svg>\n",
        )
    )


_LINE = 20.0
_LEAST = 620.0
_EDGE = 10.0
_BREAK = ""


def _legend(width: float, *, top: float) -> Iterator[str]:
    """What each look of a node means, in as many lines as it takes; a line's end is told by ``_BREAK``."""
    x = 0.0
    yield '<g class="legend">'
    for words, symbols in _BADGES:
        broad = 24 + len(words) * _SMALL + 14
        if x and x + broad > width:
            x, top = 0.0, top + _LINE
            yield _BREAK
        for name, share in symbols:
            yield _rect(name, x, top + 14 * (1 - share), 14, 14 * share, round_by=2)
        if words == Shut.NOT_READY:
            yield _cross(x, top, 14)
        yield f'<text class="small" x="{_n(x + (19 if symbols else 0))}" y="{_n(top + 11)}">{words}</text>'
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


def _captions(captions: Sequence[Caption], *, top: float) -> Iterator[str]:
    for at, caption in enumerate(captions):
        y = top + at * _LINE
        left = 0.0
        if caption.mark:
            left = _tag_width(caption.mark.letter)
            yield from _tags([(caption.mark, caption.mark.letter)], right=left, top=y)
            left += 6
        yield f'<text x="{_n(left)}" y="{_n(y + 11)}">{_text(caption.text)}</text>'


def _drawn(box: MapBox, link: Link, *, outermost: bool = False) -> Iterator[str]:
    if isinstance(box.of, MapNode):
        yield from _card(box, box.of) if box.kind is BoxKind.CARD else _cell(box, box.of)
        return
    yield from _place(box, box.of, "" if outermost else link(box.of))
    for inner in box.inside:
        yield from _drawn(inner, link)


def _place(box: MapBox, place: MapPlace, address: str) -> Iterator[str]:
    words = about_place(place)
    if address:
        yield f'<a href="{_quoted(address)}" aria-label="{_quoted(f"{words} Open.")}">'
    yield f'<g class="{_place_class(box, place)}"><title>{_text(words)}</title>'
    yield f'<rect class="frame" {_at(box)} rx="6"/>'
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
    if (len(key) + len(place.name)) * _LETTER > room * 0.75:
        key = ""
    name = fitted(place.name, room - len(key) * _SMALL, _LETTER)
    key_text = f'<tspan class="key">{_text(key)}</tspan>' if key else ""
    yield f'<text class="name" x="{_n(left)}" y="{_n(base)}">{key_text}{_text(name)}</text>'
    right = box.x + box.width - PAD
    tags = [(mark, f"{mark.letter} {mark.tasks}") for mark in place.sets[:MOST_TAGS]]
    tags_width = sum(_tag_width(text) + 2 for _mark, text in tags)
    free = room - (len(key) + len(name)) * _LETTER - 6
    if tags and tags_width <= free:
        yield from _tags(tags, right=right, top=box.y + 5)
        right, free = right - tags_width - 4, free - tags_width - 4
    figures = next((text for text in _figures(place) if len(text) * _SMALL <= free), "")
    if figures:
        yield f'<text class="figure" x="{_n(right)}" y="{_n(base)}">{_text(figures)}</text>'


def _figures(place: MapPlace) -> Iterator[str]:
    """What the title's line says at its right end, the longest first."""
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
    tags_width = sum(_tag_width(text) + 2 for _mark, text in tags)
    name = fitted(place.name, room - tags_width, _LETTER)
    yield f'<text class="name" x="{_n(left)}" y="{_n(box.y + 15)}">{_text(name)}</text>'
    yield from _tags(tags, right=box.x + box.width - 4, top=box.y + 4)
    yield from _shares(place.tally, x=left, y=box.y + 20, width=room)
    text = next((text for text in _bar_words(place) if len(text) * _SMALL <= room), "")
    yield f'<text class="small" x="{_n(left)}" y="{_n(box.y + box.height - 5)}">{_text(text)}</text>'


def _bar_words(place: MapPlace) -> Iterator[str]:
    if place.room:
        yield about_room(place.room)
        yield f"{place.room.free} of {place.room.tasks}"
        return
    yield f"{place.tally.free} of {count_of(place.tally.nodes, 'node')} free"
    yield f"{place.tally.free} of {place.tally.nodes} free"
    yield f"{place.tally.free}/{place.tally.nodes}"


def _shares(tally: NodeTally, *, x: float, y: float, width: float) -> Iterator[str]:
    yield f'<rect class="trough" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="9" rx="2"/>'
    at = x
    parts = (("full", tally.full), ("part", tally.part), ("closed", tally.closed))
    for name, share in parts:
        if not share:
            continue
        broad = width * share / tally.nodes
        yield _rect(f"u {name}", at, y, broad, 9)
        if name == "closed":
            yield _rect("hatched", at, y, broad, 9)
        at += broad


def _cell(box: MapBox, node: MapNode) -> Iterator[str]:
    chosen = " chosen" if node.marks else ""
    yield f'<g class="node{_shut(node)}{chosen}"><title>{_text(about_node(node))}</title>'
    yield _rect("free", box.x, box.y, box.width, box.height, round_by=3)
    if node.use is Use.FULL:
        yield _rect("held", box.x, box.y, box.width, box.height, round_by=3)
    elif node.use is Use.PART:
        tall = box.height * _used_share(node)
        yield _rect("held", box.x, box.y + box.height - tall, box.width, tall)
    yield from _closed(box, node)
    if node.marks:
        mark = node.marks[0]
        more = "+" if len(node.marks) > 1 else ""
        middle, base = _n(box.x + box.width / 2), _n(box.y + box.height / 2 + 4)
        yield _inset(f"tag s{mark.tint}", box, by=1 if node.is_open else 4, round_by=3)
        yield f'<text class="letter" x="{middle}" y="{base}">{_text(mark.letter + more)}</text>'
    yield "</g>"


def _used_share(node: MapNode) -> float:
    """The share of a node that is held, never quite none and never quite all."""
    share = 1 - node.free / node.gpus if node.gpus else 0.5
    return min(0.85, max(0.2, share))


def _card(box: MapBox, node: MapNode) -> Iterator[str]:
    left, room = box.x + PAD, box.width - 2 * PAD
    chosen = " chosen" if node.marks else ""
    tags = [(mark, mark.letter) for mark in node.marks[:MOST_TAGS]]
    tags_width = sum(_tag_width(text) + 2 for _mark, text in tags)
    yield f'<g class="node card{_shut(node)}{chosen}"><title>{_text(about_node(node))}</title>'
    yield f'<rect class="paper" {_at(box)} rx="4"/>'
    name = fitted(node.name, room - tags_width, _LETTER)
    yield f'<text class="name" x="{_n(left)}" y="{_n(box.y + 16)}">{_text(name)}</text>'
    yield from _tags(tags, right=box.x + box.width - 4, top=box.y + 4)
    yield from _gpus(node, x=left, y=box.y + 23, width=room)
    yield from _card_words(box, node, room)
    if node.marks:
        yield _inset(f"ring s{node.marks[0].tint}", box, by=1, round_by=4)
    yield "</g>"


def _card_words(box: MapBox, node: MapNode, room: float) -> Iterator[str]:
    """Why it takes nothing, or who holds it, or that it is free."""
    if not node.is_open:
        sort, text = "small shut", f"⊘ {node.shut}"
        if node.users:
            text += f" · {node.users[0]}"
    elif node.users:
        more = f" +{len(node.users) - 1}" if len(node.users) > 1 else ""
        sort, text = "small", f"{fitted(node.users[0], room - len(more) * _SMALL, _SMALL)}{more}"
    else:
        sort, text = "small", f"{node.free} GPUs free" if node.gpus else "free"
    base = _n(box.y + box.height - 8)
    yield f'<text class="{sort}" x="{_n(box.x + PAD)}" y="{base}">{_text(fitted(text, room, _SMALL))}</text>'


def _gpus(node: MapNode, *, x: float, y: float, width: float) -> Iterator[str]:
    """A square for each GPU, held ones filled; of very many, one bar."""
    pips = node.gpus if 0 < node.gpus <= _MOST_PIPS else 1
    used = node.gpus - node.free if node.gpus else int(node.use is not Use.FREE)
    step = width / pips
    for at in range(pips):
        full = at < used if pips > 1 else used == max(1, node.gpus)
        yield _rect("held" if full else "free", x + at * step, y, step - 2, 11, round_by=2)
    if pips == 1 and 0 < used < node.gpus:
        yield _rect("held", x, y, (width - 2) * used / node.gpus, 11, round_by=2)
    if not node.is_open:
        yield _rect(_OVER[node.shut], x, y, width - 2, 11, round_by=2)


_OVER = {"cordoned": "hatched", "not ready": "crossed", "tainted": "dotted"}


def _closed(box: MapBox, node: MapNode) -> Iterator[str]:
    if node.is_open:
        return
    yield _rect(_OVER[node.shut], box.x, box.y, box.width, box.height, round_by=3)
    if _OVER[node.shut] == "crossed":
        yield _cross(box.x, box.y, box.width)


def _cross(x: float, y: float, size: float) -> str:
    arm = _n(size - 8)
    return f'<path class="cross" d="M{_n(x + 4)} {_n(y + 4)}l{arm} {arm}m0 -{arm}l-{arm} {arm}"/>'


def _tags(tags: Sequence[tuple[Mark, str]], *, right: float, top: float) -> Iterator[str]:
    """Letters of sets in small boxes, from the right."""
    for mark, text in reversed(tags):
        broad = _tag_width(text)
        right -= broad
        yield _rect(f"tag s{mark.tint}", right, top, broad, 14, round_by=3)
        middle = _n(right + broad / 2)
        yield f'<text class="letter" x="{middle}" y="{_n(top + 11)}">{_text(text)}</text>'
        right -= 2


def _tag_width(text: str) -> float:
    return 6.6 * len(text) + 7


def _shut(node: MapNode) -> str:
    return "" if node.is_open else " closed"


def fitted(text: str, room: float, letter: float) -> str:
    """A text cut in its middle to fit: names differ at their ends."""
    most = int(room / letter)
    if len(text) <= most:
        return text
    if most < 3:
        return ""
    tail = (most - 1) * 2 // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def _rect(name: str, x: float, y: float, width: float, height: float, *, round_by: int = 0) -> str:
    corner = f' rx="{round_by}"' if round_by else ""
    return f'<rect class="{name}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"{corner}/>'


def _inset(name: str, box: MapBox, *, by: int, round_by: int) -> str:
    return _rect(name, box.x + by, box.y + by, box.width - 2 * by, box.height - 2 * by, round_by=round_by)


def _at(box: MapBox) -> str:
    return f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'


def _n(number: float) -> str:
    """A number as short as it can be, to a tenth."""
    return f"{number:.1f}".removesuffix(".0")


_CONTROL = {code: "\N{REPLACEMENT CHARACTER}" for code in range(32) if code not in (9, 10, 13)}
"""Characters that XML cannot hold."""


def _text(text: str) -> str:
    return escape(text.translate(_CONTROL))


def _quoted(text: str) -> str:
    return escape(text.translate(_CONTROL), {'"': "&quot;"})
