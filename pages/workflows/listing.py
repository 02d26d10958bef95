"""The list of workflows: a line for each, with the reason of those that wait. Three queries."""

from dataclasses import dataclass
from datetime import datetime

from pages.workflows.labels import Badge, span, status_badge
from pools.selectors import Caller, pools_visible_to
from workflows.lifecycle.statuses import WORKFLOW_TERMINAL, WorkflowStatus
from workflows.models import Workflow
from workflows.selectors import WorkflowFilter, waiting_reasons, workflow_page

A_PAGE = 50
LIVE = "live"
FAILED = "failed"

STATUSES: dict[str, tuple[str, ...]] = {
    LIVE: tuple(
        str(WorkflowStatu) for WorkflowStatu in WorkflowStatus if WorkflowStatu not in WORKFLOW_TERMINAL
    ),
    FAILED: tuple(
        str(WorkflowStatu) for WorkflowStatu in WorkflowStatus if WorkflowStatu.startswith("FAILED")
    ),
    **{str(WorkflowStatu): (str(WorkflowStatu),) for WorkflowStatu in WorkflowStatus},
}
"""The choices that the list can be narrowed to, and the statuses that stand for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowLine:
    name: str
    badge: Badge
    pool: str
    submitted_by: str
    priority: str
    submit_time: datetime
    run_time: str
    waits: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    value: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListContent:
    """One page of the list, and what the form offers."""

    lines: tuple[WorkflowLine, ...]
    offset: int
    newer: int | None
    older: int | None
    pools: tuple[str, ...]
    statuses: tuple[Choice, ...]


def list_content(workflow_filter: WorkflowFilter, *, user: Caller, offset: int, now: datetime) -> ListContent:
    """The newest workflows that the user may list."""
    page = workflow_page(workflow_filter, user=user, limit=A_PAGE, offset=offset, order="DESC")
    waits = waiting_reasons(page.workflows)
    return ListContent(
        lines=tuple(_line(workflow, waits.get(workflow.pk, ""), now=now) for workflow in page.workflows),
        offset=offset,
        newer=max(0, offset - A_PAGE) if offset else None,
        older=offset + A_PAGE if page.more else None,
        pools=tuple(pools_visible_to(user).order_by("name").values_list("name", flat=True)),
        statuses=tuple(Choice(value=value, text=_choice(value)) for value in STATUSES),
    )


def _choice(value: str) -> str:
    return {LIVE: "Not ended", FAILED: "Failed in any way"}.get(value) or status_badge(value).word


def _line(workflow: Workflow, waits: str, *, now: datetime) -> WorkflowLine:
    return WorkflowLine(
        name=workflow.name,
        badge=status_badge(workflow.status),
        pool=workflow.pool_name,
        submitted_by=workflow.submitted_by,
        priority=workflow.priority.capitalize(),
        submit_time=workflow.submit_time,
        run_time=span(workflow.start_time, workflow.end_time, now=now),
        waits=waits,
    )
