"""Rendering of a template: Jinja's sandbox in a process that bounds it (``web.children``).

A sandbox bounds neither CPU nor memory (``{{ 'x' * 10**10 }}``), and may have a hole. So nothing of what the
rendering process answers is trusted: it is text with notices, or a refusal as JSON.

The tokens that are filled in later are put aside before rendering, because ``{{host:task}}`` is not Jinja.
"""

import json
import pickle
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from jinja2 import StrictUndefined, Template, nodes
from jinja2.exceptions import TemplateSyntaxError, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pools.documents.yaml_text import check_text, parse_document
from scheduling.errors import Fault, InvalidSpec, Notice
from workflows.spec.doubts import doubts
from workflows.spec.file_lines import Runs, numbered, runs_of
from workflows.spec.limits import SpecLimits
from workflows.spec.marks import DEFERRED, TemplateMark, marks_of, unreadable
from workflows.spec.unset import CommentWords, effects_of
from workflows.spec.variables import MOST_NAMES, Assignments, names_in, needed_names, no_value

DEFAULTS = re.compile(r"^default-values[ \t]*:.*(?:\n(?:[ \t#].*)?$)*\n?", re.MULTILINE)
TEXT, REFUSAL = b"T", b"R"
"""How an answer begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateText:
    """A templated text. ``variables`` are ``name=value`` and win over the default values."""

    text: str
    variables: Sequence[str]
    string_variables: Sequence[str]
    limits: SpecLimits


@dataclass(frozen=True, slots=True)
class RenderedText:
    """A rendered text, and what its author should know of how it was read."""

    text: str
    notices: tuple[Notice, ...]


def render_job(payload: bytes) -> bytes:
    """Render a pickled template; the answer is ``TEXT``, notices and UTF-8, or ``REFUSAL`` and JSON."""
    template: TemplateText = pickle.loads(payload)  # noqa: S301 -- made by the service itself
    try:
        rendering = _rendered(template)
    except InvalidSpec as error:
        refusal = {"message": error.message, "faults": [asdict(fault) for fault in error.faults]}
        return REFUSAL + json.dumps(refusal).encode()
    head = json.dumps([notice.message for notice in rendering.notices])
    return b"%b%b\n%b" % (TEXT, head.encode(), rendering.text.encode(errors="surrogatepass"))


def lines_job(payload: bytes) -> bytes:
    """The runs of a pickled template and its rendering, as JSON; none where numbers change the rendering."""
    template, text = pickle.loads(payload)  # noqa: S301 -- made by the service itself
    word = f"osmo{secrets.token_hex(6)}l"
    try:
        again = _rendered(template, word=word).text
    except (InvalidSpec, MemoryError):
        return b"[]"
    unchanged = re.sub(rf"{word}\d+x", "", again) == text
    return json.dumps(runs_of(again, word) if unchanged else ()).encode()


def rendering_of(answer: memoryview) -> RenderedText:
    """What an answer says. Raises InvalidSpec where it is a refusal."""
    try:
        if bytes(answer[:1]) == TEXT:
            head, _, text = bytes(answer[1:]).partition(b"\n")
            notices = tuple(Notice("template", str(message)) for message in json.loads(head))
            return RenderedText(str(text, "utf-8", "surrogatepass"), notices)
        refusal = json.loads(bytes(answer[1:]))
        faults = [
            Fault(**{**fault, "path": tuple(fault["path"]), "allowed": _names(fault["allowed"])})
            for fault in refusal["faults"]
        ]
        error = InvalidSpec(str(refusal["message"]), faults)
    except (AttributeError, KeyError, TypeError, ValueError) as no_answer:
        raise refused("the process that rendered it gave no answer") from no_answer
    raise error


def runs_in(answer: memoryview) -> Runs:
    """What an answer of ``lines_job`` says; no runs where it says nothing."""
    try:
        return tuple((int(line), int(file_line)) for line, file_line in json.loads(bytes(answer)))
    except (TypeError, ValueError):
        return ()


def _names(allowed: list[str] | None) -> tuple[str, ...] | None:
    return None if allowed is None else tuple(allowed)


def _refused(faults: Sequence[Fault]) -> InvalidSpec:
    ordered = sorted(faults, key=lambda fault: (fault.line or 0, fault.column or 0))
    return InvalidSpec(f"The template cannot be rendered. {ordered[0].message}", ordered)


def refused(reason: str, *, line: int | None = None) -> InvalidSpec:
    message = f"The template cannot be rendered: {reason}."
    return InvalidSpec(message, [Fault((), "template", message, line=line, column=1 if line else None)])


def _rendered(template: TemplateText, *, word: str = "") -> RenderedText:
    """The text without ``default-values``, rendered. Raises InvalidSpec with the user's lines.

    With a ``word`` the lines are numbered after it (``file_lines``), for which the text may be longer.
    """
    limits = template.limits
    check_text(template.text, limits=limits)
    assignments = Assignments.of(template.variables, template.string_variables)
    text = template.text.replace("\r\n", "\n").replace("\r", "\n")
    defaults, notices = _default_values(text, limits=limits)
    source = DEFAULTS.sub(_blank, text)
    marks = list(marks_of(source))
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    later = _Later()
    body = later.put_aside(numbered(source, marks, word) if word else source)
    values = {**defaults, **assignments.values}
    is_set = bool(assignments.values) or source != text
    comments = CommentWords(source, marks, limits)
    removed = [] if is_set or word else comments.faults(comments.document())
    faults = list(removed or ())
    try:
        tree = environment.parse(body)
        faults += assignments.unknown(names_in(tree, environment) | defaults.keys())
        compiled = environment.from_string(body)
    except TemplateSyntaxError as error:
        faults += unreadable(marks, error, environment) or refused(_reason(error), line=error.lineno).faults
    except RecursionError as error:
        raise _too_deep() from error
    if faults:
        raise _refused(faults)
    run = _Run(tree, compiled, marks, values)
    text = later.put_back(run.text(most=limits.size * (4 if word else 1))).lstrip("\n")
    if removed is None and any(mark.kind == "comment" for mark in marks):
        again = environment.from_string(later.put_aside(comments.template()))
        if removed := comments.faults(replace(run, compiled=again).text(most=4 * limits.size)):
            raise _refused(removed)
    effects = effects_of(source, marks, environment, is_set=is_set)
    return RenderedText(text, (*assignments.notices, *notices, *effects))


class _Later:
    """The tokens of a text that are filled in later, put aside."""

    def __init__(self) -> None:
        self._word = f"osmo{secrets.token_hex(12)}x"
        self._tokens: list[str] = []

    def put_aside(self, text: str) -> str:
        return DEFERRED.sub(self._stand_in, text)

    def put_back(self, text: str) -> str:
        return re.sub(self._word + r"(\d+)x", lambda match: self._tokens[int(match[1])], text)

    def _stand_in(self, match: re.Match[str]) -> str:
        self._tokens.append(match[0])
        return f"{self._word}{len(self._tokens) - 1}x"


def _blank(section: re.Match[str]) -> str:
    """As many empty lines, so that Jinja counts lines as the user's text does."""
    return "\n" * section[0].count("\n")


@dataclass(frozen=True, slots=True)
class _Run:
    """A template that can be read, and the values that it runs with."""

    tree: nodes.Template
    compiled: Template
    marks: Sequence[TemplateMark]
    values: Mapping[str, Any]

    def text(self, *, most: int) -> str:
        """The rendered text. Raises InvalidSpec with the place of what failed."""
        try:
            return self._bounded(most)
        except UndefinedError as error:
            if name := re.fullmatch(r"'(\w+)' is undefined", str(error)):
                raise self._without_values(name[1], _line_of(error)) from error
            raise self._failed(error) from error
        except RecursionError as error:
            raise _too_deep() from error
        except (InvalidSpec, MemoryError):
            raise
        except Exception as error:  # whatever a user's expression raises is the user's to read
            raise self._failed(error) from error

    def _bounded(self, most: int) -> str:
        """The text, unless it is too long; it is never put together whole if it is."""
        parts, size = [], 0
        for part in self.compiled.generate(self.values):
            size += len(part)
            if size <= most:
                size += len(part.encode(errors="surrogatepass")) - len(part)
            if size > most:
                raise refused(f"it renders to over {most} bytes")
            parts.append(part)
        return "".join(parts)

    def _failed(self, error: Exception) -> InvalidSpec:
        """The refusal of what failed while it ran, at its mark if that fails by itself in the same way."""
        line, reason = _line_of(error), _reason(error)
        near = [mark for mark in self.marks if mark.kind != "comment" and mark.covers(line)]
        for mark in near:
            if len(near) == 1 or self._reason_alone(mark) == reason:
                return _refused([mark.fault(f"that fails: {reason}")])
        return refused(reason, line=line)

    def _reason_alone(self, mark: TemplateMark) -> str | None:
        try:
            self.compiled.environment.from_string(mark.text).render(self.values)
        except Exception as error:  # noqa: BLE001 -- as above
            return _reason(error)
        return None

    def _without_values(self, name: str, line: int | None) -> InvalidSpec:
        """The refusal of every variable without a value, that which was needed first among them."""
        needed = sorted(needed_names(self.tree) - self.values.keys() - {name})[:MOST_NAMES]
        faults = []
        for each in (name, *needed):
            reason = no_value(each, self.values)
            mark = next((mark for mark in self.marks if mark.uses(each)), None)
            fault = mark.fault(reason) if mark else refused(f"a text {reason}", line=line).faults[0]
            faults.append(replace(fault, allowed=tuple(sorted(map(str, self.values))[:MOST_NAMES])))
        return _refused(faults)


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:500].rstrip(".")


def _too_deep() -> InvalidSpec:
    return refused("it recurses too deep")


def _line_of(error: BaseException) -> int | None:
    """Line of the template in which it failed: the last frame that Jinja compiled."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _default_values(text: str, *, limits: SpecLimits) -> tuple[dict[str, Any], list[Notice]]:
    sections = list(DEFAULTS.finditer(text))
    if not sections:
        return {}, []
    if len(sections) > 1:
        line = text.count("\n", 0, sections[1].start()) + 1
        message = "The key default-values stands here a second time; write it once."
        raise InvalidSpec(
            message, [Fault(("default-values",), "duplicate_key", message, line=line, column=1)]
        )
    first_line = text.count("\n", 0, sections[0].start())  # empty lines keep the lines of faults true
    document = parse_document("\n" * first_line + sections[0][0], limits=limits)
    values = document.data["default-values"]
    if values is None:
        return {}, []
    if not isinstance(values, dict):
        message = "default-values must be a mapping of variables to values."
        line, column = document.locate(("default-values",))
        raise InvalidSpec(message, [Fault(("default-values",), "type", message, line=line, column=column)])
    return values, list(doubts(document.respellings, (), document))
