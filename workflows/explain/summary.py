"""A workflow's status in one sentence, from rows alone: nothing is computed and no cluster is called.

A reason that somebody can act on comes first: a group that waits for another group is named only where all
do. Of a workflow's groups only the named one is read.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from pools.models import Backend
from scheduling.sentences import agree, count_of
from web.database.model_rows import Columns
from workflows.explain.reasons import Why
from workflows.lifecycle import patience
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus, quoted
from workflows.models import TaskGroup, Workflow

_GROUP, _BACKEND = Columns(TaskGroup), Columns(Backend)
_FIRST_WAITING = f"""
    WITH waiting AS (
        SELECT uuid, waiting_why = %(last)s AS last, position FROM workflows_taskgroup
         WHERE workflow_id = %(workflow)s AND status IN ({quoted(LIVE_ORDER)}) AND waiting_reason <> '')
    SELECT {_GROUP.sql("g")}, {_BACKEND.sql("b")}, (SELECT count(*) FROM waiting)
      FROM workflows_taskgroup AS g JOIN pools_backend AS b ON b.id = g.backend_id
     WHERE g.uuid = (SELECT uuid FROM waiting ORDER BY last, position LIMIT 1)
"""  # noqa: S608 -- names and constants
"""Keys alone are sorted: the other columns of a wide workflow's groups are megabytes."""


@dataclass(frozen=True, slots=True)
class WaitSummary:
    """The group that is named for all that wait, its sentence, and how many groups wait."""

    group: str
    sentence: str
    groups: int


def group_sentence(group: TaskGroup, *, now: datetime) -> str:
    """Why a group waits, and how long it is still held to its preferences; or nothing."""
    preferences = patience.patience_sentence(group.constraints, since=group.unplaced_since, now=now)
    return " ".join(filter(None, (group.waiting_reason, preferences)))


def workflow_sentence(workflow: Workflow, *, now: datetime) -> str:
    """Why a workflow waits or failed; of several groups the first one that matters. One query or two."""
    if workflow.status in WORKFLOW_TERMINAL and (failed := _first_failed(workflow)):
        return f'It is {workflow.status}. Group "{failed.name}": {failed.failure_message}'
    waiting, number = first_waiting(workflow)
    sentence = group_sentence(waiting, now=now) if waiting else ""
    return status_sentence(workflow.status, WaitSummary(waiting.name, sentence, number) if waiting else None)


def _first_failed(workflow: Workflow) -> TaskGroup | None:
    failed = workflow.groups.exclude(failure_message="").exclude(status=TaskStatus.COMPLETED)
    is_indirect = ExpressionWrapper(Q(status=TaskStatus.FAILED_UPSTREAM), output_field=BooleanField())
    return failed.order_by(is_indirect.asc(), "position").first()


def waiting_groups(workflow: Workflow) -> QuerySet[TaskGroup]:
    """Its groups that wait, in order."""
    rows = workflow.groups.filter(status__in=[str(status) for status in LIVE_ORDER])
    return rows.exclude(waiting_reason="").order_by("position")


def first_waiting(workflow: Workflow) -> tuple[TaskGroup | None, int]:
    """The group that is named for all that wait, with its backend, and how many there are. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_WAITING, {"workflow": workflow.pk, "last": Why.UPSTREAM})
        row = cursor.fetchone()
    if row is None:
        return None, 0
    group = _GROUP.instance(row)
    group.backend = _BACKEND.instance(row[len(_GROUP) :])
    return group, row[-1]


def status_sentence(status: str, wait: WaitSummary | None) -> str:
    """The status of a workflow that has not failed, with what its first group waits for."""
    if wait is None and status == WorkflowStatus.PENDING:
        return (
            "It is PENDING, and no worker has recorded yet what it waits for. Look again in some seconds; if "
            "this stays, its cluster is slow to answer or the service's workers do not run."
        )
    if wait is None:
        return f"It is {status}; no group of it waits."
    others = wait.groups - 1
    more = f" {count_of(others, 'more group')} {agree(others, 'waits', 'wait')}." if others else ""
    return f'Group "{wait.group}": {wait.sentence}{more}'
