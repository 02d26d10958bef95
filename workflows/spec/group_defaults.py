"""The default topology of a pool on a task group of a document, as if the group's author had written it.

Admission applies it, and so does the plain document of what was accepted, so both have the same tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduling.errors import Fault
from scheduling.topology.defaults import DefaultTopology
from scheduling.topology.segments import Segments
from workflows.spec.entries import tasks_of
from workflows.spec.workflow_spec import GroupSpec, TaskSpec


def for_group(default: DefaultTopology, group: GroupSpec) -> DefaultTopology:
    """A default without segments where the group has no tasks that they cut."""
    return default if _entries(group.tasks) else replace(default, segments=())


def bound_by(group: GroupSpec, default: DefaultTopology) -> tuple[GroupSpec, list[Fault]]:
    """A group with a default that is not packed, and why its segments cannot cut it."""
    entries = _entries(group.tasks) if default.segments else {}
    if not entries:
        return replace(group, topology=default.topology), []
    counts = {name: first.counted.count for name, first in entries.items() if first.counted}
    segments = Segments(default.segments, counts, group.path)
    if faults := list(segments.faults()):
        return group, faults
    cut = {name: tuple(tasks_of(entries[name], name, count, segments)) for name, count in counts.items()}
    tasks: list[TaskSpec] = []
    for task in group.tasks:
        entry = task.counted.entry if task.counted else ""
        tasks += cut.pop(entry, ()) if entry in entries else [task]
    return replace(group, topology=default.topology, tasks=tuple(tasks)), []


def _entries(tasks: Iterable[TaskSpec]) -> Mapping[str, TaskSpec]:
    """The first task of each entry whose tasks a default's segments cut, in the order of the document."""
    entries: dict[str, TaskSpec] = {}
    for task in tasks:
        if task.counted and task.resource.gpu and not task.resource.leaves_group_topology:
            entries.setdefault(task.counted.entry, task)
    return entries
