"""Notifying workers that task groups are due, without ever depending on delivery.

The row says when a group is due and a sweep finds it; a message only makes that sooner. So a broker that
does not answer is logged and ignored, and of a great many groups only the first few get a message: the
sweep is as fast for the rest. No message is sent while many wait already: the queue stays short whatever
comes in, and what is left to the sweep is taken in fair turns, which a queue does not do.
"""

from collections.abc import Iterable
from uuid import UUID

import structlog
from celery import current_app
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from kombu.exceptions import KombuError

from workflows.metrics import NOTIFICATIONS_DROPPED
from workflows.models import TaskGroup
from workflows.services import queue

RECONCILE = "workflows.tasks.reconcile_task_group"
MOST_MESSAGES = 50

log = structlog.get_logger(__name__)


def mark_due(group_ids: Iterable[UUID]) -> None:
    """Make groups due at once, and notify workers when the transaction has committed.

    A group under a lease gets no message: the release of its lease sees the notification and sends one.
    """
    ids = list(group_ids)
    with transaction.atomic():  # locked in one order, so two crowds that share groups cannot block each other
        rows = TaskGroup.objects.select_for_update(no_key=True).filter(pk__in=ids, released_at=None)
        leased = dict(
            rows.annotate(leased=Q(lease_until__gt=Now())).order_by("pk").values_list("pk", "leased")
        )
        TaskGroup.objects.filter(pk__in=leased).update(
            notifications=F("notifications") + 1, next_reconcile_at=Now()
        )
        notify_on_commit([pk for pk, is_leased in leased.items() if not is_leased])


def notify_on_commit(group_ids: Iterable[UUID], *, most: int = MOST_MESSAGES) -> None:
    """Send the messages for groups that are due already, after the commit; for no more than ``most``."""
    ids = list(group_ids)[:most]
    transaction.on_commit(lambda: _send(ids), robust=True)


def _send(ids: list[UUID]) -> None:
    fitting = ids[: queue.room()] if ids else []
    if left := len(ids) - len(fitting):
        NOTIFICATIONS_DROPPED.labels("queue_full").inc(left)
    if fitting and queue.is_silent():
        NOTIFICATIONS_DROPPED.labels("broker_away").inc(len(fitting))
        return
    queue.sent(len(fitting))
    try:
        for group_id in fitting:
            current_app.send_task(RECONCILE, args=[str(group_id)], retry=False)
    except (KombuError, OSError) as error:
        NOTIFICATIONS_DROPPED.labels("broker_away").inc(len(fitting))
        log.warning("notification_not_sent", groups=len(fitting), error=str(error))
