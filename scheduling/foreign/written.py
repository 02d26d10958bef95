"""What others wrote, as values of the type that a field should have.

Nobody but an API server has checked it, and where a definition is lax not even that. A *strict* reading is of
a row of our own, which has to be what was stored; every other one takes whatever is there and loses the rest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
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


def strict_row(value: object, length: int) -> list[object]:
    row = strict(value, list)
    if len(row) != length:
        raise UnreadableRow(f"A list of {length} has {len(row)} entries.")
    return row


def mapping(value: object) -> Mapping[str, Any]:
    """The value, if it is a mapping; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def text(value: object) -> str:
    """The value, if it is a text; else an empty one."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int | None:
    """The value, if it is a whole number that can be believed."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) <= MOST else None


MOST_BYTES = 32 * 1024
"""Of what is kept of an object, as JSON."""

TOO_LARGE = "too_large"
"""The only field of what is kept of an object that is larger."""

MOST_LETTERS = 316
"""Of a name that is kept; a label's key has no more."""

MOST_OF_A_REPORT = 1000
MOST_PROBLEMS = 10


@dataclass(slots=True)
class Fields:
    """The fields of an object of others; one that is not of its type is as absent, and a problem.

    ``words`` name the object and the way to these fields. ``problems`` are full sentences.
    """

    values: Mapping[str, Any]
    words: str
    problems: list[str] = field(default_factory=list)

    def text(self, name: str) -> str:
        value = self._of(name, str, "text")
        return "" if value is None else value[:MOST_LETTERS]

    def flag(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return value
        self._complain(name, "truth value")
        return None

    def count(self, name: str) -> int | None:
        value = self._of(name, int, "number")
        if value is None or 0 <= value <= MOST:
            return value
        self._complain(name, "number of pods or groups")
        return None

    def number(self, name: str) -> int | None:
        return integer(self._of(name, int, "number"))

    def fields(self, name: str) -> "Fields":
        """Those of an inner object; of none where it is absent."""
        return self._inner(self._of(name, dict, "object") or {}, f".{name}")

    def entries(self, name: str) -> "list[Fields]":
        """Those of each object in a list."""
        value = self._of(name, list, "list") or []
        objects = [(place, entry) for place, entry in enumerate(value) if isinstance(entry, dict)]
        if len(objects) < len(value):
            self._complain(name, "list of objects")
        return [self._inner(entry, f".{name}[{place}]") for place, entry in objects]

    def _inner(self, values: Mapping[str, Any], way: str) -> "Fields":
        return Fields(values, self.words + way, self.problems)

    def _of(self, name: str, kind: type[Kind], noun: str) -> Kind | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, kind) and not isinstance(value, bool):
            return value
        self._complain(name, noun)
        return None

    def _complain(self, name: str, noun: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(f"{self.words}.{name} is no {noun}.")


def owner_of(metadata: Mapping[str, Any]) -> list[str]:
    """The kind and the name of the object that controls an object; two empty texts for none."""
    references = metadata.get("ownerReferences")
    for entry in references if isinstance(references, list) else ():
        if isinstance(entry, dict) and entry.get("controller") is True:
            return [text(entry.get("kind"))[:MOST_LETTERS], text(entry.get("name"))[:MOST_LETTERS]]
    return ["", ""]


def is_ending(obj: Mapping[str, Any]) -> bool:
    """Whether somebody has deleted an object that is still there."""
    return bool(mapping(obj.get("metadata")).get("deletionTimestamp"))


def last_message(status: Mapping[str, Any], conditions: str, kind: str = "") -> str:
    """The message of the last of a status's conditions that has one, of one type if that is given."""
    entries = status.get(conditions)
    messages = [
        text(entry.get("message"))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and (not kind or entry.get("type") == kind)
    ]
    return next((sentence(message) for message in reversed(messages) if message), "")


def bounded(remainder: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an object, without empty values; of one that is too large whose it is."""
    full = {name: value for name, value in remainder.items() if value or (value == 0 and value is not False)}
    if len(json.dumps(full)) <= MOST_BYTES:
        return full
    head = {name: full[name] for name in ("owner", "queue", "priority") if name in full}
    is_short = len(json.dumps(head)) <= MOST_BYTES // 8
    return head | {TOO_LARGE: True} if is_short else {TOO_LARGE: True}


def entries(value: object) -> list[Mapping[str, Any]]:
    """The mappings in a list; empty for anything else."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def printable(name: str) -> str:
    """A name for a sentence: what cannot be shown is replaced, and what is too long is cut."""
    signs = "".join(sign if sign.isprintable() else "\ufffd" for sign in name[:MOST_SIGNS])
    return signs if len(name) <= MOST_SIGNS else f"{signs}…"


def sentence(words: str) -> str:
    """A scheduler's words in one line, without what cannot be shown."""
    line = " ".join(words[: 2 * MOST_OF_A_REPORT].split())[:MOST_OF_A_REPORT]
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in line)
