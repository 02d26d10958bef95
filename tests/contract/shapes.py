"""Shapes of replies as data.

A word is a type: ``text int float bool time null any``, or one of them and ``or null``; ``number`` is an int
or a float; ``numeral`` is a number as text. ``= x`` is exactly ``x``, ``~ x`` a pattern that is found in the
text, or in the JSON of what is no text; ``one of: A B`` one of these words. ``[shape]`` is a list of such,
``[shape, ...]`` one with at least one, and ``[]`` an empty one. A mapping names fields that must be there;
more may be. ``{"*": shape}`` is a mapping by names. Anything else stands for itself.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.contract.client import read_time


def faults(value: Any, shape: Any, path: str = "$") -> Iterator[str]:
    """Say where a reply is not as described."""
    match shape:
        case dict() if set(shape) == {"*"}:
            yield from _each_named(value, shape["*"], path)
        case dict():
            yield from _fields(value, shape, path)
        case list():
            yield from _entries(value, shape, path)
        case str():
            if not _is(value, shape):
                yield f"{path}: {value!r:.80} is not {shape}"
        case _:
            if value != shape or isinstance(value, bool) != isinstance(shape, bool):
                yield f"{path}: {value!r:.80} is not {shape!r}"


def _fields(value: Any, shape: dict[str, Any], path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r:.80} is no object"
        return
    for name, inner in shape.items():
        if name not in value:
            yield f"{path}.{name} is missing"
        else:
            yield from faults(value[name], inner, f"{path}.{name}")


def _each_named(value: Any, shape: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r:.80} is no object"
        return
    for name, inner in value.items():
        yield from faults(inner, shape, f"{path}.{name}")


def _entries(value: Any, shape: list[Any], path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: {value!r:.80} is no list"
        return
    if not shape and value:
        yield f"{path} is not empty"
    if shape[1:] == ["..."] and not value:
        yield f"{path} is empty"
    for index, inner in enumerate(value if shape else ()):
        yield from faults(inner, shape[0], f"{path}[{index}]")


def _is(value: Any, word: str) -> bool:
    if word.startswith("= "):
        return bool(value == word[2:])
    if word.startswith("~ "):
        text = value if isinstance(value, str) else json.dumps(value)
        return re.search(word[2:], text, re.DOTALL) is not None
    if word.startswith("one of: "):
        return value in word.removeprefix("one of: ").split()
    if word.endswith(" or null"):
        return value is None or _is(value, word.removesuffix(" or null"))
    return _TYPES[word](value)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _time(value: Any) -> bool:
    try:
        read_time(value)
    except (TypeError, ValueError):
        return False
    return True


_TYPES = {
    "any": lambda _: True,
    "bool": lambda value: isinstance(value, bool),
    "float": lambda value: isinstance(value, float),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _number,
    "numeral": lambda value: isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value) is not None,
    "text": lambda value: isinstance(value, str),
    "time": _time,
}
