"""Rendering of a template: Jinja's sandbox in a process that bounds it (``web.children``).

A sandbox bounds neither CPU nor memory (``{{ 'x' * 10**10 }}``), and may have a hole. So nothing of what the
rendering process answers is trusted: it is text, or a refusal as JSON.

The tokens that are filled in later are put aside before rendering, because ``{{host:task}}`` is not Jinja.
"""

import difflib
import json
import pickle
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jinja2 import StrictUndefined
from jinja2.exceptions import TemplateSyntaxError, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pools.documents.yaml_text import check_text, parse_document
from scheduling.errors import Fault, InvalidSpec
from scheduling.sentences import listing
from workflows.spec.limits import SpecLimits

DEFERRED = re.compile(r"\{\{(?:uuid|workflow_id|output|(?:input|host):[^{}\s]+)\}\}")
DEFAULTS = re.compile(r"^default-values[ \t]*:.*(?:\n(?:[ \t#].*)?$)*\n?", re.MULTILINE)
TEXT, REFUSAL = b"T", b"R"
"""How an answer begins."""

_LATER = ("uuid", "workflow_id", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A templated text. ``variables`` are ``name=value`` and win over the default values."""

    text: str
    variables: Sequence[str]
    string_variables: Sequence[str]
    limits: SpecLimits


def render_job(payload: bytes) -> bytes:
    """Render a pickled template; the answer is ``TEXT`` and UTF-8, or ``REFUSAL`` and JSON."""
    template: Template = pickle.loads(payload)  # noqa: S301 -- made by the service itself
    try:
        return TEXT + _rendered(template)
    except InvalidSpec as error:
        refusal = {"message": error.message, "faults": [asdict(fault) for fault in error.faults]}
        return REFUSAL + json.dumps(refusal).encode()


def rendered_text(answer: memoryview) -> str:
    """The text of an answer. Raises InvalidSpec where it is a refusal."""
    try:
        if bytes(answer[:1]) == TEXT:
            return str(answer[1:], "utf-8", "surrogatepass")
        refusal = json.loads(bytes(answer[1:]))
        faults = [
            Fault(**{**fault, "path": tuple(fault["path"]), "allowed": _names(fault["allowed"])})
            for fault in refusal["faults"]
        ]
        error = InvalidSpec(str(refusal["message"]), faults)
    except (AttributeError, KeyError, TypeError, ValueError) as unreadable:
        raise refused("the process that rendered it gave no answer") from unreadable
    raise error


def _names(allowed: list[str] | None) -> tuple[str, ...] | None:
    return None if allowed is None else tuple(allowed)


def refused(reason: str, *, line: int | None = None, allowed: Iterable[str] | None = None) -> InvalidSpec:
    message = f"The template cannot be rendered: {reason}."
    names = tuple(allowed) if allowed is not None else None
    place = (line, 1) if line else (None, None)
    return InvalidSpec(
        message, [Fault((), "template", message, allowed=names, line=place[0], column=place[1])]
    )


def _rendered(template: Template) -> bytes:
    """The text without ``default-values``, rendered, as UTF-8. Raises InvalidSpec with the user's lines."""
    limits = template.limits
    check_text(template.text, limits=limits)
    assignments = _variables(template.variables, template.string_variables)
    text = template.text.replace("\r\n", "\n").replace("\r", "\n")
    values = _default_values(text, limits=limits) | assignments
    mark = f"osmo{secrets.token_hex(12)}x"
    tokens: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        tokens.append(match[0])
        return f"{mark}{len(tokens) - 1}x"

    body = DEFERRED.sub(put_aside, DEFAULTS.sub(_blank, text))
    rendered = _by_jinja(body, values, most=limits.size)
    rendered = re.sub(mark + r"(\d+)x", lambda match: tokens[int(match[1])], rendered).lstrip("\n")
    return rendered.encode(errors="surrogatepass")


def _blank(section: re.Match[str]) -> str:
    """As many empty lines, so that Jinja counts lines as the user's text does."""
    return "\n" * section[0].count("\n")


def _by_jinja(body: str, values: Mapping[str, Any], *, most: int) -> str:
    try:
        return _text(body, values, most=most)
    except TemplateSyntaxError as error:
        raise refused(_reason(error.message or "syntax error"), line=error.lineno) from error
    except UndefinedError as error:
        line = _line_of(error)
        if name := re.fullmatch(r"'(\w+)' is undefined", str(error)):
            raise _undefined(name[1], values, line=line) from error
        raise refused(_reason(str(error)), line=line) from error
    except RecursionError as error:
        raise refused("it recurses too deep") from error
    except (InvalidSpec, MemoryError):
        raise
    except Exception as error:  # whatever a user's expression raises is the user's to read
        raise refused(_reason(str(error) or type(error).__name__), line=_line_of(error)) from error


def _text(body: str, values: Mapping[str, Any], *, most: int) -> str:
    """The text, unless it is too long; it is never put together whole if it is."""
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    parts, size = [], 0
    for part in environment.from_string(body).generate(values):
        size += len(part)
        if size <= most:
            size += len(part.encode(errors="surrogatepass")) - len(part)
        if size > most:
            raise refused(f"it renders to over {most} bytes")
        parts.append(part)
    return "".join(parts)


def _reason(text: str) -> str:
    return text[:500].rstrip(".")


def _line_of(error: BaseException) -> int | None:
    """Line of the template in which it failed: the last frame that Jinja compiled."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _undefined(name: str, values: Mapping[str, Any], *, line: int | None) -> InvalidSpec:
    """The refusal of a variable without a value, with the name its writer may have meant."""
    names = sorted(str(key) for key in values)[:100]
    reason = f'variable "{name[:63]}" has no value. Set it with --set {name[:63]}=... or under default-values'
    if name in _LATER:
        reason = f"{{{{ {name} }}}} is filled in later and must be written without spaces: {{{{{name}}}}}"
    elif near := difflib.get_close_matches(name[:63], names, n=1):
        reason += f'. Did you mean "{near[0]}"?'
        reason = reason.rstrip(".")
    return refused(reason, line=line, allowed=names)


def _default_values(text: str, *, limits: SpecLimits) -> dict[str, Any]:
    sections = list(DEFAULTS.finditer(text))
    if not sections:
        return {}
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
        return {}
    if not isinstance(values, dict):
        message = "default-values must be a mapping of variables to values."
        line, column = document.locate(("default-values",))
        raise InvalidSpec(message, [Fault(("default-values",), "type", message, line=line, column=column)])
    return values


def _variables(variables: Sequence[str], string_variables: Sequence[str]) -> dict[str, Any]:
    """``k=v`` pairs: an int, else a float, else a string; of the second kind always a string."""
    faults, values = [], {}
    for source, pairs in (("set_variables", variables), ("set_string_variables", string_variables)):
        for index, pair in enumerate(pairs):
            name, equals, value = str(pair).partition("=")
            if not equals or not name.isidentifier():
                message = f"{listing([str(pair)[:63]])} is not of the form name=value."
                faults.append(Fault((source, index), "variable", message, allowed=("name=value",)))
            else:
                values[name] = value if source == "set_string_variables" else _number_or_text(value)
    if faults:
        raise InvalidSpec("Variables cannot be read.", faults)
    return values


def _number_or_text(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
