"""The groups of a workflow and their tasks, a few in memory at a time: a workflow has up to ten thousand.

Groups and their positions are fixed at submission. So their keys are read first, 160 KB at most, and none is
missed or read twice, whatever becomes of them meanwhile.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast
from uuid import UUID

from django.db import connection
from django.db.models import F, Prefetch, QuerySet, prefetch_related_objects
from django.db.models.expressions import RawSQL

from scheduling.errors import NotFound
from web.database.model_rows import Columns
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import Attempt, TaskGroup, Workflow

GROUPS_AT_ONCE = 200
TASKS_AT_ONCE = 1000
ATTEMPTS_AT_ONCE = 500
"""Rows in memory together; a group has no more attempts with it than ``MOST_ATTEMPTS``."""

KEY_BYTES = 16
MOST_ATTEMPTS = 100
"""Of one group, with the present one; each that ended may name 1,000 nodes."""


class WorkflowRemoved(NotFound):
    """The workflow was removed while it was read."""

    code = "DATABASE"  # what OSMO's client knows a missing one by

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no workflow {name!a}.")
        self.workflow_id = name


class Neighbours(TypedDict):
    """The names of the groups around a group, in the user's order; ``remaining`` ones have not completed.

    Names, not rows: a workflow may have ten thousand dependencies, and a model object for each end of each
    takes more time and memory than all the rest of an answer.
    """

    upstream_names: list[str]
    remaining: list[str]
    downstream_names: list[str]


class GroupContent(Neighbours):
    """Of a group's latest tries: their nodes, and when the first of them began, if any did."""

    nodes: list[str]
    first_start: datetime | None


if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    NeighbouredGroup = WithAnnotations[TaskGroup, Neighbours]
    ReadGroup = WithAnnotations[TaskGroup, GroupContent]
else:
    NeighbouredGroup = ReadGroup = TaskGroup

_NEIGHBOUR = """ARRAY(
    SELECT near.name FROM workflows_taskgroup_upstream AS edge
      JOIN workflows_taskgroup AS near ON near.uuid = edge.{}_taskgroup_id
     WHERE edge.{}_taskgroup_id = workflows_taskgroup.uuid {} ORDER BY near.position)
"""
_NEIGHBOURS = {
    "upstream_names": _NEIGHBOUR.format("to", "from", ""),
    "remaining": _NEIGHBOUR.format("to", "from", f"AND near.status <> '{TaskStatus.COMPLETED}'"),
    "downstream_names": _NEIGHBOUR.format("from", "to", ""),
}
_LATEST = "FROM workflows_task AS t WHERE t.group_id = workflows_taskgroup.uuid AND t.latest"
_CONTENT = {
    **_NEIGHBOURS,
    "nodes": f"""coalesce(
        (SELECT array_agg(DISTINCT t.node_name) FILTER (WHERE t.node_name <> '') {_LATEST}), ARRAY[]::text[])
    """,
    "first_start": f"(SELECT min(t.start_time) {_LATEST})",
}
"""Aggregates, since a subquery in the order of nodes may be read along the nodes of all tasks there are."""


class ReadTask(NamedTuple):
    """A try of a task as answers show it; its fields are columns of the row.

    A tuple, since a gang has thousands of them.
    """

    group_id: UUID
    task_uuid: UUID
    name: str
    retry_id: int
    lead: bool
    status: str
    pod_name: str
    pod_ip: str
    node_name: str
    exit_code: int | None
    failure_message: str
    processing_start_time: datetime | None
    scheduling_start_time: datetime | None
    initializing_start_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None


_RANGE = """
    workflow_id = %(workflow)s AND position >= %(first)s AND (%(end)s::bigint IS NULL OR position < %(end)s)
"""
_IS_LONG = f"""
    SELECT EXISTS (SELECT FROM workflows_taskgroup WHERE {_RANGE} OFFSET %(most_groups)s)
        OR EXISTS (SELECT FROM workflows_task
                    WHERE group_id IN (SELECT uuid FROM workflows_taskgroup WHERE {_RANGE})
                      AND (latest OR %(every_try)s) OFFSET %(most_tasks)s)
"""  # noqa: S608 -- constants
_GROUP = Columns(TaskGroup)
_GROUP_KEYS = f"SELECT uuid FROM workflows_taskgroup WHERE {_RANGE} ORDER BY position"  # noqa: S608 -- constants
_GROUPS = f"""
    SELECT {_GROUP.sql("workflows_taskgroup")}, {", ".join(_CONTENT.values())}
      FROM workflows_taskgroup WHERE uuid = ANY(%(keys)s) ORDER BY position
"""  # noqa: S608 -- names and constants
_IS_THERE = "SELECT FROM workflows_workflow WHERE uuid = %(workflow)s"
_TASK_KEYS = """
    SELECT array_agg(t.id ORDER BY g.position, t.position, t.retry_id DESC)
      FROM workflows_task AS t JOIN workflows_taskgroup AS g ON g.uuid = t.group_id
     WHERE t.group_id = ANY(%(groups)s) AND (t.latest OR %(every_try)s)
"""
_TASKS = f"SELECT id, {', '.join(ReadTask._fields)} FROM workflows_task WHERE id = ANY(%(keys)s)"  # noqa: S608 -- names


def _rows(statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of a statement that is written out, since Django takes longer to compile one than it runs."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRange:
    """Groups of a workflow in the user's order: from the ``offset``th on, ``limit`` of them or all.

    ``every_try``: with all tries of their tasks; else with the latest.
    """

    workflow: Workflow
    offset: int
    limit: int | None
    every_try: bool

    @property
    def groups(self) -> QuerySet[TaskGroup]:
        rows = self.workflow.groups.filter(position__gte=self.offset).order_by("position")
        return rows if self.limit is None else rows.filter(position__lt=self.offset + self.limit)

    @property
    def _values(self) -> dict[str, Any]:
        """The range, as the statements name it."""
        end = None if self.limit is None else self.offset + self.limit
        return {"workflow": self.workflow.pk, "first": self.offset, "end": end, "every_try": self.every_try}

    @property
    def is_long(self) -> bool:
        """Whether there is more to read than at once. One query, which reads no more than that."""
        values = {**self._values, "most_groups": GROUPS_AT_ONCE, "most_tasks": TASKS_AT_ONCE}
        [(is_long,)] = _rows(_IS_LONG, values)
        return bool(is_long)

    @property
    def has_more(self) -> bool:
        """Whether groups follow. One query, none without a limit."""
        if self.limit is None:
            return False
        return self.workflow.groups.filter(position__gte=self.offset + self.limit).exists()

    def batches(self) -> Iterator[list[ReadGroup]]:
        """The groups with their content and last ended ``attempts``. One query a batch, two after a loss.

        Two more for all: their keys are read first, so that each batch is looked up however PostgreSQL takes
        its tables to be filled. Raises WorkflowRemoved where the workflow was removed meanwhile, so that no
        answer with a part of it looks whole.
        """
        keys, begin = b"".join(key.bytes for (key,) in _rows(_GROUP_KEYS, self._values)), 0
        while part := keys[begin : begin + GROUPS_AT_ONCE * KEY_BYTES]:
            part_keys = [UUID(bytes=part[at : at + KEY_BYTES]) for at in range(0, len(part), KEY_BYTES)]
            groups = [_group(row) for row in _rows(_GROUPS, {"keys": part_keys})]
            if len(groups) < len(part_keys):
                break
            batch = _with_few_attempts(groups)
            read_attempts([group for group in batch if group.attempt_number > 1], most=MOST_ATTEMPTS - 1)
            yield batch
            begin += len(batch) * KEY_BYTES
        if part or not _rows(_IS_THERE, self._values):
            raise WorkflowRemoved(self.workflow.name)

    def task_batches(self, groups: Iterable[TaskGroup]) -> Iterator[list[ReadTask]]:
        """The tasks of a batch of groups, in its order. Two queries for tasks that are read at once.

        Of all their keys are in memory: a try that begins meanwhile changes nothing. Raises WorkflowRemoved
        where a try was removed, as all are with their workflow.
        """
        values = {"groups": [group.pk for group in groups], "every_try": self.every_try}
        [(keys,)] = _rows(_TASK_KEYS, values)
        ordered = iter(array("q", keys or ()))
        while part := list(islice(ordered, TASKS_AT_ONCE)):
            tasks = {key: ReadTask(*row) for key, *row in _rows(_TASKS, {"keys": part})}
            if len(tasks) < len(part):
                raise WorkflowRemoved(self.workflow.name)
            yield [tasks[key] for key in part]


def _group(row: Sequence[Any]) -> ReadGroup:
    group = _GROUP.instance(row)
    for name, value in zip(_CONTENT, row[len(_GROUP) :], strict=True):
        setattr(group, name, value)
    return cast("ReadGroup", group)


def _with_few_attempts(rows: Sequence[ReadGroup]) -> list[ReadGroup]:
    """As many of the first rows as have few attempts together, and one at least."""
    batch: list[ReadGroup] = []
    attempts = 0
    for group in rows:
        attempts += min(group.attempt_number, MOST_ATTEMPTS)
        if batch and attempts > ATTEMPTS_AT_ONCE:
            break
        batch.append(group)
    return batch


def with_neighbours(groups: QuerySet[TaskGroup]) -> QuerySet[NeighbouredGroup, NeighbouredGroup]:
    """Add the names of each group's neighbours."""
    names = {name: RawSQL(sql, ()) for name, sql in _NEIGHBOURS.items()}  # noqa: S611 -- constants
    return cast("QuerySet[NeighbouredGroup, NeighbouredGroup]", groups.annotate(**names))


def read_attempts(groups: Sequence[TaskGroup], *, most: int) -> None:
    """Read the last ended attempts of these groups, so many of each at most, unless they were read."""
    last = Attempt.objects.filter(number__gte=F("group__attempt_number") - most)
    prefetch_related_objects(groups, Prefetch("attempts", queryset=last))
