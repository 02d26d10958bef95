"""Text from a cluster, made storable where objects become values.

Whoever may write a status writes its texts: a container ends with a NUL in its termination message, and
the API server stores and returns it. PostgreSQL holds no NUL, no lone surrogate and no infinity, and Python's
reader ends at some depth. One such value must not stop the list that it is part of. So every JSON answer and
every watch event of this package goes through ``decode``, which refuses no object for its contents:

- a NUL, a lone surrogate or a byte that is no UTF-8 becomes U+FFFD, in keys too;
- a text of more than ``MAX_CHARS`` is cut;
- a number that is not finite, or an integer of more digits than Python reads (4,300), becomes a text;
- a value nested deeper than ``MAX_DEPTH`` becomes null.

Rejected: cleaning where rows are written. There are many writers, and each would have to remember it.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

MAX_CHARS = 65_536
"""The longest text that is kept; the API server bounds an object at about 1.5 MiB."""

MAX_DEPTH = 100
"""The deepest nesting that is kept: no kind of Kubernetes comes near it."""

REPLACEMENT = "\ufffd"

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^"\[\]{}]+', re.DOTALL)


def decode(body: bytes) -> Any:
    """Read JSON as values that can be stored. Raises ValueError for what is no JSON.

    Nearly all bodies are read by pydantic's reader, in half the time of Python's. A body that it refuses, or
    reads as a value that cannot be stored, is read again by Python's.
    """
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError:
        return _decode_any(body)
    if rb"\u0000" in body or not _is_storable(value, texts=len(body) > MAX_CHARS):
        return _decode_any(body)
    return value


def _decode_any(body: bytes) -> Any:
    """Read JSON of any contents, and replace what cannot be stored."""
    text = body.decode(errors="replace")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        value = _DECODER.decode("".join(_shallow(text)))
    return storable(value)


def storable(value: Any) -> Any:
    """A copy of a value of JSON with what cannot be stored replaced."""
    return _storable(value, MAX_DEPTH)


def storable_text(text: str) -> str:
    """Replace what cannot be stored in a text, and cut it."""
    return _UNSTORABLE.sub(REPLACEMENT, text[:MAX_CHARS])


def _number(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _integer(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:  # more digits than ``sys.get_int_max_str_digits``
        return text


_INFINITE = frozenset({math.inf, -math.inf})
_DECODER = json.JSONDecoder(parse_float=_number, parse_int=_integer, parse_constant=str)


def _is_storable(value: Any, *, texts: bool) -> bool:
    """Whether numbers are finite, nothing is nested too deep and, if ``texts`` are looked at, all are short.

    It runs for every object that a cluster sends, so it goes level by level and calls nothing for an entry.
    """
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for container in level:
            for entry in container.values() if type(container) is dict else container:
                kind = type(entry)
                if kind is dict or kind is list:
                    below.append(entry)
                elif kind is str:
                    if texts and len(entry) > MAX_CHARS:
                        return False
                elif kind is float and entry in _INFINITE:
                    return False
        if not below:
            return True
        level = below
    return False


def _storable(value: Any, depth: int) -> Any:
    match value:
        case str():
            return storable_text(value)
        case dict() | list() if depth == 0:
            return None
        case dict():
            return {storable_text(key): _storable(entry, depth - 1) for key, entry in value.items()}
        case list():
            return [_storable(entry, depth - 1) for entry in value]
    return value


def _shallow(text: str) -> Iterator[str]:
    """The same JSON with null for what is nested too deeply, found without recursion."""
    depth = 0  # containers that are open
    for token in _TOKEN.finditer(text):
        piece = token[0]
        if piece in ("[", "{"):
            if depth <= MAX_DEPTH:
                yield piece if depth < MAX_DEPTH else "null"
            depth += 1
        elif piece in ("]", "}"):
            depth -= 1
            if depth < MAX_DEPTH:
                yield piece
        elif depth <= MAX_DEPTH:
            yield piece
