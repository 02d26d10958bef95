"""The right to write what is seen of a cluster: a lease in a row, on the database's clock.

Two observers run at the same time in an upgrade or a failover, and the older view must never win. So one
follows a cluster, and another one follows it once the lease is over: at once after a proper end, ``SECONDS``
after a death. Each transaction that writes begins with ``hold``, which compares the token, renews the lease
with another token and keeps the row locked until the commit. So a late write of the former holder is refused,
and so is the next one after the database was put back to an earlier moment: the rows that the observer
remembers to have written are no longer there, and it begins anew from the rows.

A lease that is over and that nobody took is still its holder's: a database that was away for a while costs
no new list. Rejected: a lock of the session, which is lost with a connection and unknown to a pooler in
transaction mode.
"""

import os
import socket
import uuid
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import connection, transaction

SECONDS = 8.0
"""How long after the death of its observer a cluster can be taken."""

TAKE_SECONDS = 1.0
"""How often an observer that stands by tries."""

_TAKE = """
    INSERT INTO pools_clusterlease AS lease (cluster_id, observer, token, until)
    VALUES (%(uid)s, %(name)s, %(token)s, clock_timestamp() + make_interval(secs => %(seconds)s))
        ON CONFLICT (cluster_id) DO UPDATE
       SET observer = excluded.observer, token = excluded.token, until = excluded.until
     WHERE lease.until < clock_timestamp()
"""
_HOLD = f"""
    UPDATE pools_clusterlease
       SET token = %(next)s, until = clock_timestamp() + make_interval(secs => %(seconds)s)
     WHERE cluster_id = %(uid)s AND token = %(token)s
 RETURNING set_config('idle_in_transaction_session_timeout', '{SECONDS:.0f}s', true)
"""  # noqa: S608 -- a constant
"""A holder that is frozen inside a transaction must not keep the row locked."""
_RELEASE = """
    DELETE FROM pools_clusterlease WHERE cluster_id = %(uid)s AND token = %(token)s
"""


class ObserverLeaseLost(Exception):
    """Another observer follows the cluster, or the database was put back."""


@dataclass(slots=True)
class ObserverLease:
    """The right to write about a cluster until another observer takes it; ``token`` is the newest."""

    cluster: str
    token: UUID


def holder_name() -> str:
    """This process, as people see it."""
    return f"{socket.gethostname()}:{os.getpid()}"[:128]


def take(cluster: str) -> ObserverLease | None:
    """Take a cluster that no observer follows; None if one does."""
    lease = ObserverLease(cluster, uuid.uuid4())
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, _values(lease) | {"name": holder_name()})
        return lease if cursor.rowcount == 1 else None


def hold(lease: ObserverLease) -> None:
    """Renew the lease and lock it until the end of the transaction. Raises ObserverLeaseLost.

    A commit whose answer was lost may have renewed it; then it counts as lost and is taken again.
    """
    token = uuid.uuid4()
    with connection.cursor() as cursor:
        cursor.execute(_HOLD, _values(lease) | {"next": token})
        if cursor.rowcount != 1:
            raise ObserverLeaseLost(f"cluster {lease.cluster}")
    transaction.on_commit(partial(setattr, lease, "token", token))


def release(lease: ObserverLease) -> None:
    """Let another observer follow the cluster at once."""
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, _values(lease))


def _values(lease: ObserverLease) -> dict[str, UUID | str | float]:
    return {"uid": lease.cluster, "token": lease.token, "seconds": SECONDS}
