"""Entries with ``count``: the names of the tasks that one makes, and the runs that its ``segment`` cuts.

Task ``index`` of entry ``worker`` is ``worker-<index>``, from 0. Consecutive tasks of a segment are one
co-location set; its group's name says which, so the plain document has the same name, and every sentence
about the set the same words (``scheduling.topology.requirements.describe``).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.topology.segments import task_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The entry that a task comes from."""

    entry: str
    count: int

    segment: int = 0
    """Tasks in one of its segments, of the narrowest where it has two levels; 0: it has none."""

    offset: int = 0
    """Tasks before its index 0 in the run of tasks that its segments cut: a group's own span its entries."""

    def name(self, index: int) -> str:
        return task_name(self.entry, index)

    def index(self, task: str) -> int:
        """The index of one of its tasks, by name."""
        return int(task[len(self.entry) + 1 :])

    def variables(self, index: int) -> Iterator[tuple[str, str]]:
        """What a container learns of its place in the segments, by name of a variable."""
        if self.segment:
            segment, rank = divmod(self.offset + index, self.segment)
            yield "OSMO_SEGMENT", str(segment)
            yield "OSMO_SEGMENT_RANK", str(rank)
            yield "OSMO_SEGMENT_SIZE", str(self.segment)

    def to_json(self) -> dict[str, Any]:
        """Without zeros; ``Counted(**json)`` is the inverse."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}


_RANGES = re.compile(r"(.+)\[([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)\]")
MOST_SELECTED = 10_000


def names_in(selector: str) -> tuple[str, ...]:
    """The tasks that ``worker[0-3,7]`` names, in the order written; none for a text of another form.

    Raises ValueError for ranges that name nothing, or too many.
    """
    match = _RANGES.fullmatch(selector)
    indices: list[int] = []
    for part in match[2].split(",") if match else ():
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise ValueError(f"{part} names no task: write the lower index first")
        if int(last or first) - int(first) + len(indices) >= MOST_SELECTED:
            raise ValueError(f"at most {MOST_SELECTED:,} tasks can be named at once")
        indices += range(int(first), int(last or first) + 1)
    return tuple(task_name(match[1], index) for index in indices) if match else ()


def place_variables(
    task: str, counted: Counted | None, *, rank: int, size: int, lead_host: str
) -> Mapping[str, str]:
    """What a container learns of its task's place: in its entry, in its group, in its segments.

    ``rank`` is its place among the ``size`` tasks of the group, in the order of the document.
    """
    index = counted.index(task) if counted else 0
    return {
        "OSMO_TASK_INDEX": str(index),
        "OSMO_TASK_COUNT": str(counted.count if counted else 1),
        "OSMO_RANK": str(rank),
        "OSMO_WORLD_SIZE": str(size),
        "OSMO_LEAD_HOST": lead_host,
        **(dict(counted.variables(index)) if counted else {}),
    }
