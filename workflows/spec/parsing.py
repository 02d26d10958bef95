"""The one way in: text to values, through template, document, grammar and resolution."""

import re
from collections.abc import Iterable, Sequence

from pools.documents.yaml_text import ParsedDocument, parse_document
from scheduling.errors import Fault, InvalidSpec
from scheduling.sentences import first
from workflows.spec.limits import SpecLimits
from workflows.spec.resolution import Resolver
from workflows.spec.template import is_templated, render
from workflows.spec.validation import Validator
from workflows.spec.workflow_spec import WorkflowSpec, located

INLINE_CHARACTERS = 16 * 1024
"""So long a text without aliases is read in a few hundredths of a second."""

_ANCHOR, _ALIAS = re.compile(r"&[\w-]"), re.compile(r"\*[\w-]")


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
        raise _invalid(spec.faults, spec.document)
    return spec


def is_expensive(text: str, *, rendered_before: bool = False) -> bool:
    """Whether reading may take long: a large text, one that repeats parts of itself, or a template."""
    return (
        len(text) > INLINE_CHARACTERS
        or (_ANCHOR.search(text) is not None and _ALIAS.search(text) is not None)
        or (not rendered_before and is_templated(text))
    )


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

    ``rendered_before``: the text is what an earlier rendering gave, and what looks like a template in it
    is the user's own. Raises InvalidSpec only for what leaves nothing to check: no YAML, or not of the
    grammar.
    """
    templated = not rendered_before and is_templated(text)
    rendered = (
        render(text, variables=variables, string_variables=string_variables, limits=limits)
        if templated
        else text
    )
    document = parse_document(rendered, limits=limits)
    validator = Validator(limits)
    try:
        workflow = validator.workflow(document.data)
    except InvalidSpec as error:
        raise _invalid(error.faults, document) from error
    groups, resources = tuple(validator.groups(workflow)), dict(validator.resources(workflow))
    if validator.full:
        raise _invalid(_at_most(validator.faults, limits), document)
    resolver = Resolver(workflow, groups, resources, limits, allow_localpath)
    return WorkflowSpec(
        name=workflow.name,
        labels=workflow.labels,
        groups=resolver.groups(),
        exec_timeout=resolver.timeout("exec_timeout"),
        queue_timeout=resolver.timeout("queue_timeout"),
        rendered=rendered,
        template=text if templated else None,
        document=document,
        warnings=tuple(resolver.notices()),
        faults=_at_most([*validator.faults, *resolver.faults], limits),
    )


def _at_most(faults: Sequence[Fault], limits: SpecLimits) -> tuple[Fault, ...]:
    """As many faults as may be reported, and one that says so if there are more."""
    if len(faults) < limits.faults:
        return tuple(faults)
    message = f"There may be more faults: only the first {limits.faults} are reported."
    reported = tuple(faults[: limits.faults])
    return (*reported, Fault(reported[-1].path, "too_many_faults", message))


def _invalid(faults: Iterable[Fault], document: ParsedDocument) -> InvalidSpec:
    ordered = located(faults, document)
    return InvalidSpec(f"The workflow cannot be accepted. {_summary(ordered)}", ordered)


def _summary(faults: Sequence[Fault]) -> str:
    """The first three faults, since many clients show the message alone."""
    named, others = first(faults, 3)
    sentences = [f"Line {fault.line}, column {fault.column}: {fault.message}" for fault in named]
    return " ".join([*sentences, f"{others.capitalize()}."] if others else sentences)
