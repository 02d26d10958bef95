"""What others wrote, as values of the type that a field should have.

Nobody but an API server has checked it, and where a definition is lax not even that. A *strict* reading is of
a row of our own, which has to be what was stored; every other one takes whatever is there and loses the rest.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

Kind = TypeVar("Kind")


class UnreadableRow(ValueError):
    """A row is not what was stored."""


MOST = 2**53
"""The largest amount or count that is believed."""

MOST_SIGNS = 253
"""Of a name in a sentence."""


def strict(value: object, kind: type[Kind]) -> Kind:
    """A value that must be of this kind. Raises UnreadableRow for any other; a truth value is no number."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UnreadableRow(f"{type(value).__name__} stands where {kind.__name__} should.")
    return value


def strict_count(value: object) -> int:
    count = strict(value, int)
    if not 0 <= count <= MOST:
        raise UnreadableRow("A number is negative or too large.")
    return count


def strict_texts(value: object) -> tuple[str, ...]:
    return tuple(strict(text, str) for text in strict(value, list))


def mapping(value: object) -> Mapping[str, Any]:
    """The value, if it is a mapping; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def entries(value: object) -> list[Mapping[str, Any]]:
    """The mappings in a list; empty for anything else."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def text(value: object) -> str:
    """The value, if it is a text; else an empty one."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int | None:
    """The value, if it is a whole number that can be believed."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and abs(value) <= MOST else None


def printable(name: str) -> str:
    """A name for a sentence: what cannot be shown is replaced, and what is too long is cut."""
    signs = "".join(sign if sign.isprintable() else "\ufffd" for sign in name[:MOST_SIGNS])
    return signs if len(name) <= MOST_SIGNS else f"{signs}…"
