"""Finding what is due, whatever became of the messages.

Bounded: a sweep tells of a limited number of groups, and of none while the queue still holds more than
that, so a time without workers leaves a short queue and not a long one. Fair: turns go round the
backends, oldest first in each, so thousands of groups of one cluster that does not answer stand in
nobody's way.
"""

from datetime import timedelta
from uuid import UUID

import structlog
from celery import current_app
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from kombu.exceptions import KombuError

from workflows.models import ObservedObject, ObservedPod, TaskGroup

BATCH = 200
PURGE_AFTER = timedelta(hours=1)
PURGE_BATCH = 200

log = structlog.get_logger(__name__)

_DUE = """
    SELECT uuid FROM (
        SELECT uuid, next_reconcile_at,
               row_number() OVER (PARTITION BY backend_id ORDER BY next_reconcile_at) AS turn
          FROM workflows_taskgroup
         WHERE released_at IS NULL AND next_reconcile_at <= clock_timestamp()
           AND (lease_until IS NULL OR lease_until < clock_timestamp())
    ) AS due
    ORDER BY turn, next_reconcile_at LIMIT %s
"""


def due_groups(limit: int = BATCH) -> list[UUID]:
    """Groups that are due and nobody has, in turns of their backends."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, [limit])
        return [row[0] for row in cursor.fetchall()]


def queue_is_full() -> bool:
    """Whether messages wait already in such number that more would only lengthen the queue."""
    queue = settings.CELERY_TASK_DEFAULT_QUEUE
    try:
        with current_app.connection_for_write() as broker:
            waiting = broker.default_channel.queue_declare(queue, passive=True).message_count
    except broker_errors() as error:
        log.debug("queue_not_measured", error=str(error))
        return False
    return int(waiting) > BATCH


def broker_errors() -> tuple[type[BaseException], ...]:
    """What a broker that does not answer, or a queue nobody made yet, raises."""
    with current_app.connection_for_write() as broker:
        return (KombuError, OSError, *broker.connection_errors, *broker.channel_errors)


def purge_observations() -> int:
    """Drop what was seen of groups that were released long ago. Returns how many groups."""
    gone = TaskGroup.objects.filter(released_at__lt=Now() - PURGE_AFTER)
    seen = ObservedPod.objects.filter(group_uuid__in=gone.values("pk")).values("group_uuid")
    others = ObservedObject.objects.filter(group_uuid__in=gone.values("pk")).values("group_uuid")
    ids = list(seen.distinct()[:PURGE_BATCH]) + list(others.distinct()[:PURGE_BATCH])
    groups = {row["group_uuid"] for row in ids}
    ObservedPod.objects.filter(group_uuid__in=groups).delete()
    ObservedObject.objects.filter(group_uuid__in=groups).delete()
    return len(groups)
