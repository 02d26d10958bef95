"""Writing a condition of groups from outside their reconciles, with its events, in one transaction.

The rows are locked as ``services.record`` locks them, and no lease is needed where nothing else writes this
kind of condition. A group that waits is made due, so that its explanation says the same at once.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction

from pools import conditions
from pools.conditions import Condition
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import Event, TaskGroup
from workflows.services import timeline
from workflows.services.notify import mark_due
from workflows.services.steps import database_now

_COLUMNS = ("uuid", "name", "workflow_id", "status", "progress", "generation", "conditions")

Turned = Callable[[TaskGroup, datetime], Condition | None]
"""The condition of a locked group, None where the recorded one stays."""

EventOf = Callable[[TaskGroup, Condition, str, datetime], Event | None]
"""The event of a written condition, by the status before it ("False" where there was none)."""


def write(groups: Iterable[UUID], *, turned: Turned, event_of: EventOf, unknown_is_due: bool = False) -> int:
    """Write the conditions of these groups that turn; returns how many did.

    ``unknown_is_due``: one that turns Unknown makes its group due, too.
    """
    with transaction.atomic():
        rows = TaskGroup.objects.select_for_update(no_key=True).filter(pk__in=groups).order_by("pk")
        now = database_now()
        changed: list[TaskGroup] = []
        events: list[Event] = []
        due: list[UUID] = []
        for group in rows.only(*_COLUMNS):
            condition = turned(group, now)
            if condition is None:
                continue
            before = conditions.status_of(group.conditions, condition.type) or "False"
            group.conditions = conditions.upsert(
                group.conditions, [condition], now=now, observed_revision=group.generation
            )
            changed.append(group)
            if event := event_of(group, condition, before, now):
                events.append(event)
            is_news = condition.status != "Unknown" or unknown_is_due
            if is_news and group.present_status != TaskStatus.RUNNING:
                due.append(group.pk)
        TaskGroup.objects.bulk_update(changed, ["conditions"])
        timeline.add(events)
        mark_due(due)
    return len(changed)
