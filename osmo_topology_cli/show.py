"""Printing: tables for people, plain columns for pipes, JSON for programs.

To a terminal tables are folded into its width and statuses are coloured, unless ``NO_COLOR`` is set. To
anything else they are columns of whole words without colour, one row a line, so that ``grep`` and ``awk``
find what they look for whatever ``COLUMNS`` says.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from osmo_topology_cli.outcomes import Failure, Refused
from osmo_topology_cli.tables import Table, printable

COLOURS = (
    ("COMPLETED", "green"),
    ("RUNNING", "cyan"),
    ("FAILED", "red"),
    ("ONLINE", "green"),
    ("OFFLINE", "red"),
    ("MAINTENANCE", "yellow"),
)
GAP = "  "


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


class Printer:
    """The output of a command in one ``format``."""

    def __init__(self, *, format: Format, out: TextIO = sys.stdout, err: TextIO = sys.stderr) -> None:  # noqa: A002 -- the option's name
        self.format = format
        self._out, self._err = out, err
        self.console = Console(file=out, highlight=False, markup=False, emoji=False, soft_wrap=False)

    @property
    def is_live(self) -> bool:
        """Whether what was printed can be overwritten."""
        return self.console.is_terminal and self.format is Format.TABLE and os.environ.get("TERM") != "dumb"

    def json(self, value: Any) -> bool:
        """Print the value in format JSON; returns whether it did."""
        if self.format is Format.JSON:
            self._line(json.dumps(value, indent=2, ensure_ascii=False))
        return self.format is Format.JSON

    def json_line(self, value: Any) -> None:
        self._line(json.dumps(value, ensure_ascii=False))

    def line(self, text: str = "", *, indent: str = "") -> None:
        """A sentence; on a terminal it is folded between words."""
        text = indent + printable(text)
        if self.console.is_terminal:
            self.console.print(Text(text, overflow="fold"))
        else:
            self._line(text)

    def note(self, text: str) -> None:
        """Something besides the result: to standard error."""
        print(printable(text), file=self._err, flush=True)

    def table(self, table: Table, *, indent: str = "") -> None:
        """Print the table; nothing for one without rows."""
        if not table.rows:
            return
        if table.title:
            self.line(table.title + ":", indent=indent)
        if self.console.is_terminal:
            self.console.print(drawn(table, width=self.console.width))
        else:
            for row in aligned([table.columns, *table.rows]):
                self._line(indent + row)

    def raw(self, piece: bytes) -> None:
        """Bytes of a task's output, unchanged."""
        self._out.buffer.write(piece)
        self._out.flush()

    def failure(self, failure: Failure) -> None:
        """Say why the command ended, with every fault that the service names."""
        if isinstance(failure, Refused) and self.format is Format.JSON:
            print(json.dumps(failure.body, indent=2, ensure_ascii=False), file=self._err)
            return
        for line in explained(failure):
            self.note(line)

    def _line(self, text: str) -> None:
        print(text, file=self._out, flush=True)


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


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines whose columns begin below each other."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return [line.rstrip() for line in lines]


def explained(failure: Failure) -> list[str]:
    """The failure in lines: each fault with where it is and what would be accepted."""
    if not isinstance(failure, Refused):
        return [failure.message]
    body = failure.body
    details = body.get("details") or []
    if not details:
        number = (
            f" (request {body['request_id']})" if failure.status >= 500 and body.get("request_id") else ""
        )
        return [failure.message + number]
    noun = "fault" if len(details) == 1 else "faults"
    return [f"refused, {len(details)} {noun}:", *(line for detail in details for line in _fault(detail))]


def _fault(fault: Mapping[str, Any]) -> list[str]:
    where = f"line {fault['line']}, column {fault['column']}: " if fault.get("line") else ""
    lines = [f"  {where}{fault['path'] + ': ' if fault.get('path') else ''}{fault['message']}"]
    if fault.get("allowed"):
        lines.append(f"    accepted: {', '.join(map(str, fault['allowed']))}")
    return lines
