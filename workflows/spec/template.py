"""Jinja templates of workflows, rendered in a child process with limits on CPU, memory, time and output.

The tokens that are filled in later survive the rendering: OSMO's ``{{uuid}}``, ``{{workflow_id}}``,
``{{output}}``, ``{{input:x}}`` and ``{{host:task}}``, and ``{{task_index}}``, written without inner spaces.
Text with no other token starts no process.

Rejected: a sandbox in this process, which bounds neither CPU nor memory; a thread with a time limit, which
cannot be stopped.
"""

import pickle
import re
from dataclasses import replace
from typing import Final

from web.children import Exceeded, JobBounds, children
from workflows.spec.file_lines import Runs
from workflows.spec.marks import DEFERRED
from workflows.spec.rendering import (
    DEFAULTS,
    RenderedText,
    TemplateText,
    lines_job,
    refused,
    render_job,
    rendering_of,
    runs_in,
)

_TEMPLATED = re.compile(r"\{[{%#]")
_REFUSAL_BYTES = 2**20
"""The bytes of an answer that holds faults; there are at most as many as a text may have."""

BOUNDS: Final = JobBounds(cpu_seconds=2, seconds=10.0, memory=256 * 2**20, answer=_REFUSAL_BYTES)
"""The bounds of the rendering of a template, beside the text that it gives."""


def is_templated(text: str) -> bool:
    """Whether there is anything to render: tokens that are filled in later do not count."""
    return bool(DEFAULTS.search(text)) or bool(_TEMPLATED.search(DEFERRED.sub("", text)))


def render(template: TemplateText) -> RenderedText:
    """Render a text, without its ``default-values``. Raises InvalidSpec; lines are the template's."""
    bounds = replace(BOUNDS, answer=template.limits.size + _REFUSAL_BYTES)
    try:
        answer = children().run(render_job, pickle.dumps(template), bounds)
    except Exceeded as error:
        raise refused(str(error)) from error
    return rendering_of(answer)


def lines(template: TemplateText, text: str) -> Runs:
    """The lines from which a rendered text comes; none where that takes more than a rendering may."""
    try:
        return runs_in(children().run(lines_job, pickle.dumps((template, text)), BOUNDS))
    except Exceeded:
        return ()
