"""The groups that wait in a pool, each with only the fields that a verdict reads: two queries."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from scheduling import pins, set_order
from workflows.lifecycle.statuses import BACKLOG, TaskStatus
from workflows.models import Task, TaskGroup, in_status
from workflows.values.placement import VERSIONS, GroupPlacement, GroupValues, TaskPlacement, TaskTry

MOST_GROUPS = 50
MOST_TASKS = 20_000
_UNPLACED = (*BACKLOG, TaskStatus.SCHEDULING)
_COLUMNS = (
    "name",
    "generation",
    "stage",
    "set_order",
    "pins",
    "placement",
    "optional_placement",
    "preference_levels",
    "workflow__name",
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


def waiting_groups_in(pool: str) -> WaitingGroups:
    """The groups of a pool that wait; at most MOST_GROUPS, of at most MOST_TASKS tasks together."""
    rows = unplaced(pool)
    return WaitingGroups(groups=read_groups(rows.order_by("submit_time", "pk")), count=rows.count())


def read_groups(
    rows: QuerySet[TaskGroup], *, most: int | None = None, most_tasks: int | None = None
) -> tuple[WaitingGroup, ...]:
    """The first of these groups, in their order, with as many tasks together as may be read. Two queries."""
    sized = rows.annotate(size=Count("tasks", filter=Q(tasks__latest=True)))
    chosen: list[TaskGroup] = []
    left = MOST_TASKS if most_tasks is None else most_tasks
    for row in sized.select_related("workflow").only(*_COLUMNS)[: MOST_GROUPS if most is None else most]:
        left -= row.size
        if left < 0 and chosen:
            break
        chosen.append(row)
    tasks = _tasks([row.pk for row in chosen])
    return tuple(_group(row, tasks[row.pk]) for row in chosen if tasks[row.pk] and _is_readable(row))


def _is_readable(row: TaskGroup) -> bool:
    """Whether this release can read the version of the frozen placement; other groups are left out."""
    return row.placement.get("version") in VERSIONS


def unplaced(pool: str) -> QuerySet[TaskGroup]:
    """The groups of a pool none of whose tasks has a node."""
    standing = Task.objects.filter(latest=True).exclude(node_name="").values("group_id")
    rows = TaskGroup.objects.filter(
        in_status(*_UNPLACED), workflow__pool_name=pool, released_at=None, stop_status=""
    )
    return rows.exclude(pk__in=standing.filter(group__workflow__pool_name=pool, group__released_at=None))


def _tasks(groups: Sequence[UUID]) -> dict[UUID, list[TaskTry]]:
    rows = Task.objects.filter(group_id__in=groups, latest=True).order_by("group_id", "position")
    by_group: dict[UUID, list[TaskTry]] = defaultdict(list)
    for group, uuid, name, retry, generation, *values in rows.values_list(
        "group_id",
        "task_uuid",
        "name",
        "retry_id",
        "generation",
        *(f"spec__{field}" for field in _SPEC_FIELDS),
    ):
        spec = {field: value for field, value in zip(_SPEC_FIELDS, values, strict=True) if value is not None}
        placement = TaskPlacement.from_json({"image": "", "command": [], **spec})
        by_group[group].append(
            TaskTry(task_uuid=uuid, name=name, retry_id=retry, generation=generation, placement=placement)
        )
    return by_group


def _group(row: TaskGroup, tasks: Sequence[TaskTry]) -> WaitingGroup:
    values = GroupValues(
        uuid=row.pk,
        name=row.name,
        generation=row.generation,
        placement=GroupPlacement.from_json(row.placement, row.optional_placement),
        tasks=tuple(tasks),
        stage=row.stage,
        preference_levels=row.preference_levels,
        order=set_order.from_json(row.set_order),
        pins=pins.from_json(row.pins),
    )
    return WaitingGroup(workflow=row.workflow.name, values=values)
