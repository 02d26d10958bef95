"""Tasks of all workflows, in pages, as OSMO's ``task list`` shows them.

Each row is one try of one task. The order is that in which tries were made, or that of their workflows'
submission; the two differ for retries alone. Each is that of an index: of the tasks on a node or in a status,
of the workflows of a user or a pool. So no more is read than a page shows, however many rows there are.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from pools.selectors import Caller
from web.access.rights import grants_of
from web.policy import Action
from workflows.models import Task
from workflows.values.amounts import NO_AMOUNTS, Amounts, requested


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """What a list is narrowed to; empty means all. Times are of the task's start."""

    users: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    workflow: str = ""
    pools: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    started_after: datetime | None = None
    started_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTask:
    """One try of a task with what a list shows of its workflow."""

    user: str
    workflow: str
    workflow_uuid: UUID
    name: str
    retry_id: int
    pool: str
    priority: str
    backend: int
    grafana_url: str
    dashboard_url: str
    node: str
    status: str
    start_time: datetime | None
    end_time: datetime | None
    asks: Amounts


_COLUMNS = (
    "group__workflow__submitted_by",
    "group__workflow__name",
    "group__workflow_id",
    "name",
    "retry_id",
    "group__workflow__pool_name",
    "group__workflow__priority",
    "group__backend_id",
    "group__backend__grafana_url",
    "group__backend__dashboard_url",
    "node_name",
    "status",
    "start_time",
    "end_time",
    "spec__gpu",
    "spec__cpu",
    "spec__memory",
    "spec__storage",
)
_FIELDS = tuple(ListedTask.__dataclass_fields__)[:-1]


def task_page(
    criteria: TaskFilter, *, user: Caller, limit: int, offset: int, order: Literal["ASC", "DESC"]
) -> list[ListedTask]:
    """One page of what the user may list. One query."""
    sign = "" if order == "ASC" else "-"
    of_workflows = criteria.users or criteria.pools or _pools(user) is not None
    by_tries = criteria.nodes or (criteria.statuses and not of_workflows)
    fields = ("id",) if by_tries else ("group__workflow__submit_time", "id")
    rows = _rows(criteria, user=user).order_by(*(sign + field for field in fields))
    return [_listed(row) for row in rows.values_list(*_COLUMNS)[offset : offset + limit]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSum:
    """What the tasks of one user, pool and priority ask for together; ``workflow`` empty: of all theirs."""

    user: str
    pool: str
    priority: str
    workflow: str
    asks: Amounts


TASKS_AT_ONCE = 1000
"""Tasks whose sums cost no more than a page of them."""

_SUMMED = ("group__workflow__submitted_by", "group__workflow__pool_name", "group__workflow__priority")
_REQUESTED = ("spec__gpu", "spec__cpu", "spec__memory", "spec__storage")


def are_many(criteria: TaskFilter, *, user: Caller) -> bool:
    """Whether sums have more to read than at once. One query, which reads no more than that of matches."""
    return _rows(criteria, user=user).order_by()[TASKS_AT_ONCE:].exists()


def task_sums(
    criteria: TaskFilter,
    *,
    user: Caller,
    by_workflow: bool,
    limit: int,
    offset: int,
    order: Literal["ASC", "DESC"],
) -> list[TaskSum]:
    """One page of sums, by workflow in the order of submission, else by name. Two queries.

    Memory and storage are texts with units, so the database counts tasks that ask for the same, and the sum
    is taken here: a workflow has few kinds of tasks.
    """
    keys = ("group__workflow__name", *_SUMMED) if by_workflow else _SUMMED
    rows = _rows(criteria, user=user)
    sorted_by = ("group__workflow__submit_time", *keys) if by_workflow else keys
    sign = "-" if order == "DESC" else ""
    pages = rows.order_by(*(sign + field for field in sorted_by)).values_list(*sorted_by).distinct()
    page = [key[-len(keys) :] for key in pages[offset : offset + limit]]
    counts = rows.filter(**{f"{keys[0]}__in": {key[0] for key in page}}).order_by()
    sums = dict.fromkeys(page, NO_AMOUNTS)
    for row in counts.values_list(*keys, *_REQUESTED).annotate(tasks=Count("pk")):
        key, asks = row[: len(keys)], requested(*row[len(keys) : -1])
        if key in sums:
            sums[key] += asks.times(row[-1])
    return [_sum(key, sums[key]) for key in page]


def _sum(key: tuple[str, ...], asks: Amounts) -> TaskSum:
    *workflow, user, pool, priority = key
    return TaskSum(user=user, pool=pool, priority=priority, workflow="".join(workflow), asks=asks)


def _listed(row: tuple[object, ...]) -> ListedTask:
    values = dict(zip(_FIELDS, row, strict=False))
    return ListedTask(**values, asks=requested(*row[len(_FIELDS) :]))  # type: ignore[arg-type]  # as columns are


def _rows(criteria: TaskFilter, *, user: Caller) -> QuerySet[Task]:
    pools = _pools(user)
    condition = Q() if pools is None else Q(group__workflow__pool_name__in=pools)
    for field, values in (
        ("group__workflow__submitted_by__in", criteria.users),
        ("status__in", criteria.statuses),
        ("group__workflow__name", criteria.workflow),
        ("group__workflow__pool_name__in", criteria.pools),
        ("node_name__in", criteria.nodes),
        ("group__workflow__priority__in", criteria.priorities),
        ("start_time__gte", criteria.started_after),
        ("start_time__lte", criteria.started_before),
    ):
        if values:
            condition &= Q(**{field: values})
    return Task.objects.filter(condition)


def _pools(user: Caller) -> frozenset[str] | None:
    """The pools whose work the user may list; None for all."""
    return grants_of(user).names("pool", {Action.WORKFLOW_LIST})
