"""What the demo prints: headings, tables, and checks that are counted."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Report:
    """Prints as it goes; ``passed`` and ``failed`` count the checks."""

    started: float = field(default_factory=time.monotonic)
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    section: str = ""

    def heading(self, text: str) -> None:
        self.section = text
        print(f"\n== {text}  (+{time.monotonic() - self.started:.0f} s)", flush=True)

    def line(self, text: str) -> None:
        print(f"   {text}", flush=True)

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

    def close(self) -> int:
        """Print the closing line and return the exit code."""
        for failure in self.failures:
            print(f"FAILED: {failure}", file=sys.stderr)
        seconds = time.monotonic() - self.started
        total = self.passed + len(self.failures)
        print(f"\n{total} checks: {self.passed} passed, {len(self.failures)} failed, in {seconds:.0f} s")
        return 1 if self.failures else 0


def wait_for(
    observe: Callable[[], T], *, until: Callable[[T], bool], seconds: float, pause: float = 0.2
) -> T:
    """Look until ``until`` is true of what is seen, at most ``seconds``; returns the last look either way."""
    deadline = time.monotonic() + seconds
    while True:
        value = observe()
        if until(value) or time.monotonic() >= deadline:
            return value
        time.sleep(pause)
