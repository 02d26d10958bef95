"""The tasks of a workflow as its page shows them: one page of their latest tries, and counts by status."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count

from pages.short_names import ShortName, short_names
from pages.workflows.labels import Badge, span, status_badge
from scheduling.nodes.node_health import NodeHealth
from workflows.lifecycle.statuses import LIVE_ORDER
from workflows.models import Task, TaskGroup, Workflow
from workflows.nodes.health import unhealthy_nodes_of

TASKS_A_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLine:
    name: str
    group: str
    lead: bool
    retry_id: int
    badge: Badge
    node: ShortName | None
    node_sentence: str
    start_time: datetime | None
    run_time: str
    exit_code: int | None
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """One page of the latest tries, in every status or in ``status`` alone.

    ``total`` and ``in_status`` count all there are. ``first`` counts from 1; ``earlier`` and ``later`` are
    offsets.
    """

    rows: tuple[TaskLine, ...]
    status: str
    in_status: tuple[tuple[Badge, int], ...]
    total: int
    of: int
    first: int
    earlier: int | None
    later: int | None

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSelection:
    """The selected tasks: from the ``offset``th on, and only those of ``status`` unless it is empty."""

    offset: int = 0
    status: str = ""


def task_counts(groups: Sequence[TaskGroup]) -> dict[UUID, dict[str, int]]:
    """How many latest tries each of these groups has in each status."""
    rows = Task.objects.filter(group__in=groups, latest=True).order_by()
    counts: dict[UUID, dict[str, int]] = defaultdict(dict)
    for group, status, number in rows.values_list("group_id", "status").annotate(number=Count("pk")):
        counts[group][status] = number
    return counts


def total_counts(workflow: Workflow) -> Counter[str]:
    """How many latest tries the workflow has in each status. A row for each status."""
    rows = Task.objects.filter(group__workflow=workflow, latest=True).order_by()
    return Counter(dict(rows.values_list("status").annotate(number=Count("pk"))))


def task_page(
    workflow: Workflow, selection: TaskSelection, *, counts: Counter[str], now: datetime
) -> TaskPage:
    latest = Task.objects.filter(group__workflow=workflow, latest=True)
    latest = latest.filter(status=selection.status) if selection.status else latest
    rows = latest.order_by("group__position", "position").values_list(
        *("name", "group__name", "lead", "retry_id", "status", "node_name"),
        *("start_time", "end_time", "exit_code", "failure_message"),
    )
    end = selection.offset + TASKS_A_PAGE
    page = list(rows[selection.offset : end])
    nodes = unhealthy_nodes_of(
        workflow, {row[_NODE] for row in page if row[_NODE] and row[_STATUS] in LIVE_ORDER}
    )
    of = counts[selection.status] if selection.status else counts.total()
    names = [row[_NODE] for row in page if row[_NODE]]
    short = dict(zip(names, short_names(names), strict=True))
    return TaskPage(
        rows=tuple(_task(row, nodes=nodes.by_name, short=short, now=now) for row in page),
        status=selection.status,
        in_status=tuple((status_badge(status), number) for status, number in sorted(counts.items())),
        total=counts.total(),
        of=of,
        first=selection.offset + 1,
        earlier=max(0, selection.offset - TASKS_A_PAGE) if selection.offset else None,
        later=end if end < of else None,
    )


_STATUS, _NODE = 4, 5


def _task(
    row: Sequence[Any],
    *,
    nodes: Mapping[str, NodeHealth],
    short: Mapping[str, ShortName],
    now: datetime,
) -> TaskLine:
    name, group, lead, retry_id, status, node, start, end, exit_code, failure = row
    health = nodes.get(node) if status in LIVE_ORDER else None
    return TaskLine(
        name=name,
        group=group,
        lead=lead,
        retry_id=retry_id,
        badge=status_badge(status),
        node=short.get(node),
        node_sentence=health.sentence(node) if health else "",
        start_time=start,
        run_time=span(start, end, now=now),
        exit_code=exit_code,
        failure=failure,
    )
