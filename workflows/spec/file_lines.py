"""The lines of a file from which the lines of its rendering come.

A rendered text is what has faults, but its author has the file. So a template whose reading has a fault or a
notice is rendered once more, with a number before each line that begins with no mark; where that changes
nothing else, the numbers are the file's lines. Where it meets a bound, lines are those of the rendering.
Rejected: counting lines, since loops repeat them and comments remove them.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pools.documents.yaml_text import LineAndColumn, LocatedText
from scheduling.errors import Path
from workflows.spec.marks import TemplateMark

Runs = tuple[tuple[int, int], ...]
"""Pairs of a rendered line and its line in the file, in order; the lines up to the next pair follow on."""

MOST_RUNS = 20_000


@dataclass(frozen=True, slots=True)
class FilePlaces:
    """Places in a rendered text, with the lines of its file; columns are the rendered text's."""

    rendered: LocatedText
    runs: Runs

    def locate_all(self, paths: Sequence[Path]) -> list[LineAndColumn]:
        return [(file_line(line, self.runs), column) for line, column in self.rendered.locate_all(paths)]


@dataclass(frozen=True, slots=True)
class LatePlaces:
    """Places in a rendered text whose runs are made when the first place is needed."""

    rendered: LocatedText
    runs: Callable[[], Runs]

    def locate_all(self, paths: Sequence[Path]) -> list[LineAndColumn]:
        return FilePlaces(self.rendered, self.runs()).locate_all(paths) if paths else []


def file_line(line: int, runs: Runs) -> int:
    at = bisect_right(runs, line, key=lambda run: run[0]) - 1
    return line + runs[at][1] - runs[at][0] if at >= 0 else line


def numbered(text: str, marks: Sequence[TemplateMark], word: str) -> str:
    """A template with ``word``, a line's number and ``x`` before each line that begins with no mark."""
    return "\n".join(_numbered_lines(text.split("\n"), marks, word))


def _numbered_lines(lines: Iterable[str], marks: Sequence[TemplateMark], word: str) -> Iterator[str]:
    start, ends = 0, [mark.start + len(mark.text) for mark in marks]
    for number, line in enumerate(lines, 1):
        words = line.lstrip(" \t")
        begin = start + len(line) - len(words)
        at = bisect_right(ends, begin)
        free = at == len(marks) or begin < marks[at].start
        yield f"{line[: len(line) - len(words)]}{word}{number}x{words}" if words and free else line
        start += len(line) + 1


def runs_of(rendered: str, word: str) -> Runs:
    """The runs of a rendering with numbers."""
    runs = [(0, 0)]
    for at, line in enumerate(rendered.split("\n"), 1):
        if match := re.search(rf"{word}(\d+)x", line):
            number = int(match[1])
            if number != file_line(at, (runs[-1],)):
                runs.append((at, number))
    return tuple(runs[1 : MOST_RUNS + 1])
