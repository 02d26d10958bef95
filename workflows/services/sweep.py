"""Finding the groups that are due, whatever became of their messages.

Bounded: a sweep enqueues a limited number of groups, and none while the queue is full, so a time without
workers leaves a short queue. Fair: turns go round the backends and, within each, round its pools, oldest
first, so neither thousands of groups of one pool nor a cluster that does not answer block other groups.
"""

from datetime import timedelta
from uuid import UUID

from django.db import connection
from django.db.models.functions import Now

from workflows.models import ObservedObject, ObservedPod, TaskGroup

BATCH = 200
PURGE_AFTER = timedelta(hours=1)
PURGE_BATCH = 200

_DUE = """
    WITH due AS (
        SELECT g.uuid, g.backend_id, g.next_reconcile_at AS since,
               row_number() OVER (PARTITION BY g.backend_id, w.pool_name ORDER BY g.next_reconcile_at) AS turn
          FROM workflows_taskgroup g JOIN workflows_workflow w ON w.uuid = g.workflow_id
         WHERE g.released_at IS NULL AND g.next_reconcile_at <= clock_timestamp()
           AND (g.lease_until IS NULL OR g.lease_until < clock_timestamp())
    ), turns AS (
        SELECT uuid, since, row_number() OVER (PARTITION BY backend_id ORDER BY turn, since) AS turn FROM due
    )
    SELECT uuid FROM turns ORDER BY turn, since LIMIT %s
"""

_NOTE = """
    INSERT INTO pools_sweeprun (singleton, ran_at) VALUES (true, clock_timestamp())
        ON CONFLICT (singleton) DO UPDATE SET ran_at = excluded.ran_at
"""


def due_groups(limit: int = BATCH) -> list[UUID]:
    """Groups that are due and not leased, in turns of their backends and pools."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, [limit])
        return [row[0] for row in cursor.fetchall()]


def note_sweep() -> None:
    """Record that a sweep ran: beat, broker and a worker are alive."""
    with connection.cursor() as cursor:
        cursor.execute(_NOTE)


def purge_observations() -> int:
    """Delete observations of groups that were released long ago. Returns how many groups."""
    released = TaskGroup.objects.filter(released_at__lt=Now() - PURGE_AFTER).values("pk")
    with_pods = ObservedPod.objects.filter(group_uuid__in=released).values("group_uuid")
    with_objects = ObservedObject.objects.filter(group_uuid__in=released).values("group_uuid")
    rows = list(with_pods.distinct()[:PURGE_BATCH]) + list(with_objects.distinct()[:PURGE_BATCH])
    groups = {row["group_uuid"] for row in rows}
    ObservedPod.objects.filter(group_uuid__in=groups).delete()
    ObservedObject.objects.filter(group_uuid__in=groups).delete()
    return len(groups)
