"""The scheduler that every cluster has: no gang, no topology. Pods are placed one by one.

It lets a cluster without KAI and older than Kubernetes 1.36 run workflows. The reply to a submission says
that gangs are not guaranteed there.
"""

from collections.abc import Collection, Mapping
from typing import Any

from scheduling.backends.base import (
    GangRequest,
    Manifest,
    PodParts,
    PoolRequest,
    ReadBack,
    RenderedGang,
    ResourceKind,
    Waiting,
    WaitingReason,
)
from scheduling.backends.by_table import ByTable
from scheduling.capabilities import Capability, SchedulerVersion

OLDEST = SchedulerVersion(1, 34)


class Default(ByTable):
    """Any scheduler that only places pods."""

    name = "default"
    oldest = OLDEST
    needs: Mapping[Capability, SchedulerVersion] = {Capability.GANG_REPLACE_TASK: OLDEST}
    max_levels = 0
    scheduler_name = "default-scheduler"
    pod_group: ResourceKind | None = None
    read_back = ReadBack(status=())
    pool_kinds: tuple[ResourceKind, ...] = ()
    edits_pod_groups = True
    spares_normal = False

    def version_of(self, *, kubernetes: str, pod_group_schema: Mapping[str, Any] | None) -> SchedulerVersion:
        del pod_group_schema
        return SchedulerVersion.parse(kubernetes)

    def render(self, request: GangRequest) -> RenderedGang:
        """Name the scheduler and the priority. Raises where a requirement would be lost."""
        self.tree(request)
        spec = {"priorityClassName": request.priority_class} if request.priority_class else {}
        parts = PodParts({}, {}, request.scheduler_name, spec)
        return RenderedGang((), {task.name: parts for task in request.gang.tasks}, (), (), {})

    def resized(
        self, gang: RenderedGang, *, living: Collection[str], waiting: Collection[str], rest: bool
    ) -> Manifest:
        """Change nothing: there are no pod groups."""
        del gang, living, waiting, rest
        return {}

    def relaxed(self, before: RenderedGang, after: RenderedGang) -> Manifest | None:
        """None: there are no pod groups."""
        del before, after
        return None

    def pool_objects(self, request: PoolRequest) -> tuple[Manifest, ...]:
        """None: there are no queues and no topology."""
        del request
        return ()

    def above(self, pool_object: Mapping[str, Any]) -> str:
        """Empty: there are no pool objects."""
        del pool_object
        return ""

    def waiting_reasons(self, waiting: Waiting) -> tuple[WaitingReason, ...]:
        """Pass on what the pods' own conditions say."""
        if waiting.placed:
            return ()
        return tuple(
            WaitingReason("Unschedulable", f"The scheduler says: {message}", message)
            for message in dict.fromkeys(waiting.pod_messages)
        )
