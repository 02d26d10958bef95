"""Statuses of tasks, task groups and workflows, and the only moves between them.

The names are OSMO's. A terminal status never changes, and no status goes backwards: the transition
tables below say so, ``services.record`` enforces them, and a test walks every path.
"""

from collections.abc import Iterable

from django.db import models


class TaskStatus(models.TextChoices):
    """Status of a task or of a task group (a group is never RESCHEDULED)."""

    SUBMITTING = "SUBMITTING"
    WAITING = "WAITING"
    PROCESSING = "PROCESSING"
    SCHEDULING = "SCHEDULING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    RESCHEDULED = "RESCHEDULED"
    FAILED = "FAILED"
    FAILED_CANCELED = "FAILED_CANCELED"
    FAILED_SERVER_ERROR = "FAILED_SERVER_ERROR"
    FAILED_BACKEND_ERROR = "FAILED_BACKEND_ERROR"
    FAILED_EXEC_TIMEOUT = "FAILED_EXEC_TIMEOUT"
    FAILED_QUEUE_TIMEOUT = "FAILED_QUEUE_TIMEOUT"
    FAILED_IMAGE_PULL = "FAILED_IMAGE_PULL"
    FAILED_UPSTREAM = "FAILED_UPSTREAM"
    FAILED_EVICTED = "FAILED_EVICTED"
    FAILED_START_ERROR = "FAILED_START_ERROR"
    FAILED_START_TIMEOUT = "FAILED_START_TIMEOUT"
    FAILED_PREEMPTED = "FAILED_PREEMPTED"


class WorkflowStatus(models.TextChoices):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    FAILED_SUBMISSION = "FAILED_SUBMISSION"
    FAILED_CANCELED = "FAILED_CANCELED"
    FAILED_SERVER_ERROR = "FAILED_SERVER_ERROR"
    FAILED_BACKEND_ERROR = "FAILED_BACKEND_ERROR"
    FAILED_EXEC_TIMEOUT = "FAILED_EXEC_TIMEOUT"
    FAILED_QUEUE_TIMEOUT = "FAILED_QUEUE_TIMEOUT"
    FAILED_IMAGE_PULL = "FAILED_IMAGE_PULL"
    FAILED_EVICTED = "FAILED_EVICTED"
    FAILED_START_ERROR = "FAILED_START_ERROR"
    FAILED_START_TIMEOUT = "FAILED_START_TIMEOUT"
    FAILED_PREEMPTED = "FAILED_PREEMPTED"


LIVE_ORDER = (
    TaskStatus.SUBMITTING,
    TaskStatus.WAITING,
    TaskStatus.PROCESSING,
    TaskStatus.SCHEDULING,
    TaskStatus.INITIALIZING,
    TaskStatus.RUNNING,
)
"""Live statuses from first to last: a task or group moves right, or to a terminal status."""

BACKLOG = LIVE_ORDER[: LIVE_ORDER.index(TaskStatus.SCHEDULING)]
"""Live statuses of a group whose objects are not all in its cluster yet."""

CREATED = LIVE_ORDER[len(BACKLOG) :]
"""Live statuses of a group whose objects are all in its cluster."""

TERMINAL = frozenset(set(TaskStatus) - set(LIVE_ORDER))
FAILURES = tuple(status for status in TaskStatus if status.startswith("FAILED"))
WORKFLOW_LIVE = (WorkflowStatus.PENDING, WorkflowStatus.RUNNING, WorkflowStatus.WAITING)
"""What queries name: an index finds rows that have a status, never those that have none of some."""

WORKFLOW_TERMINAL = frozenset(set(WorkflowStatus) - set(WORKFLOW_LIVE))


def quoted(statuses: Iterable[str]) -> str:
    """The statuses as literals of an SQL list, so that a partial index on them is used."""
    return ", ".join(f"'{status}'" for status in statuses)


def may_move(before: str, after: str) -> bool:
    """Whether a task or group may go from one status to another (staying is no move)."""
    if before in TERMINAL:
        return False
    if after in TERMINAL:
        return True
    order = LIVE_ORDER.index
    return order(TaskStatus(after)) > order(TaskStatus(before))


def workflow_may_move(before: str, after: str) -> bool:
    """Whether a workflow may go from one status to another (staying is no move).

    A workflow whose first group has ended and whose next one has not begun stays RUNNING.
    """
    if before in WORKFLOW_TERMINAL or before == after:
        return False
    return not (before == WorkflowStatus.RUNNING and after == WorkflowStatus.PENDING)
