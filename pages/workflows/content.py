"""The content of a workflow's page, as values: a fixed number of queries for any number of tasks.

The values contain no rows, so two pages differ exactly if a digest of their values does: the answer to a
reload without a change is 304, without rendering.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pages.workflows.attempts import AttemptLine, attempt_lines
from pages.workflows.domains import ComputeDomainStatus, ComputeDomainView, DomainStage, compute_domain_view
from pages.workflows.entrances import session_commands
from pages.workflows.explanations import explanations_of
from pages.workflows.groups import GraphView, GroupPage, graph_view, group_line
from pages.workflows.labels import Badge, span, status_badge
from pages.workflows.outcome import PlacementView, placement_view
from pages.workflows.tasks import TaskPage, TaskSelection, task_counts, task_page, total_counts
from pages.workflows.timeline import EventText, TimelineLine, timeline
from pages.workflows.verdicts import WaitsView, waits_view
from pools.selectors import Caller
from scheduling import names
from scheduling.sentences import agree, count_of
from web.access.rights import grants_of
from web.policy import Action
from workflows.explain.summary import WaitSummary, first_waiting, group_sentence, status_sentence
from workflows.feasibility.placement.placed import PlacementResult
from workflows.group_reads import GROUPS_AT_ONCE, GroupRange, with_neighbours
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus
from workflows.models import Event, Task, TaskGroup, Workflow
from workflows.news.outbox import news_of
from workflows.selectors import compute_domains_of, variables_of

MOST_EVENTS = 300
SPEC_CHARACTERS = 60_000
"""Characters of a spec on the page, which links to the complete text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowContent:
    """Everything on the page. ``live`` means that some of it may still change."""

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
    variables: tuple[tuple[str, str], ...]
    tags: tuple[str, ...]
    parent: str
    warnings: tuple[str, ...]
    submit_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    waiting_time: str
    run_time: str
    groups: GroupPage
    attempts: tuple[AttemptLine, ...]
    graph: GraphView | None
    waits: WaitsView
    domains: tuple[ComputeDomainView, ...]
    tasks: TaskPage
    session_commands: tuple[str, ...]
    """What leads into a running task, for who may enter it."""

    placements: tuple[PlacementView, ...]
    news: tuple[dict[str, Any], ...]
    events: tuple[TimelineLine, ...]
    more_events: bool
    spec: str
    templated: bool
    spec_cut: bool
    dashboard_url: str
    grafana_url: str
    may_cancel: bool
    may_submit: bool


def workflow_content(
    workflow: Workflow, *, user: Caller, groups_from: int, tasks: TaskSelection, now: datetime
) -> WorkflowContent:
    """The content that this user may see; ``workflow`` was selected with its backend.

    Of its groups those from the ``groups_from``th on are read, as many as are shown.
    """
    selection = GroupRange(workflow=workflow, offset=groups_from, limit=GROUPS_AT_ONCE, every_try=False)
    groups = list(with_neighbours(selection.groups.select_related("backend")))
    waits = waits_view(explanations_of(groups, user=user, now=now))
    counts, totals = task_counts(groups), total_counts(workflow)
    group_views = tuple(
        group_line(
            group,
            counts.get(group.pk, {}),
            upstream=group.upstream_names,
            now=now,
        )
        for group in groups
    )
    page = GroupPage.of(group_views, first=groups_from, more=selection.has_more)
    events = _events(workflow)
    text = workflow.template_spec or workflow.spec
    ended = workflow.status in WORKFLOW_TERMINAL
    resource, grants = f"pool/{workflow.pool_name}", grants_of(user)
    shown_tasks = task_page(workflow, tasks, counts=totals, now=now)
    return WorkflowContent(
        name=workflow.name,
        uuid=workflow.pk,
        badge=status_badge(workflow.status),
        live=not ended or workflow.groups.filter(released_at=None).exists(),
        sentence=_sentence(workflow, waits, now=now) or _progress(totals),
        pool=workflow.pool_name,
        backend=workflow.backend.name,
        submitted_by=workflow.submitted_by,
        cancelled_by=workflow.cancelled_by,
        priority=workflow.priority.capitalize(),
        labels=tuple(sorted((str(key), str(value)) for key, value in workflow.labels.items())),
        variables=tuple(variables_of(workflow).items()),
        tags=tuple(map(str, workflow.tags)),
        parent=f"{workflow.parent_name}-{workflow.parent_job_id}" if workflow.parent_name else "",
        warnings=tuple(_warning(warning) for warning in workflow.warnings),
        submit_time=workflow.submit_time,
        start_time=workflow.start_time,
        end_time=workflow.end_time,
        waiting_time=span(workflow.submit_time, workflow.start_time or workflow.end_time, now=now),
        run_time=span(workflow.start_time, workflow.end_time, now=now),
        groups=page,
        attempts=attempt_lines(groups),
        graph=graph_view(group_views) if page.is_whole else None,
        waits=waits,
        domains=_domains(groups),
        tasks=shown_tasks,
        session_commands=session_commands(workflow, shown_tasks, grants, username=user.get_username()),
        placements=tuple(
            placement_view(group.name, PlacementResult.from_row(group.placement_result))
            for group in groups
            if group.placement_result
        ),
        news=tuple(news_of(workflow)),
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


def _sentence(workflow: Workflow, waits: WaitsView, *, now: datetime) -> str:
    """The status in one line: what the workflow waits for, or why it did not complete. Details are below."""
    if workflow.status in WORKFLOW_TERMINAL:
        failed = workflow.groups.exclude(failure_message="").order_by("position")
        return failed.values_list("failure_message", flat=True).first() or ""
    waiting, number = first_waiting(workflow)
    if waiting is None:
        return status_sentence(workflow.status, None) if workflow.status == WorkflowStatus.PENDING else ""
    explained = (*waits.long, *waits.short)
    if not explained:
        summary = WaitSummary(waiting.name, group_sentence(waiting, now=now), number)
        return status_sentence(workflow.status, summary)
    first, more = explained[0], number - 1
    others = f" {count_of(more, 'more group')} {agree(more, 'waits', 'wait')}." if more else ""
    begin, dot, _ = first.sentence.partition(". ")
    return f"Group {first.group}: {begin}{dot.strip()}{others}"


def _progress(totals: Mapping[str, int]) -> str:
    """The number of tasks in each status, as a sentence."""
    tasks: Counter[str] = Counter()
    for status, count in totals.items():
        tasks[status_badge(status).word.lower()] += count
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


def _domains(groups: Sequence[TaskGroup]) -> tuple[ComputeDomainView, ...]:
    """The ComputeDomain of each group that gets one, whether it exists or not."""
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


def _stage(status: str) -> DomainStage:
    if status not in LIVE_ORDER:
        return "ended"
    return "before" if status in {TaskStatus.SUBMITTING, TaskStatus.WAITING} else "live"


def _observed_domain(row: Any) -> ComputeDomainStatus | None:
    if row is None:
        return None
    return ComputeDomainStatus(
        status=row.digest.get("status") or {}, deleting=row.deleting, observed_at=row.seen_at
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
