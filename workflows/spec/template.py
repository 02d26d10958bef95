"""Jinja templates of workflows, rendered in a child process with limits on CPU, memory and output.

What is templated and what is left for later is OSMO's: ``{{uuid}}``, ``{{workflow_id}}``, ``{{output}}``,
``{{input:x}}`` and ``{{host:task}}``, written without inner spaces, survive the rendering. Text with
nothing but these starts no process. Rejected: a sandbox in this process, which bounds neither CPU nor
memory (``{{ 'x' * 10**10 }}``), and a thread with a time limit, which cannot be stopped.
"""

import json
import re
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

from scheduling.errors import Fault, InvalidSpec
from workflows.spec.document import Limits, parse_document

CHILD = FilePath(__file__).with_name("template_child.py")
DEFERRED = re.compile(r"\{\{(?:uuid|workflow_id|output|(?:input|host):[^{}\s]+)\}\}")
_DEFAULTS = re.compile(r"^default-values[ \t]*:.*(?:\n(?:[ \t#].*)?$)*\n?", re.MULTILINE)
_TEMPLATED = re.compile(r"\{[{%#]")
_GRACE_SECONDS = 3.0


def is_templated(text: str) -> bool:
    """Whether there is anything to render: tokens that are left for later do not count."""
    return bool(_DEFAULTS.search(text)) or bool(_TEMPLATED.search(DEFERRED.sub("", text)))


def render(text: str, *, variables: Sequence[str], string_variables: Sequence[str], limits: Limits) -> str:
    """Render a templated text. Raises InvalidSpec; a fault's line is the template's."""
    if len(text) > limits.size:
        raise InvalidSpec(f"The template has over {limits.size} characters.")
    given = _variables(variables, string_variables)
    values = _default_values(text, limits=limits) | given
    body = _DEFAULTS.sub("", text)
    mark = f"osmo-{secrets.token_hex(12)}-"
    tokens: list[str] = []

    def protect(match: re.Match[str]) -> str:
        tokens.append(match[0])
        return f"{mark}{len(tokens) - 1}-"

    rendered = _run({"text": DEFERRED.sub(protect, body), "values": values, **_bounds(limits)}, limits=limits)
    return re.sub(re.escape(mark) + r"(\d+)-", lambda match: tokens[int(match[1])], rendered)


def _bounds(limits: Limits) -> dict[str, float]:
    return {"seconds": limits.template_seconds, "memory": limits.template_memory, "size": limits.size}


def _run(job: dict[str, Any], *, limits: Limits) -> str:
    try:
        done = subprocess.run(  # noqa: S603 -- our own file under our own interpreter
            [sys.executable, "-I", str(CHILD)],
            input=json.dumps(job).encode(),
            capture_output=True,
            timeout=limits.template_seconds + _GRACE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _refused(f"it takes longer than {limits.template_seconds:g} s") from error
    if done.returncode != 0:
        raise _refused(f"it used more than {limits.template_seconds:g} s of CPU or more memory than it may")
    answer = json.loads(done.stdout)
    if "text" not in answer:
        raise _refused(str(answer["error"])[:500].rstrip("."), line=answer.get("line"))
    return str(answer["text"])


def _refused(said: str, *, line: int | None = None) -> InvalidSpec:
    message = f"The template cannot be rendered: {said}."
    return InvalidSpec(message, [Fault((), "template", message, line=line, column=1 if line else None)])


def _default_values(text: str, *, limits: Limits) -> dict[str, Any]:
    section = _DEFAULTS.search(text)
    if section is None:
        return {}
    blank = "\n" * text.count("\n", 0, section.start())  # keeps the line numbers of faults true
    values = parse_document(blank + section[0], limits=limits).data["default-values"]
    if values is None:
        return {}
    if not isinstance(values, dict):
        message = "default-values must be a mapping of variables to values."
        raise InvalidSpec(message, [Fault(("default-values",), "type", message)])
    return values


def _variables(variables: Sequence[str], string_variables: Sequence[str]) -> dict[str, Any]:
    """``k=v`` pairs: an int, else a float, else a string; of the second kind always a string."""
    faults, values = [], {}
    for source, pairs in (("set_variables", variables), ("set_string_variables", string_variables)):
        for index, pair in enumerate(pairs):
            name, equals, value = str(pair).partition("=")
            if not equals or not name.isidentifier():
                message = f'"{pair}" is not of the form name=value.'
                faults.append(Fault((source, index), "variable", message))
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
