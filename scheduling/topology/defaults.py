"""The topology that task groups get which ask for none: the default of a pool or of a platform.

It stands for the group's own topology, so all that holds of that holds of it: tasks that leave it stay out,
``auto`` is decided, and it is frozen when the group is accepted. It is for groups of at least two tasks with
GPUs, because one task has no peers to be near to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from scheduling.sentences import in_seconds
from scheduling.topology.levels import Level
from scheduling.topology.requirements import Gang, Requirement
from scheduling.topology.segments import SegmentLevel

LEAST_TASKS = 2
"""The tasks with GPUs that a group has at least which gets a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultTopology:
    """Requirements for groups that name no key; without any, groups stay without.

    ``pack`` stands for a preference at every key of the pool. ``segments``, from broad to narrow, cut the
    tasks with GPUs that come from entries with ``count``, in the order of the document.
    """

    topology: tuple[Requirement, ...] = ()
    segments: tuple[SegmentLevel, ...] = ()
    pack: bool = False

    def in_pool(self, levels: Sequence[Level]) -> "DefaultTopology":
        """The same in a pool with these levels, without ``pack``."""
        if not self.pack:
            return self
        return DefaultTopology(topology=tuple(Requirement(level.key, required=False) for level in levels))

    def __bool__(self) -> bool:
        return bool(self.pack or self.topology or self.segments)

    @property
    def words(self) -> str:
        """It in a line, where it is not packed: ``required at zone, preferred at rack, clique``."""
        kinds = groupby(self.topology, key=_kind)
        return ", ".join(
            chain(
                (f"{kind} at {', '.join(each.key for each in same)}" for kind, same in kinds),
                (f"segments of {level.size} {_kind(level)} at {level.key}" for level in self.segments),
            )
        )

    def to_json(self) -> dict[str, Any]:
        """As it is written, where it is not packed; ``from_json`` is the inverse."""
        return {
            "topology": [requirement.as_written() for requirement in self.topology],
            "segment": [level.as_written() for level in self.segments],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DefaultTopology":
        """A default as it is written, packed or not."""
        requirements = (
            Requirement.written(
                each["key"],
                group=each["group"],
                word=each["requirementType"],
                wait_seconds=each.get("waitSeconds"),
            )
            for each in value.get("topology") or ()
        )
        segments = (
            SegmentLevel(each["size"], each["key"], each["requirementType"], each.get("waitSeconds"))
            for each in value.get("segment") or ()
        )
        return cls(
            topology=tuple(requirements), segments=tuple(segments), pack=bool(value.get("pack", False))
        )


def _kind(level: Requirement | SegmentLevel) -> str:
    word = level.word if isinstance(level, SegmentLevel) else level.kind
    if level.wait_seconds is None:
        return word
    return f"required for {in_seconds(level.wait_seconds)}, then {word}"


def may_get_default(gang: Gang) -> bool:
    """Whether no task of a gang names a key, and enough of those with GPUs share what the gang would get."""
    if gang.topology or any(task.requirements for task in gang.tasks):
        return False
    return sum(task.inherits and task.gpus > 0 for task in gang.tasks) >= LEAST_TASKS
