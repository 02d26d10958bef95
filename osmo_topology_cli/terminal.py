"""Tables and sentences on a terminal, in its width and in colour.

A row is one line. Where a terminal is narrower than a table, its least important columns are left out, then
cells are cut: a sentence at its end, a name in its middle, because names differ at their ends. Format WIDE
has all of it.
"""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.text import Text

from osmo_topology_cli.tables import GAP, Table, printable

COLOURS = (
    ("COMPLETED", "green"),
    ("RUNNING", "cyan"),
    ("FAILED", "red"),
    ("ONLINE", "green"),
    ("OFFLINE", "red"),
    ("MAINTENANCE", "yellow"),
)

LEAST = 12
"""Cells that a column keeps where it is cut: room for both ends of a name."""

UNCUT = 20
"""Columns of at most so many cells are not cut: times, numbers, statuses."""

CUT = "…"


def folded(text: str) -> Text:
    return Text(text, overflow="fold")


def drawn(table: Table, *, width: int) -> RenderableType:
    """The table for a terminal of so many columns. Empty columns are left out."""
    columns = [
        (title, [printable(cell) for cell in cells])
        for title, *cells in zip(table.columns, *table.rows, strict=True)
        if any(cells)
    ]
    natural = {title: max(map(cell_len, (title, *cells))) for title, cells in columns}
    widths = _fitting(natural, table.by_importance, width)
    columns = [(title, cells) for title, cells in columns if title in widths]
    lines = zip(*((title, *cells) for title, cells in columns), strict=True)
    titles = [title for title, _ in columns]
    sized = [widths[title] for title in titles]
    return Group(*(_line(line, sized, is_title=number == 0) for number, line in enumerate(lines)))


def _fitting(natural: dict[str, int], by_importance: Sequence[str], width: int) -> dict[str, int]:
    """The columns that fit and their widths: as many as have room for their least, the first in any case."""
    least = {
        title: number if number <= UNCUT else max(LEAST, cell_len(title)) for title, number in natural.items()
    }
    name = by_importance[0]
    least[name] = min(natural.get(name, 0), max(LEAST, width * 2 // 5))
    fitting: dict[str, int] = {}
    left = width
    for title in by_importance:
        needed = least.get(title, 0) + (len(GAP) if fitting else 0)
        if title in natural and (needed <= left or not fitting):
            fitting[title] = natural[title]
            left -= needed
    while sum(fitting.values()) + len(GAP) * (len(fitting) - 1) > width:
        widest = max(fitting, key=lambda title: fitting[title] - least[title])
        if fitting[widest] <= least[widest]:
            break
        fitting[widest] -= 1
    return fitting


def _line(cells: Sequence[str], widths: Sequence[int], *, is_title: bool) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis", style="bold" if is_title else "")
    for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        is_last = number == len(widths) - 1
        text = cut(cell, width)
        line.append(GAP if number else "")
        line.append(text if is_last else set_cell_size(text, width), style="" if is_title else _colour(cell))
    return line


def cut(text: str, width: int) -> str:
    """The text in so many cells: a sentence without its end, a name without its middle."""
    if cell_len(text) <= width:
        return text
    tail = "" if " " in text.strip() else text[len(text) - width // 3 :]
    return set_cell_size(text, max(width - cell_len(tail) - 1, 0)).rstrip() + CUT + tail


def _colour(cell: str) -> str:
    return next((colour for word, colour in COLOURS if cell.startswith(word)), "")


def coloured(cell: str) -> Text:
    return Text(printable(cell), style=_colour(cell))
