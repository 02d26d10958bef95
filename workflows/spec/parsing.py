"""The one way in: text to values, through template, document, grammar and resolution."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

from pools.documents.yaml_text import is_large
from scheduling.errors import InvalidSpec
from workflows.spec.file_lines import LatePlaces, Runs
from workflows.spec.limits import SpecLimits
from workflows.spec.reading import PlainText, invalid, read_in_child
from workflows.spec.rendering import TemplateText
from workflows.spec.template import is_templated, lines, render
from workflows.spec.variables import Assignments
from workflows.spec.workflow_spec import WorkflowSpec

MANY_TASKS = 250
"""A text that spells out more of them is large."""

_COUNT = re.compile(r"""\bcount['"]?\s*:\s*([0-9]+)""")


def parse_workflow(
    text: str,
    *,
    variables: Sequence[str],
    string_variables: Sequence[str],
    limits: SpecLimits,
    allow_localpath: bool,
) -> WorkflowSpec:
    """Parse a workflow. Raises InvalidSpec with all the faults that can be found at once, in order.

    ``allow_localpath``: a dry run accepts files that the command line has yet to read.
    """
    spec = read_workflow(
        text,
        variables=variables,
        string_variables=string_variables,
        limits=limits,
        allow_localpath=allow_localpath,
    )
    if spec.faults:
        raise invalid(spec.faults, spec.places)
    return spec


def is_expensive(text: str, *, rendered_before: bool = False) -> bool:
    """Whether reading and checking may take long: a large text, a template, or many tasks by ``count``."""
    return is_large(text) or _has_many_tasks(text) or (not rendered_before and is_templated(text))


def _has_many_tasks(text: str) -> bool:
    return sum(int(digits[:9]) for digits in _COUNT.findall(text)) > MANY_TASKS


def read_workflow(
    text: str,
    *,
    variables: Sequence[str],
    string_variables: Sequence[str],
    limits: SpecLimits,
    allow_localpath: bool,
    rendered_before: bool = False,
) -> WorkflowSpec:
    """Read a workflow as far as it goes, so that later checks can report their faults beside these.

    ``rendered_before``: the text is what an earlier rendering gave, and text that looks like a template in it
    is the user's own. Raises InvalidSpec only for what leaves nothing to check: no YAML, or not of the
    grammar.
    """
    if rendered_before or not is_templated(text):
        faults = [] if rendered_before else Assignments.of(variables, string_variables).unknown(())
        try:
            spec = _read(text, limits=limits, allow_localpath=allow_localpath)
        except InvalidSpec as error:
            raise InvalidSpec(error.message, [*faults, *error.faults]) from error
        return replace(spec, faults=(*faults, *spec.faults)) if faults else spec
    template = TemplateText(
        text=text, variables=tuple(variables), string_variables=tuple(string_variables), limits=limits
    )
    rendering = render(template)
    runs = cache(partial(lines, template, rendering.text))
    spec = _read_of_template(rendering.text, runs, limits=limits, allow_localpath=allow_localpath)
    return replace(spec, template=text, warnings=(*rendering.notices, *spec.warnings))


def _read_of_template(
    text: str, runs: Callable[[], Runs], *, limits: SpecLimits, allow_localpath: bool
) -> WorkflowSpec:
    """Read a rendered text; once more with the lines of its file where a fault or a notice names a line."""
    try:
        spec = _read(text, limits=limits, allow_localpath=allow_localpath)
    except InvalidSpec:
        if not runs():
            raise
        return _read(text, limits=limits, allow_localpath=allow_localpath, runs=runs())
    if (spec.faults or spec.warnings) and runs():
        return _read(text, limits=limits, allow_localpath=allow_localpath, runs=runs())
    return replace(spec, places=LatePlaces(spec.places, runs))


def _read(text: str, *, limits: SpecLimits, allow_localpath: bool, runs: Runs = ()) -> WorkflowSpec:
    plain = PlainText(text=text, limits=limits, allow_localpath=allow_localpath, runs=runs)
    return read_in_child(plain) if is_large(text) else plain.read()
