"""Durations as OSMO writes them: ``90`` (seconds), ``8h``, ``1d12h`` is refused, ISO 8601 (``PT8H``).

Units are d, h, m, s, ms and us; one number with one unit, because OSMO refuses mixtures.
"""

import re
from math import isfinite

ACCEPTED = ("90", "30m", "8h", "60d", "PT8H")

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "": 1.0}
_SIMPLE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*(d|h|m|s|ms|us|)", re.ASCII)
_ISO = re.compile(
    r"P(?:(?P<W>\d+)W)?(?:(?P<D>\d+)D)?(?:T(?:(?P<H>\d+)H)?(?:(?P<M>\d+)M)?(?:(?P<S>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_ISO_UNITS = {"W": 604800.0, "D": 86400.0, "H": 3600.0, "M": 60.0, "S": 1.0}
LONGEST = 100 * 365 * 86400.0


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError, naming the accepted forms, for anything else, zero included."""
    seconds = _seconds(text.strip())
    if seconds is None or not isfinite(seconds) or not 0 < seconds <= LONGEST:
        raise ValueError(
            f"{text[:63]!r} is no duration: a number of seconds, a number with one of the units d, h, m, s, "
            "ms and us, or ISO 8601; above zero and at most 100 years. Examples: " + ", ".join(ACCEPTED)
        )
    return seconds


def _seconds(text: str) -> float | None:
    if match := _SIMPLE.fullmatch(text):
        return float(match[1]) * _UNITS[match[2]]
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groupdict().values()):
        return None
    return sum(float(value) * _ISO_UNITS[unit] for unit, value in match.groupdict().items() if value)
