"""Reading of a text that has nothing left to render: document, grammar and resolution, faults with places.

A small text is read where it is needed, a large one in a process that bounds it (``web.children``). That
process sends no places back: they would be most of its answer, and only a faulty text needs some of them.
"""

import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pools.documents.yaml_text import (
    READING_BOUNDS,
    LineAndColumn,
    LocatedText,
    ParsedDocument,
    parse_document,
)
from scheduling.errors import Fault, InvalidSpec, Notice, Path
from scheduling.sentences import first
from scheduling.topology.defaults import DefaultTopology
from web.children import Exceeded, children
from web.children.process_pool import ChildFunction
from workflows.spec.doubts import doubts, with_readings
from workflows.spec.expansion import expanded_text
from workflows.spec.file_lines import FilePlaces, Runs, file_line
from workflows.spec.group_defaults import bound_by
from workflows.spec.limits import SpecLimits
from workflows.spec.resolution import Resolver
from workflows.spec.several_groups import shared_by_groups, topology_of_workflow
from workflows.spec.validation import Validator
from workflows.spec.workflow_spec import GroupSpec, WorkflowSpec, located

Defaults = Mapping[str, DefaultTopology]
"""The default topology that a task group got, not packed, by the group's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainText:
    """A text without a template, and how it is to be read."""

    text: str
    limits: SpecLimits
    allow_localpath: bool
    runs: Runs = ()

    def document(self) -> ParsedDocument:
        """The text as YAML. Raises InvalidSpec with the lines of the file."""
        try:
            return parse_document(self.text, limits=self.limits)
        except InvalidSpec as error:
            faults = [replace(fault, line=file_line(fault.line or 1, self.runs)) for fault in error.faults]
            raise InvalidSpec(error.message, faults) from error

    def places(self, document: ParsedDocument) -> LocatedText:
        return FilePlaces(document, self.runs) if self.runs else document

    def read(self) -> WorkflowSpec:
        """The workflow, as far as it can be read. Raises InvalidSpec."""
        limits = self.limits
        document = self.document()
        places = self.places(document)
        validator = Validator(limits)
        try:
            workflow = validator.workflow(document.data)
        except InvalidSpec as error:
            raise invalid(with_readings(error.faults, document), places) from error
        groups, resources = tuple(validator.groups(workflow)), dict(validator.resources(workflow))
        if validator.full:
            raise invalid(_at_most(with_readings(validator.faults, document), limits), places)
        resolver = Resolver(workflow, groups, resources, limits, self.allow_localpath)
        specs = resolver.groups()
        sound = not (validator.faults or resolver.faults)
        faults, notices = self._over_groups(specs, resolver, document.data) if sound else ([], [])
        return WorkflowSpec(
            name=workflow.name,
            labels=workflow.labels,
            groups=specs,
            notify=resolver.notify(),
            pool=workflow.pool or "",
            backend=workflow.backend or "",
            exec_timeout=resolver.timeout("exec_timeout"),
            queue_timeout=resolver.timeout("queue_timeout"),
            rendered=self.text,
            template=None,
            places=places,
            warnings=(
                *resolver.notices(),
                *notices,
                *doubts(document.respellings, resources.values(), places),
            ),
            faults=_at_most(with_readings([*validator.faults, *resolver.faults, *faults], document), limits),
        )

    def _over_groups(
        self, groups: tuple[GroupSpec, ...], resolver: Resolver, data: Any
    ) -> tuple[list[Fault], list[Notice]]:
        """The faults and notices of requirements over several task groups."""
        raw = data["workflow"]
        faults, notices = topology_of_workflow(groups, raw, resolver.topology())
        return faults, [*notices, *shared_by_groups(groups, raw)]

    def expanded(self, defaults: Defaults) -> str:
        """The plain document of the workflow, which has no faults. Raises InvalidSpec."""
        spec = self.read()
        if spec.faults:
            raise invalid(spec.faults, spec.places)
        groups = (
            bound_by(group, defaults[group.name])[0] if group.name in defaults else group
            for group in spec.groups
        )
        return expanded_text(replace(spec, groups=tuple(groups)), self.document().data)


def defaults_of(frozen: Mapping[str, Mapping[str, Any]]) -> Defaults:
    """The defaults of groups, as they are frozen with each; empty for one that got none."""
    return {name: DefaultTopology.from_json(value) for name, value in frozen.items() if value}


def default_comments(frozen: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lines of YAML comments that say what defaults added to a document, and whose they are."""
    return [
        f'# Task group "{name}" got the default topology of {frozen[name]["owner"]}: {default.words}.\n'
        for name, default in defaults_of(frozen).items()
    ]


def expand_job(payload: bytes) -> bytes:
    """The pickled plain document of a pickled text."""
    plain, defaults = pickle.loads(payload)  # noqa: S301 -- made by the service itself
    return pickle.dumps(plain.expanded(defaults))


def expanded(text: str, defaults: Defaults) -> str:
    """The plain document of a workflow, in which each of its tasks is written out.

    ``defaults`` are those that its groups got when it was accepted; the document has them as topology.
    ``text`` was accepted before, whatever the limits are now. It is made in a process that bounds it, since a
    short document may have thousands of tasks. Raises InvalidSpec where that exceeds a limit.
    """
    limits = SpecLimits(size=len(text), entries=sys.maxsize, tasks=sys.maxsize, dependencies=sys.maxsize)
    read = PlainText(text=text, limits=limits, allow_localpath=True)
    plain: str = _in_child(expand_job, (read, defaults))
    return plain


def read_job(payload: bytes) -> bytes:
    """Read a pickled text; the answer is a pickled spec without text and places, or the error."""
    plain: PlainText = pickle.loads(payload)  # noqa: S301 -- made by the service itself
    try:
        spec = plain.read()
    except InvalidSpec as error:
        return pickle.dumps((error.message, error.faults))
    faults = tuple(spec.locate_faults(spec.faults))
    return pickle.dumps(replace(spec, rendered="", places=ParsedDocument.empty(), faults=faults))


def locate_job(payload: bytes) -> bytes:
    """The pickled places of paths in a text."""
    plain, paths = pickle.loads(payload)  # noqa: S301 -- made by the service itself
    return pickle.dumps(plain.places(plain.document()).locate_all(paths))


@dataclass(frozen=True, slots=True)
class DistantPlaces:
    """The places in a large text, which is read again for them."""

    plain: PlainText

    def locate_all(self, paths: Sequence[Path]) -> list[LineAndColumn]:
        """Line and column of each path. Raises InvalidSpec if that exceeds the limits of reading."""
        if not paths:
            return []
        places: list[LineAndColumn] = _in_child(locate_job, (self.plain, list(paths)))
        return places


def read_in_child(plain: PlainText) -> WorkflowSpec:
    """As ``plain.read()``, in a process that bounds it. Raises InvalidSpec also where it exceeds a limit."""
    result = _in_child(read_job, plain)
    if isinstance(result, WorkflowSpec):
        return replace(result, rendered=plain.text, places=DistantPlaces(plain))
    message, faults = result
    raise InvalidSpec(message, faults)


def _in_child(job: ChildFunction, request: object) -> Any:
    try:
        answer = children().run(job, pickle.dumps(request), READING_BOUNDS)
    except Exceeded as error:
        message = f"The document cannot be read: {error}."
        raise InvalidSpec(message, [Fault((), "too_expensive", message)]) from error
    return pickle.loads(answer)  # noqa: S301 -- of our own code, which runs nothing that a user wrote


def _at_most(faults: Sequence[Fault], limits: SpecLimits) -> tuple[Fault, ...]:
    """As many faults as may be reported, and one that says so if there are more."""
    if len(faults) < limits.faults:
        return tuple(faults)
    message = f"There may be more faults: only the first {limits.faults} are reported."
    reported = tuple(faults[: limits.faults])
    return (*reported, Fault(reported[-1].path, "too_many_faults", message))


def invalid(faults: Sequence[Fault], places: LocatedText) -> InvalidSpec:
    ordered = located(faults, places)
    return InvalidSpec(f"The workflow cannot be accepted. {_summary(ordered)}", ordered)


def _summary(faults: Sequence[Fault]) -> str:
    """The first three faults, since many clients show the message alone."""
    named, others = first(faults, 3)
    sentences = [f"Line {fault.line}, column {fault.column}: {fault.message}" for fault in named]
    return " ".join([*sentences, f"{others.capitalize()}."] if others else sentences)
