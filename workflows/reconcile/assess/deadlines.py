"""When a group ends unless it moves on: its timeouts, read from its rows alone. Pure.

A group that may be tried again has its queue timeout for each attempt, from the moment the attempt was
decided on and its pause is over, so a wait for the end of the attempt before counts to it. Its execution
timeout counts only time in which all its tasks had nodes, over all attempts; while a task of a running group
has none, the rest of it bounds that wait, because its peers hold theirs.
"""

from datetime import datetime, timedelta

from scheduling.sentences import in_seconds
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.view.group_view import GroupView, TaskView


def timed_out(view: GroupView) -> tuple[TaskStatus, str] | None:
    """The status and message of a timeout that has passed, if any."""
    for status, message, deadline in _deadlines(view):
        if deadline <= view.now:
            return status, message
    return None


def next_deadline(view: GroupView) -> datetime | None:
    """The next moment at which the group ends unless it moves on.

    Deadlines of starts that passed are left out: ``follow`` has just decided on them by the pods.
    """
    limit = start_timeout(view)
    starting = (task for task in view.tasks if task.status == TaskStatus.INITIALIZING)
    ends = (start_deadline(task, limit) for task in starting)
    starts = (deadline for deadline in ends if deadline and deadline > view.now)
    return min((*(deadline for _, _, deadline in _deadlines(view)), *starts), default=None)


def start_timeout(view: GroupView) -> timedelta:
    return timedelta(seconds=view.placement.start_timeout)


def start_deadline(task: TaskView, limit: timedelta) -> datetime | None:
    """When a task that is INITIALIZING ends, however its pod reads."""
    if task.status != TaskStatus.INITIALIZING or task.initializing_start_time is None:
        return None
    return task.initializing_start_time + limit


def _deadlines(view: GroupView) -> list[tuple[TaskStatus, str, datetime]]:
    row, placement = view.row, view.placement
    limit = in_seconds(placement.queue_timeout)
    if view.status == TaskStatus.PROCESSING and (since := _queued_since(view, row.touched_at)):
        # no gang stays created in part for good
        message = f"It could not be created within its queue timeout of {limit}. {row.waiting_reason}"
        return [_queue_deadline(view, since, message.strip())]
    if view.status == TaskStatus.SCHEDULING and (since := _queued_since(view, row.scheduling_start_time)):
        return [_queue_deadline(view, since, f"It was not placed within its queue timeout of {limit}.")]
    begun = row.initializing_start_time or row.attempt_began_at
    if view.status == TaskStatus.INITIALIZING and begun and not _has_starting(view):
        times = [task.scheduling_start_time or task.processing_start_time for task in view.tasks]
        message = f"No task that is tried again was placed within its queue timeout of {limit}."
        return [_queue_deadline(view, max((begun, *filter(None, times))), message)]
    return _run_deadlines(view) if view.status == TaskStatus.RUNNING else []


def _run_deadlines(view: GroupView) -> list[tuple[TaskStatus, str, datetime]]:
    """The end of a run, or of the wait of its tasks without nodes while its clock stands."""
    limit = f"execution timeout of {in_seconds(view.placement.exec_timeout)}"
    if until := _end_of_run(view):
        return [(TaskStatus.FAILED_EXEC_TIMEOUT, f"It ran longer than its {limit}.", until)]
    since = [t.scheduling_start_time or t.processing_start_time for t in view.live if not t.node_name]
    begun = min(filter(None, since), default=None)
    if begun is None:
        return []
    message = f"It ran, and a task waited for a node, for longer than its {limit}."
    rest = timedelta(seconds=max(0.0, view.placement.exec_timeout - view.row.ran_seconds))
    return [(TaskStatus.FAILED_EXEC_TIMEOUT, message, begun + rest)]


def _queued_since(view: GroupView, first: datetime | None) -> datetime | None:
    """Since when the present attempt is queued; ``first`` is the time of the first attempt."""
    row = view.row
    if row.attempt_began_at is None:
        return first
    return max(row.attempt_began_at, row.attempt_not_before or row.attempt_began_at)


def _queue_deadline(view: GroupView, since: datetime, message: str) -> tuple[TaskStatus, str, datetime]:
    return TaskStatus.FAILED_QUEUE_TIMEOUT, message, since + timedelta(seconds=view.placement.queue_timeout)


def _end_of_run(view: GroupView) -> datetime | None:
    """When its execution timeout is over; None while its clock stands."""
    row, limit = view.row, timedelta(seconds=view.placement.exec_timeout)
    if not view.placement.attempts:
        return row.start_time + limit if row.start_time else None
    return row.ran_since + limit - timedelta(seconds=row.ran_seconds) if row.ran_since else None


def _has_starting(view: GroupView) -> bool:
    """Whether a task is starting on a node; its own deadline then ends the group's wait."""
    return any(task.status == TaskStatus.INITIALIZING for task in view.tasks)
