"""The topology that task groups get which ask for none: the default of a pool or of a platform.

It stands for the group's own topology, so all that holds of that holds of it: tasks that leave it stay out,
``auto`` is decided, and it is frozen when the group is accepted. It is for groups of at least two tasks with
GPUs, because one task has no peers to be near to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from scheduling.sentences import in_seconds
from scheduling.topology.levels import Level
from scheduling.topology.requirements import Gang, Requirement

LEAST_TASKS = 2
"""The tasks with GPUs that a group has at least which gets a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultTopology:
    """Requirements for groups that name no key; ``pack`` stands for a preference at every key of the pool."""

    topology: tuple[Requirement, ...] = ()
    pack: bool = False

    def requirements(self, levels: Sequence[Level]) -> tuple[Requirement, ...]:
        """The requirements in a pool with these levels, in the order in which they are said."""
        if self.pack:
            return tuple(Requirement(level.key, required=False) for level in levels)
        return self.topology

    def words(self, levels: Sequence[Level]) -> str:
        """The requirements in a line: ``required at zone, preferred at rack, clique``."""
        kinds = groupby(self.requirements(levels), key=_kind)
        return ", ".join(f"{kind} at {', '.join(each.key for each in same)}" for kind, same in kinds)


def _kind(requirement: Requirement) -> str:
    if requirement.wait_seconds is None:
        return requirement.kind
    return f"required for {in_seconds(requirement.wait_seconds)}, then {requirement.kind}"


def may_get_default(gang: Gang) -> bool:
    """Whether no task of a gang names a key, and enough of those with GPUs share what the gang would get."""
    if gang.topology or any(task.requirements for task in gang.tasks):
        return False
    return sum(task.inherits and task.gpus > 0 for task in gang.tasks) >= LEAST_TASKS


def with_default(gang: Gang, default: DefaultTopology, levels: Sequence[Level]) -> Gang:
    """The gang with a default as its own topology."""
    return replace(gang, topology=default.requirements(levels))
