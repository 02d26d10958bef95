"""What the page of a workflow shows, as values: a fixed number of queries however many tasks it has.

Values alone and no rows, so that a digest of them is exactly what makes two pages differ: a page that is
loaded again while nothing happened is answered without being drawn.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Prefetch

from pages.workflows.domains import ComputeDomainStatus, ComputeDomainView, Stage, compute_domain_view
from pages.workflows.explanation_cache import cached_explanations
from pages.workflows.graph import BOX_HEIGHT, BOX_WIDTH, Arrow, Drawing, draw
from pages.workflows.labels import Badge, span, status_badge
from pages.workflows.outcome import PlacementView, placement_view
from pages.workflows.timeline import EventText, TimelineLine, timeline
from pages.workflows.verdicts import WaitsView, waits_view
from pools.selectors import Caller
from scheduling import names
from scheduling.sentences import agree, count_of
from web.access import grants_of
from web.policy import Action
from workflows.explain.summary import status_sentence
from workflows.feasibility.placed import PlacementResult
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus
from workflows.models import Event, Task, TaskGroup, Workflow
from workflows.selectors import compute_domains_of

Json = Mapping[str, Any]

MOST_GROUPS = 200
TASKS_A_PAGE = 100
MOST_EVENTS = 300
BOX_TEXT = 23
"""Characters that a line in a box of the drawing has room for."""

SPEC_CHARACTERS = 60_000
"""Characters of a spec that are on the page; the whole is a link away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """A group, with how many of its tasks there are in each status."""

    anchor: str
    name: str
    badge: Badge
    tasks: tuple[tuple[Badge, int], ...]
    upstream: tuple[str, ...]
    constraints: tuple[str, ...]
    failure: str
    start_time: datetime | None
    end_time: datetime | None
    run_time: str

    @property
    def size(self) -> int:
        return sum(number for _, number in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxView:
    """A group's box in the drawing, with where its lines of text begin."""

    group: GroupLine
    x: float
    y: float
    title: str
    line: str

    @property
    def text_x(self) -> float:
        return self.x + 14

    @property
    def title_y(self) -> float:
        return self.y + 25

    @property
    def line_y(self) -> float:
        return self.y + 46


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    boxes: tuple[BoxView, ...]
    arrows: tuple[Arrow, ...]
    width: float
    height: float
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLine:
    name: str
    group: str
    lead: bool
    retry_id: int
    badge: Badge
    node: str
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
class WorkflowContent:
    """Everything on the page. ``live`` says that something of it may still change."""

    name: str
    uuid: UUID
    badge: Badge
    live: bool
    sentence: str
    pool: str
    backend: str
    submitted_by: str
    cancelled_by: str
    priority: str
    labels: tuple[tuple[str, str], ...]
    tags: tuple[str, ...]
    parent: str
    warnings: tuple[str, ...]
    submit_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    waiting_time: str
    run_time: str
    groups: tuple[GroupLine, ...]
    more_groups: bool
    graph: GraphView | None
    waits: WaitsView
    domains: tuple[ComputeDomainView, ...]
    tasks: TaskPage
    placements: tuple[PlacementView, ...]
    events: tuple[TimelineLine, ...]
    more_events: bool
    spec: str
    templated: bool
    spec_cut: bool
    dashboard_url: str
    grafana_url: str
    may_cancel: bool
    may_submit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSelection:
    """Which of the tasks are wanted: from the ``offset``th on, and in one status alone unless it is empty."""

    offset: int = 0
    status: str = ""


def workflow_content(
    workflow: Workflow, *, user: Caller, tasks: TaskSelection, now: datetime
) -> WorkflowContent:
    """All of a workflow that its reader may see; ``workflow`` came with its backend."""
    rows = _groups(workflow)
    groups, more_groups = rows[:MOST_GROUPS], len(rows) > MOST_GROUPS
    waits = waits_view(cached_explanations(groups, user=user, now=now))
    counts = _task_counts(workflow)
    group_views = tuple(_group(group, counts.get(group.pk, {}), now=now) for group in groups)
    events = _events(workflow)
    text = workflow.template_spec or workflow.spec
    ended = workflow.status in WORKFLOW_TERMINAL
    resource, grants = f"pool/{workflow.pool_name}", grants_of(user)
    return WorkflowContent(
        name=workflow.name,
        uuid=workflow.pk,
        badge=status_badge(workflow.status),
        live=not ended or any(group.released_at is None for group in groups),
        sentence=_sentence(workflow, groups, waits) or _progress(group_views),
        pool=workflow.pool_name,
        backend=workflow.backend.name,
        submitted_by=workflow.submitted_by,
        cancelled_by=workflow.cancelled_by,
        priority=workflow.priority.capitalize(),
        labels=tuple(sorted((str(key), str(value)) for key, value in workflow.labels.items())),
        tags=tuple(map(str, workflow.tags)),
        parent=f"{workflow.parent_name}-{workflow.parent_job_id}" if workflow.parent_name else "",
        warnings=tuple(_warning(warning) for warning in workflow.warnings),
        submit_time=workflow.submit_time,
        start_time=workflow.start_time,
        end_time=workflow.end_time,
        waiting_time=span(workflow.submit_time, workflow.start_time or workflow.end_time, now=now),
        run_time=span(workflow.start_time, workflow.end_time, now=now),
        groups=group_views,
        more_groups=more_groups,
        graph=None if more_groups else _graph(group_views),
        waits=waits,
        domains=_domains(groups),
        tasks=_tasks(workflow, tasks, counts=_all(counts), now=now),
        placements=tuple(
            placement_view(group.name, PlacementResult.from_row(group.placement_result))
            for group in groups
            if group.placement_result
        ),
        events=timeline(events[-MOST_EVENTS:]),
        more_events=len(events) > MOST_EVENTS,
        spec=text[:SPEC_CHARACTERS],
        templated=bool(workflow.template_spec),
        spec_cut=len(text) > SPEC_CHARACTERS,
        dashboard_url=workflow.backend.dashboard_url,
        grafana_url=workflow.backend.grafana_url,
        may_cancel=not ended and grants.allows(Action.WORKFLOW_CANCEL, resource),
        may_submit=grants.allows(Action.WORKFLOW_CREATE, resource),
    )


def _sentence(workflow: Workflow, groups: Sequence[TaskGroup], waits: WaitsView) -> str:
    """How it stands, in a line: what it waits for, or why it did not complete. More of it is below."""
    if workflow.status in WORKFLOW_TERMINAL:
        return next((group.failure_message for group in groups if group.failure_message), "")
    if not (waits.long or waits.short):
        return status_sentence(workflow.status, ()) if workflow.status == WorkflowStatus.PENDING else ""
    first, more = (*waits.long, *waits.short)[0], len(waits.long) + len(waits.short) - 1
    others = f" {count_of(more, 'more group')} {agree(more, 'waits', 'wait')}." if more else ""
    begin, dot, _ = first.sentence.partition(". ")
    return f"Group {first.group}: {begin}{dot.strip()}{others}"


def _progress(groups: Sequence[GroupLine]) -> str:
    """How many tasks are where on their way."""
    tasks: Counter[str] = Counter()
    for group in groups:
        tasks.update({badge.word.lower(): number for badge, number in group.tasks})
    if not tasks:
        return ""
    (word, number), total = tasks.most_common(1)[0], tasks.total()
    return (
        f"All {total} tasks: {word}."
        if number == total > 1
        else f"Of {count_of(total, 'task')} {_parts(tasks)}."
    )


def _parts(tasks: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {word}" for word, number in sorted(tasks.items()))


def _warning(warning: object) -> str:
    return str(warning.get("message", "")) if isinstance(warning, Mapping) else str(warning)


def _groups(workflow: Workflow) -> list[TaskGroup]:
    neighbours = TaskGroup.objects.only("uuid", "name", "status").order_by("position")
    rows = workflow.groups.order_by("position").select_related("backend")
    return list(rows.prefetch_related(Prefetch("upstream", queryset=neighbours))[: MOST_GROUPS + 1])


def _task_counts(workflow: Workflow) -> dict[UUID, dict[str, int]]:
    """How many latest tries each group has in each status."""
    rows = Task.objects.filter(group__workflow=workflow, latest=True).order_by()
    counts: dict[UUID, dict[str, int]] = defaultdict(dict)
    for group, status, number in rows.values_list("group_id", "status").annotate(number=Count("pk")):
        counts[group][status] = number
    return counts


def _all(counts: Mapping[UUID, Mapping[str, int]]) -> Counter[str]:
    """How many latest tries the workflow has in each status."""
    totals: Counter[str] = Counter()
    for of_group in counts.values():
        totals.update(of_group)
    return totals


def _group(group: TaskGroup, counts: Mapping[str, int], *, now: datetime) -> GroupLine:
    return GroupLine(
        anchor=f"group-{group.pk.hex}",
        name=group.name,
        badge=status_badge(group.status),
        tasks=tuple((status_badge(status), number) for status, number in sorted(counts.items())),
        upstream=tuple(upstream.name for upstream in group.upstream.all()),
        constraints=_constraints(group.constraints),
        failure=group.failure_message,
        start_time=group.start_time,
        end_time=group.end_time,
        run_time=span(group.start_time, group.end_time, now=now),
    )


def _constraints(lines: Sequence[Json]) -> tuple[str, ...]:
    """What its scheduler was told, sets that are alike in one line."""
    alike = Counter(
        (str(line.get("key")), str(line.get("requirementType")), line.get("tasks"), bool(line.get("relaxed")))
        for line in lines
    )
    return tuple(
        f"one {key} {kind} for {_for_sets(number, tasks)}{', given up' if relaxed else ''}"
        for (key, kind, tasks, relaxed), number in alike.items()
    )


def _for_sets(sets: int, tasks: Any) -> str:
    size = len(tasks) if isinstance(tasks, list) else int(tasks or 0)
    return count_of(size, "task") if sets == 1 else f"each of {sets} sets of {count_of(size, 'task')}"


def _graph(groups: Sequence[GroupLine]) -> GraphView | None:
    drawing: Drawing | None = draw({group.name: group.upstream for group in groups})
    if drawing is None:
        return None
    boxes = tuple(
        BoxView(group=group, x=box.x, y=box.y, title=_short(group.name, 20), line=_box_line(group))
        for group, box in zip(groups, drawing.boxes, strict=True)
    )
    return GraphView(boxes=boxes, arrows=drawing.arrows, width=drawing.width, height=drawing.height)


def _box_line(group: GroupLine) -> str:
    full = f"{group.badge.word} · {count_of(group.size, 'task')}"
    return full if len(full) <= BOX_TEXT else _short(f"{group.badge.word} · {group.size:,}", BOX_TEXT)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _domains(groups: Sequence[TaskGroup]) -> tuple[ComputeDomainView, ...]:
    """The ComputeDomain of each group that gets one, whether it is there or not."""
    with_domain = [group for group in groups if group.placement.get("nvlink")]
    if not with_domain:
        return ()
    observed = compute_domains_of(with_domain)
    nodes: dict[UUID, set[str]] = defaultdict(set)
    rows = Task.objects.filter(group__in=with_domain, spec__claims_channel=True, status__in=LIVE_ORDER)
    for group, node in rows.exclude(node_name="").order_by().values_list("group_id", "node_name").distinct():
        nodes[group].add(node)
    return tuple(
        compute_domain_view(
            group=group.name,
            name=names.compute_domain(group.pk),
            namespace=group.placement["namespace"],
            observed=_observed_domain(observed.get(group.pk)),
            stage=_stage(group.status),
            task_nodes=nodes[group.pk],
        )
        for group in with_domain
    )


def _stage(status: str) -> Stage:
    if status not in LIVE_ORDER:
        return "ended"
    return "before" if status in {TaskStatus.SUBMITTING, TaskStatus.WAITING} else "live"


def _observed_domain(row: Any) -> ComputeDomainStatus | None:
    if row is None:
        return None
    return ComputeDomainStatus(
        status=row.digest.get("status") or {}, deleting=row.deleting, observed_at=row.seen_at
    )


def _tasks(workflow: Workflow, selection: TaskSelection, *, counts: Counter[str], now: datetime) -> TaskPage:
    latest = Task.objects.filter(group__workflow=workflow, latest=True)
    latest = latest.filter(status=selection.status) if selection.status else latest
    rows = latest.order_by("group__position", "position").values_list(
        *("name", "group__name", "lead", "retry_id", "status", "node_name"),
        *("start_time", "end_time", "exit_code", "failure_message"),
    )
    end = selection.offset + TASKS_A_PAGE
    of = counts[selection.status] if selection.status else counts.total()
    return TaskPage(
        rows=tuple(_task(row, now=now) for row in rows[selection.offset : end]),
        status=selection.status,
        in_status=tuple((status_badge(status), number) for status, number in sorted(counts.items())),
        total=counts.total(),
        of=of,
        first=selection.offset + 1,
        earlier=max(0, selection.offset - TASKS_A_PAGE) if selection.offset else None,
        later=end if end < of else None,
    )


def _task(row: Sequence[Any], *, now: datetime) -> TaskLine:
    name, group, lead, retry_id, status, node, start, end, exit_code, failure = row
    return TaskLine(
        name=name,
        group=group,
        lead=lead,
        retry_id=retry_id,
        badge=status_badge(status),
        node=node,
        start_time=start,
        run_time=span(start, end, now=now),
        exit_code=exit_code,
        failure=failure,
    )


def _events(workflow: Workflow) -> list[EventText]:
    """The last events in order of time, one more than are shown if there are more.

    The cluster's times are whole seconds: within one, the order is that in which events came in.
    """
    columns = ("time", "task_name", "group__name", "source", "warning", "reason", "message")
    rows = Event.objects.filter(workflow=workflow).order_by("-time", "-pk").values_list("pk", *columns)
    latest = sorted(rows[: MOST_EVENTS + 1], key=lambda row: (row[1].replace(microsecond=0), row[0]))
    return [
        EventText(
            time=time,
            about=task or group or "",
            source=source,
            warning=warning,
            reason=reason,
            message=message,
        )
        for _, time, task, group, source, warning, reason, message in latest
    ]
