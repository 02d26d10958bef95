"""A file of configuration: whole sections, in the shapes of OSMO's own file.

``pools``, ``backends`` and ``pod_templates`` hold objects by name (backends also as OSMO's list of objects
with a ``name``), ``workflow`` the limits. ``generation`` numbers the texts of one file. Sections of OSMO's
file that this service does not implement are refused: each of their entries is a fault, because a silently
dropped section shows itself only when a workflow runs without it.
"""

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml

from pools.documents.reading import unknown_fields
from pools.documents.yaml_text import READING_BOUNDS, ParsedDocument, TextLimits, is_large, parse_document
from scheduling.errors import Fault, InvalidSpec, Path
from web.children import Exceeded, children

SECTIONS = {"backends": "BACKEND", "pod_templates": "POD_TEMPLATE", "pools": "POOL", "workflow": "WORKFLOW"}
"""Section of a file -> type of configuration."""

NOT_CARRIED = {
    "backend_tests": "Tests of backends",
    "dataset": "Datasets",
    "group_templates": "Group templates",
    "resource_validations": "Resource validations",
    "roles": "Roles in a file",
    "service": "Settings of OSMO's service",
}
GENERATION = "generation"
"""A number that grows with each text of a declared file, so that no older text replaces a newer one."""

MAX_GENERATION = 2**53

BOUNDS: Final = replace(READING_BOUNDS, answer=128 * 2**20)
LIMITS = "workflow"
"""The one object of the section ``workflow``."""


@dataclass(slots=True)
class ConfigFile:
    """The objects of a file: by type, each object's document by name, and its place in the text."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    paths: dict[tuple[str, str], Path] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    text: ParsedDocument | None = None
    generation: int | None = None

    def located(self, fault: Fault) -> Fault:
        """The fault with its line and column in the file."""
        if fault.line is not None or self.text is None:
            return fault
        line, column = self.text.locate(fault.path)
        return replace(fault, line=line, column=column)


def read_config_file(text: str) -> ConfigFile:
    """Read a file. Raises InvalidSpec for invalid YAML; other faults are in the result."""
    parsed = parse_document(text, limits=TextLimits())
    file = ConfigFile(text=parsed)
    sections = parsed.data
    if not isinstance(sections, Mapping) or not sections:
        message = f"A mapping with one or more of {', '.join(SECTIONS)} is needed."
        file.faults.append(Fault((), "not_a_mapping", message, allowed=tuple(SECTIONS)))
        return file
    unknown = []
    for name, written in sections.items():
        if name in SECTIONS:
            _section(file, name, {} if written is None else written)
        elif name == GENERATION:
            _number(file, written)
        elif name in NOT_CARRIED:
            file.faults += _not_carried(name, written)
        else:
            unknown.append(name)
    file.faults += unknown_fields(unknown, [*SECTIONS, GENERATION])
    return file


def _number(file: ConfigFile, written: Any) -> None:
    if isinstance(written, int) and not isinstance(written, bool) and 0 < written <= MAX_GENERATION:
        file.generation = written
    else:
        message = f"A whole number from 1 to {MAX_GENERATION} is needed, higher with each change of the file."
        file.faults.append(Fault((GENERATION,), "not_a_number", message))


def read_config_file_job(payload: bytes) -> bytes:
    """Read a file in a process of its own; the answer is a pickled file, or an error's message and faults."""
    try:
        return pickle.dumps(read_config_file(payload.decode(errors="surrogatepass")))
    except InvalidSpec as error:
        return pickle.dumps((error.message, error.faults))


def read_untrusted_config_file(text: str) -> ConfigFile:
    """As ``read_config_file``, a large text in a process with bounds. Raises InvalidSpec also at a bound."""
    if not is_large(text):
        return read_config_file(text)
    try:
        answer = children().run(read_config_file_job, text.encode(errors="surrogatepass"), BOUNDS)
    except Exceeded as error:
        message = f"The file cannot be read: {error}."
        raise InvalidSpec(message, [Fault((), "too_expensive", message)]) from error
    result = pickle.loads(answer)  # noqa: S301 -- of our own code, which runs nothing that a user wrote
    if isinstance(result, ConfigFile):
        return result
    raise InvalidSpec(*result)


def _section(file: ConfigFile, section: str, written: Any) -> None:
    config_type = SECTIONS[section]
    objects = file.objects.setdefault(config_type, {})
    for name, path, document in _objects(file, section, written):
        if name in objects:
            file.faults.append(Fault(path, "twice", f'There is a "{name[:63]}" above already.'))
        objects[name] = document
        file.paths[config_type, name] = path


def _objects(file: ConfigFile, section: str, written: Any) -> Iterator[tuple[str, Path, Any]]:
    if section == LIMITS:  # one object, so an empty section is one that says nothing: the defaults
        yield LIMITS, (section,), written
        return
    if isinstance(written, Mapping):
        yield from ((name, (section, name), document) for name, document in written.items())
        return
    if section != "backends" or not isinstance(written, list):
        file.faults.append(Fault((section,), "not_a_mapping", "An object by name is needed here."))
        return
    for place, document in enumerate(written):
        name = document.get("name") if isinstance(document, Mapping) else None
        if isinstance(name, str):
            yield name, (section, place), document
        else:
            file.faults.append(Fault((section, place), "required", "A backend in a list has a name."))


def _not_carried(section: str, written: Any) -> Iterator[Fault]:
    message = f"{NOT_CARRIED[section]} are not implemented by this service: remove the entry from the file."
    if isinstance(written, Mapping):
        yield from (Fault((section, name), "not_carried", message) for name in written)
    elif isinstance(written, list):
        yield from (Fault((section, place), "not_carried", message) for place in range(len(written)))
    elif written is not None:
        yield Fault((section,), "not_carried", message)


def write_config_file(objects_by_type: Mapping[str, Mapping[str, Any]]) -> str:
    """The file of these types; equal configuration gives equal text."""
    names = {config_type: section for section, config_type in SECTIONS.items()}
    sections: dict[str, Any] = {}
    for config_type in sorted(objects_by_type, key=lambda config_type: names[config_type]):
        objects = objects_by_type[config_type]
        if names[config_type] == LIMITS:
            if LIMITS in objects:
                sections[LIMITS] = objects[LIMITS]
        else:
            sections[names[config_type]] = {name: objects[name] for name in sorted(objects)}
    return str(yaml.dump(sections, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100))
