"""How a workflow stands, in one sentence, from rows that are at hand anyway: nothing is computed or asked.

What can be done about comes first: a group that waits for another one is told only where all do. Pure but
for the attributes of rows.
"""

from collections.abc import Sequence
from datetime import datetime

from scheduling.sentences import agree, count_of
from workflows.explain.reasons import Why
from workflows.lifecycle import patience
from workflows.lifecycle.statuses import TERMINAL, WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus
from workflows.models import TaskGroup


def group_sentence(group: TaskGroup, *, now: datetime) -> str:
    """Why a group waits as last found, and for how long it is held to what it prefers; or nothing."""
    held = patience.patience_sentence(group.constraints, since=group.unplaced_since, now=now)
    return " ".join(filter(None, (group.waiting_reason, held)))


def workflow_sentence(status: str, groups: Sequence[TaskGroup], *, now: datetime) -> str:
    """Why it waits or failed; of several groups the first that matters."""
    waiting = [
        (group.name, group.waiting_why, group_sentence(group, now=now))
        for group in groups
        if group.waiting_reason and group.status not in TERMINAL
    ]
    failed = [group for group in groups if group.failure_message and group.status != TaskStatus.COMPLETED]
    if status in WORKFLOW_TERMINAL and failed:
        first = min(failed, key=lambda group: group.status == TaskStatus.FAILED_UPSTREAM)
        return f'It is {status}. Group "{first.name}": {first.failure_message}'
    return status_sentence(status, waiting)


def status_sentence(status: str, waiting: Sequence[tuple[str, str, str]]) -> str:
    """The same of groups that wait: name, of what kind, sentence."""
    if not waiting and status == WorkflowStatus.PENDING:
        return (
            "It is PENDING, and no worker has told yet what it waits for. Look again in some seconds; if "
            "this stays, its cluster is slow to answer or the service's workers do not run."
        )
    if not waiting:
        return f"It is {status}; no group of it waits."
    name, _, said = min(waiting, key=lambda one: one[1] == Why.UPSTREAM)
    more = len(waiting) - 1
    rest = f" {count_of(more, 'more group')} {agree(more, 'waits', 'wait')}." if more else ""
    return f'Group "{name}": {said}{rest}'
