"""The attempts of a workflow's groups that were tried again as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pages.workflows.labels import Badge, status_badge
from workflows.group_reads import read_attempts
from workflows.models import Attempt, TaskGroup

MOST_ATTEMPTS = 50
MOST_NODES = 8
_CAUSES = {"preempted": "preempted", "node_lost": "lost a node", "failed": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLine:
    """An attempt that ended and was followed by another one."""

    group: str
    number: int
    badge: Badge
    cause: str
    message: str
    nodes: str
    began_at: datetime
    start_time: datetime | None
    end_time: datetime


def attempt_lines(groups: Sequence[TaskGroup]) -> tuple[AttemptLine, ...]:
    """The last attempts of all groups, the newest first. A query if any group was tried again, else none."""
    again = [group for group in groups if group.attempt_number > 1]
    read_attempts(again, most=MOST_ATTEMPTS)
    ended = [(group, attempt) for group in again for attempt in group.attempts.all()]
    ended.sort(key=_end, reverse=True)
    return tuple(_line(group, attempt) for group, attempt in ended[:MOST_ATTEMPTS])


def _end(entry: tuple[TaskGroup, Attempt]) -> datetime:
    return entry[1].end_time


def _line(group: TaskGroup, attempt: Attempt) -> AttemptLine:
    more = f" and {len(attempt.nodes) - MOST_NODES} more" if len(attempt.nodes) > MOST_NODES else ""
    return AttemptLine(
        group=group.name,
        number=attempt.number,
        badge=status_badge(attempt.status),
        cause=_CAUSES.get(attempt.loss, attempt.loss),
        message=attempt.message,
        nodes=", ".join(attempt.nodes[:MOST_NODES]) + more,
        began_at=attempt.began_at,
        start_time=attempt.start_time,
        end_time=attempt.end_time,
    )
