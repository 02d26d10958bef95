"""The marks of a template in a text, found as Jinja finds them, each with its place.

Jinja's errors have a line at best and end at the first. Most of them are no errors in a template, but text of
a shell, of Go or of GitHub that begins like one: ``${#array[@]}``, ``{%s}``, ``{{.Names}}``. So every mark is
read by itself, and a refusal names the characters of each that cannot be read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from jinja2 import Environment, TemplateSyntaxError

from scheduling.errors import Fault
from scheduling.sentences import as_sentence, listing

DEFERRED: Final = re.compile(r"\{\{(?:uuid|workflow_id|output|task_index|(?:input|host):[^{}\s]+)\}\}")
"""The tokens that are filled in later."""

WAY_OUT = "To keep it as text, put it between {% raw %} and {% endraw %}, or send the file with base64: true."
_BEGIN = re.compile(r"\{([#%{])")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*-?%\}")
_END_OF_RAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
_PART = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[({\[)\]}]|%(?=\})""", re.DOTALL)
_TAG = re.compile(r"\{%[-+]?\s*(\w*)")
_BLOCKS = frozenset({"for", "if", "macro", "call", "filter", "block", "with", "autoescape"})
_NO_END = "Unexpected end of template"
_JUDGED = 200
"""Marks that are read by themselves."""
_KINDS = {"#": "comment", "%": "statement", "{": "expression"}
_EXCERPT = 60
_LONGEST = 10_000
"""Characters of an expression or a statement; what goes on for longer has no end."""


@dataclass(frozen=True, slots=True)
class TemplateMark:
    """A comment, statement or expression. ``text`` ends with its line where the mark has no end."""

    kind: str
    text: str
    start: int
    line: int
    column: int
    has_end: bool

    def __str__(self) -> str:
        """The beginning of its text, in quotes."""
        words = " ".join(self.text.split())
        return listing([words if len(words) <= _EXCERPT else f"{words[: _EXCERPT - 3]}..."])

    @property
    def tag(self) -> str:
        """The first word of a statement."""
        begin = _TAG.match(self.text)
        return begin[1] if begin else ""

    @property
    def last_line(self) -> int:
        return self.line + self.text.count("\n")

    def covers(self, line: int | None) -> bool:
        return line is not None and self.line <= line <= self.last_line

    def uses(self, name: str) -> bool:
        """Whether a name stands in it."""
        return self.kind != "comment" and re.search(rf"\b{name}\b", self.text) is not None

    def fault(self, reason: str) -> Fault:
        """The refusal of the mark: the characters, what they are to Jinja, and how to keep them as text."""
        kind = self.kind if self.kind == "comment" else f"{self.kind}, {self},"
        sentence = as_sentence(f'"{self.text[:2]}" in line {self.line} begins a Jinja {kind} {reason}')
        return Fault((), "template", f"{sentence} {WAY_OUT}", line=self.line, column=self.column)


def unreadable(
    marks: Sequence[TemplateMark], error: TemplateSyntaxError, environment: Environment
) -> list[Fault]:
    """The faults of every mark that cannot be read by itself; else of the mark that Jinja ended at."""
    reasons: dict[str, str | None] = {}
    faults = []
    for mark in marks[:_JUDGED]:
        if mark.text not in reasons:
            reasons[mark.text] = _reason(mark, environment)
        if reason := reasons[mark.text]:
            faults.append(mark.fault(reason))
    reason = (error.message or "syntax error")[:500].rstrip(".")
    if not faults and (open_marks := _without_end(marks)) and reason.startswith(_NO_END):
        faults = [open_marks[-1].fault(f"that nothing ends: {reason}")]
    if not faults:
        places = [mark for mark in marks if mark.covers(error.lineno)]
        faults = [mark.fault(f"that cannot be read: {reason}") for mark in places[-1:]]
    return faults


def _reason(mark: TemplateMark, environment: Environment) -> str | None:
    """Why a mark cannot be read by itself; None if it can. A statement may lack its other half."""
    if mark.kind == "comment":
        return None if mark.has_end else 'that never ends with "#}"'
    if mark.tag == "raw":  # a raw text that has an end is no mark
        return "that no {% endraw %} follows"
    if mark.has_end and (mark.tag in {"else", "elif"} or mark.tag.startswith("end")):
        return None
    try:
        environment.compile(mark.text, raw=True)
    except TemplateSyntaxError as error:
        reason = (error.message or "syntax error")[:500].rstrip(".")
        return None if mark.has_end and reason.startswith(_NO_END) else f"that cannot be read: {reason}"
    return None


def _without_end(marks: Sequence[TemplateMark]) -> list[TemplateMark]:
    """The statements that are still open at the end of the text."""
    stack: list[TemplateMark] = []
    for mark in marks:
        if mark.tag.startswith("end"):
            stack = stack[:-1]
        elif mark.tag in _BLOCKS or (mark.tag == "set" and "=" not in mark.text):
            stack.append(mark)
    return stack


def marks_of(text: str) -> Iterator[TemplateMark]:
    """The marks of a text in order, without those between ``{% raw %}`` and ``{% endraw %}``."""
    at, line, counted, last_end = 0, 1, 0, text.rfind("#}")
    while begin := _BEGIN.search(text, at):
        start = begin.start()
        if passed := _passed_over(text, start):
            at = passed
            continue
        if begin[1] == "#":
            end = text.find("#}", start + 2) + 2 if start + 2 <= last_end else 0
        else:
            end = _end(text, start + 2, "%" if begin[1] == "%" else "}")
        line, counted = line + text.count("\n", counted, start), start
        until = end or text.find("\n", start)
        excerpt = text[start:] if until < 0 else text[start:until]
        yield TemplateMark(
            _KINDS[begin[1]], excerpt, start, line, start - text.rfind("\n", 0, start), bool(end)
        )
        at = len(text) if _RAW.match(text, start) else end or start + 2


def _passed_over(text: str, start: int) -> int:
    """Where the raw text or the token for later ends that begins at ``start``; 0 if neither does."""
    if later := DEFERRED.match(text, start) or DEFERRED.match(text, start + 1):  # also in {{{uuid}}}
        return later.end()
    if begin := _RAW.match(text, start):
        end = _END_OF_RAW.search(text, begin.end())
        return end.end() if end else 0
    return 0


def _end(text: str, at: int, close: str) -> int:
    """Where the expression or statement ends that goes on at ``at``; 0 if nowhere."""
    depth = 0
    for part in _PART.finditer(text, at, at + _LONGEST):
        sign = part[0]
        if depth == 0 and sign == close and text.startswith("}", part.end()):
            return part.end() + 1
        if sign in "({[":
            depth += 1
        elif sign in ")]}":
            depth -= 1
            if depth < 0:
                return 0
    return 0
