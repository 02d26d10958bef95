"""Any JSON for display: pairs, lists and tables of text.

An explanation's evidence has different keys for each reason, and new releases add more; the page shows
whatever is there. Deep or long values are cut, with the number of what was left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MOST_DEEP = 4
MOST_LONG = 20
MOST_COLUMNS = 8
MOST_TEXT = 2000

Cell = str
"""One value of a table, in a few words."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A value: ``pairs`` of a name and a value, ``items``, a table's ``head`` and ``rows``, or ``text``."""

    kind: Literal["text", "pairs", "list", "table"]
    text: str = ""
    pairs: "tuple[tuple[str, Evidence], ...]" = ()
    items: "tuple[Evidence, ...]" = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    more: int = 0


def evidence(value: Any, *, deep: int = MOST_DEEP) -> Evidence:
    """Arrange a value of JSON for display."""
    if isinstance(value, Mapping) and value and deep:
        entries = list(value.items())[:MOST_LONG]
        pairs = tuple((name_of(key), evidence(item, deep=deep - 1)) for key, item in entries)
        return Evidence("pairs", pairs=pairs, more=len(value) - len(entries))
    if _is_list(value) and value and deep:
        return _table(value) or _list(value, deep=deep)
    return Evidence("text", text=in_words(value))


def _list(values: Sequence[Any], *, deep: int) -> Evidence:
    items = tuple(evidence(item, deep=deep - 1) for item in values[:MOST_LONG])
    return Evidence("list", items=items, more=max(0, len(values) - MOST_LONG))


def _table(values: Sequence[Any]) -> Evidence | None:
    """Records of the same few flat keys as a table; None for anything else."""
    if not all(isinstance(entry, Mapping) and entry for entry in values):
        return None
    keys = list(dict.fromkeys(key for entry in values[:MOST_LONG] for key in entry))
    flat = all(not isinstance(entry.get(key), Mapping) for entry in values[:MOST_LONG] for key in keys)
    if not flat or len(keys) > MOST_COLUMNS:
        return None
    rows = tuple(tuple(in_words(entry.get(key)) for key in keys) for entry in values[:MOST_LONG])
    head = tuple(map(name_of, keys))
    return Evidence("table", head=head, rows=rows, more=max(0, len(values) - MOST_LONG))


def name_of(key: object) -> str:
    """A key as a heading: ``observed_at`` is "observed at"."""
    return str(key).replace("_", " ")[:80]


def in_words(value: Any) -> str:
    """A value in one line of text."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return _cut(", ".join(f"{name_of(key)}: {in_words(item)}" for key, item in value.items()))
    if _is_list(value):
        return _cut(", ".join(map(in_words, value)))
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:g}"
    return _cut(str(value))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} …"
