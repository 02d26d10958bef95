"""The groups that wait in a pool, with what a verdict needs of each and nothing else: two queries."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from workflows.lifecycle.statuses import TaskStatus
from workflows.models import Task, TaskGroup
from workflows.values.placement import VERSIONS, GroupPlacement, GroupValues, TaskPlacement, TaskTry

MOST_GROUPS = 50
MOST_TASKS = 20_000
_UNPLACED = (TaskStatus.SUBMITTING, TaskStatus.WAITING, TaskStatus.PROCESSING, TaskStatus.SCHEDULING)
_READ = (
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
"""What a verdict reads of a task; files and the like, which may be large, stay in the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """A group none of whose tasks has a node."""

    workflow: str
    values: GroupValues


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Those that are judged, the longest waiting first, and how many there are in all."""

    groups: tuple[WaitingGroup, ...]
    count: int


def waiting_in(pool: str) -> Waiting:
    """The groups of a pool that wait; at most MOST_GROUPS, of at most MOST_TASKS tasks together."""
    rows = _rows(pool)
    count = rows.count()
    sized = rows.annotate(size=Count("tasks", filter=Q(tasks__latest=True))).order_by("submit_time", "pk")
    chosen: list[TaskGroup] = []
    left = MOST_TASKS
    for row in sized.select_related("workflow").only(
        "name", "attempt", "stage", "placement", "workflow__name"
    )[:MOST_GROUPS]:
        left -= row.size
        if left < 0 and chosen:
            break
        chosen.append(row)
    tasks = _tasks([row.pk for row in chosen])
    groups = (_group(row, tasks[row.pk]) for row in chosen if tasks[row.pk] and _is_readable(row))
    return Waiting(groups=tuple(groups), count=count)


def _is_readable(row: TaskGroup) -> bool:
    """Whether this release knows the version of what is frozen: what it does not is left out."""
    return row.placement.get("version") in VERSIONS


def _rows(pool: str) -> QuerySet[TaskGroup]:
    standing = Task.objects.filter(latest=True).exclude(node_name="").values("group_id")
    rows = TaskGroup.objects.filter(
        workflow__pool_name=pool, released_at=None, stop_status="", status__in=_UNPLACED
    )
    return rows.exclude(pk__in=standing.filter(group__workflow__pool_name=pool, group__released_at=None))


def _tasks(groups: Sequence[UUID]) -> dict[UUID, list[TaskTry]]:
    rows = Task.objects.filter(group_id__in=groups, latest=True).order_by("group_id", "position")
    found: dict[UUID, list[TaskTry]] = defaultdict(list)
    for group, uuid, name, retry, attempt, *said in rows.values_list(
        "group_id", "task_uuid", "name", "retry_id", "attempt", *(f"spec__{one}" for one in _READ)
    ):
        spec = {field: value for field, value in zip(_READ, said, strict=True) if value is not None}
        placement = TaskPlacement.from_json({"image": "", "command": [], **spec})
        found[group].append(
            TaskTry(task_uuid=uuid, name=name, retry_id=retry, attempt=attempt, placement=placement)
        )
    return found


def _group(row: TaskGroup, tasks: Sequence[TaskTry]) -> WaitingGroup:
    values = GroupValues(
        uuid=row.pk,
        name=row.name,
        attempt=row.attempt,
        placement=GroupPlacement.from_json(row.placement),
        tasks=tuple(tasks),
        stage=row.stage,
    )
    return WaitingGroup(workflow=row.workflow.name, values=values)
