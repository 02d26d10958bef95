"""The version of the product: the one place that says it.

Both distributions (``pyproject.toml``, ``packaging/pyproject.toml``) read it from here when they are
built. Files that cannot read it, such as the chart's, repeat it, and a test compares them.
"""

import re
from typing import Final

VERSION = "0.1.0"

_NUMBERS: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", re.ASCII)


def as_numbers(text: str) -> tuple[int, int, int] | None:
    """A version as numbers, which compare; None for what is none."""
    match = _NUMBERS.match(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None
