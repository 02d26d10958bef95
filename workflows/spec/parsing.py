"""The one way in: text to values, through template, document, grammar and reading."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pools.documents.yaml_text import ParsedDocument, parse_document
from scheduling.errors import Fault, InvalidSpec, Notice, format_path
from scheduling.sentences import first
from workflows.spec.limits import SpecLimits
from workflows.spec.resolution import Reader
from workflows.spec.template import is_templated, render
from workflows.spec.validation import written
from workflows.spec.workflow_spec import WorkflowSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed workflow. ``rendered`` is the document that lines and columns count in.

    ``template`` is the text before it was rendered, None where nothing was templated. With ``faults``
    the values are good for finding more of them, and for nothing else.
    """

    spec: WorkflowSpec
    rendered: str
    template: str | None
    document: ParsedDocument
    warnings: tuple[Notice, ...]
    faults: tuple[Fault, ...] = ()

    def locate_faults(self, faults: Iterable[Fault]) -> list[Fault]:
        """Faults of later checks with line and column, in document order."""
        return located(faults, self.document)


def parse_workflow(
    text: str,
    *,
    variables: Sequence[str],
    string_variables: Sequence[str],
    limits: SpecLimits,
    allow_localpath: bool,
) -> Parsed:
    """Parse a workflow. Raises InvalidSpec with all the faults that can be told at once, in order.

    ``allow_localpath``: a dry run accepts files that the command line has yet to read.
    """
    parsed = read_workflow(
        text,
        variables=variables,
        string_variables=string_variables,
        limits=limits,
        allow_localpath=allow_localpath,
    )
    if parsed.faults:
        raise _invalid(parsed.faults, parsed.document)
    return parsed


def read_workflow(
    text: str,
    *,
    variables: Sequence[str],
    string_variables: Sequence[str],
    limits: SpecLimits,
    allow_localpath: bool,
    rendered_before: bool = False,
) -> Parsed:
    """Read a workflow as far as it goes, so that later checks can tell their faults beside these.

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
    try:
        workflow = written(document.data, limits=limits)
    except InvalidSpec as error:
        raise _invalid(error.faults, document) from error
    if len(workflow.faults) >= limits.faults:
        raise _invalid(_at_most(workflow.faults, limits), document)
    reader = Reader(written=workflow, limits=limits, allow_localpath=allow_localpath)
    spec = reader.read()
    return Parsed(
        spec=spec,
        rendered=rendered,
        template=text if templated else None,
        document=document,
        warnings=tuple(reader.notices()),
        faults=_at_most([*workflow.faults, *reader.faults], limits),
    )


def _at_most(faults: Sequence[Fault], limits: SpecLimits) -> tuple[Fault, ...]:
    """As many faults as may be told, and one that says so if there are more."""
    if len(faults) < limits.faults:
        return tuple(faults)
    message = f"There may be more: only {limits.faults} faults are told."
    told = tuple(faults[: limits.faults])
    return (*told, Fault(told[-1].path, "too_many_faults", message))


def located(faults: Iterable[Fault], document: ParsedDocument) -> list[Fault]:
    """Faults with line and column, in document order. Those with a place keep it."""
    placed = []
    for fault in faults:
        if fault.line is None:
            line, column = document.locate(fault.path)
            placed.append(replace(fault, line=line, column=column))
        else:
            placed.append(fault)
    return sorted(placed, key=lambda fault: (fault.line or 0, fault.column or 0, format_path(fault.path)))


def _invalid(faults: Iterable[Fault], document: ParsedDocument) -> InvalidSpec:
    ordered = located(faults, document)
    return InvalidSpec(f"The workflow cannot be accepted. {_summary(ordered)}", ordered)


def _summary(faults: Sequence[Fault]) -> str:
    """The first three faults, since many clients show the message alone."""
    shown, others = first(faults, 3)
    sentences = [f"Line {fault.line}, column {fault.column}: {fault.message}" for fault in shown]
    return " ".join([*sentences, f"{others.capitalize()}."] if others else sentences)
