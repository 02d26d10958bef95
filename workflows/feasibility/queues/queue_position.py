"""Where a group stands among those that wait in the same queue of somebody else's.

The work of others in that queue is read where the backend follows it; the queue's own status counts the rest.
Names of other groups and their users are not read.
"""

from collections.abc import Iterator
from uuid import UUID

from pools.models import Cluster
from pools.values.completeness import Completeness
from scheduling.backends.facets import JoinedQueues, SchedulerBackend, gang_resource
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
    scheduler = installed().get(scheduler_type)
    if queue.usage is None or queue.usage.waiting < 2 or scheduler is None:
        return None
    own, others = _waiting(queue.usage.entries, scheduler, cluster, group=group)
    return position_of(own, others) if own else None


def is_first_in(queue: JoinedQueue, *, group: UUID, scheduler_type: str, cluster: str) -> bool:
    """Whether a group certainly goes first: all that wait in the queue are known, and behind it."""
    scheduler = installed().get(scheduler_type)
    if queue.usage is None or scheduler is None or scheduler.foreign is None:
        return False
    row = Cluster.objects.get(pk=cluster)
    gangs = Completeness.of(row.completeness, gang_resource(scheduler.foreign))
    if not gangs.is_known or row.gangs_omitted:
        return False
    own, others = _waiting(queue.usage.entries, scheduler, cluster, group=group)
    if own is None or queue.usage.waiting > 1 + len(others):
        return False
    return position_of(own, others).behind == len(others)


def _waiting(
    entries: frozenset[str], scheduler: SchedulerBackend, cluster: str, *, group: UUID
) -> tuple[QueuedGang | None, list[QueuedGang]]:
    """The group, None if it does not wait there, and all others that do. Two queries."""
    if scheduler.joined_queues is None:
        return None, []
    gangs = list(_queued(entries, scheduler.joined_queues, cluster))
    own = next((gang for owner, gang in gangs if owner == group), None)
    others = [gang for owner, gang in gangs if owner != group]
    return own, [*others, *(_queued_by_others(entries, scheduler, cluster) if own else ())]


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
        resource=gang_resource(scheduler.foreign),
        namespace__in={entry.partition("/")[0] for entry in entries},
        queue__in={entry.partition("/")[2] for entry in entries},
    ).values_list("namespace", "content__created", "queue", "content__obj__turn")
    for namespace, created, name, turn in rows:
        if f"{namespace}/{name}" not in entries or not isinstance(turn, dict):
            continue
        if gang := scheduler.joined_queues.queued(turn, created=created or ""):
            yield gang
