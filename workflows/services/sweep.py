"""Finding the groups that are due, whatever became of their messages.

Bounded: a sweep enqueues a limited number of groups, and none while the queue is full, so a time without
workers leaves a short queue. Fair: turns go round the backends, within each round its pools, within a pool
round its users and within a user round their workflows, oldest first. So neither thousands of groups of one
workflow nor a cluster that does not answer block other groups.
"""

from datetime import timedelta
from uuid import UUID

from django.db import connection

from workflows.models import ObservedObject, ObservedPod
from workflows.services.record import BATCHED, IS_DUE

BATCH = 200
PURGE_AFTER = timedelta(hours=1)
PURGE_BATCH = 200

_DUE = f"""
    WITH due AS (
        SELECT g.uuid, g.backend_id, g.workflow_id, g.next_reconcile_at AS since, w.pool_name, w.submitted_by,
               ({BATCHED}) IS TRUE AS batched
          FROM workflows_taskgroup AS g JOIN workflows_workflow AS w ON w.uuid = g.workflow_id
         WHERE g.released_at IS NULL AND {IS_DUE}
    ), of_workflow AS (
        SELECT *, row_number() OVER (PARTITION BY workflow_id, batched ORDER BY since) AS place FROM due
    ), of_user AS (
        SELECT *, row_number() OVER (PARTITION BY backend_id, pool_name, submitted_by ORDER BY place, since)
               AS of_user
          FROM of_workflow WHERE place <= CASE WHEN batched THEN 1 ELSE %(limit)s END
    ), of_pool AS (
        SELECT *, row_number() OVER (PARTITION BY backend_id, pool_name ORDER BY of_user, since) AS of_pool
          FROM of_user
    ), of_backend AS (
        SELECT *, row_number() OVER (PARTITION BY backend_id ORDER BY of_pool, since) AS of_backend
          FROM of_pool
    )
    SELECT uuid, backend_id FROM of_backend ORDER BY of_backend, since LIMIT %(limit)s
"""  # noqa: S608 -- constants
"""Of the batched groups of a workflow one is enough: whoever takes it moves all of them."""

_NOTE = """
    INSERT INTO pools_sweeprun (singleton, ran_at) VALUES (true, clock_timestamp())
        ON CONFLICT (singleton) DO UPDATE SET ran_at = excluded.ran_at
"""
_OUTLIVED = """
    WITH observed AS MATERIALIZED (
        SELECT group_uuid, max(seen_at) AS seen_at FROM {table} GROUP BY group_uuid)
    SELECT o.group_uuid FROM observed o
      LEFT JOIN LATERAL (SELECT g.uuid, g.released_at FROM workflows_taskgroup g
                          WHERE g.uuid = o.group_uuid OFFSET 0) AS owner ON true
     WHERE owner.released_at < clock_timestamp() - make_interval(secs => %(seconds)s)
        OR (owner.uuid IS NULL AND o.seen_at < clock_timestamp() - make_interval(secs => %(seconds)s))
     LIMIT %(most)s
"""


def due_groups(limit: int = BATCH) -> dict[UUID, int]:
    """Groups that are due and not leased, in turns of their owners, with their backends' keys."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"limit": limit})
        return dict(cursor.fetchall())


def note_sweep() -> None:
    """Record that a sweep ran: beat, broker and a worker are alive."""
    with connection.cursor() as cursor:
        cursor.execute(_NOTE)


def purge_observations() -> int:
    """Delete observations of groups that were released, or removed, long ago. Returns how many groups.

    It begins at the observed rows, which are as many as a cluster has, and not at the groups there ever were.
    """
    values = {"seconds": PURGE_AFTER.total_seconds(), "most": PURGE_BATCH}
    groups: set[UUID] = set()
    with connection.cursor() as cursor:
        for table in ("workflows_observedpod", "workflows_observedobject"):
            cursor.execute(_OUTLIVED.format(table=table), values)
            groups.update(row[0] for row in cursor.fetchall())
    ObservedPod.objects.filter(group_uuid__in=groups).delete()
    ObservedObject.objects.filter(group_uuid__in=groups).delete()
    return len(groups)
