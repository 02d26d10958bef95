"""Whether an installation may be removed, and what removes its traces from the clusters first.

Whoever takes the processes away leaves the pods, ComputeDomains, queues and topologies that they made, and
nobody who deletes them. So a removal is refused while task groups are unreleased. On request it ends them:
pools first, so that nothing new is accepted, then the workflows, and the backends once all groups are
released; workers do the work and a caller waits for it. Of configuration, the history stays.

A declared file would bring deleted pools back, so its pools and backends stay and their objects with them.
"""

from dataclasses import dataclass

from django.db.models import Count, Q

from pools.models import Backend, Pool
from pools.services import declared
from pools.services.backends import delete_backend
from pools.services.pools import delete_pool
from pools.services.recording import ConfigChange
from workflows.lifecycle.statuses import WORKFLOW_TERMINAL, TaskStatus
from workflows.models import TaskGroup, Workflow
from workflows.services.stop import request_stop

AUTHOR = "removal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The installation's remains in its clusters: groups of each backend, and backends with objects."""

    groups: dict[str, int]
    backends: tuple[str, ...]

    def __str__(self) -> str:
        parts = [f"{count} unreleased task groups on backend {name}" for name, count in self.groups.items()]
        parts += [f"queues, topologies and priorities of backend {name}" for name in self.backends]
        return "; ".join(parts)


def traces() -> Traces:
    rows = TaskGroup.objects.filter(released_at=None).values_list("backend__name").annotate(Count("pk"))
    backends = Backend.objects.filter(cleaned_at=None).exclude(cluster_id=None)
    return Traces(
        groups=dict(rows.order_by("backend__name")), backends=tuple(backends.values_list("name", flat=True))
    )


def is_declared() -> bool:
    """Whether a file is the source of configuration, as far as workers have reported."""
    return declared.condition() is not None


def end_all_work() -> None:
    """Delete every pool and cancel every workflow; running groups are released by workers. Idempotent."""
    change = ConfigChange(username=AUTHOR, description="The installation is being removed.")
    if not is_declared():
        for name in Pool.objects.order_by("name").values_list("name", flat=True):
            delete_pool(name=name, change=change, force=True)
    Workflow.objects.exclude(status__in=WORKFLOW_TERMINAL).filter(cancelled_by="").update(cancelled_by=AUTHOR)
    request_stop(
        Q(released_at=None),
        status=TaskStatus.FAILED_CANCELED,
        message="Cancelled: the service is being removed.",
        force=False,
    )


def delete_backends() -> None:
    """Delete every backend, so that workers remove what is left of it. Once all groups are released."""
    if is_declared():
        return
    change = ConfigChange(username=AUTHOR, description="The installation is being removed.")
    for name in Backend.objects.filter(deleted_at=None).order_by("name").values_list("name", flat=True):
        delete_backend(name=name, change=change, force=False)
