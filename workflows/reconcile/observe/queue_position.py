"""Where a group stands among those that wait in the same queue of somebody else's.

The work of others in that queue is read where the backend follows it; the queue's own status counts the rest.
Names of other groups and their users are not read.
"""

from collections.abc import Iterator
from uuid import UUID

from scheduling.backends.facets import JoinedQueues, SchedulerBackend
from scheduling.backends.registry import installed
from scheduling.queues.joined_queues import JoinedQueue, QueuedGang, QueuePosition, position_of
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import ObservedGang, ObservedObject, TaskGroup
from workflows.values.observation import POD_GROUP

_WAITING = (TaskStatus.PROCESSING, TaskStatus.SCHEDULING)


def position_in(
    queue: JoinedQueue, *, group: UUID, scheduler_type: str, cluster: str
) -> QueuePosition | None:
    """The group's position; None if it, or nobody else, waits there. Two queries at most."""
    if queue.usage is None or queue.usage.waiting < 2:
        return None
    scheduler = installed().get(scheduler_type)
    if scheduler is None or scheduler.joined_queues is None:
        return None
    gangs = list(_queued(queue.usage.entries, scheduler.joined_queues, cluster))
    own = next((gang for owner, gang in gangs if owner == group), None)
    if own is None:
        return None
    others = _queued_by_others(queue.usage.entries, scheduler, cluster)
    return position_of(own, (*(gang for owner, gang in gangs if owner != group), *others))


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


def _queued_by_others(
    entries: frozenset[str], scheduler: SchedulerBackend, cluster: str
) -> Iterator[QueuedGang]:
    """Each gang of others that waits there, as far as they are followed."""
    if scheduler.foreign is None or scheduler.joined_queues is None:
        return
    rows = ObservedGang.objects.filter(
        cluster_id=cluster,
        resource=scheduler.foreign.kinds[0].crd,
        namespace__in={entry.partition("/")[0] for entry in entries},
        content__obj__queue__in={entry.partition("/")[2] for entry in entries},
    ).values_list("namespace", "content__created", "content__obj__queue", "content__obj__turn")
    for namespace, created, name, turn in rows:
        if f"{namespace}/{name}" not in entries or not isinstance(turn, dict):
            continue
        if gang := scheduler.joined_queues.queued(turn, created=created or ""):
            yield gang
