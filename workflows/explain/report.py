"""The explanation of a workflow: for each group that waits a reason, its evidence and what would help.

The reason and its evidence are kept in the group's row by the last reconcile. Where the group lacks a place,
the verdict of ``scheduling.fit`` says which domains are too small now, by how much, who holds them and until
when. No cluster is called. Code that decides reads these values; ``as_json`` is for REST alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pools.selectors import Caller
from scheduling.fit.verdict import Obstacle
from scheduling.gang import set_order
from web.times import naive_utc
from workflows.explain.reasons import HELP, Why
from workflows.explain.summary import WaitSummary, group_sentence, status_sentence, workflow_sentence
from workflows.feasibility.verdict.report import FeasibilityReport, feasibility
from workflows.lifecycle import patience
from workflows.lifecycle.statuses import TERMINAL
from workflows.models import TaskGroup, Workflow
from workflows.selectors import group_values
from workflows.values.placement import GroupPlacement

Json = dict[str, Any]

JUDGED_REASONS = frozenset({Why.TOPOLOGY, Why.CAPACITY, Why.SCHEDULER, Why.SILENT, Why.QUOTA, Why.LABELS})
"""Reasons that a verdict on the nodes explains further; it does not cover channels and drivers."""

ANSWER_AFTER = timedelta(seconds=30)
"""How long a scheduler may say nothing of a group before somebody should look at it."""

MOST_VERDICTS = 20
"""Groups of one request whose verdict is computed; each may cost a few tenths of a second on many nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPreferences:
    """Keys that a group prefers and that are still required, until the next of them is relaxed."""

    keys: tuple[str, ...]
    next_relaxation: datetime | None

    def as_json(self) -> Json:
        return {"keys": list(self.keys), "next_relaxation_at": naive_utc(self.next_relaxation)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplanation:
    """Why one group waits."""

    group: str
    status: str
    why: Why
    sentence: str
    since: datetime | None

    evidence: Json
    """JSON of the reason's own (``explain.reasons``), for display: nothing is decided on it."""

    preferences: PendingPreferences | None

    report: FeasibilityReport | None
    """None: nodes are not the obstacle, or none is known."""

    conditions: Sequence[Json]
    """The group's."""

    recovery: str
    """What follows when it loses a task."""

    avoided_nodes: Sequence[str]
    """Those that its attempt keeps off."""

    explained_at: datetime

    @property
    def help(self) -> str:
        is_new = self.since is not None and self.explained_at - self.since < ANSWER_AFTER
        if self.why == Why.SILENT and is_new:
            return "Nothing to do: a scheduler answers within seconds."
        return self.evidence.get("help") or HELP[self.why]

    @property
    def all_evidence(self) -> Json:
        """The evidence with the pending preferences."""
        return self.evidence | ({"patience": self.preferences.as_json()} if self.preferences else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowExplanation:
    """A workflow in one sentence, and its groups that wait."""

    name: str
    status: str
    sentence: str
    waits: Sequence[WaitExplanation]


def explain(workflow: Workflow, *, user: Caller, now: datetime) -> WorkflowExplanation:
    """Explain a workflow to a user."""
    groups = list(workflow.groups.order_by("position").select_related("backend"))
    waits = explain_waits(groups, user=user, now=now)
    summaries = [WaitSummary(wait.group, wait.why, wait.sentence) for wait in waits]
    return WorkflowExplanation(
        name=workflow.name,
        status=workflow.status,
        sentence=status_sentence(workflow.status, summaries)
        if summaries
        else workflow_sentence(workflow.status, groups, now=now),
        waits=waits,
    )


def explain_waits(groups: Sequence[TaskGroup], *, user: Caller, now: datetime) -> list[WaitExplanation]:
    """Explain each group that waits, in order; groups that run or have ended are left out.

    ``groups`` were selected with their backends.
    """
    waiting = [group for group in groups if group.waiting_reason and group.status not in TERMINAL]
    judged = [group for group in waiting if group.waiting_why in JUDGED_REASONS][:MOST_VERDICTS]
    reports = {group.pk: _report(group, user=user, now=now) for group in judged}
    return [_wait(group, reports.get(group.pk), now=now) for group in waiting]


def _wait(group: TaskGroup, report: FeasibilityReport | None, *, now: datetime) -> WaitExplanation:
    preferences = _preferences(group)
    why = Why(group.waiting_why) if group.waiting_why else Why.SCHEDULER
    verdict = _verdict_sentence(report, why) if report else ""
    if preferences and verdict:  # the verdict counts preferences that are still required
        verdict = f"Under this requirement, {verdict[0].lower()}{verdict[1:]}"
    if report and report.lacks_place and why in {Why.TOPOLOGY, Why.CAPACITY}:
        why = Why.TOPOLOGY if report.has_total_room else Why.CAPACITY
    if preferences and why in JUDGED_REASONS:
        why = Why.PATIENCE
    return WaitExplanation(
        group=group.name,
        status=group.status,
        why=why,
        sentence=" ".join(filter(None, (group_sentence(group, now=now), verdict))),
        since=group.waiting_since,
        evidence=group.waiting_evidence,
        preferences=preferences,
        report=report,
        conditions=group.conditions,
        recovery=group.recovery.summary,
        avoided_nodes=group.avoided_nodes,
        explained_at=now,
    )


def _preferences(group: TaskGroup) -> PendingPreferences | None:
    """The preferences that are still required while the group's clock of patience runs."""
    keys = [line["key"] for line in group.constraints if line.get("waitSeconds") and not line["relaxed"]]
    if group.unplaced_since is None or not keys:
        return None
    return PendingPreferences(
        keys=tuple(dict.fromkeys(keys)),
        next_relaxation=patience.next_relaxation(group.constraints, group.unplaced_since),
    )


def _verdict_sentence(report: FeasibilityReport, why: Why) -> str:
    """The verdict beside the scheduler's reason, which it does not contradict: the scheduler decides."""
    fits = not report.lacks_place
    if fits and report.verdict and report.verdict.order:
        order = set_order.sentence(report.verdict.order)
        return (
            f"There is room now with its sets in another order, which they are given while it waits: {order}."
        )
    if fits and why == Why.QUOTA:
        return "But for that, it would fit now."
    obstacle = report.verdict.obstacle if report.verdict else None
    if not fits or obstacle is Obstacle.QUOTA or why not in {Why.TOPOLOGY, Why.CAPACITY}:
        return report.sentence
    others = "" if report.others_known else "other tenants' pods, "
    return (
        "The observed nodes have room, so the obstacle is something that is not observed "
        f"({others}a quota, a resource claim, or a pod that has just started or ended)."
    )


def _report(group: TaskGroup, *, user: Caller, now: datetime) -> FeasibilityReport | None:
    """The verdict on a group that waits; None where no node is known."""
    placement = GroupPlacement.from_json(group.placement, group.optional_placement)
    cluster = placement.terms.cluster_uid or group.backend.cluster_id
    (report,) = feasibility([group_values(group, placement)], cluster=cluster, user=user, now=now)
    return report if report.verdict else None
