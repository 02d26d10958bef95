"""Printing: tables for people, plain columns for pipes, JSON, YAML and names for programs.

To a terminal tables are cut to its width, unless all of it is wanted (``-o wide``), and statuses are
coloured, unless ``NO_COLOR`` is set. To anything else they are columns of whole words without colour, one row
a line, so that ``grep`` and ``awk`` find what they look for whatever ``COLUMNS`` says.

The code that draws on a terminal (``terminal``) and the code that writes YAML are imported where they are
needed: a command in a script needs neither, and both take longer to import than the command to run.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TextIO

from osmo_topology_cli.tables import GAP, Table, printable
from osmo_topology_client.errors import Failure, Refused

if TYPE_CHECKING:
    from rich.console import Console

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Format(str, Enum):
    """How a result is shown; as text, which Python 3.10 has no StrEnum for."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Changes(str, Enum):
    """How changes are shown, one after the other."""

    TABLE = "table"
    JSON = "json"


class Printer:
    """The output of a command in one ``format``."""

    def __init__(self, *, format: Format, out: TextIO = sys.stdout, err: TextIO = sys.stderr) -> None:  # noqa: A002 -- the option's name
        self.format = format
        self._out, self._err = out, err
        self._is_stale = False

    @cached_property
    def console(self) -> "Console":
        from rich.console import Console  # noqa: PLC0415 -- for terminals alone

        return Console(file=self._out, highlight=False, markup=False, emoji=False, soft_wrap=False)

    @property
    def is_terminal(self) -> bool:
        return self._out.isatty() and self.console.is_terminal

    @property
    def is_live(self) -> bool:
        """Whether what was printed can be overwritten."""
        return self.is_table and self.is_terminal and os.environ.get("TERM") != "dumb"

    @property
    def is_table(self) -> bool:
        return self.format in (Format.TABLE, Format.WIDE)

    def overwrite(self) -> None:
        """Put what is shown next in the place of all before, on a terminal that can; else below it."""
        self._is_stale = True

    def _begin(self) -> None:
        if self._is_stale:
            self._is_stale = False
            if self.is_live:
                self.console.clear()
            elif self.is_table:
                print(file=self._out)

    def data(self, value: Any, *, names: Iterable[str]) -> bool:
        """Print the value in a format for programs; returns whether it did.

        ``names`` are what format NAME prints, one a line.
        """
        if self.format is Format.JSON:
            self._line(as_json(value, indent=2))
        elif self.format is Format.YAML:
            self._line(as_yaml(value).rstrip("\n"))
        elif self.format is Format.NAME:
            for name in names:
                self._line(name)
        return not self.is_table

    def json_line(self, value: Any) -> None:
        self._line(as_json(value))

    def line(self, text: str = "", *, indent: str = "") -> None:
        """A sentence; on a terminal it is folded between words."""
        text = indent + printable(text)
        if self.is_terminal:
            from osmo_topology_cli.terminal import folded  # noqa: PLC0415 -- for terminals alone

            self._begin()
            self.console.print(folded(text))
        else:
            self._line(text)

    def text(self, text: str) -> None:
        """Lines of the service as they are, without what would steer a terminal."""
        for line in text.splitlines():
            self._line(line)

    def note(self, text: str) -> None:
        """Something besides the result: to standard error."""
        print(printable(text), file=self._err, flush=True)

    def table(self, table: Table, *, indent: str = "") -> None:
        """Print the table; nothing for one without rows."""
        table = table if self.format is Format.WIDE else table.narrow()
        if not table.rows:
            return
        if table.title:
            self.line(table.title + ":", indent=indent)
        if self.is_terminal and self.format is not Format.WIDE:
            from rich.padding import Padding  # noqa: PLC0415 -- for terminals alone

            from osmo_topology_cli.terminal import drawn  # noqa: PLC0415 -- for terminals alone

            self._begin()
            picture = drawn(table, width=self.console.width - len(indent))
            self.console.print(Padding(picture, (0, 0, 0, len(indent))))
        else:
            for row in aligned([table.columns, *table.rows]):
                self._line(indent + row)

    def stream(self, pieces: Iterable[bytes]) -> bool:
        """A text as it comes, unchanged; on a terminal its lines, made safe. Returns whether there is any."""
        is_empty, unfinished = True, b""
        for piece in pieces:
            is_empty = False
            if self._out.isatty():
                *lines, unfinished = (unfinished + piece).split(b"\n")
                for line in lines:
                    self._plain(line)
            else:
                self._out.buffer.write(piece)
                self._out.flush()
        if unfinished:
            self._plain(unfinished)
        return not is_empty

    def _plain(self, line: bytes) -> None:
        """A line without its colours, which would become unreadable signs."""
        self._line(_COLOUR.sub("", line.decode(errors="replace")).rstrip("\r").expandtabs())

    def failure(self, failure: Failure) -> None:
        """Say why the command ended, with every fault that the service names."""
        if isinstance(failure, Refused) and self.format in (Format.JSON, Format.YAML):
            as_text = as_json(failure.body, indent=2) if self.format is Format.JSON else as_yaml(failure.body)
            print(as_text, file=self._err)
            return
        for line in explained(failure):
            self.note(line)

    def _line(self, text: str) -> None:
        """Every line that reaches the output goes through here, or is drawn of printable cells."""
        self._begin()
        print("\n".join(map(printable, text.split("\n"))), file=self._out, flush=True)


def as_json(value: Any, *, indent: int | None = None) -> str:
    """The value, with escapes where a character of it cannot be shown."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text if _is_shown(text) else json.dumps(value, indent=indent)


def as_yaml(value: Any) -> str:
    """The same as YAML."""
    import yaml  # noqa: PLC0415 -- for this format alone

    dump = partial(yaml.safe_dump, value, sort_keys=False, width=1000)
    text = str(dump(allow_unicode=True))
    return text if _is_shown(text) else str(dump())


def _is_shown(text: str) -> bool:
    return text.replace("\n", "").isprintable()


MOST_PADDED = 64
"""Cells to which a column is filled up: names of Kubernetes have up to 253."""


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines whose columns begin below each other; one very long name moves its own row alone."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [
        max((len(cell) for cell in column if len(cell) <= MOST_PADDED), default=0)
        for column in zip(*cells, strict=True)
    ]
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
    message = f"{where}{fault['path'] + ': ' if fault.get('path') else ''}{fault['message']}"
    lines = [f"  {line}" for line in message.splitlines()]
    if fault.get("allowed"):
        lines.append(f"    accepted: {', '.join(map(str, fault['allowed']))}")
    return lines
