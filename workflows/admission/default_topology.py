"""The default topology of a pool or a platform, for task groups that name no key.

It is applied when a workflow is accepted, as if its author had written it on the group, and nothing later
reads the pool's. A default never makes a workflow be refused, nor wait for ever, that would not without it:
then the group stays without, and its notice says why.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.errors import Notice
from scheduling.topology.defaults import DefaultTopology, may_get_default, with_default
from scheduling.topology.levels import Levels
from scheduling.topology.requirements import Gang
from workflows.admission.pool_facts import PlatformFacts, PoolFacts
from workflows.spec.workflow_spec import WorkflowSpec

APPLIED = "default_topology"
"""The code of the notice on a group that gets a default."""

LEFT_OUT = "default_topology_left_out"
"""The code of the notice on a group that would get a default, and why it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDefault:
    """The default for one group; ``owner`` is whose it is, in words."""

    default: DefaultTopology
    owner: str
    levels: Levels

    def applied(self, gang: Gang) -> Gang:
        return with_default(gang, self.default, self.levels)

    @property
    def words(self) -> str:
        return self.default.words(self.levels)

    def notice(self, gang: Gang) -> Notice:
        message = (
            f'Task group "{gang.name}" names no topology, so it gets the default of {self.owner}: '
            f"{self.words}. To leave it, write `topology: []` on the group."
        )
        return Notice(APPLIED, message, gang.path)

    def left_out(self, gang: Gang, reason: str) -> Notice:
        message = (
            f'Task group "{gang.name}" names no topology, but it does not get the default of {self.owner} '
            f"({self.words}): {reason}"
        )
        return Notice(LEFT_OUT, message, gang.path)


def default_of_group(
    gang: Gang, platforms: Sequence[PlatformFacts | None], facts: PoolFacts
) -> GroupDefault | None:
    """The default that a group gets, if it may have one; ``platforms`` are its tasks', in their order."""
    if not may_get_default(gang):
        return None
    pool, levels = facts.terms.pool, facts.terms.levels
    used = {
        platform.name: platform
        for task, platform in zip(gang.tasks, platforms, strict=True)
        if task.gpus and platform
    }
    default, owner = facts.default_topology, f'pool "{pool}"'
    if len(used) == 1:
        (platform,) = used.values()
        if platform.default_topology is not None:
            default, owner = platform.default_topology, f'platform "{platform.name}" of pool "{pool}"'
    if default is None or not default.requirements(levels):
        return None
    return GroupDefault(default=default, owner=owner, levels=levels)


def groups_with(code: str, spec: WorkflowSpec, notices: Iterable[Notice]) -> frozenset[str]:
    """The names of the groups of a workflow that have a notice with this code."""
    paths = {notice.path for notice in notices if notice.code == code}
    return frozenset(group.name for group in spec.groups if group.path in paths)
