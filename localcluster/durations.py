"""How long each step of the set-up took on this machine the last time, said as the step begins.

``python -m localcluster.durations TEXT COMMAND [ARGUMENT...]`` runs a command as such a step. Only the
standard library is imported: the first step installs the packages.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from localcluster.directories import cache_directory, write_secret

MINUTE = 60


class Steps:
    """One step after the other: each ends as the next begins, or with ``end``."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._step: tuple[str, float] | None = None

    def __call__(self, text: str) -> None:
        self.end()
        self._progress(text + last_time(text))
        self._step = text, time.monotonic()

    def end(self) -> None:
        if self._step:
            text, began = self._step
            note(text, seconds=time.monotonic() - began)
        self._step = None


def last_time(step: str) -> str:
    """What to say behind a step, nothing where it never ended here."""
    seconds = _durations().get(step)
    return "" if seconds is None else f" ({spelled(seconds)} last time)"


def note(step: str, *, seconds: float) -> None:
    """Note a step's duration for the next time."""
    path = _path()
    with suppress(OSError):  # a cache that cannot be written fails no step
        path.parent.mkdir(parents=True, exist_ok=True)
        write_secret(path, json.dumps(_durations() | {step: round(seconds, 1)}, indent=2))


def spelled(seconds: float) -> str:
    """A duration, to the second."""
    rounded = max(1, round(seconds))
    return f"{rounded} s" if rounded < MINUTE else f"{rounded // MINUTE}:{rounded % MINUTE:02} min"


def _durations() -> dict[str, float]:
    try:
        return dict(json.loads(_path().read_text()))
    except (OSError, ValueError):
        return {}


def _path() -> Path:
    return cache_directory() / "durations.json"


def main() -> int:
    text, *command = sys.argv[1:]
    steps = Steps(lambda line: print(line, flush=True))
    steps(text)
    answer = subprocess.run(command, check=False).returncode
    if answer == 0:
        steps.end()
    return answer


if __name__ == "__main__":
    sys.exit(main())
