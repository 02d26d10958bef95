"""Timelines against the order of statuses, and against the statuses that the rows have now.

They are read in portions of groups: a timeline is longer than everything else of its group together.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from uuid import UUID

from doctor.facts import Backwards
from doctor.rules.rows import LIVE
from workflows.lifecycle.statuses import LIVE_ORDER, TaskStatus
from workflows.models import Event, Task, TaskGroup
from workflows.services.timeline import SOURCE

PORTION = 100
_ORDER = [str(status) for status in LIVE_ORDER]

Subject = tuple[UUID, str, int | None]
"""A group, a task of it by name, and which try; an empty name and None stand for the group itself."""


def backwards(groups: Sequence[UUID]) -> tuple[Backwards, ...]:
    """Find the tries and groups whose steps, or whose last step and row, go against the order."""
    return tuple(
        steps
        for start in range(0, len(groups), PORTION)
        for steps in _of_portion(groups[start : start + PORTION])
    )


def _of_portion(groups: Sequence[UUID]) -> Iterator[Backwards]:
    now, steps = _statuses(groups), _steps(groups)
    names = {
        pk: (name, workflow)
        for pk, name, workflow in TaskGroup.objects.filter(pk__in=groups).values_list(
            "pk", "name", "workflow__name"
        )
    }
    for (group, task, retry), changes in steps.items():
        statuses = [status for status, _ in changes]
        if now.get((group, task, retry), statuses[-1]) != statuses[-1]:
            statuses.append(now[group, task, retry])
        if not forwards(statuses):
            name, workflow = names[group]
            label = f"group {name}, task {task}, try {retry}" if task else f"group {name}"
            yield Backwards(workflow=workflow, subject=label, steps=tuple(statuses), since=changes[-1][1])


def _statuses(groups: Sequence[UUID]) -> dict[Subject, str]:
    """The statuses in the rows."""
    tries = Task.objects.filter(group__in=groups).values_list("group_id", "name", "retry_id", "status")
    statuses: dict[Subject, str] = {(group, name, retry): status for group, name, retry, status in tries}
    for pk, status in TaskGroup.objects.filter(pk__in=groups).values_list("pk", "status"):
        statuses[pk, "", None] = status
    return statuses


def _steps(groups: Sequence[UUID]) -> dict[Subject, list[tuple[str, datetime]]]:
    """The recorded changes of status, oldest first."""
    events = Event.objects.filter(group__in=groups, source=SOURCE, reason__in=list(TaskStatus))
    columns = ("group_id", "task_name", "retry_id", "reason", "time")
    changes: dict[Subject, list[tuple[str, datetime]]] = defaultdict(list)
    for group, task, retry, reason, time in events.order_by("id").values_list(*columns):
        if group is not None:
            changes[group, task, retry].append((reason, time))
    return changes


def forwards(statuses: Sequence[str]) -> bool:
    """Whether each status may follow the one before: later in the order, or an end that nothing follows."""
    for before, after in pairwise(statuses):
        if before not in LIVE:
            return False
        if after in LIVE and _ORDER.index(after) <= _ORDER.index(before):
            return False
    return True
