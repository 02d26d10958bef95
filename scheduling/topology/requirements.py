"""A user's requirements: which tasks must or should share a domain.

A task's requirements, sorted by level, form its *path* of (key, group) pairs; tasks share a co-location set
at a key if their paths agree up to and including it. The tuple itself is the identity, never a joined string:
OSMO joins with ``-``, where ``a`` + ``b-c`` and ``a-b`` + ``c`` collide.

A task group may have a topology of its own. It binds all tasks that inherit it, and comes first in their
paths: ``effective`` writes it into the tasks, and all code after the checks sees only tasks. Rejected: a
layer of its own in the tree, which would give the same set two identities.

``scheduling.gang.soundness`` finds the faults of requirements.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from scheduling.errors import Path
from scheduling.topology.levels import Level, clique_rank

Pair = tuple[str, str]
"""A key and a group's name."""

SetPath = tuple[Pair, ...]
"""A co-location set's identity: its pairs, broadest first. Empty: the whole task group."""

RequirementWord = Literal["required", "preferred", "auto"]
"""The type of a requirement as users write it; an ``auto`` one counts as required until it is decided."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Tasks of one task group that name the same key and group share one domain of that key.

    ``path`` is where it stands in the user's document (``("workflow", "resources", "shard",
    "topology", 1)``). ``wait_seconds``, for a preference only: hold it as required for so long.
    """

    key: str
    group: str = "default"
    required: bool = True
    path: Path = ()
    wait_seconds: float | None = None
    auto: bool = False

    @classmethod
    def written(
        cls, key: str, *, group: str, word: RequirementWord, wait_seconds: float | None, path: Path = ()
    ) -> "Requirement":
        """One of a document."""
        return cls(key, group, word != "preferred", path, wait_seconds, word == "auto")

    def as_written(self) -> dict[str, Any]:
        """As an entry of a document; ``written`` is the inverse."""
        wait = {} if self.wait_seconds is None else {"waitSeconds": self.wait_seconds}
        return {"key": self.key, "group": self.group, "requirementType": self.kind, **wait}

    @property
    def kind(self) -> str:
        """As users write it."""
        return "auto" if self.auto else "required" if self.required else "preferred"

    @property
    def required_for(self) -> float:
        """Seconds for which this is applied as required: infinite, ``wait_seconds``, or 0."""
        return math.inf if self.required else self.wait_seconds or 0.0


def required_clique(requirements: Iterable[Requirement], levels: Sequence[Level]) -> str:
    """The label of the NVLink clique that a task requires; empty: it requires none."""
    rank = clique_rank(levels)
    if rank is None or not any(each.required and each.key == levels[rank].key for each in requirements):
        return ""
    return levels[rank].label


@dataclass(frozen=True, slots=True)
class GangTask:
    """A task as the core sees it.

    ``gpus`` counts whole GPUs. ``path`` is the task's place in the user's document. ``inherits`` is False for
    a task that leaves its task group's topology (``topology: []`` in its resource spec). Tasks of one
    ``shape`` ask for the same resources on the same nodes, so their pods can stand in for each other.
    """

    name: str
    gpus: int = 0
    requirements: tuple[Requirement, ...] = ()
    path: Path = ()
    inherits: bool = True
    shape: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """The tasks of one task group: scheduled together or not at all.

    ``topology`` holds the task group's own requirements, which bind all tasks that inherit them.
    """

    name: str
    tasks: tuple[GangTask, ...]
    path: Path = ()
    topology: tuple[Requirement, ...] = ()


def place_of(task: GangTask, index: int) -> Path:
    """Where a task's requirement stands in the document, or would stand if the caller gives no place."""
    return task.requirements[index].path or (*task.path, "topology", index)


def place_in_group(gang: Gang, index: int) -> Path:
    """Where a task group's own requirement stands in the document, or would stand."""
    return gang.topology[index].path or (*gang.path, "topology", index)


def effective(gang: Gang) -> Gang:
    """The gang with its topology written into each task that inherits it, first in the task's path.

    A task's repetition of it adds nothing and is removed. Idempotent; without a group topology it costs
    nothing.
    """
    if not gang.topology:
        return gang
    above = tuple(
        replace(requirement, path=place_in_group(gang, i)) for i, requirement in enumerate(gang.topology)
    )
    tasks = tuple(_bound(task, above) if task.inherits else task for task in gang.tasks)
    return Gang(gang.name, tasks, gang.path)


def _bound(task: GangTask, above: tuple[Requirement, ...]) -> GangTask:
    own = tuple(
        requirement if requirement.path else replace(requirement, path=place_of(task, i))
        for i, requirement in enumerate(task.requirements)
        if not any(repeats(requirement, inherited) for inherited in above)
    )
    return replace(task, requirements=above + own)


def repeats(own: Requirement, inherited: Requirement) -> bool:
    """Whether a task's requirement only repeats its task group's: same key, group and type."""
    same = (own.key, own.group, own.kind) == (inherited.key, inherited.group, inherited.kind)
    return same and own.wait_seconds in (None, inherited.wait_seconds)


def decided(gang: Gang, required: Mapping[SetPath, bool], rank: Mapping[str, int]) -> Gang:
    """The effective gang with every requirement that is ``auto`` as it was decided for its set."""
    gang = effective(gang)
    return replace(gang, tasks=tuple(_decided(task, required, rank) for task in gang.tasks))


def _decided(task: GangTask, required: Mapping[SetPath, bool], rank: Mapping[str, int]) -> GangTask:
    if not any(requirement.auto for requirement in task.requirements):
        return task
    types: dict[str, bool] = {}
    path: SetPath = ()
    for requirement in broadest_first(task, rank):
        path = (*path, (requirement.key, requirement.group))
        if requirement.auto:
            types[requirement.key] = required.get(path, True)
    requirements = (
        replace(requirement, required=types[requirement.key], auto=False, path=place_of(task, i))
        if requirement.auto
        else replace(requirement, path=place_of(task, i))
        for i, requirement in enumerate(task.requirements)
    )
    return replace(task, requirements=tuple(requirements))


def broadest_first(task: GangTask, rank: Mapping[str, int]) -> tuple[Requirement, ...]:
    """A task's requirements in pool order, in whatever order they were written."""
    return tuple(sorted(task.requirements, key=lambda requirement: rank[requirement.key]))


def describe(path: SetPath) -> str:
    """A set in words, narrowest first: ``rack "r1" in zone "a"``, ``segment 0 (w-0 to w-8) in zone "a"``."""
    names = (segment_words(group) or f'{key} "{group}"' for key, group in reversed(path))
    return " in ".join(names) or "the whole task group"


def members_json(path: SetPath) -> list[dict[str, str]]:
    """A set as clients get it; a segment also in words, which are no part of its identity."""
    return [
        {"key": key, "group": group, **({"segment": words} if (words := segment_words(group)) else {})}
        for key, group in path
    ]


def path_in(members: Iterable[Mapping[str, str]]) -> SetPath:
    """The set that ``members_json`` wrote."""
    return tuple((member["key"], member["group"]) for member in members)


_SEGMENT = re.compile(r"segment\.([0-9]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")


def segment_group(number: int, first: str, last: str) -> str:
    """The name of the group that a segment of consecutive tasks is, valid as the value of a label."""
    return f"segment.{number}.{first}.{last}"


def segment_words(group: str) -> str:
    """A group with such a name in words, ``segment 1 (worker-9 to worker-17)``; empty for another."""
    match = _SEGMENT.fullmatch(group)
    return f"segment {match[1]} ({match[2]} to {match[3]})" if match else ""
