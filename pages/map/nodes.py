"""A node as SVG: a card with its name and GPUs, or a cell. Pure."""

from collections.abc import Iterator

from pages.map.captions import about_node
from pages.map.layout import PAD, MapBox
from pages.map.letters import NAME, SMALL
from pages.map.shapes import cross, escaped, inset, position, px, rect, set_tags, tag_width
from pages.map.tree import MapNode, Use

MOST_PIPS = 16
MOST_TAGS = 3


def cell(box: MapBox, node: MapNode) -> Iterator[str]:
    chosen = " chosen" if node.marks else ""
    yield f'<g class="node{_shut(node)}{chosen}"><title>{escaped(about_node(node))}</title>'
    yield rect("free", box.x, box.y, box.width, box.height, round_by=3)
    if node.use is Use.FULL:
        yield rect("held", box.x, box.y, box.width, box.height, round_by=3)
    elif node.use is Use.PART:
        tall = box.height * _used_share(node)
        yield rect("held", box.x, box.y + box.height - tall, box.width, tall)
    yield from _closed(box, node)
    if node.marks:
        mark = node.marks[0]
        more = "+" if len(node.marks) > 1 else ""
        middle, base = px(box.x + box.width / 2), px(box.y + box.height / 2 + 4)
        yield inset(f"tag s{mark.tint}", box, by=1 if node.is_open else 4, round_by=3)
        yield f'<text class="letter" x="{middle}" y="{base}">{escaped(mark.letter + more)}</text>'
    yield "</g>"


def _used_share(node: MapNode) -> float:
    """The used share of a node; a little and nearly everything stay visible as such."""
    share = 1 - node.free / node.gpus if node.gpus else 0.5
    return min(0.85, max(0.2, share))


def card(box: MapBox, node: MapNode) -> Iterator[str]:
    left, room = box.x + PAD, box.width - 2 * PAD
    chosen = " chosen" if node.marks else ""
    tags = [(mark, mark.letter) for mark in node.marks[:MOST_TAGS]]
    tags_width = sum(tag_width(text) + 2 for _mark, text in tags)
    yield f'<g class="node card{_shut(node)}{chosen}"><title>{escaped(about_node(node))}</title>'
    yield f'<rect class="paper" {position(box)} rx="4"/>'
    name = NAME.fitted(node.label, room - tags_width)
    yield f'<text class="name" x="{px(left)}" y="{px(box.y + 16)}">{escaped(name)}</text>'
    yield from set_tags(tags, right=box.x + box.width - 4, top=box.y + 4)
    yield from _gpus(node, x=left, y=box.y + 23, width=room)
    yield from _card_words(box, node, room)
    if node.marks:
        yield inset(f"ring s{node.marks[0].tint}", box, by=1, round_by=4)
    yield "</g>"


def _card_words(box: MapBox, node: MapNode, room: float) -> Iterator[str]:
    """Why the node is closed, or which workflows hold it, or that it is free."""
    if not node.is_open:
        sort, text = "small shut", f"⊘ {node.shut}"
        if node.users:
            text += f" · {node.users[0]}"
    elif node.users:
        more = f" +{len(node.users) - 1}" if len(node.users) > 1 else ""
        sort, text = "small", f"{SMALL.fitted(node.users[0], room - SMALL.width(more))}{more}"
    elif node.suspect:
        sort, text = "small", "⚠ suspect"
    else:
        sort, text = "small", node.gpu_note or (f"{node.free} GPUs free" if node.gpus else "free")
    base, words = px(box.y + box.height - 8), escaped(SMALL.fitted(text, room))
    yield f'<text class="{sort}" x="{px(box.x + PAD)}" y="{base}">{words}</text>'


def _gpus(node: MapNode, *, x: float, y: float, width: float) -> Iterator[str]:
    """A square for each GPU, held ones filled; of very many, one bar."""
    pips = node.gpus if 0 < node.gpus <= MOST_PIPS else 1
    used = node.gpus - node.free if node.gpus else int(node.use is not Use.FREE)
    step = width / pips
    for at in range(pips):
        full = at < used if pips > 1 else used == max(1, node.gpus)
        yield rect("held" if full else "free", x + at * step, y, step - 2, 11, round_by=2)
    if pips == 1 and 0 < used < node.gpus:
        yield rect("held", x, y, (width - 2) * used / node.gpus, 11, round_by=2)
    if not node.is_open:
        yield rect(OVERLAYS[node.shut], x, y, width - 2, 11, round_by=2)


OVERLAYS = {"cordoned": "hatched", "not ready": "crossed", "tainted": "dotted"}


def _closed(box: MapBox, node: MapNode) -> Iterator[str]:
    if node.is_open:
        return
    yield rect(OVERLAYS[node.shut], box.x, box.y, box.width, box.height, round_by=3)
    if OVERLAYS[node.shut] == "crossed":
        yield cross(box.x, box.y, box.width)


def _shut(node: MapNode) -> str:
    return "" if node.is_open else " closed"
