"""Reading of a template as it was sent: plain JSON without nulls.

A null stands for "not given", as in every document.
"""

import math
from collections.abc import Mapping
from typing import Any

from scheduling.errors import Fault, Path

MAX_DEPTH = 24


def plain(written: Any) -> tuple[Any, list[Fault]]:
    """The template without nulls; None if there are faults."""
    faults = _faults(written)
    return (None, faults) if faults else (_without_nulls(written), [])


def _faults(written: Any) -> list[Fault]:
    left: list[tuple[Path, Any]] = [((), written)]
    while left:
        path, value = left.pop()
        if len(path) > MAX_DEPTH:
            return [Fault(path[:3], "too_deep", f"It is nested deeper than {MAX_DEPTH} levels.")]
        if isinstance(value, Mapping):
            if odd := next((key for key in value if not _is_text(key)), None):
                return [Fault(path, "invalid_key", f"{str(odd)[:63]!a} is no name of a field.")]
            left += [((*path, key), entry) for key, entry in value.items()]
        elif isinstance(value, list):
            left += [((*path, place), entry) for place, entry in enumerate(value)]
        elif not _is_scalar(value):
            return [Fault(path, "wrong_type", "A text, a number, true or false is needed here.")]
    return []


def _is_text(value: Any) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return isinstance(value, bool) or -(2**63) <= value < 2**63
    return value is None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value if entry is not None]
    return value
