"""Replacements of tasks alone whose tries before were in vain: each begins later than the one before.

The others of their group run on, so no attempt ends by it. From the third in a row on the group has the
condition that attempts in vain have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pools import conditions
from pools.conditions import Condition
from pools.values.recovery import Loss
from scheduling.sentences import as_sentence
from web.times import naive_utc
from workflows.reconcile.view.group_view import GroupView, TaskView, replaced_in_vain


@dataclass(frozen=True, slots=True)
class ReplacementPause:
    """Tasks, by row, whose next tries wait ``until`` a time; ``condition`` is the group's if it is new."""

    tasks: frozenset[int]
    until: datetime
    sentence: str
    condition: Condition | None


def replacement_pause(view: GroupView, tasks: Sequence[TaskView]) -> ReplacementPause | None:
    """The pause of those of these tasks whose last tries were in vain; None if all may begin."""
    earlier = replaced_in_vain(view.row, tasks)
    pauses: dict[int, datetime] = {}
    for task in tasks:
        number = earlier[task.pk].in_vain.number if task.pk in earlier else 0
        seconds = view.placement.recovery.pause(Loss.FAILED, earlier=number - 2)
        until = (task.processing_start_time or view.now) + timedelta(seconds=seconds)
        if seconds and view.now < until:
            pauses[task.pk] = until
    if not pauses:
        return None
    first = min(pauses, key=lambda pk: pauses[pk])
    name = next(task.name for task in tasks if task.pk == first)
    in_vain, reason = earlier[first].in_vain, as_sentence(earlier[first].reason)
    time = naive_utc(pauses[first], precision="seconds")
    condition = in_vain.condition(f"Task {name}: {reason}")
    is_new = condition is not None and conditions.differs(view.row.conditions, condition)
    return ReplacementPause(
        tasks=frozenset(pauses),
        until=pauses[first],
        sentence=f"Task {name} is tried again at {time} UTC, after a pause. {in_vain.sentence} {reason}",
        condition=condition if is_new else None,
    )
