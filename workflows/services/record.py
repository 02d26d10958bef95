"""The only writer of statuses: of tasks, their group, and the workflow above.

One transaction for one group, however many of its tasks moved: the workflow, the group and its downstream
groups are locked in that order (downstream ones by primary key), the lease's token is compared, every move
is checked against ``lifecycle.statuses``, and each step becomes an Event. A move that the tables refuse is
dropped, not raised: it comes from an older view, and the row is right.

Each kind of change has one class and one writer below. Tasks are written by one UPDATE over arrays: with
1,000 pods changing at once a save for each would take longer than a second. Times are the database's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, assert_never
from uuid import UUID

from django.db import connection, transaction
from django.db.models.functions import Coalesce

from pools import conditions
from pools.conditions import Condition
from scheduling.gang import set_order
from scheduling.gang.pins import Pins, to_json
from scheduling.gang.set_order import SetOrder
from web.database.model_rows import Columns
from workflows.explain.reasons import Reason
from workflows.lifecycle.derive import workflow_status
from workflows.lifecycle.domain_health import Membership
from workflows.lifecycle.statuses import (
    TERMINAL,
    WORKFLOW_TERMINAL,
    TaskStatus,
    WorkflowStatus,
    may_move,
    workflow_may_move,
)
from workflows.models import Task, TaskGroup, Workflow
from workflows.nodes.suspects import note_failures
from workflows.services import attempt_rows, timeline
from workflows.services.changes import (
    AttemptCleared,
    Change,
    ClusterContact,
    Creation,
    DomainOfPods,
    GroupChange,
    GroupMove,
    NewAttempt,
    NewAvoidedNodes,
    NewConstraints,
    NewGeneration,
    NewMembership,
    NewOrder,
    NewPins,
    NewPlacementResult,
    NewPreferenceLevels,
    NewStage,
    NewTry,
    NewWaitingReason,
    NodeFailed,
    Note,
    OrderReached,
    PatienceClock,
    PinsSettled,
    ProposalDropped,
    Release,
    RunClock,
    TaskMove,
)
from workflows.services.lease import Lease, LeaseLost
from workflows.services.notify import mark_due
from workflows.services.steps import Steps, update_columns
from workflows.services.timeline import MOST_ALIKE
from workflows.values.placement import ORDERED


class MovedTask(NamedTuple):
    """A try after its move; the fields are columns of its row."""

    pk: int
    status: str
    node_name: str
    pod_ip: str
    processing_start_time: datetime | None
    scheduling_start_time: datetime | None
    initializing_start_time: datetime | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The rows after a record: the group, which was locked at ``now``, and the tries that moved.

    The group's columns NOT_LOCKED were not read.
    """

    group: TaskGroup
    now: datetime
    tasks: Sequence[MovedTask]


def record(lease: Lease, changes: Sequence[Change]) -> Recorded:
    """Write the changes of one reconciliation together: tasks, then tries, then the group in the order given.

    Raises LeaseLost if another worker may have the group; then nothing is written.
    """
    lease.acts += 1
    moves = [change for change in changes if isinstance(change, TaskMove)]
    tries = [change for change in changes if isinstance(change, NewTry)]
    failed_nodes = [change for change in changes if isinstance(change, NodeFailed)]
    of_group = [change for change in changes if not isinstance(change, TaskMove | NewTry | NodeFailed)]
    group_moves = [change for change in of_group if isinstance(change, GroupMove)]
    with transaction.atomic():
        workflow = _lock_workflow(lease.group_id) if group_moves else None
        ends = any(move.status in TERMINAL for move in group_moves)
        group, downstream, now = _lock_groups(lease, with_downstream=ends)
        before = group.status
        steps = Steps(group, now, replaced=[new.after for new in tries])
        begins = any(isinstance(change, NewAttempt) for change in of_group)
        moved_tasks = _move_tasks(moves, steps, begins=begins)
        _add_tries(tries, steps, begins=begins)
        for change in of_group:
            _write(change, steps)
        if steps.fields:
            update_columns(group, steps.fields)
        moved = group.status != before
        if failed_nodes:
            note_failures(group, {failed.node: failed.fault for failed in failed_nodes}, now=steps.now)
        if workflow is not None and moved:
            _move_workflow(workflow, steps)
        timeline.add(steps.notes, beside=steps.events)
        if moved and downstream:
            mark_due(downstream)
    return Recorded(group, now, moved_tasks)


_WORKFLOW = Columns(Workflow, only=("uuid", "status", "start_time", "end_time"))
_LOCK_WORKFLOW = f"""
    SELECT {_WORKFLOW.sql("w")} FROM workflows_workflow AS w
     WHERE w.uuid = (SELECT workflow_id FROM workflows_taskgroup WHERE uuid = %s) FOR NO KEY UPDATE
"""  # noqa: S608 -- names of columns


def _lock_workflow(group_id: UUID) -> Workflow:
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_WORKFLOW, [group_id])
        return _WORKFLOW.instance(cursor.fetchone())


NOT_LOCKED = ("constraints", "placement_result")
"""The columns of a group that grow with its tasks; a record that writes one writes it whole."""

_GROUP = Columns(TaskGroup, without=NOT_LOCKED)
_LOCK = f"""
    WITH locked AS MATERIALIZED (
        SELECT {_GROUP.sql("g")} FROM workflows_taskgroup AS g
         WHERE uuid = ANY(ARRAY(
                 SELECT %(group)s::uuid
                  UNION ALL
                 SELECT from_taskgroup_id FROM workflows_taskgroup_upstream
                  WHERE to_taskgroup_id = %(group)s AND %(with_downstream)s))
         ORDER BY uuid FOR NO KEY UPDATE)
    SELECT {_GROUP.sql("locked")}, clock_timestamp() FROM locked
"""  # noqa: S608 -- names of columns
"""Each row with a time at which it is locked: the outer clock is read once the inner lock is held."""


def _holds(group: TaskGroup, now: datetime) -> bool:
    return group.lease_until is not None and group.lease_until > now


def _lock_groups(lease: Lease, *, with_downstream: bool) -> tuple[TaskGroup, list[UUID], datetime]:
    """Lock the group and those downstream of it; returns them with the time at which the lease still held."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, {"group": lease.group_id, "with_downstream": with_downstream})
        rows = cursor.fetchall()
    locked = {row.pk: row for row in map(_GROUP.instance, rows)}
    now: datetime | None = max((values[-1] for values in rows), default=None)
    group = locked.pop(lease.group_id, None)
    if group is None or now is None or group.lease_token != lease.token or not _holds(group, now):
        raise LeaseLost(f"group {lease.group_id}")
    return group, [pk for pk, row in locked.items() if row.released_at is None], now


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
      FROM unnest(%(pk)s::bigint[], %(status)s::text[], %(code)s::int[], %(message)s::text[],
                  %(node)s::text[], %(ip)s::text[], %(ended)s::boolean[], %(uncounted)s::boolean[])
        AS new(pk, status, code, message, node, ip, ended, uncounted)
     WHERE task.id = new.pk
 RETURNING task.id, task.status, task.node_name, task.pod_ip, task.processing_start_time,
           task.scheduling_start_time, task.initializing_start_time
"""


_TASK_ROWS = """
    SELECT id, status, name, retry_id, node_name, pod_ip FROM workflows_task
     WHERE group_id = %s AND id = ANY(%s)
"""


class _TaskRow(NamedTuple):
    status: str
    name: str
    retry_id: int
    node_name: str
    pod_ip: str


def _move_tasks(moves: Sequence[TaskMove], steps: Steps, *, begins: bool) -> list[MovedTask]:
    """Move tasks. Where an attempt ``begins``, its event speaks for the tasks that did not end themselves."""
    if not moves:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_TASK_ROWS, [steps.group.pk, [m.pk for m in moves]])
        rows = {pk: _TaskRow(*columns) for pk, *columns in cursor.fetchall()}
    allowed = [move for move in moves if move.pk in rows and _task_moves(rows[move.pk], move)]
    if not allowed:
        return []
    columns: dict[str, Any] = {
        "now": steps.now,
        "pk": [m.pk for m in allowed],
        "status": [str(m.status) for m in allowed],
        "code": [m.code for m in allowed],
        "message": [m.message for m in allowed],
        "node": [m.node_name for m in allowed],
        "ip": [m.pod_ip for m in allowed],
        "ended": [m.status in TERMINAL for m in allowed],
        "uncounted": [m.uncounted for m in allowed],
    }
    with connection.cursor() as cursor:
        cursor.execute(_MOVE_TASKS, columns)
        moved = [MovedTask(*columns_of_one) for columns_of_one in cursor.fetchall()]
    for move in allowed:
        row = rows[move.pk]
        if row.status != move.status and not _is_left_out(row, move, begins=begins):
            failed = _failed(move.status)
            steps.event(
                key=f"task:{move.pk}:{move.status}",
                reason=str(move.status),
                message=f"Task {row.name} is {move.status}." + (f" {move.message}" if move.message else ""),
                warning=failed,
                task=row.name,
                retry=row.retry_id,
            )
    return moved


def _is_left_out(row: _TaskRow, move: TaskMove, *, begins: bool) -> bool:
    """Whether the events of the group say enough: tries of 10,000 tasks, again and again, fill tables."""
    is_repeated = row.retry_id >= MOST_ALIKE
    if begins:
        return move.code is None or is_repeated
    return is_repeated and (move.status not in TERMINAL or move.status == TaskStatus.RESCHEDULED)


def _note_membership(members: Membership, steps: Steps) -> None:
    """Note since when the nodes of these tries are in their group's ComputeDomain, or out of it."""
    tasks, now = Task.objects.filter(group=steps.group), steps.now
    tasks.filter(pk__in=members.joined).update(
        nvlink_joined_at=Coalesce("nvlink_joined_at", now), nvlink_left_at=None
    )
    tasks.filter(pk__in=members.left, nvlink_left_at=None).update(nvlink_left_at=now)


def _task_moves(row: _TaskRow, move: TaskMove) -> bool:
    """Whether a move is allowed and changes the row: a new status, or a new place of the pod."""
    if row.status == move.status:
        news = (move.node_name and move.node_name != row.node_name) or (
            move.pod_ip and move.pod_ip != row.pod_ip
        )
        return bool(news) and row.status not in TERMINAL
    return may_move(row.status, move.status)


def _failed(status: str) -> bool:
    return status in TERMINAL and status != TaskStatus.COMPLETED


def _add_tries(tries: Sequence[NewTry], steps: Steps, *, begins: bool) -> None:
    """Add a row for each new try, unless another one followed already; the old one is no longer latest.

    Where an attempt ``begins``, its event speaks for all of them.
    """
    if not tries:
        return
    group = steps.group
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
    for new in () if begins else fresh:
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


_GROUP_TIMES = {
    TaskStatus.PROCESSING: "processing_start_time",
    TaskStatus.SCHEDULING: "scheduling_start_time",
    TaskStatus.INITIALIZING: "initializing_start_time",
    TaskStatus.RUNNING: "start_time",
}


def _write(change: GroupChange, steps: Steps) -> None:  # noqa: PLR0912, PLR0915, C901 -- one case for each kind of change
    group, now = steps.group, steps.now
    match change:
        case NewGeneration(number):
            steps.put(generation=number)
        case NewMembership(members):
            _note_membership(members, steps)
        case NewAttempt():
            attempt_rows.begin(change, steps)
        case AttemptCleared():
            attempt_rows.note_cleared(steps)
        case RunClock(since):
            attempt_rows.set_clock(steps, since=since)
        case GroupMove():
            _move_group(change, steps)
        case NewWaitingReason(reason):
            _explain(reason, steps)
        case ClusterContact(cluster_uid):
            _note_contact(cluster_uid, steps)
        case Creation():
            steps.put(created_in_cluster_at=group.created_in_cluster_at or now)
        case DomainOfPods(uid):
            steps.put(compute_domain={"attempt": group.attempt_number, "uid": uid} if uid else None)
        case Release():
            steps.put(released_at=now, next_reconcile_at=None)
        case NewAvoidedNodes(nodes):
            steps.put(avoided_nodes=list(nodes))
        case PatienceClock(running):
            _set_clock(steps, running=running)
        case NewStage(number):
            steps.put(stage=max(group.stage, number))
        case NewPreferenceLevels(count):
            steps.put(preference_levels=count, proposed_easing=None)
        case NewConstraints(constraints):
            steps.put(constraints=list(constraints))
        case NewOrder(order):
            _reorder(order, steps)
        case NewPins(pins):
            _pin(pins, steps)
        case PinsSettled():
            steps.put(repinning=False, other_pins=None)
        case OrderReached():
            steps.put(reordering=False)
        case ProposalDropped():
            steps.put(proposed_order=None)
        case NewPlacementResult(result):
            steps.put(placement_result=dict(result))
        case Condition():
            written = conditions.upsert(
                group.conditions, [change], now=now, observed_revision=group.generation
            )
            steps.put(conditions=written)
        case Note():
            steps.note(key=change.key, reason=change.reason, message=change.message, warning=change.warning)
        case _:
            assert_never(change)


def _move_group(move: GroupMove, steps: Steps) -> None:
    group, status = steps.group, move.status
    if group.present_status == status or not may_move(group.present_status, status):
        return
    if group.progress:
        steps.put(progress="" if status in TERMINAL else status)
    if may_move(group.status, status):
        _move_status(move, steps)
    if group.attempt_number > 1 and status not in TERMINAL:
        number = group.attempt_number
        steps.note(
            key=f"attempt:{number}:{status}",
            reason=f"Attempt{str(status).title()}",
            message=f"Attempt {number} of group {group.name} is {status}.",
            warning=False,
        )
        return
    steps.event(
        key=f"group:{group.pk.hex}:{status}",
        reason=str(status),
        message=f"Group {group.name} is {status}." + (f" {move.message}" if move.message else ""),
        warning=_failed(status),
    )


def _move_status(move: GroupMove, steps: Steps) -> None:
    """Move what users see, which never goes back."""
    group, status = steps.group, move.status
    steps.put(status=status)
    if (column := _GROUP_TIMES.get(TaskStatus(status))) and getattr(group, column) is None:
        steps.put(**{column: steps.now})
    if status in TERMINAL:
        steps.put(
            end_time=steps.now,
            waiting_why="",
            waiting_reason="",
            waiting_evidence={},
            waiting_since=None,
            unplaced_since=None,
        )
        if move.message:
            steps.put(failure_message=move.message)


def _explain(reason: Reason | None, steps: Steps) -> None:
    if steps.group.status in TERMINAL:
        return
    since = (steps.group.waiting_since or steps.now) if reason else None
    why, text, evidence = (reason.why.value, reason.text, reason.evidence) if reason else ("", "", {})
    steps.put(waiting_why=why, waiting_reason=text, waiting_evidence=evidence, waiting_since=since)


def _reorder(order: SetOrder, steps: Steps) -> None:
    group = steps.group
    version = max(group.placement["version"], ORDERED)
    steps.put(set_order=set_order.to_json(order), reordering=True, proposed_order=None)
    steps.put(placement={**group.placement, "version": version})


def _pin(pins: Pins, steps: Steps) -> None:
    group = steps.group
    version = max(group.placement["version"], ORDERED)
    steps.put(other_pins=group.pins, pins=to_json(pins), repinning=True)
    steps.put(placement={**group.placement, "version": version})


def _note_contact(cluster_uid: str, steps: Steps) -> None:
    group = steps.group
    steps.put(touched_cluster=True, touched_at=group.touched_at or steps.now)
    if cluster_uid and not group.placement.get("cluster_uid"):
        steps.put(placement={**group.placement, "cluster_uid": cluster_uid})


def _set_clock(steps: Steps, *, running: bool) -> None:
    if steps.group.status not in TERMINAL:
        steps.put(unplaced_since=(steps.group.unplaced_since or steps.now) if running else None)
        if not running:
            steps.put(proposed_easing=None)


_STATUSES = "SELECT uuid, status FROM workflows_taskgroup WHERE workflow_id = %s"


def _move_workflow(workflow: Workflow, steps: Steps) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_STATUSES, [workflow.pk])
        rows = cursor.fetchall()
    statuses = [steps.group.status if pk == steps.group.pk else status for pk, status in rows]
    status = workflow_status(statuses)
    columns = []
    if workflow.start_time is None and steps.group.start_time is not None:
        workflow.start_time = steps.group.start_time
        columns.append("start_time")
    if workflow_may_move(workflow.status, status):
        workflow.status = status
        columns.append("status")
        if status in WORKFLOW_TERMINAL:
            workflow.end_time = steps.now
            columns.append("end_time")
        steps.event(
            key=f"workflow:{status}",
            reason=f"Workflow{str(status).title().replace('_', '')}",
            message=f"The workflow is {status}.",
            warning=status in WORKFLOW_TERMINAL and status != WorkflowStatus.COMPLETED,
        )
    if columns:
        update_columns(workflow, columns)
