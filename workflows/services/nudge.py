"""Telling workers that task groups are due, without ever depending on being heard.

The row says when a group is due and a sweep finds it; a message only makes that sooner. So a broker that
does not answer is logged and forgotten, and of a great many groups only the first few are told of: the
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

from workflows.metrics import NUDGES_DROPPED
from workflows.models import TaskGroup
from workflows.services import queue

RECONCILE = "workflows.tasks.reconcile_task_group"
MOST_MESSAGES = 50

log = structlog.get_logger(__name__)


def mark_due(group_ids: Iterable[UUID]) -> None:
    """Make groups due at once, and say so when the transaction has committed.

    Nobody is told of a group that somebody looks at: who gives it back finds it nudged and tells.
    """
    ids = list(group_ids)
    with transaction.atomic():  # locked in one order, so two crowds that share groups cannot block each other
        rows = TaskGroup.objects.select_for_update(no_key=True).filter(pk__in=ids, released_at=None)
        held = Q(lease_until__gt=Now())
        found = dict(rows.annotate(held=held).order_by("pk").values_list("pk", "held"))
        TaskGroup.objects.filter(pk__in=found).update(nudges=F("nudges") + 1, next_reconcile_at=Now())
        nudge_on_commit([pk for pk, is_held in found.items() if not is_held])


def nudge_on_commit(group_ids: Iterable[UUID], *, most: int = MOST_MESSAGES) -> None:
    """Send the messages for groups that are due already, after the commit; for no more than ``most``."""
    ids = list(group_ids)[:most]
    transaction.on_commit(lambda: _send(ids), robust=True)


def _send(ids: list[UUID]) -> None:
    fitting = ids[: queue.room()] if ids else []
    if left := len(ids) - len(fitting):
        NUDGES_DROPPED.labels("queue_full").inc(left)
    if fitting and queue.is_silent():
        NUDGES_DROPPED.labels("broker_away").inc(len(fitting))
        return
    queue.sent(len(fitting))
    try:
        for group_id in fitting:
            current_app.send_task(RECONCILE, args=[str(group_id)], retry=False)
    except (KombuError, OSError) as error:
        NUDGES_DROPPED.labels("broker_away").inc(len(fitting))
        log.warning("nudge_not_sent", groups=len(fitting), error=str(error))
