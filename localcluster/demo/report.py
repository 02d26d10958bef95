"""What the demo prints: headings, tables, and checks that are counted."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


def _show(text: str) -> None:
    print(text, flush=True)


@dataclass(slots=True)
class Report:
    """Shows lines as they come; ``passed`` and ``failures`` count the checks."""

    started: float = field(default_factory=time.monotonic)
    show: Callable[[str], None] = _show
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    section: str = ""

    def heading(self, text: str) -> None:
        self.section = text
        self.show(f"\n== {text}  (+{time.monotonic() - self.started:.0f} s)")

    def line(self, text: str) -> None:
        self.show(f"   {text}")

    def block(self, text: str) -> None:
        for line in text.splitlines():
            self.line(line)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        cells = [list(header), *[[str(cell) for cell in row] for row in rows]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
        for row in cells:
            self.line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def check(self, holds: bool, sentence: str, evidence: object = "") -> bool:  # noqa: FBT001 -- a check is one
        """Count one check; ``found`` is shown when it fails."""
        if holds:
            self.passed += 1
            self.line(f"ok    {sentence}")
        else:
            self.failures.append(f"{self.section}: {sentence}")
            self.line(f"FAIL  {sentence}" + (f"  (found: {evidence})" if evidence != "" else ""))
        return holds

    def add(self, part: "Report") -> None:
        """Count the checks of a part of the demo that has ended."""
        self.passed += part.passed
        self.failures += part.failures

    def close(self) -> int:
        """Print the closing line and return the exit code."""
        for failure in self.failures:
            print(f"FAILED: {failure}", file=sys.stderr)
        seconds = time.monotonic() - self.started
        total = self.passed + len(self.failures)
        print(f"\n{total} checks: {self.passed} passed, {len(self.failures)} failed, in {seconds:.0f} s")
        return 1 if self.failures else 0


class Turns:
    """Lines of scenes that run side by side, printed scene by scene.

    The first scene that has not ended prints as it goes; the lines of the others are kept until it is their
    turn.
    """

    def __init__(self, scenes: int) -> None:
        self._delayed_lines: list[list[str]] = [[] for _ in range(scenes)]
        self._ended = [False] * scenes
        self._turn = 0
        self._lock = threading.Lock()

    def show(self, scene: int, text: str) -> None:
        with self._lock:
            if scene == self._turn:
                _show(text)
            else:
                self._delayed_lines[scene].append(text)

    def end(self, scene: int) -> None:
        with self._lock:
            self._ended[scene] = True
            while self._turn < len(self._ended) and self._ended[self._turn]:
                self._turn += 1
                for text in self._delayed_lines[self._turn] if self._turn < len(self._delayed_lines) else ():
                    _show(text)


def wait_for(
    observe: Callable[[], T], *, until: Callable[[T], bool], seconds: float, pause: float = 0.2
) -> T:
    """Look until ``until`` is true of what is seen, at most ``seconds``; returns the last view either way."""
    deadline = time.monotonic() + seconds
    while True:
        value = observe()
        if until(value) or time.monotonic() >= deadline:
            return value
        time.sleep(pause)
