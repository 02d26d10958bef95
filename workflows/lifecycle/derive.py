"""How statuses follow from each other: a group's from its tasks', a workflow's from its groups'.

OSMO's rules. The lead of a group decides: when it has finished, its siblings take its status (plain FAILED
if it failed). A sibling that fails ends the group only if ``ignore_nonlead_status`` is off. Pure.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workflows.lifecycle.statuses import LIVE_ORDER, TERMINAL, WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus

_CAUSES = (
    TaskStatus.FAILED_UPSTREAM,
    TaskStatus.FAILED_SERVER_ERROR,
    TaskStatus.FAILED_PREEMPTED,
    TaskStatus.FAILED_EVICTED,
)
_FIRST_OF_WORKFLOW = (
    TaskStatus.FAILED_CANCELED,
    TaskStatus.FAILED_SERVER_ERROR,
    TaskStatus.FAILED_EXEC_TIMEOUT,
    TaskStatus.FAILED_QUEUE_TIMEOUT,
)


class LatestTry(NamedTuple):
    """The latest try of a task."""

    status: str
    lead: bool
    placed: bool = True  # whether it ever had a node; a try that ended without one does not count as running


def ends_siblings(members: Sequence[LatestTry], *, ignore_nonlead_status: bool) -> TaskStatus | None:
    """The status that unfinished tasks of a group take now, or None while it goes on."""
    for member in members:
        if member.lead and member.status in TERMINAL:
            done = member.status == TaskStatus.COMPLETED
            return TaskStatus.COMPLETED if done else TaskStatus.FAILED
    if not ignore_nonlead_status and any(_failed(member.status) for member in members):
        return TaskStatus.FAILED
    return None


def group_status(members: Sequence[LatestTry], *, ignore_nonlead_status: bool) -> TaskStatus:
    """A group's status from the latest try of each of its tasks."""
    if any(member.status not in TERMINAL for member in members):
        return _live(members)
    failed = {TaskStatus(m.status) for m in members if _failed(m.status)}
    deciding = [m for m in members if m.lead] if ignore_nonlead_status else list(members)
    decided = {TaskStatus(m.status) for m in (deciding or members) if _failed(m.status)}
    for cause in _CAUSES:
        everywhere = cause != TaskStatus.FAILED_EVICTED
        if cause in (failed if everywhere else decided):
            return cause
    return _shared_status(decided - {TaskStatus.FAILED}) or (
        TaskStatus.FAILED if decided else TaskStatus.COMPLETED
    )


def _live(members: Sequence[LatestTry]) -> TaskStatus:
    if any(m.status == TaskStatus.RUNNING or (m.status in TERMINAL and m.placed) for m in members):
        return TaskStatus.RUNNING
    return max((TaskStatus(m.status) for m in members if m.status not in TERMINAL), key=LIVE_ORDER.index)


def _shared_status(statuses: set[TaskStatus]) -> TaskStatus | None:
    """The status that all share, or plain FAILED; None for no status."""
    if not statuses:
        return None
    return next(iter(statuses)) if len(statuses) == 1 else TaskStatus.FAILED


def _failed(status: str) -> bool:
    return status in TERMINAL and status not in (TaskStatus.COMPLETED, TaskStatus.RESCHEDULED)


def workflow_status(groups: Iterable[str]) -> WorkflowStatus:
    """A workflow's status from its groups'."""
    statuses = [TaskStatus(status) for status in groups]
    if any(status not in TERMINAL for status in statuses):
        return WorkflowStatus.RUNNING if TaskStatus.RUNNING in statuses else WorkflowStatus.PENDING
    for first in _FIRST_OF_WORKFLOW:
        if first in statuses:
            return WorkflowStatus(first)
    failed = {status for status in statuses if _failed(status)} - {TaskStatus.FAILED_UPSTREAM}
    reason = _shared_status(failed)
    if reason is None:
        return (
            WorkflowStatus.COMPLETED if TaskStatus.FAILED_UPSTREAM not in statuses else WorkflowStatus.FAILED
        )
    return WorkflowStatus(reason) if reason in {str(s) for s in WORKFLOW_TERMINAL} else WorkflowStatus.FAILED
