"""Entries with ``count`` while a document is resolved: names that stand for several tasks, and segments.

A name of a task is ``worker-3``; where one task is meant, ``worker`` alone is its index 0. Work is per entry
and per segment, and what remains per task is a name: a document of twelve lines may have 10,000 tasks.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace

from scheduling.errors import Fault
from scheduling.topology.segments import SegmentLevel, Segments, task_name
from workflows.spec.grammar import GroupModel, SegmentModel
from workflows.spec.syntax import folded_name, quoted
from workflows.spec.workflow_spec import TaskSpec
from workflows.values.counted import Counted

HOST = re.compile(r"\{\{\s*host:\s*([A-Za-z0-9_-]+)\s*\}\}")
INDEX = re.compile(r"\{\{\s*task_index\s*\}\}")
_INDEXED = re.compile(r"(.*)-(0|[1-9][0-9]*)", re.DOTALL)


class TaskNames:
    """The names of a document's tasks, with the group of each; entries with ``count`` are not spelled out."""

    def __init__(self, groups: Sequence[GroupModel]) -> None:
        self._counts = {
            task.name: (group.name, task.count if task.complete else sys.maxsize)
            for group in groups
            for task in group.tasks
            if task.count
        }
        self._single = {task.name: group.name for group in groups for task in group.tasks if not task.count}

    def home(self, name: str) -> str | None:
        """The group of a task; of an entry with ``count``, too."""
        if home := self._single.get(name):
            return home
        entry, index = _split(name)
        own, count = self._counts.get(name) or self._counts.get(entry) or ("", 0)
        return own if name in self._counts or index < count else None

    def first(self, name: str) -> str:
        """The task that a name means where one is meant: of an entry with ``count`` its index 0."""
        return task_name(name, 0) if name in self._counts else name

    def all_of(self, name: str) -> str:
        """The tasks of an entry with ``count``, in words; empty for any other name."""
        _, count = self._counts.get(name, ("", 0))
        return _range(name, count) if count else ""

    def beyond(self, name: str) -> str:
        """A hint for an index that an entry does not have; empty for any other name."""
        entry, _ = _split(name)
        return f" There are {self.all_of(entry)}." if entry in self._counts else ""

    def with_hosts(self, text: str) -> str:
        """A text in which tokens of hosts name tasks, not entries."""
        if not self._counts or "{{" not in text:
            return text
        return HOST.sub(lambda match: f"{{{{host:{self.first(match[1])}}}}}", text)

    def __iter__(self) -> Iterator[str]:
        """Names to suggest: those of entries, with ``-0`` for those with ``count``."""
        yield from self._single
        yield from map(self.first, self._counts)

    def __len__(self) -> int:
        return len(self._single) + len(self._counts)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.home(name) is not None


def index_clashes(groups: Sequence[GroupModel]) -> Iterator[Fault]:
    """A fault for each task that has the name of another entry's index."""
    counts = {folded_name(task.name): task for group in groups for task in group.tasks if task.count}
    for task in (task for group in groups for task in group.tasks) if counts else ():
        entry, index = _split(folded_name(task.name))
        other = counts.get(entry)
        if other is not None and index < (other.count or 0):
            message = (
                f"The name {quoted(task.name)} is that of a task of {quoted(other.name)}, whose count makes "
                f"{_range(other.name, other.count or 0)}."
            )
            yield Fault((*task.path, "name"), "duplicate_name", message)


def _split(name: str) -> tuple[str, float]:
    """The entry and the index that a name may be of; an index that nothing has for any other name."""
    match = _INDEXED.fullmatch(name)
    return (match[1], int(match[2][:9])) if match else (name, float("inf"))


def _range(entry: str, count: int) -> str:
    first, last = task_name(entry, 0), task_name(entry, count - 1)
    return first if count == 1 else f"{first} to {last}"


def segments_of(group: GroupModel) -> tuple[dict[str, Segments], list[Fault]]:
    """The segments of each entry of a group that has some, and what is wrong with them."""
    faults: list[Fault] = []
    segments: dict[str, Segments] = {}
    counted = {task.name: task.count for task in group.tasks if task.count}
    if group.segment and group.complete and counted:
        shared = Segments(_levels(group.segment), counted, group.path)
        segments = dict.fromkeys(counted, shared)
    elif group.segment and group.complete:
        message = "A segment cuts the tasks of entries with `count`, and no task of this group has one."
        faults.append(Fault((*group.path, "segment"), "segment", message))
    for task in group.tasks:
        if not task.segment or not task.complete:
            continue
        if group.segment:
            message = "Write `segment` on the group or on its tasks, not on both."
            faults.append(Fault((*task.path, "segment"), "segment", message))
        elif not task.count:
            message = "A segment cuts the tasks of an entry with `count`, and this one has none."
            faults.append(Fault((*task.path, "segment"), "segment", message))
        else:
            segments[task.name] = Segments(_levels(task.segment), {task.name: task.count}, task.path)
    cut = {id(each): each for each in segments.values()}.values()
    return segments, [*faults, *(fault for each in cut for fault in each.faults())]


def _levels(models: Sequence[SegmentModel]) -> tuple[SegmentLevel, ...]:
    return tuple(
        SegmentLevel(model.size, model.key, model.requirementType, model.waitSeconds) for model in models
    )


def tasks_of(entry: TaskSpec, name: str, count: int, segments: Segments | None) -> Iterator[TaskSpec]:
    """The tasks that an entry with ``count`` makes; ``entry`` is the first of them, but for its name."""
    counted = Counted(
        entry=name,
        count=count,
        segment=segments.size if segments else 0,
        offset=segments.offsets[name] if segments else 0,
    )
    resource = entry.resource
    for index in range(count):
        place = counted.offset + index
        if segments is not None and (index == 0 or place % segments.size == 0):
            own = segments.requirements(place)
            resource = replace(entry.resource, topology=(*entry.resource.topology, *own))
        task = copy(entry)  # ``replace`` would look at each of its fields again
        vars(task).update(
            name=counted.name(index), lead=entry.lead and index == 0, resource=resource, counted=counted
        )
        yield task
