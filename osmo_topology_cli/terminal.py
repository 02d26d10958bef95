"""Tables and sentences on a terminal, in its width and in colour."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
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


def folded(text: str) -> Text:
    return Text(text, overflow="fold")


def drawn(table: Table, *, width: int) -> RenderableType:
    """The table for a terminal of so many columns; where words would be broken, a row is a few lines.

    Empty columns are left out.
    """
    columns = [column for column in zip(table.columns, *table.rows, strict=True) if any(column[1:])]
    longest = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    titles = [title for title, *_ in columns]
    rows = list(zip(*(cells for _, *cells in columns), strict=True))
    if sum(longest) + len(GAP) * (len(longest) - 1) > width:
        return Group(*(_record(titles, row) for row in rows))
    rich_table = RichTable(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0))
    for title, least in zip(titles, longest, strict=True):
        rich_table.add_column(title, overflow="fold", min_width=least)
    for row in rows:
        rich_table.add_row(*map(coloured, row))
    return rich_table


def _record(titles: Sequence[str], row: Sequence[str]) -> Text:
    lines = Text(overflow="fold")
    for index, (title, cell) in enumerate(zip(titles, row, strict=True)):
        lines.append("" if index == 0 else GAP)
        lines.append(f"{title} ", style="bold")
        lines.append_text(coloured(cell)).append("\n")
    return lines


def coloured(cell: str) -> Text:
    colour = next((colour for word, colour in COLOURS if cell.startswith(word)), "")
    return Text(printable(cell), style=colour)
