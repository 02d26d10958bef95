"""The command, arguments and variables of tasks as their containers get them.

Kubernetes replaces ``$(NAME)`` by a variable of the container, in a variable by one that stands above it,
and ``$$`` by ``$`` (1.37 ``third_party/forked/golang/expansion``). Linux starts no program with an argument
or a variable of 128 KiB (``MAX_ARG_STRLEN``), which nobody notices before the gang was placed.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence

from scheduling import names
from scheduling.backends.base import Checked, Manifest
from scheduling.errors import Fault, Notice, Path, format_path
from scheduling.sentences import count_of
from workflows.manifests.group import GroupObjects
from workflows.spec.workflow_spec import TaskSpec, WorkflowSpec, last_of_each_entry

MOST_BYTES = 128 * 2**10 - 1
"""Of an argument, or of a variable with its name and ``=``; Linux ends each with one byte more."""
MOST = 20
"""Faults and notices; nobody reads more."""

_OWN = "$(OSMO_"
"""Begins a reference to a variable of the service's own."""

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def is_plain(pod: bytes) -> bool:
    """Whether a pod, as JSON, has no text that could be too long or that Kubernetes could change."""
    return len(pod) <= MOST_BYTES and b"$" not in pod


def check_texts(spec: WorkflowSpec, objects: Sequence[GroupObjects], *, paths: Container[Path]) -> Checked:
    """The faults of texts that are too long, and a notice of each text that Kubernetes changes.

    Only the tasks at these ``paths`` are looked at: the pods of the others are plain.
    """
    faults: list[Fault] = []
    changed: dict[tuple[str, str], list[Path]] = {}
    for group, rendered in zip(spec.groups, objects, strict=True):
        for task in (each for each in last_of_each_entry(group) if each.path in paths):
            for path, size, references in _texts(task, rendered.pods[task.name], spec.environment):
                if size > MOST_BYTES:
                    faults.append(_too_long(path, size))
                for reference in references:
                    if reference.startswith(_OWN):  # nobody writes those without meaning it
                        continue
                    field = next(str(step) for step in reversed(path) if isinstance(step, str))
                    changed.setdefault((field, reference), []).append(path)
    reported = list(changed.items())[:MOST]
    places = spec.places.locate_all([paths[0] for _, paths in reported])
    notices = [
        _replaced(paths, reference, line=line)
        for ((_, reference), paths), (line, _) in zip(reported, places, strict=True)
    ]
    return Checked(tuple(faults[:MOST]), tuple(notices))


def _texts(
    task: TaskSpec, pod: Manifest, requested: Mapping[str, str]
) -> Iterator[tuple[Path, int, Sequence[str]]]:
    """Each text of the task's container: its path, its bytes there, and the references that are replaced.

    Variables may refer to each other, so their values are never put together: thirty would be a gigabyte.
    """
    name = names.container(task.name)
    container = next(each for each in pod["spec"]["containers"] if each["name"] == name)
    sizes: dict[str, int] = {}
    for variable in container.get("env", ()):
        name = variable["name"]
        sizes[name], references = _replacements(variable.get("value", ""), sizes)
        if name in requested:
            yield ("env_vars", name), sizes[name] + len(name) + 1, references
        elif name in task.environment:
            yield (*task.path, "environment", name), sizes[name] + len(name) + 1, references
    for kind in ("command", "args"):
        for index, text in enumerate(container.get(kind, ())):
            yield (*task.path, kind, index), *_replacements(text, sizes)


def _replacements(text: str, sizes: Mapping[str, int]) -> tuple[int, Sequence[str]]:
    """The bytes of a text once variables of these sizes are in it, and the references that are replaced."""
    size, references = len(text.encode()), []
    for match in _REFERENCE.finditer(text) if "$" in text else ():
        new = 1 if match[1] is None else sizes.get(match[1])
        if new is not None:
            size += new - len(match[0].encode())
            references.append(match[0])
    return size, references


def _too_long(path: Path, size: int) -> Fault:
    message = (
        f"It has {size:,} bytes in its container; Linux starts no program with an argument or a variable of "
        f"more than {MOST_BYTES:,}. Put it into `files`."
    )
    return Fault(path, "too_long", message, allowed=(str(MOST_BYTES),))


def _replaced(paths: Sequence[Path], reference: str, *, line: int) -> Notice:
    place = format_path(paths[0])
    place = place if paths[0][0] == "env_vars" else f"Line {line}: {place}"
    more = f" and {count_of(len(paths) - 1, 'other place')}" if len(paths) > 1 else ""
    value = '"$"' if reference == "$$" else f"the value of the variable {reference[2:-1][:63]}"
    escaped = reference.replace("$", "$$")
    message = (
        f'{place}{more}: Kubernetes replaces "{reference[:63]}" by {value}. '
        f'Write "{escaped[:64]}" to keep what is written.'
    )
    return Notice("reference", message, paths[0])
