"""The order in which people expect names with numbers: ``rack-2`` before ``rack-10``."""

import re

_PARTS = re.compile(r"\d{1,18}|\D+|\d")


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key of sorting; numbers come before letters, and any text has one."""
    parts = _PARTS.findall(text)
    return tuple((0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts)
