"""Notifying workers that task groups are due, without ever depending on delivery.

The row says when a group is due and a sweep finds it; a message only makes that sooner. So a broker that
does not answer is logged and ignored, and of a great many groups only the first few get a message: the
sweep is as fast for the rest. No message is sent while many wait already: the queue stays short whatever
comes in, and groups left to the sweep are taken in fair turns, which a queue does not do.

A message costs a worker about as much as a small step of a group. So where many groups of one backend are due
at once, a message names several of them: the first as its argument, the others in a header. A few
groups get a message each, so that several threads take them. A group that was notified and is due since gets
none: whoever notified it sent one, or left it to the sweep, and of a crowd that waits for workers each would
get several. For a group that is due by its time alone nobody may have sent one, so it gets one. So does a
group that has been due for ``OVERDUE_SECONDS`` if no sweep has run for as long: beat is away.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import structlog
from celery import current_app
from django.db import connection, transaction
from kombu.exceptions import KombuError

from workflows.metrics import NOTIFICATIONS_DROPPED
from workflows.services import queue

RECONCILE = "workflows.tasks.reconcile_task_group"
MOST_GROUPS = 50
"""For how many groups messages are sent at once."""
FURTHER = "further_groups"
"""The header with the groups of a message but for the first."""
MOST_IN_A_MESSAGE = 8
LEAST_MESSAGES = 4
"""A message names several groups of a backend once that leaves so many messages."""
OVERDUE_SECONDS = 30.0
"""For how long a group may be due, without a sweep, before its next notification sends another message."""

log = structlog.get_logger(__name__)


_MARK = """
    WITH locked AS MATERIALIZED (
        SELECT uuid, backend_id, (lease_until > clock_timestamp()) IS TRUE AS leased,
               (notifications > 0 AND next_reconcile_at <= clock_timestamp()
                AND greatest(next_reconcile_at, (SELECT max(ran_at) FROM pools_sweeprun))
                    > clock_timestamp() - make_interval(secs => %(overdue)s)) IS TRUE AS due
          FROM workflows_taskgroup
         WHERE uuid = ANY(%(groups)s::uuid[]) AND released_at IS NULL ORDER BY uuid FOR NO KEY UPDATE)
    UPDATE workflows_taskgroup AS g
       SET notifications = g.notifications + 1,
           next_reconcile_at = least(g.next_reconcile_at, clock_timestamp())
      FROM locked WHERE g.uuid = locked.uuid
 RETURNING g.uuid, locked.backend_id, locked.leased OR locked.due
"""
"""Groups are locked in one order, so that two crowds that share some cannot block each other."""


def mark_due(group_ids: Iterable[UUID]) -> None:
    """Make groups due at once, and notify workers when the transaction has committed.

    A group under a lease gets no message, since the release of its lease sees the notification and sends one;
    nor does a group that was notified since its last lease and is due, as long as sweeps find it.
    """
    values: dict[str, Any] = {"groups": list(group_ids), "overdue": OVERDUE_SECONDS}
    with connection.cursor() as cursor:
        cursor.execute(_MARK, values)
        marked = cursor.fetchall()
    notify_on_commit([(group, backend) for group, backend, is_known in sorted(marked) if not is_known])


def notify_on_commit(groups: Iterable[tuple[UUID, int]], *, most: int = MOST_GROUPS) -> None:
    """Send messages for groups that are due already, after the commit; for no more than ``most`` of them.

    Each comes with the key of its backend.
    """
    messages = _messages(list(groups)[:most])
    transaction.on_commit(lambda: _send(messages), robust=True)


def _messages(groups: Sequence[tuple[UUID, int]]) -> list[list[UUID]]:
    """The groups of each message, all of one backend."""
    by_backend: defaultdict[int, list[UUID]] = defaultdict(list)
    for group, backend in groups:
        by_backend[backend].append(group)
    messages = []
    for of_one in by_backend.values():
        size = min(MOST_IN_A_MESSAGE, max(1, len(of_one) // LEAST_MESSAGES))
        messages += [of_one[start : start + size] for start in range(0, len(of_one), size)]
    return messages


def _send(messages: Sequence[Sequence[UUID]]) -> None:
    fitting = messages[: queue.room(of_many=len(messages) > LEAST_MESSAGES)] if messages else []
    if left := sum(map(len, messages[len(fitting) :])):
        NOTIFICATIONS_DROPPED.labels("queue_full").inc(left)
    if fitting and queue.is_silent():
        NOTIFICATIONS_DROPPED.labels("broker_away").inc(sum(map(len, fitting)))
        return
    queue.sent(len(fitting))
    try:
        for first, *further in fitting:
            more = {"headers": {FURTHER: [str(group) for group in further]}} if further else {}
            current_app.send_task(RECONCILE, args=[str(first)], retry=False, **more)
    except (KombuError, OSError) as error:
        NOTIFICATIONS_DROPPED.labels("broker_away").inc(sum(map(len, fitting)))
        log.warning("notification_not_sent", groups=sum(map(len, fitting)), error=str(error))
