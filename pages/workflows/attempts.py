"""The attempts of a workflow's groups that were tried again as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pages.workflows.labels import Badge, status_badge
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
    """The last attempts of these groups, the newest first. A query if any was tried again, else none."""
    names = {group.pk: group.name for group in groups if group.attempt_number > 1}
    if not names:
        return ()
    ended = Attempt.objects.filter(group__in=names).order_by("-end_time", "-pk")[:MOST_ATTEMPTS]
    return tuple(_line(names[attempt.group_id], attempt) for attempt in ended)


def _line(group: str, attempt: Attempt) -> AttemptLine:
    more = f" and {len(attempt.nodes) - MOST_NODES} more" if len(attempt.nodes) > MOST_NODES else ""
    return AttemptLine(
        group=group,
        number=attempt.number,
        badge=status_badge(attempt.status),
        cause=_CAUSES.get(attempt.loss, attempt.loss),
        message=attempt.message,
        nodes=", ".join(attempt.nodes[:MOST_NODES]) + more,
        began_at=attempt.began_at,
        start_time=attempt.start_time,
        end_time=attempt.end_time,
    )
