"""Documents that set no variable and are read as a template all the same: scripts that look like one.

OSMO renders them, so they are rendered. What that changes is a notice, and a comment that takes text out of a
script is refused, since nobody writes a script to lose lines.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment

from pools.documents.yaml_text import parse_document
from scheduling.errors import Fault, InvalidSpec, Notice
from scheduling.sentences import first
from workflows.spec.limits import SpecLimits
from workflows.spec.marks import WAY_OUT, TemplateMark

_NAMED = 5


@dataclass(frozen=True, slots=True)
class CommentWords:
    """A template with words for its comments, by which the texts made of it show where those stood."""

    text: str
    marks: Sequence[TemplateMark]
    limits: SpecLimits
    word: str = field(default_factory=lambda: f"osmo{secrets.token_hex(12)}x")

    def document(self) -> str:
        """A text to read as YAML without rendering; it is none where a template has more than scripts."""
        others = {"expression": "0", "statement": ""}
        return self._with_words(lambda mark, word: others.get(mark.kind, word))

    def template(self) -> str:
        """The template with a word where a comment stands, within the comment's control of whitespace."""
        return self._with_words(_in_template)

    def faults(self, text: str) -> list[Fault] | None:
        """The faults of comments that take text out of ``files``, ``args`` or ``command``; None: no YAML."""
        at_ends = re.compile(rf"[ \t]({self.word}\d+x)[ \t]*$", re.MULTILINE)  # nothing may follow quotes
        for tried in (text, at_ends.sub(r" #\1", text)):
            try:
                data = parse_document(tried, limits=self.limits).data
            except InvalidSpec:
                continue
            places = {
                int(at) for script in _scripts(data) for at in re.findall(rf"{self.word}(\d+)x", script)
            }
            return [
                mark.fault(f"that removes text of a script up to line {mark.last_line}: {mark}")
                for index, mark in enumerate(self.marks)
                if index in places
            ]
        return None

    def _with_words(self, stand_in: Callable[[TemplateMark, str], str]) -> str:
        """A comment that begins its line gets a comment of YAML, since between two lines it is no value."""
        parts, at = [], 0
        for index, mark in enumerate(self.marks):
            if mark.has_end:
                line = self.text[self.text.rfind("\n", 0, mark.start) + 1 : mark.start]
                word = f"{self.word}{index}x" if line.strip() else f"#{self.word}{index}x"
                parts += [self.text[at : mark.start], stand_in(mark, word)]
                at = mark.start + len(mark.text)
        return "".join([*parts, self.text[at:]])


def _in_template(mark: TemplateMark, word: str) -> str:
    if mark.kind != "comment":
        return mark.text
    control = "{#- -#}"
    before = control if mark.text.startswith("{#-") else ""
    return f"{before}{word}{control if mark.text.endswith('-#}') else ''}"


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
