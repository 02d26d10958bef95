"""The right to act for a task group: a lease in its row, on the database's clock.

A cluster call cannot be made under a lock, and two workers must never plan from two views of one group.
So a worker leases the group for a while by one conditional UPDATE, and every write of a result names the
lease's token; the writes of a worker that was too slow are refused, and another worker does its work again.

A worker measures the rest of its lease with its own clock since boot, from before the UPDATE was sent, so it
never overestimates it, whatever its wall clock shows and however long its machine was suspended. A virtual
machine that its host paused has no such clock, so each portion of many writes begins with the database's.
The leases of a worker whose process died end with its heartbeat (``heartbeat``).
Rejected: advisory locks (lost with a connection, unknown to PgBouncer) and SELECT FOR UPDATE across calls.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

from cluster.clock import boot_seconds
from pools import selectors
from pools.models import Backend
from web.database.model_rows import Columns
from workflows.services import heartbeat

Clock = Callable[[], float]

LEASE_SECONDS: Final = 45.0
"""How long a worker owns a group: more than the longest call may take."""

_BACKEND = Columns(Backend)
_TAKE = f"""
    WITH taken AS (
        UPDATE workflows_taskgroup AS g
           SET lease_token = %(token)s, lease_worker = %(worker)s, notifications = 0,
               lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
          FROM workflows_workflow AS w
         WHERE g.uuid = %(group)s AND g.released_at IS NULL AND g.next_reconcile_at <= clock_timestamp()
           AND (g.lease_until IS NULL OR g.lease_until < clock_timestamp()) AND w.uuid = g.workflow_id
     RETURNING g.failures, g.backend_id, g.name AS task_group, w.name AS workflow, w.request_id)
    SELECT {_BACKEND.sql("b")}, taken.failures, taken.task_group, taken.workflow, taken.request_id
      FROM taken JOIN pools_backend AS b ON b.id = taken.backend_id
"""  # noqa: S608 -- names of columns
_EXTEND = """
    UPDATE workflows_taskgroup SET lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
     WHERE uuid = %(group)s AND lease_token = %(token)s AND lease_until > clock_timestamp()
"""
_RELEASE = """
    UPDATE workflows_taskgroup
       SET lease_token = NULL, lease_worker = NULL, lease_until = NULL, failures = %(failures)s,
           next_reconcile_at = CASE
             WHEN released_at IS NOT NULL THEN NULL
             WHEN notifications > 0 THEN clock_timestamp()
             WHEN %(at)s::timestamptz IS NOT NULL THEN %(at)s
             WHEN %(seconds)s::float8 IS NOT NULL THEN clock_timestamp() + make_interval(secs => %(seconds)s)
           END
     WHERE uuid = %(group)s AND lease_token = %(token)s
 RETURNING next_reconcile_at <= clock_timestamp()
"""


class LeaseLost(Exception):
    """The lease ended, or another worker has it: a plan that was made under it must not go on."""


@dataclass(slots=True)
class Lease:
    """A group that this worker may act for."""

    group_id: UUID
    token: UUID
    failures: int
    backend: Backend

    ends: float
    """Until when, of its own clock."""

    clock: Clock = field(default=boot_seconds)

    acts: int = 0
    """How much was done under it: records of changes, and writes to the cluster."""

    names: Mapping[str, str] = field(default_factory=dict)
    """For log lines: the group, its workflow, and the request that submitted it."""

    def left(self) -> float:
        """Seconds that are left at least."""
        return self.ends - self.clock()


def take_lease(group_id: UUID, *, clock: Clock = boot_seconds) -> Lease | None:
    """Lease a due group; None if it is not due, is released, or has a lease."""
    token, began = uuid.uuid4(), clock()
    values: dict[str, Any] = {
        "token": token,
        "worker": heartbeat.OWN.worker,
        "seconds": LEASE_SECONDS,
        "group": group_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        row = cursor.fetchone()
    if row is None:
        return None
    backend, ends = selectors.way_to_cluster(_BACKEND.instance(row)), began + LEASE_SECONDS
    failures, *texts = row[len(_BACKEND) :]
    names = dict(zip(("task_group", "workflow", "request_id"), texts, strict=True))
    return Lease(group_id, token, failures, backend, ends, clock, names=names)


def extend(lease: Lease) -> None:
    """Restart the lease's time. Raises LeaseLost."""
    began = lease.clock()
    values: dict[str, Any] = {
        "token": lease.token,
        "seconds": LEASE_SECONDS,
        "group": lease.group_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_EXTEND, values)
        if cursor.rowcount != 1:
            raise LeaseLost(f"group {lease.group_id}")
    lease.ends = began + LEASE_SECONDS


def release(lease: Lease, *, failures: int, seconds: float | None = None, at: datetime | None = None) -> bool:
    """End the lease, with the group due in ``seconds``, ``at`` that time, or only on notification (neither).

    A group that was notified meanwhile is due at once. Returns whether it is due already. Does nothing if
    another worker has the lease by now.
    """
    values: dict[str, Any] = {
        "group": lease.group_id,
        "token": lease.token,
        "failures": failures,
        "seconds": seconds,
        "at": at,
    }
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, values)
        row = cursor.fetchone()
    return bool(row and row[0])
