"""Where a group stands among this service's groups that wait in the same queue of somebody else's.

The work of others in that queue is not read: the queue's own status counts it. Names of other groups and
their users are not read either.
"""

from collections.abc import Iterator
from uuid import UUID

from scheduling.backends.facets import JoinedQueues
from scheduling.backends.registry import installed
from scheduling.queues.joined_queues import JoinedQueue, QueuedGang, QueuePosition, position_of
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import ObservedObject, TaskGroup
from workflows.values.observation import POD_GROUP

_WAITING = (TaskStatus.PROCESSING, TaskStatus.SCHEDULING)


def position_in(
    queue: JoinedQueue, *, group: UUID, scheduler_type: str, cluster: str
) -> QueuePosition | None:
    """The group's position; None if it, or nobody else, waits there. One query at most."""
    if queue.usage is None or queue.usage.waiting < 2:
        return None
    scheduler = installed().get(scheduler_type)
    if scheduler is None or scheduler.joined_queues is None:
        return None
    gangs = list(_queued(queue.usage.entries, scheduler.joined_queues, cluster))
    own = next((gang for owner, gang in gangs if owner == group), None)
    return position_of(own, (gang for owner, gang in gangs if owner != group)) if own else None


def _queued(entries: frozenset[str], queues: JoinedQueues, cluster: str) -> Iterator[tuple[UUID, QueuedGang]]:
    """Each group that waits in the queue that gangs join by these names."""
    groups = TaskGroup.objects.filter(released_at__isnull=True, status__in=_WAITING)
    rows = ObservedObject.objects.filter(
        kind=POD_GROUP,
        cluster_id=cluster,
        namespace__in={entry.partition("/")[0] for entry in entries},
        group_uuid__in=groups.values("uuid"),
        deleting=False,
    ).values_list(
        "group_uuid",
        "namespace",
        "digest__created",
        "digest__spec__queueName",
        "digest__spec__priority",
        "digest__spec__active",
        "digest__status__conditions",
    )
    for group, namespace, created, name, priority, active, conditions in rows:
        if f"{namespace}/{name}" not in entries:
            continue
        pod_group = {"spec": {"priority": priority, "active": active}, "status": {"conditions": conditions}}
        if gang := queues.queued(pod_group, created=created or ""):
            yield group, gang
