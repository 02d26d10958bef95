"""The groups of a pool that wait, each with only the fields that a verdict reads: one query.

A caller that sends the digests of groups that it knows gets the values of those alone that differ. A digest
covers all that is read of a group: its own columns by their content, and its tasks by id, uuid and the
transaction that wrote them, because columns of a waiting group change often (leases) and its tasks' do not.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from scheduling.gang.gang_form import GangForm
from workflows.lifecycle.statuses import BACKLOG, TaskStatus, quoted
from workflows.values.placement import VERSION, GroupPlacement, GroupValues, TaskPlacement, TaskTry

MOST_GROUPS = 50
MOST_TASKS = 20_000
_COLUMNS = (
    "name",
    "generation",
    "form",
    "placement",
)
_SPEC_FIELDS = (
    "cpu",
    "gpu",
    "memory",
    "storage",
    "platform",
    "node_selector",
    "tolerations",
    "nodes_excluded",
    "requirements",
    "claims_channel",
)
"""Fields of a task's spec that a verdict reads; files, which may be large, stay in the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """A group none of whose tasks has a node."""

    workflow: str
    values: GroupValues


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroups:
    """The groups to judge, the longest waiting first; ``count`` is the number of all that wait."""

    groups: tuple[WaitingGroup, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which groups of a pool, or of all, in which order; how many are read, with how many tasks together.

    ``condition`` and ``order`` are SQL on ``owner``, ``workflow`` and ``backend``, with ``parameters`` by
    name. Groups submitted later than ``since`` are counted apart.
    """

    pool: str | None
    condition: str = "TRUE"
    order: str = "owner.submit_time, owner.uuid"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    most: int
    most_tasks: int


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """One of the first groups, in order. ``group`` is None where its digest was known.

    It is None also for a group without tasks, and for one whose placement is of a version that this release
    cannot read; those have no digest.
    """

    uuid: UUID
    digest: int | None
    group: WaitingGroup | None


@dataclass(frozen=True, slots=True)
class FirstGroups:
    """``count`` is the number of all selected groups, ``younger`` that of those submitted later."""

    count: int = 0
    younger: int = 0
    first: tuple[ReadGroup, ...] = ()


def waiting_groups_in(pool: str) -> WaitingGroups:
    """The groups of a pool that wait; at most MOST_GROUPS, of at most MOST_TASKS tasks together."""
    reading = read_waiting(Selection(pool=pool, most=MOST_GROUPS, most_tasks=MOST_TASKS))
    return WaitingGroups(
        groups=tuple(read.group for read in reading.first if read.group), count=reading.count
    )


_STATUSES = quoted((*BACKLOG, TaskStatus.SCHEDULING))
_WAITING = f"""
    WITH waiting AS MATERIALIZED (
        SELECT owner.uuid, owner.submit_time, workflow.name AS workflow,
               row_number() OVER (ORDER BY {{order}}) AS turn
          FROM workflows_taskgroup AS owner
          JOIN workflows_workflow AS workflow ON workflow.uuid = owner.workflow_id
          JOIN pools_backend AS backend ON backend.id = owner.backend_id
         WHERE {{pool}} AND owner.released_at IS NULL AND owner.stop_status = ''
           AND (owner.status IN ({_STATUSES}) AND owner.progress = '' OR owner.progress IN ({_STATUSES}))
           AND NOT EXISTS (SELECT FROM workflows_task AS task
                            WHERE task.group_id = owner.uuid AND task.latest AND task.node_name <> '')
           AND ({{condition}})
    ), first AS (
        SELECT waiting.uuid, waiting.workflow, waiting.turn, tasks.count,
               sum(tasks.count) OVER (ORDER BY waiting.turn) AS so_far,
               tasks.digest # hash_record_extended(ROW({", ".join(f"owner.{name}" for name in _COLUMNS)}), 0)
                   AS digest
          FROM waiting JOIN workflows_taskgroup AS owner USING (uuid)
          CROSS JOIN LATERAL (
                SELECT count(*) AS count, coalesce(bit_xor(
                       hash_record_extended(ROW(task.id, task.task_uuid, task.xmin), 0)), 0) AS digest
                  FROM workflows_task AS task WHERE task.group_id = waiting.uuid AND task.latest
          ) AS tasks
         WHERE waiting.turn <= %(most)s
    )
    SELECT (SELECT count(*) FROM waiting), (SELECT count(*) FROM waiting WHERE submit_time > %(since)s),
           first.uuid, first.digest, first.workflow,
           jsonb_build_object({", ".join(f"'{name}', owner.{name}" for name in _COLUMNS)})::text,
           CASE WHEN owner.uuid IS NOT NULL THEN (
                SELECT jsonb_agg(jsonb_build_array(task.task_uuid, task.name, task.retry_id, task.generation,
                                 {", ".join(f"task.spec->'{name}'" for name in _SPEC_FIELDS)})
                                 ORDER BY task.position)
                  FROM workflows_task AS task WHERE task.group_id = owner.uuid AND task.latest
           ) END::text
      FROM first
      LEFT JOIN unnest(%(known)s::uuid[], %(digests)s::bigint[]) AS known(uuid, digest)
             ON known.uuid = first.uuid AND known.digest = first.digest
      LEFT JOIN workflows_taskgroup AS owner ON owner.uuid = first.uuid AND known.uuid IS NULL
     WHERE first.so_far <= %(most_tasks)s OR first.turn = 1
     ORDER BY first.turn
"""  # noqa: S608 -- constants of this module


def read_waiting(selection: Selection, *, digests: Mapping[UUID, int] | None = None) -> FirstGroups:
    """The first of the selected groups. One query; ``digests`` has those of groups that need no reading."""
    digests = digests or {}
    parameters = {
        **selection.parameters,
        "pool": selection.pool,
        "since": selection.since,
        "most": selection.most,
        "most_tasks": selection.most_tasks,
        "known": list(digests),
        "digests": list(digests.values()),
    }
    pool = "TRUE" if selection.pool is None else "workflow.pool_name = %(pool)s"
    query = _WAITING.format(pool=pool, condition=selection.condition, order=selection.order)
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    if not rows:
        return FirstGroups()
    count, younger = rows[0][:2]
    return FirstGroups(count, younger, tuple(_read_group(*row[2:]) for row in rows))


def _read_group(uuid: UUID, digest: int, workflow: str, columns: str, tasks: str | None) -> ReadGroup:
    row = json.loads(columns)
    if row["name"] is None:
        return ReadGroup(uuid, digest, None)
    if tasks is None or row["placement"].get("version") != VERSION:
        return ReadGroup(uuid, None, None)
    try:
        values = _values(uuid, row, json.loads(tasks))
    except ValueError:  # of a newer release
        return ReadGroup(uuid, None, None)
    return ReadGroup(uuid, digest, WaitingGroup(workflow=workflow, values=values))


def _values(uuid: UUID, row: Mapping[str, Any], tasks: Sequence[Sequence[Any]]) -> GroupValues:
    return GroupValues(
        uuid=uuid,
        name=row["name"],
        generation=row["generation"],
        placement=GroupPlacement.from_json(row["placement"]),
        tasks=tuple(_task(*task) for task in tasks),
        form=GangForm.from_json(row["form"]),
    )


def _task(uuid: str, name: str, retry: int, generation: int, *values: Any) -> TaskTry:
    spec = {field: value for field, value in zip(_SPEC_FIELDS, values, strict=True) if value is not None}
    placement = TaskPlacement.from_json({"image": "", "command": [], **spec})
    return TaskTry(
        task_uuid=UUID(uuid), name=name, retry_id=retry, generation=generation, placement=placement
    )
