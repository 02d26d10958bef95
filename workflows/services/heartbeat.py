"""The heartbeat of a worker: by it others see that its process has died, long before its leases run out.

A lease lasts longer than the longest call may take, so a killed worker's groups would wait for most of a
minute. A thread of each worker process renews a row instead; a sweep ends the leases of a worker whose row
ran out, and the records of that worker are refused from then on, should it live.

A write that it sent before may still arrive at a cluster for as long as its lease would have lasted. That
time is kept with the group, and nothing is believed to be gone before it is over. Rejected: a lock of a
session, which is lost with a connection and unknown to a pooler in transaction mode.
"""

import threading
import time
from dataclasses import dataclass
from math import inf
from typing import Final
from uuid import UUID, uuid4

import structlog
from django.db import Error, connection

from cluster.clock import boot_seconds
from web.operation import pulse

HEARTBEAT_SECONDS: Final = 8.0
"""How long a worker counts as alive after its last heartbeat."""

BEAT_SECONDS: Final = 2.0

LONGEST_LEASE: Final = 120.0
"""After which nothing names a worker any more that died."""

_BEAT = """
    INSERT INTO workflows_workerheartbeat (worker, until)
    VALUES (%(worker)s, clock_timestamp() + make_interval(secs => %(seconds)s))
        ON CONFLICT (worker) DO UPDATE SET until = excluded.until
"""
_END = """
    WITH leased AS MATERIALIZED (
        SELECT g.uuid, g.lease_until AS late
          FROM workflows_taskgroup AS g JOIN workflows_workerheartbeat AS dead ON dead.worker = g.lease_worker
         WHERE dead.until < clock_timestamp() AND g.lease_until > clock_timestamp() AND g.released_at IS NULL
           FOR NO KEY UPDATE OF g SKIP LOCKED)
    UPDATE workflows_taskgroup AS g SET late_writes_until = greatest(g.late_writes_until, leased.late),
           lease_until = clock_timestamp()
      FROM leased WHERE g.uuid = leased.uuid
 RETURNING g.uuid
"""
"""A row that somebody holds locked is left to the next sweep, or to the end of its lease."""

_FORGET = """
    DELETE FROM workflows_workerheartbeat
     WHERE until < clock_timestamp() - make_interval(secs => %(seconds)s)
"""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Heartbeat:
    """Of this process; without a worker it has none, and its leases end by their time alone."""

    worker: UUID | None = None
    ends: float = inf
    """Until when others see it, of its own clock."""

    steady_since: float | None = None
    """Since when it has missed none; None: it has not begun."""

    def left(self) -> float:
        return self.ends - boot_seconds()

    def beat(self) -> None:
        """Tell the database that this process lives. Raises DatabaseError."""
        worker, began = self.worker or uuid4(), boot_seconds()
        with connection.cursor() as cursor:
            cursor.execute(_BEAT, {"worker": worker, "seconds": HEARTBEAT_SECONDS})
        if self.steady_since is None or began > self.ends:
            self.steady_since = began
        self.worker, self.ends = worker, began + HEARTBEAT_SECONDS


OWN = Heartbeat()
_LOOP = pulse.Loop("the heartbeat")


def keep_beating() -> None:
    """Beat from a thread of its own for as long as this process lives."""
    pulse.watch(_LOOP.fault)
    threading.Thread(target=_beat_for_ever, name="heartbeat of this worker", daemon=True).start()


def _beat_for_ever() -> None:
    while True:
        _LOOP.turn()
        try:
            OWN.beat()
        except Error as error:
            log.warning("heartbeat_missed", error=str(error).strip())
            connection.close()
        time.sleep(BEAT_SECONDS)


def end_leases_of_the_dead() -> int:
    """End the leases of workers whose heartbeat stopped; returns how many groups are due by that.

    Nothing is ended by a process that has not beaten for long enough itself: after a time without the
    database all heartbeats are old, and none of the workers has died.
    """
    if OWN.steady_since is None or boot_seconds() - OWN.steady_since < HEARTBEAT_SECONDS:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_END)
        ended: int = cursor.rowcount
        cursor.execute(_FORGET, {"seconds": LONGEST_LEASE})
    if ended:
        log.warning("leases_of_dead_workers_ended", groups=ended)
    return ended
