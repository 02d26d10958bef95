"""A workflow's status in one sentence, from rows alone: nothing is computed and no cluster is called.

A reason that somebody can act on comes first: a group that waits for another group is named only where all
do. Pure but for the attributes of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.sentences import agree, count_of
from workflows.explain.reasons import Why
from workflows.lifecycle import patience
from workflows.lifecycle.statuses import TERMINAL, WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus
from workflows.models import TaskGroup


@dataclass(frozen=True, slots=True)
class WaitSummary:
    """A group that waits: its name, the kind of its reason, and its sentence."""

    group: str
    why: str
    sentence: str


def group_sentence(group: TaskGroup, *, now: datetime) -> str:
    """Why a group waits, and how long it is still held to its preferences; or nothing."""
    preferences = patience.patience_sentence(group.constraints, since=group.unplaced_since, now=now)
    return " ".join(filter(None, (group.waiting_reason, preferences)))


def workflow_sentence(status: str, groups: Sequence[TaskGroup], *, now: datetime) -> str:
    """Why a workflow waits or failed; of several groups the first one that matters."""
    waits = [
        WaitSummary(group.name, group.waiting_why, group_sentence(group, now=now))
        for group in groups
        if group.waiting_reason and group.status not in TERMINAL
    ]
    failed = [group for group in groups if group.failure_message and group.status != TaskStatus.COMPLETED]
    if status in WORKFLOW_TERMINAL and failed:
        first = min(failed, key=lambda group: group.status == TaskStatus.FAILED_UPSTREAM)
        return f'It is {status}. Group "{first.name}": {first.failure_message}'
    return status_sentence(status, waits)


def status_sentence(status: str, waits: Sequence[WaitSummary]) -> str:
    """The status of a workflow that has not failed, with what its first group waits for."""
    if not waits and status == WorkflowStatus.PENDING:
        return (
            "It is PENDING, and no worker has recorded yet what it waits for. Look again in some seconds; if "
            "this stays, its cluster is slow to answer or the service's workers do not run."
        )
    if not waits:
        return f"It is {status}; no group of it waits."
    first = min(waits, key=lambda wait: wait.why == Why.UPSTREAM)
    others = len(waits) - 1
    more = f" {count_of(others, 'more group')} {agree(others, 'waits', 'wait')}." if others else ""
    return f'Group "{first.group}": {first.sentence}{more}'
