"""The shapes and texts that a map's picture is made of, as SVG. Pure."""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from pages.map.layout import MapBox
from pages.map.letters import MARK
from pages.map.tree import Mark


def cross(x: float, y: float, size: float) -> str:
    arm = px(size - 8)
    return f'<path class="cross" d="M{px(x + 4)} {px(y + 4)}l{arm} {arm}m0 -{arm}l-{arm} {arm}"/>'


def set_tags(tags: Sequence[tuple[Mark, str]], *, right: float, top: float) -> Iterator[str]:
    """Letters of sets in small boxes, from the right."""
    for mark, text in reversed(tags):
        broad = tag_width(text)
        right -= broad
        yield rect(f"tag s{mark.tint}", right, top, broad, 14, round_by=3)
        middle = px(right + broad / 2)
        yield f'<text class="letter" x="{middle}" y="{px(top + 11)}">{escaped(text)}</text>'
        right -= 2


def tag_width(text: str) -> float:
    return MARK.width(text) + 7


def rect(name: str, x: float, y: float, width: float, height: float, *, round_by: int = 0) -> str:
    corner = f' rx="{round_by}"' if round_by else ""
    return f'<rect class="{name}" x="{px(x)}" y="{px(y)}" width="{px(width)}" height="{px(height)}"{corner}/>'


def inset(name: str, box: MapBox, *, by: int, round_by: int) -> str:
    return rect(name, box.x + by, box.y + by, box.width - 2 * by, box.height - 2 * by, round_by=round_by)


def position(box: MapBox) -> str:
    return f'x="{px(box.x)}" y="{px(box.y)}" width="{px(box.width)}" height="{px(box.height)}"'


def px(value: float) -> str:
    """A number as short as it can be, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


_CONTROL = {code: "\N{REPLACEMENT CHARACTER}" for code in range(32) if code not in (9, 10, 13)}
"""Characters that XML cannot hold."""


def escaped(text: str) -> str:
    return escape(text.translate(_CONTROL))


def quoted(text: str) -> str:
    return escape(text.translate(_CONTROL), {'"': "&quot;"})
