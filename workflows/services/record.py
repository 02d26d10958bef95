"""The only writer of statuses of tasks and groups; ``follow_up`` draws the conclusions.

One transaction for one group under its lease, or for many groups that the caller has locked, however many of
their tasks moved: every move is checked against ``lifecycle.statuses``, and each step becomes an Event. A
move that the tables refuse is dropped, not raised: it comes from an older view, and the row is right.

No row is locked that other groups share: not the workflow's, nor that of a group downstream. A workflow may
have 10,000 groups, and while one transaction held that row all others would wait. Times are the database's.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from web.crashpoints import reached
from web.database.model_rows import Columns
from workflows.lifecycle.statuses import BACKLOG, TERMINAL, TaskStatus, quoted
from workflows.models import TaskGroup
from workflows.nodes.suspects import note_failures
from workflows.services import follow_up, group_rows, task_rows, timeline
from workflows.services.changes import Change
from workflows.services.lease import Lease, LeaseLost
from workflows.services.steps import MovedTask, Steps, update_columns


@dataclass(frozen=True, slots=True)
class Recorded:
    """The rows after a record: the group, which was locked at ``now``, and the tries that moved.

    The group's columns NOT_LOCKED were not read.
    """

    group: TaskGroup
    now: datetime
    tasks: Sequence[MovedTask]


NOT_LOCKED = ("constraints", "placement_result")
"""The columns of a group that grow with its tasks; a record that writes one writes it whole."""

_GROUP = Columns(TaskGroup, without=NOT_LOCKED)
_LOCK = f"""
    WITH locked AS MATERIALIZED (
        SELECT {_GROUP.sql("g")} FROM workflows_taskgroup AS g WHERE uuid = %s FOR NO KEY UPDATE)
    SELECT {_GROUP.sql("locked")}, clock_timestamp() FROM locked
"""  # noqa: S608 -- names of columns
"""The row with a time at which it is locked: the outer clock is read once the inner lock is held."""


def record(lease: Lease, changes: Sequence[Change]) -> Recorded:
    """Write the changes of one reconciliation together: tasks, then tries, then the group in the order given.

    Raises LeaseLost if another worker may have the group; then nothing is written.
    """
    lease.acts += 1
    with transaction.atomic():
        group, now = _lock(lease)
        steps = Steps(group, now, changes)
        _write([steps])
    conclude([steps])
    return Recorded(group, now, steps.tasks)


def _lock(lease: Lease) -> tuple[TaskGroup, datetime]:
    """Lock the group; returns it with a time at which the lease still held."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [lease.group_id])
        values = cursor.fetchone()
    group, now = (_GROUP.instance(values), values[-1]) if values else (None, None)
    if group is None or now is None or group.lease_token != lease.token or not _holds(group, now):
        raise LeaseLost(f"group {lease.group_id}")
    return group, now


def _holds(group: TaskGroup, now: datetime) -> bool:
    return group.lease_until is not None and group.lease_until > now


BATCHED = f"""
    g.released_at IS NULL AND g.created_in_cluster_at IS NULL AND g.status IN ({quoted(BACKLOG)})
    AND (g.status IN ({quoted((TaskStatus.SUBMITTING, TaskStatus.WAITING))})
         OR (g.stop_status <> '' AND NOT g.touched_cluster))
"""
"""Whether rows alone decide a group's next step: nothing of it may be created yet, or it ends before."""

IS_DUE = """
    g.next_reconcile_at <= clock_timestamp() AND (g.lease_until IS NULL OR g.lease_until < clock_timestamp())
"""

_LOCK_BATCH = f"""
    SELECT {_GROUP.sql("g")}, clock_timestamp() FROM workflows_taskgroup AS g
     WHERE g.workflow_id = %(workflow)s AND {BATCHED} AND {IS_DUE}
       AND (%(group)s::uuid IS NULL OR g.uuid = %(group)s)
     LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED
"""  # noqa: S608 -- names of columns


_DUE_IN_BATCH = f"""
    SELECT g.uuid FROM workflows_taskgroup AS g
     WHERE g.workflow_id = %(workflow)s AND {BATCHED} AND {IS_DUE} LIMIT %(most)s
"""  # noqa: S608 -- constants
_POSTPONE = """
    UPDATE workflows_taskgroup
       SET failures = failures + 1, notifications = 0,
           next_reconcile_at = clock_timestamp() + make_interval(secs => %(seconds)s)
     WHERE uuid = %(group)s AND released_at IS NULL
"""


def lock_batch(workflow: UUID, *, most: int, only: UUID | None) -> tuple[list[TaskGroup], datetime | None]:
    """Lock groups of a workflow that are due and batched, and read a time at which they are locked.

    Those that somebody has locked are left out. They need no lease, since no cluster is called for them: the
    caller decides and writes in the same transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_BATCH, {"workflow": workflow, "group": only, "most": most})
        rows = cursor.fetchall()
    return [_GROUP.instance(row) for row in rows], max((row[-1] for row in rows), default=None)


def due_in_batch(workflow: UUID, *, most: int) -> list[UUID]:
    """Groups of a workflow that are due and batched."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE_IN_BATCH, {"workflow": workflow, "most": most})
        return [row[0] for row in cursor.fetchall()]


def postpone(group: UUID, *, seconds: float) -> None:
    """Make a group due later that could not be written."""
    with connection.cursor() as cursor:
        cursor.execute(_POSTPONE, {"group": group, "seconds": seconds})


def record_locked(changes: Mapping[TaskGroup, Sequence[Change]], *, now: datetime) -> list[Steps]:
    """Write the changes of groups that the caller has locked at ``now``; ``conclude`` follows the commit.

    About as many statements as for one group, as long as the groups change alike.
    """
    batch = [Steps(group, now, of_group) for group, of_group in changes.items()]
    _write(batch)
    return batch


def _write(batch: Sequence[Steps]) -> None:
    task_rows.move(batch)
    for steps in batch:
        task_rows.add_tries(steps)
        for change in steps.of_group:
            group_rows.write(change, steps)
        if steps.failed_nodes:
            note_failures(steps.group, steps.failed_nodes, now=steps.now)
    _save(batch)
    notes = [note for steps in batch for note in steps.notes]
    timeline.add(notes, beside=[event for steps in batch for event in steps.events])


def _save(batch: Sequence[Steps]) -> None:
    """Write the fields that changed: one statement for all groups that got the same values."""
    alike: defaultdict[str, list[Steps]] = defaultdict(list)
    for steps in batch:
        if steps.fields:
            alike[repr([(name, getattr(steps.group, name)) for name in sorted(steps.fields)])].append(steps)
    for same in alike.values():
        update_columns([steps.group for steps in same], same[0].fields)


def conclude(batch: Sequence[Steps]) -> None:
    """Bring workflows and downstream groups in line with groups that moved, once that is committed."""
    moved = [steps.group for steps in batch if steps.has_moved]
    decisive = [g for g in moved if g.status in TERMINAL or g.status == TaskStatus.RUNNING]
    if decisive:
        reached("after-move-recorded")
        follow_up.conclude(decisive)
