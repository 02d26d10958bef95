"""Segments: runs of consecutive tasks of a task group, each one co-location set.

Task ``index`` of an entry with ``count`` is ``<entry>-<index>``. Segments are cut inside the rest of a task's
topology, the narrower inside the broader: a set's identity is its path from the broadest key
(``scheduling.topology.requirements``), so a segment broader than another key of the same tasks would cut that
key's sets as well, without a word.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from scheduling.errors import Fault, Path
from scheduling.sentences import count_of
from scheduling.topology.levels import Level, ranks
from scheduling.topology.requirements import Gang, Requirement, RequirementWord, segment_group

LEAST_SEGMENT = 2
"""Tasks; one task alone is together with nothing."""


@dataclass(frozen=True, slots=True)
class SegmentLevel:
    """Runs of ``size`` consecutive tasks, each one set at ``key``; the rest is as of a requirement."""

    size: int
    key: str
    word: RequirementWord = "required"
    wait_seconds: float | None = None

    def as_written(self) -> dict[str, Any]:
        """As an entry of a document."""
        wait = {} if self.wait_seconds is None else {"waitSeconds": self.wait_seconds}
        return {"size": self.size, "key": self.key, "requirementType": self.word, **wait}


def listed(value: Any) -> Any:
    """One level of a document without a list around it, with one."""
    return [value] if isinstance(value, dict) else value


def task_name(entry: str, index: int) -> str:
    return f"{entry}-{index}"


class Segments:
    """The segments of consecutive tasks of one entry, or of all counted entries of a group."""

    def __init__(self, levels: Sequence[SegmentLevel], entries: Mapping[str, int], path: Path) -> None:
        self._levels = levels
        self._path = path
        self._entries = list(entries)
        self._ends = list(accumulate(entries.values()))
        self.offsets = {
            name: end - count for (name, count), end in zip(entries.items(), self._ends, strict=True)
        }

    @property
    def size(self) -> int:
        """Tasks in each segment of the narrowest level."""
        return self._levels[-1].size

    def requirements(self, place: int) -> tuple[Requirement, ...]:
        """What binds the task at this place among all that are cut."""
        return tuple(
            Requirement.written(
                level.key,
                group=self._group(place // level.size, level.size),
                word=level.word,
                wait_seconds=level.wait_seconds,
                path=self._place_of(number),
            )
            for number, level in enumerate(self._levels)
        )

    def faults(self) -> Iterator[Fault]:
        """Sizes that do not divide each other, or a number of tasks that is no multiple."""
        total = self._ends[-1]
        for number, level in enumerate(self._levels):
            path = (*self._place_of(number), "size")
            if level.size > total:
                tasks = count_of(total, "task")
                message = f"A segment of {level.size} tasks is larger than the {tasks} that it cuts."
                yield Fault(path, "segment", message)
            elif total % level.size:
                below = total - total % level.size
                message = (
                    f"{count_of(total, 'task')} are no multiple of a segment of {level.size}; the nearest "
                    f"counts are {below} and {below + level.size}."
                )
                yield Fault(path, "segment", message, allowed=(str(below), str(below + level.size)))
            if number and self._levels[number - 1].size % level.size:
                message = (
                    f"Segments are written from broad to narrow and each holds whole segments of the next: "
                    f"{self._levels[number - 1].size} is no multiple of {level.size}."
                )
                yield Fault(path, "segment", message)

    def _group(self, segment: int, size: int) -> str:
        return segment_group(segment, self._name(segment * size), self._name((segment + 1) * size - 1))

    def _name(self, place: int) -> str:
        number = next((i for i, end in enumerate(self._ends) if place < end), len(self._ends) - 1)
        entry = self._entries[number]
        return task_name(entry, place - self.offsets[entry])

    def _place_of(self, number: int) -> Path:
        return (*self._path, "segment", number) if len(self._levels) > 1 else (*self._path, "segment")


def segment_faults(gang: Gang, levels: Sequence[Level]) -> Iterator[Fault]:
    """A fault for each segment that is broader than what stands above it in its resource or list.

    That a key is unknown, stands twice, or is against its task group's topology is found with all others
    (``scheduling.gang.soundness``).
    """
    rank = ranks(levels)
    reported = set()
    for requirements in {id(task.requirements): task.requirements for task in gang.tasks}.values():
        above: Requirement | None = None
        for requirement in sorted(requirements, key=_is_segment):
            if requirement.key not in rank:
                continue
            if above and _is_segment(requirement) and rank[requirement.key] < rank[above.key]:
                path = (*requirement.path, "key")
                narrower = tuple(level.key for level in levels[rank[above.key] + 1 :])
                keys = f"Narrower keys: {', '.join(narrower)}." if narrower else "The pool has none."
                message = (
                    f"A segment is cut inside the topology above it, so its key must be narrower than "
                    f'"{above.key}", and "{requirement.key}" is broader. {keys}'
                )
                if path not in reported:
                    reported.add(path)
                    yield Fault(path, "segment", message, allowed=narrower)
            if above is None or rank[requirement.key] > rank[above.key]:
                above = requirement


def _is_segment(requirement: Requirement) -> bool:
    return "segment" in requirement.path[-2:]
