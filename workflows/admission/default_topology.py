"""The default topology of a pool or a platform, for task groups that name no key.

It is applied when a workflow is accepted, as if its author had written it on the group, and nothing later
reads the pool's. A default never makes a workflow be refused, nor wait for ever, that would not without it:
then the group stays without, and its notice says why.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.errors import Notice
from scheduling.topology.defaults import DefaultTopology, may_get_default
from scheduling.topology.requirements import Gang
from workflows.admission.pool_facts import PlatformFacts, PoolFacts
from workflows.spec.group_defaults import for_group
from workflows.spec.workflow_spec import GroupSpec, WorkflowSpec

APPLIED = "default_topology"
"""The code of the notice on a group that gets a default."""

LEFT_OUT = "default_topology_left_out"
"""The code of the notice on a group that would get a default, and why it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDefault:
    """The default for one group, not packed; ``owner`` is whose it is, in words."""

    default: DefaultTopology
    owner: str

    def to_json(self) -> dict[str, Any]:
        """What is frozen with the group; ``default`` reads from the same mapping."""
        return {"owner": self.owner, **self.default.to_json()}

    def notice(self, group: GroupSpec) -> Notice:
        message = (
            f'Task group "{group.name}" names no topology, so it gets the default of {self.owner}: '
            f"{self.default.words}. To leave it, write `topology: []` on the group."
        )
        return Notice(APPLIED, message, group.path)

    def left_out(self, group: GroupSpec, reason: str) -> Notice:
        message = (
            f'Task group "{group.name}" names no topology, but it does not get the default of {self.owner} '
            f"({self.default.words}): {reason}"
        )
        return Notice(LEFT_OUT, message, group.path)


def default_of_group(
    group: GroupSpec, gang: Gang, platforms: Sequence[PlatformFacts | None], facts: PoolFacts
) -> GroupDefault | None:
    """The default that a group gets, if it may have one; ``platforms`` are its tasks', in their order."""
    if not may_get_default(gang):
        return None
    pool = facts.terms.pool
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
    default = for_group(default.in_pool(facts.terms.levels), group) if default else None
    return GroupDefault(default=default, owner=owner) if default else None


def groups_with(code: str, spec: WorkflowSpec, notices: Iterable[Notice]) -> frozenset[str]:
    """The names of the groups of a workflow that have a notice with this code."""
    paths = {notice.path for notice in notices if notice.code == code}
    return frozenset(group.name for group in spec.groups if group.path in paths)
