"""The grammar of exit codes, ``1-3,7``, in tasks and pools."""

import re

from scheduling.sentences import listing

MAX_RANGES = 256
MAX_QUOTED = 63

Range = tuple[int, int]
"""Both ends included."""

_RANGE = re.compile(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?")


def read_range(text: str) -> Range | None:
    """One range: ``1-3`` is (1, 3), ``7`` is (7, 7); None for any other text."""
    match = _RANGE.fullmatch(text)
    return (int(match[1]), int(match[2] or match[1])) if match else None


def exit_codes(text: str) -> tuple[Range, ...]:
    """All ranges of ``1-3,7``. Raises ValueError with the reason."""
    parts = text.split(",")
    if len(parts) > MAX_RANGES:
        raise ValueError(f"There are {len(parts)} ranges of exit codes; at most {MAX_RANGES} are accepted.")
    ranges: list[Range] = []
    for part in parts:
        bounds = read_range(part)
        if bounds is None:
            raise ValueError(f"{_quoted(text)} is no list of exit codes; write for example 1-3,7.")
        if bounds[1] < bounds[0]:
            raise ValueError(f"{_quoted(part.strip())} runs backwards; write the smaller exit code first.")
        ranges.append(bounds)
    return tuple(ranges)


def _quoted(text: str) -> str:
    return listing([text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 3] + "..."])
