"""Jinja templates of workflows, rendered in a child process with limits on CPU, memory, time and output.

The tokens that are filled in later are OSMO's: ``{{uuid}}``, ``{{workflow_id}}``, ``{{output}}``,
``{{input:x}}`` and ``{{host:task}}``, written without inner spaces, survive the rendering. Text with
no other token starts no process. The tokens are put aside before rendering, because ``{{host:task}}`` is
not Jinja.

Rejected: a sandbox in this process, which bounds neither CPU nor memory (``{{ 'x' * 10**10 }}``); a thread
with a time limit, which cannot be stopped; keeping children ready, since one starts in a tenth of a second
and templates are few.
"""

import difflib
import json
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from pools.documents.yaml_text import check_text, parse_document
from scheduling.errors import Fault, InvalidSpec
from scheduling.sentences import listing
from workflows.spec.limits import SpecLimits

CHILD = FilePath(__file__).with_name("template_child.py")
DEFERRED = re.compile(r"\{\{(?:uuid|workflow_id|output|(?:input|host):[^{}\s]+)\}\}")
_DEFAULTS = re.compile(r"^default-values[ \t]*:.*(?:\n(?:[ \t#].*)?$)*\n?", re.MULTILINE)
_TEMPLATED = re.compile(r"\{[{%#]")
_LATER = ("uuid", "workflow_id", "output")
_JSON_GROWTH = 12
"""Bytes of JSON that one character may take: two escapes of a surrogate pair."""


def is_templated(text: str) -> bool:
    """Whether there is anything to render: tokens that are filled in later do not count."""
    return bool(_DEFAULTS.search(text)) or bool(_TEMPLATED.search(DEFERRED.sub("", text)))


def render(
    text: str, *, variables: Sequence[str], string_variables: Sequence[str], limits: SpecLimits
) -> str:
    """Render a templated text, without its ``default-values``. Raises InvalidSpec; lines are the template's.

    ``variables`` are ``name=value`` and win over the default values.
    """
    check_text(text, limits=limits)
    assignments = _variables(variables, string_variables)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    values = _default_values(text, limits=limits) | assignments
    mark = f"osmo{secrets.token_hex(12)}x"
    tokens: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        tokens.append(match[0])
        return f"{mark}{len(tokens) - 1}x"

    body = DEFERRED.sub(put_aside, _DEFAULTS.sub(_blank, text))
    rendered = _render(body, values, limits=limits)
    return re.sub(mark + r"(\d+)x", lambda match: tokens[int(match[1])], rendered).lstrip("\n")


def _blank(section: re.Match[str]) -> str:
    """As many empty lines, so that Jinja counts lines as the user's text does."""
    return "\n" * section[0].count("\n")


def _render(body: str, values: Mapping[str, Any], *, limits: SpecLimits) -> str:
    request = {
        "text": body,
        "values": values,
        "seconds": limits.template_cpu_seconds,
        "memory": limits.template_memory,
        "size": limits.size,
    }
    answer = _run(json.dumps(request).encode(), limits=limits)
    if "text" in answer:
        return str(answer["text"])
    if name := answer.get("undefined"):
        raise _undefined(str(name), values, line=answer.get("line"))
    raise _refused(str(answer["error"])[:500].rstrip("."), line=answer.get("line"))


def _run(request: bytes, *, limits: SpecLimits) -> dict[str, Any]:
    """Run the child and read its answer, never more of it than a rendered text can take."""
    child = subprocess.Popen(  # noqa: S603 -- our own file under our own interpreter
        [sys.executable, "-I", str(CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},  # nothing of ours for a template to find
    )
    with child:
        timer = threading.Timer(limits.template_seconds, child.kill)
        timer.start()
        begin = time.monotonic()
        try:
            answer = _talk(child, request, most=limits.size * _JSON_GROWTH + 4096)
        finally:
            timer.cancel()
            child.kill()
    if time.monotonic() - begin >= limits.template_seconds:
        raise _refused(f"it takes longer than {limits.template_seconds:g} s")
    try:
        return dict(json.loads(answer))
    except ValueError as error:  # cut short: the child was stopped by one of its limits
        memory = limits.template_memory // 2**20
        reason = f"it needs over {limits.template_cpu_seconds} s of CPU or over {memory} MiB of memory"
        raise _refused(reason) from error


def _talk(child: "subprocess.Popen[bytes]", request: bytes, *, most: int) -> bytes:
    """Write the request and read the answer; the child reads all first, so neither side waits for ever."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(request)
        child.stdin.close()
    except BrokenPipeError:  # it ended early; its answer, or the lack of one, says why
        pass
    return child.stdout.read(most)


def _refused(reason: str, *, line: int | None = None, allowed: Iterable[str] | None = None) -> InvalidSpec:
    message = f"The template cannot be rendered: {reason}."
    names = tuple(allowed) if allowed is not None else None
    place = (line, 1) if line else (None, None)
    return InvalidSpec(
        message, [Fault((), "template", message, allowed=names, line=place[0], column=place[1])]
    )


def _undefined(name: str, values: Mapping[str, Any], *, line: int | None) -> InvalidSpec:
    """The refusal of a variable without a value, with the name its writer may have meant."""
    names = sorted(str(key) for key in values)[:100]
    reason = f'variable "{name[:63]}" has no value. Set it with --set {name[:63]}=... or under default-values'
    if name in _LATER:
        reason = f"{{{{ {name} }}}} is filled in later and must be written without spaces: {{{{{name}}}}}"
    elif near := difflib.get_close_matches(name[:63], names, n=1):
        reason += f'. Did you mean "{near[0]}"?'
        reason = reason.rstrip(".")
    return _refused(reason, line=line, allowed=names)


def _default_values(text: str, *, limits: SpecLimits) -> dict[str, Any]:
    sections = list(_DEFAULTS.finditer(text))
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
