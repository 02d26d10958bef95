"""The one way in: text to values, through template, document, grammar and resolution."""

from collections.abc import Sequence
from dataclasses import replace

from pools.documents.yaml_text import is_large
from workflows.spec.limits import SpecLimits
from workflows.spec.reading import PlainText, invalid, read_in_child
from workflows.spec.template import is_templated, render
from workflows.spec.workflow_spec import WorkflowSpec


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
    """Whether reading may take long: a large text, or a template."""
    return is_large(text) or (not rendered_before and is_templated(text))


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
    templated = not rendered_before and is_templated(text)
    rendered = (
        render(text, variables=variables, string_variables=string_variables, limits=limits)
        if templated
        else text
    )
    plain = PlainText(text=rendered, limits=limits, allow_localpath=allow_localpath)
    spec = read_in_child(plain) if is_large(rendered) else plain.read()
    return replace(spec, template=text if templated else None)
