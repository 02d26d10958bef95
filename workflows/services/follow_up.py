"""What follows from groups that moved: the status of their workflow, and the start of groups downstream.

A conclusion is drawn after the commit of the moves, from rows as they are then. Of groups that move at the
same time the last to commit sees all others, so somebody always draws the last conclusion, and no move needs
a row that other groups share. The workflow's row is written only when its status changes, two or three times
in its life, and is never waited for.

A group downstream awaits one upstream group that has not ended, and is due when that ends; then it awaits
another, or begins. So the end of one of 10,000 upstream groups costs what the end of a single one does. A
failure makes all groups downstream due. What a process leaves that dies between a commit and its conclusion,
``conclude_left`` finds. Rejected: triggers, and counters in the workflow's row, which every move would lock.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from workflows.lifecycle.derive import workflow_status
from workflows.lifecycle.statuses import (
    FAILURES,
    LIVE_ORDER,
    TERMINAL,
    WORKFLOW_LIVE,
    WORKFLOW_TERMINAL,
    TaskStatus,
    WorkflowStatus,
    quoted,
    workflow_may_move,
)
from workflows.models import Event, TaskGroup
from workflows.services import timeline
from workflows.services.notify import mark_due

TRIES = 5
"""How often a workflow is read again whose row somebody has locked; then ``conclude_left`` finds it."""
BATCH = 500

_STATUSES = """
    ARRAY(SELECT s.status FROM unnest(%(statuses)s::text[]) AS s(status)
           WHERE EXISTS (SELECT FROM workflows_taskgroup AS g
                          WHERE g.workflow_id = w.uuid AND g.status = s.status))
"""
"""The statuses that groups of a workflow have: one probe of an index for each that there is."""
_READ = f"""
    SELECT w.status, {_STATUSES},
           ARRAY(SELECT d.uuid FROM workflows_taskgroup AS d
                  WHERE d.awaited_upstream = ANY(%(ended)s::uuid[]) AND d.released_at IS NULL
                  UNION
                 SELECT d.uuid FROM workflows_taskgroup_upstream AS u
                   JOIN workflows_taskgroup AS d ON d.uuid = u.from_taskgroup_id
                  WHERE u.to_taskgroup_id = ANY(%(failed)s::uuid[])
                    AND d.status = '{TaskStatus.WAITING}' AND d.stop_status = '')
      FROM workflows_workflow AS w WHERE w.uuid = %(workflow)s
"""  # noqa: S608 -- names of statuses
_MOVE = f"""
    WITH present AS (
        SELECT uuid FROM workflows_workflow
         WHERE uuid = %(workflow)s AND status = %(before)s FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE workflows_workflow AS w
       SET status = %(after)s,
           start_time = coalesce(w.start_time, (SELECT min(g.start_time) FROM workflows_taskgroup AS g
                                                 WHERE g.workflow_id = w.uuid)),
           end_time = CASE WHEN %(after)s IN ({quoted(sorted(WORKFLOW_TERMINAL))}) THEN clock_timestamp()
                      ELSE w.end_time END
      FROM present WHERE w.uuid = present.uuid
 RETURNING clock_timestamp()
"""  # noqa: S608 -- names of statuses
_LEFT_WORKFLOWS = f"""
    SELECT w.uuid FROM workflows_workflow AS w
     WHERE w.status IN ({quoted(WORKFLOW_LIVE)})
       AND (NOT EXISTS (SELECT FROM workflows_taskgroup AS g
                         WHERE g.workflow_id = w.uuid AND g.status IN ({quoted(LIVE_ORDER)}))
            OR (w.status = '{WorkflowStatus.PENDING}'
                AND EXISTS (SELECT FROM workflows_taskgroup AS g
                             WHERE g.workflow_id = w.uuid AND g.status = '{TaskStatus.RUNNING}')))
     LIMIT %(most)s
"""  # noqa: S608 -- names of statuses
_CAN_MOVE = f"""
    (EXISTS (SELECT FROM workflows_taskgroup AS u
              WHERE u.uuid = d.awaited_upstream AND u.status NOT IN ({quoted(LIVE_ORDER)}))
     OR EXISTS (SELECT FROM workflows_taskgroup_upstream AS e
                  JOIN workflows_taskgroup AS u ON u.uuid = e.to_taskgroup_id
                 WHERE e.from_taskgroup_id = d.uuid
                   AND u.status IN ({quoted(FAILURES)})))
"""  # noqa: S608 -- names of statuses
"""Whether a group's awaited upstream group has ended, or any of them failed."""
_LEFT_GROUPS = f"""
    SELECT d.uuid FROM workflows_taskgroup AS d
     WHERE d.awaited_upstream IS NOT NULL AND d.released_at IS NULL AND d.next_reconcile_at IS NULL
       AND {_CAN_MOVE}
     LIMIT %(most)s
"""  # noqa: S608 -- names of statuses
_ENDED_BEFORE = f"""
    SELECT d.uuid FROM workflows_taskgroup AS d WHERE d.uuid = ANY(%s) AND {_CAN_MOVE}
"""  # noqa: S608 -- names of statuses


def conclude(moved: Sequence[TaskGroup]) -> None:
    """Draw the conclusions from groups of one workflow that began to run, or ended."""
    ended = [group.pk for group in moved if group.status in TERMINAL]
    failed = [group.pk for group in moved if group.status in FAILURES]
    downstream = _bring_in_line(moved[0].workflow_id, ended=ended, failed=failed)
    if downstream:
        mark_due(downstream)


def conclude_awaiting(groups: Sequence[UUID]) -> None:
    """Make those of these groups due of which an upstream group ended, or failed, before they awaited it."""
    with connection.cursor() as cursor:
        cursor.execute(_ENDED_BEFORE, [list(groups)])
        if due := [row[0] for row in cursor.fetchall()]:
            mark_due(due)


def conclude_left() -> None:
    """Draw the conclusions that nobody has drawn, of a few hundred workflows and groups at a time."""
    with connection.cursor() as cursor:
        cursor.execute(_LEFT_WORKFLOWS, {"most": BATCH})
        workflows = [row[0] for row in cursor.fetchall()]
        cursor.execute(_LEFT_GROUPS, {"most": BATCH})
        groups = [row[0] for row in cursor.fetchall()]
    for workflow in workflows:
        _bring_in_line(workflow)
    if groups:
        mark_due(groups)


def _bring_in_line(workflow: UUID, *, ended: Sequence[UUID] = (), failed: Sequence[UUID] = ()) -> list[UUID]:
    """Give the workflow the status that its groups have; returns the groups that are due downstream."""
    values: dict[str, Any] = {"workflow": workflow, "ended": list(ended), "failed": list(failed)}
    downstream: list[UUID] = []
    for _ in range(TRIES):
        with connection.cursor() as cursor:
            cursor.execute(_READ, values | {"statuses": list(TaskStatus)})
            row = cursor.fetchone()
        if row is None:
            return []
        before, statuses, downstream = row
        after = workflow_status(statuses)
        is_behind = bool(statuses) and workflow_may_move(before, after)
        if not is_behind or _move(workflow, before=before, after=after):
            break
    return downstream


def _move(workflow: UUID, *, before: str, after: WorkflowStatus) -> bool:
    """Move the workflow; False if somebody else has its row, or moved it."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_MOVE, {"workflow": workflow, "before": before, "after": str(after)})
            row = cursor.fetchone()
        if row is None:
            return False
        event = Event(
            workflow_id=workflow,
            time=row[0],
            source=timeline.SOURCE,
            warning=after in WORKFLOW_TERMINAL and after != WorkflowStatus.COMPLETED,
            reason=f"Workflow{str(after).title().replace('_', '')}",
            message=f"The workflow is {after}.",
            dedupe=f"workflow:{after}",
        )
        timeline.add([], beside=[event])
    return True
