"""The rows of tries: their moves, and new tries that follow them.

Tries of all groups of a record are moved by one UPDATE: with 1,000 pods changing at once a save for each
would take longer than a second. Their values are one text of JSON, since an array for each column takes twice
as long to write. A move that the tables of ``lifecycle.statuses`` refuse is dropped.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models.functions import Coalesce
from pydantic_core import to_json

from workflows.lifecycle.domain_health import Membership
from workflows.lifecycle.statuses import TERMINAL, TaskStatus, may_move
from workflows.models import Task
from workflows.services.changes import TaskMove
from workflows.services.steps import MovedTask, Steps
from workflows.services.timeline import MOST_ALIKE

_MOVE_TASKS = """
    UPDATE workflows_task AS task
       SET status = new.status,
           exit_code = coalesce(new.code, task.exit_code),
           failure_message = CASE WHEN new.message <> '' THEN new.message ELSE task.failure_message END,
           node_name = CASE WHEN new.node <> '' THEN new.node ELSE task.node_name END,
           pod_ip = CASE WHEN new.ip <> '' THEN new.ip ELSE task.pod_ip END,
           processing_start_time = CASE WHEN new.status = 'PROCESSING'
             THEN coalesce(task.processing_start_time, %(now)s) ELSE task.processing_start_time END,
           scheduling_start_time = CASE WHEN new.status = 'SCHEDULING'
             THEN coalesce(task.scheduling_start_time, %(now)s) ELSE task.scheduling_start_time END,
           initializing_start_time = CASE WHEN new.status = 'INITIALIZING'
             THEN coalesce(task.initializing_start_time, %(now)s) ELSE task.initializing_start_time END,
           start_time = CASE WHEN new.status = 'RUNNING' OR (new.code BETWEEN 0 AND 255)
             THEN coalesce(task.start_time, %(now)s) ELSE task.start_time END,
           end_time = CASE WHEN new.ended THEN coalesce(task.end_time, %(now)s) ELSE task.end_time END,
           uncounted = task.uncounted OR new.uncounted
      FROM json_to_recordset(%(moves)s)
        AS new(pk bigint, status text, code int, message text, node text, ip text, ended boolean,
               uncounted boolean)
     WHERE task.id = new.pk
 RETURNING task.id, task.status, task.node_name, task.pod_ip, task.processing_start_time,
           task.scheduling_start_time, task.initializing_start_time
"""


_TASK_ROWS = """
    SELECT id, group_id, status, name, retry_id, node_name, pod_ip FROM workflows_task
     WHERE group_id = ANY(%s) AND id = ANY(%s)
"""


class _TaskRow(NamedTuple):
    group_id: UUID
    status: str
    name: str
    retry_id: int
    node_name: str
    pod_ip: str


def move(batch: Sequence[Steps]) -> None:
    """Move tries, all of which at the same time. Two statements, whatever their number."""
    pks = [move.pk for steps in batch for move in steps.moves]
    if not pks:
        return
    with connection.cursor() as cursor:
        cursor.execute(_TASK_ROWS, [[steps.group.pk for steps in batch], pks])
        rows = {pk: _TaskRow(*columns) for pk, *columns in cursor.fetchall()}
    allowed = {
        move.pk: move
        for steps in batch
        for move in steps.moves
        if (row := rows.get(move.pk)) and row.group_id == steps.group.pk and _moves(row, move)
    }
    if not allowed:
        return
    steps_of = {steps.group.pk: steps for steps in batch}
    with connection.cursor() as cursor:
        moves = to_json([_columns(move) for move in allowed.values()])
        cursor.execute(_MOVE_TASKS, {"moves": moves.decode(), "now": batch[0].now})
        for task in map(MovedTask._make, cursor.fetchall()):
            steps_of[rows[task.pk].group_id].tasks.append(task)
    for pk, change in allowed.items():
        row = rows[pk]
        steps = steps_of[row.group_id]
        if row.status != change.status and not _is_left_out(row, change, begins=steps.begins):
            steps.event(
                key=f"task:{pk}:{change.status}",
                reason=str(change.status),
                message=f"Task {row.name} is {change.status}."
                + (f" {change.message}" if change.message else ""),
                warning=is_failure(change.status),
                task=row.name,
                retry=row.retry_id,
            )


def _columns(move: TaskMove) -> dict[str, Any]:
    return {
        "pk": move.pk,
        "status": str(move.status),
        "code": move.code,
        "message": move.message,
        "node": move.node_name,
        "ip": move.pod_ip,
        "ended": move.status in TERMINAL,
        "uncounted": move.uncounted,
    }


def _is_left_out(row: _TaskRow, move: TaskMove, *, begins: bool) -> bool:
    """Whether the events of the group say enough: tries of 10,000 tasks, again and again, fill tables."""
    is_repeated = row.retry_id >= MOST_ALIKE
    if begins:
        return move.code is None or is_repeated
    return is_repeated and (move.status not in TERMINAL or move.status == TaskStatus.RESCHEDULED)


def note_membership(members: Membership, steps: Steps) -> None:
    """Note since when the nodes of these tries are in their group's ComputeDomain, or out of it."""
    tasks, now = Task.objects.filter(group=steps.group), steps.now
    tasks.filter(pk__in=members.joined).update(
        nvlink_joined_at=Coalesce("nvlink_joined_at", now), nvlink_left_at=None
    )
    tasks.filter(pk__in=members.left, nvlink_left_at=None).update(nvlink_left_at=now)


def _moves(row: _TaskRow, move: TaskMove) -> bool:
    """Whether a move is allowed and changes the row: a new status, or a new place of the pod."""
    if row.status == move.status:
        news = (move.node_name and move.node_name != row.node_name) or (
            move.pod_ip and move.pod_ip != row.pod_ip
        )
        return bool(news) and row.status not in TERMINAL
    return may_move(row.status, move.status)


def is_failure(status: str) -> bool:
    """Whether something ended with this status, and not well."""
    return status in TERMINAL and status != TaskStatus.COMPLETED


def add_tries(steps: Steps) -> None:
    """Add a row for each new try, unless another one followed already; the old one is no longer latest."""
    group, tries = steps.group, steps.tries
    if not tries:
        return
    olds = {
        row.pk: row for row in Task.objects.filter(group=group, pk__in=[t.after for t in tries], latest=True)
    }
    fresh = [new for new in tries if new.after in olds]
    if not fresh:
        return
    Task.objects.filter(pk__in=[new.after for new in fresh]).update(latest=False)
    Task.objects.bulk_create(
        Task(
            group=group,
            task_uuid=old.task_uuid,
            position=old.position,
            name=old.name,
            retry_id=new.retry_id,
            generation=new.generation,
            first_retry=new.first_retry,
            replaced_after=new.replaced_after,
            lead=old.lead,
            status=TaskStatus.PROCESSING,
            spec=old.spec,
            pod_name=new.pod_name,
            processing_start_time=steps.now,
        )
        for new in fresh
        for old in (olds[new.after],)
    )
    for new in () if steps.begins else fresh:
        name = olds[new.after].name
        if new.retry_id > MOST_ALIKE:
            message = f"Task {name} is tried again, try {new.retry_id}."
            steps.note(key=f"retry:{new.after}", reason="Retry", message=message, warning=False)
            continue
        steps.event(
            key=f"retry:{new.after}",
            reason="Retry",
            message=f"Task {name} is tried again, try {new.retry_id}.",
            warning=False,
            task=name,
            retry=new.retry_id,
        )
