"""Documents that set no variable and are read as a template all the same: scripts that look like one.

OSMO renders them, so they are rendered. What that changes is a notice, and a comment that takes text out of a
script is refused, since nobody writes a script to lose lines.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from jinja2 import Environment

from pools.documents.yaml_text import parse_document
from scheduling.errors import Fault, InvalidSpec, Notice
from scheduling.sentences import first
from workflows.spec.limits import SpecLimits
from workflows.spec.marks import WAY_OUT, TemplateMark

_NAMED = 5


def removed_text(text: str, marks: Sequence[TemplateMark], *, limits: SpecLimits) -> list[Fault]:
    """The faults of comments that take text out of ``files``, ``args`` or ``command``."""
    word = f"osmo{secrets.token_hex(12)}x"
    parts, at = [], 0
    for index, mark in enumerate(marks):
        if mark.has_end:
            line = text[text.rfind("\n", 0, mark.start) + 1 : mark.start]
            parts += [text[at : mark.start], _stand_in(mark, f"{word}{index}x", before=line)]
            at = mark.start + len(mark.text)
    try:
        document = parse_document("".join([*parts, text[at:]]), limits=limits)
    except InvalidSpec:
        return []  # a template of more than scripts
    places = {
        int(place) for script in _scripts(document.data) for place in re.findall(rf"{word}(\d+)x", script)
    }
    return [
        mark.fault(f"that removes text of a script up to line {mark.last_line}: {mark}")
        for index, mark in enumerate(marks)
        if index in places
    ]


def _stand_in(mark: TemplateMark, word: str, *, before: str) -> str:
    """What stands for a mark while the text is read as YAML: a comment between two lines is YAML's own."""
    if mark.kind != "comment":
        return "0" if mark.kind == "expression" else ""
    return word if before.strip() else f"#{word}"


def _scripts(data: Any) -> Iterator[str]:
    """The texts of files, arguments and commands, wherever they stand."""
    stack = [data]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            for key, child in value.items():
                stack.append(child)
                if key in {"args", "command"} and isinstance(child, list):
                    yield from (text for text in child if isinstance(text, str))
                elif key == "contents" and isinstance(child, str):
                    yield child


def effects_of(
    text: str, marks: Sequence[TemplateMark], environment: Environment, *, is_set: bool
) -> list[Notice]:
    """What was read as a template and what became of it; of a real template, what a shell begins so."""
    if is_set:
        marks = [mark for mark in marks if mark.kind == "comment" and text[: mark.start].endswith("$")]
    named, others = first(marks, _NAMED)
    if not named:
        return []
    effects = "; ".join(_effect(mark, environment) for mark in named)
    why = "" if is_set else ", though no variable is set"
    more = f", {others}" if others else ""
    return [Notice("template", f"The text is read as a template{why}: {effects}{more}. {WAY_OUT}")]


def _effect(mark: TemplateMark, environment: Environment) -> str:
    place = f"{mark} in line {mark.line}"
    if mark.kind == "comment":
        return f"{place} is removed as a comment"
    if mark.kind == "statement":
        return f"{place} is carried out as a statement"
    try:
        value = environment.from_string(mark.text).render()
    except Exception:  # noqa: BLE001 -- a user's expression, of a variable of a loop for example
        return f"{place} is replaced by its value"
    return f"{place} is replaced by its value" if "<" in value else f'{place} becomes "{value[:30]}"'
