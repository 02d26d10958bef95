"""The scheduler that every cluster has: no gang, no topology. Pods are placed one by one.

It lets a cluster without KAI and older than Kubernetes 1.36 run workflows. The reply to a submission says
that gangs are not guaranteed there.
"""

from collections.abc import Mapping
from typing import Any

from scheduling.backends.base import GangRequest, PodParts, ReadBack, RenderedGang, Waiting, WaitingReason
from scheduling.backends.by_table import ByTable
from scheduling.backends.facets import SchedulerBackend, SchedulerTraits
from scheduling.backends.plain_texts import PlainTexts
from scheduling.capabilities import Capability, SchedulerVersion

OLDEST = SchedulerVersion(1, 34)


class Default(PlainTexts, ByTable):
    """Any scheduler that only places pods: it has no pod groups, queues or topology."""

    name = "default"
    oldest = OLDEST
    needs: Mapping[Capability, SchedulerVersion] = {Capability.GANG_REPLACE_TASK: OLDEST}
    max_levels = 0

    def version_of(self, *, kubernetes: str, pod_group_schema: Mapping[str, Any] | None) -> SchedulerVersion:
        del pod_group_schema
        return SchedulerVersion.parse(kubernetes)

    def render(self, request: GangRequest) -> RenderedGang:
        """Name the scheduler and the priority. Raises where a requirement would be lost."""
        self.tree(request)
        spec = {"priorityClassName": request.priority_class} if request.priority_class else {}
        parts = PodParts({}, {}, request.terms.scheduler_name, spec)
        return RenderedGang((), {task.name: parts for task in request.gang.tasks}, (), (), {})

    def waiting_reasons(self, waiting: Waiting) -> tuple[WaitingReason, ...]:
        """Pass on what the pods' own conditions say."""
        if waiting.placed:
            return ()
        return tuple(
            WaitingReason("Unschedulable", f"The scheduler says: {message}", message)
            for message in dict.fromkeys(waiting.pod_messages)
        )


_IMPLEMENTATION = Default()

DEFAULT = SchedulerBackend(
    scheduler_name="default-scheduler",
    pod_group=None,
    read_back=ReadBack(status=()),
    traits=SchedulerTraits(gives_devices=True),
    rendering=_IMPLEMENTATION,
    texts=_IMPLEMENTATION,
)
