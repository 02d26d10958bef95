"""A cluster's scheduler as it comes: no gang, no topology.

Pods are placed one by one. It exists so that a cluster without KAI and older than Kubernetes 1.36 can
still run workflows; nothing that needs a gang's guarantees is promised there, and the reply says so.
"""

from collections.abc import Collection, Mapping
from typing import Any

from scheduling.backends.base import (
    Checked,
    GangRequest,
    Manifest,
    PodParts,
    PoolRequest,
    RenderedGang,
    ResourceKind,
    Waiting,
    WaitingReason,
)
from scheduling.capabilities import Capabilities, Capability, SchedulerVersion, held_at
from scheduling.checks import SplitGangs, UnsupportedPreferred, check_gang
from scheduling.errors import InvalidSpec, UnsupportedCapability
from scheduling.levels import Domain, Levels
from scheduling.requirements import Gang

OLDEST = SchedulerVersion(1, 34)


class Default:
    """Any scheduler, asked for nothing but to place pods."""

    name = "default"
    oldest = OLDEST
    needs: Mapping[Capability, SchedulerVersion] = {}
    pod_group: ResourceKind | None = None
    edits_pod_groups = True

    def version_of(self, *, kubernetes: str, pod_group_schema: Mapping[str, Any] | None) -> SchedulerVersion:
        del pod_group_schema
        return SchedulerVersion.parse(kubernetes)

    def capabilities(self, version: SchedulerVersion | None) -> Capabilities:
        return Capabilities(self.name, held_at(self.needs, version or self.oldest), max_levels=0)

    def check(
        self,
        gang: Gang,
        levels: Levels,
        *,
        capabilities: Capabilities,
        split_gangs: SplitGangs,
        domains: Collection[Domain] | None = None,
        unsupported_preferred: UnsupportedPreferred = "refuse",
        queue_timeout: float | None = None,
    ) -> Checked:
        faults, notices, _ = check_gang(
            gang,
            levels,
            capabilities=capabilities,
            split_gangs=split_gangs,
            domains=domains,
            unsupported_preferred=unsupported_preferred,
            queue_timeout=queue_timeout,
        )
        return Checked(tuple(faults), tuple(notices))

    def render(self, request: GangRequest) -> RenderedGang:
        """Name the scheduler and the priority. Raises where a requirement would be lost."""
        faults, _, tree = check_gang(
            request.gang,
            request.levels,
            capabilities=self.capabilities(None),
            split_gangs="warn",
            domains=None,
            unsupported_preferred=request.unsupported_preferred,
        )
        if tree is None:
            raise InvalidSpec(
                f'Task group "{request.gang.name}" asks for topology that cannot be read.', faults
            )
        if faults:
            raise UnsupportedCapability(f'Task group "{request.gang.name}" cannot be held.', faults)
        spec = {"priorityClassName": request.priority_class} if request.priority_class else {}
        parts = PodParts({}, {}, request.scheduler_name, spec)
        return RenderedGang((), {task.name: parts for task in request.gang.tasks}, (), (), {})

    def resized(self, gang: RenderedGang, *, living: Collection[str], waiting: Collection[str]) -> Manifest:
        """Change nothing: there are no pod groups."""
        del gang, living, waiting
        return {}

    def relaxed(self, before: RenderedGang, after: RenderedGang) -> Manifest | None:
        """Give nothing: there are no pod groups."""
        del before, after
        return None

    def pool_objects(self, request: PoolRequest) -> tuple[Manifest, ...]:
        """Give nothing: there are no queues and no topology."""
        del request
        return ()

    def waiting_reasons(self, waiting: Waiting) -> tuple[WaitingReason, ...]:
        """Pass on what the pods' own conditions say."""
        if waiting.placed:
            return ()
        return tuple(
            WaitingReason("Unschedulable", f"The scheduler says: {message}", message)
            for message in dict.fromkeys(waiting.pod_messages)
        )
