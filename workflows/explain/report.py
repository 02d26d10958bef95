"""The explanation of a workflow: for each group that waits a reason, its evidence and what would help.

The reason and its evidence are kept in the group's row by the last reconcile. Where the group lacks a place,
the verdict of ``scheduling.fit`` says which domains are too small now, by how much, who holds them and until
when. No cluster is called. Code that decides reads these values; ``as_json`` is for REST alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db.models import Max, QuerySet

from pools.selectors import Caller
from scheduling.fit.remedies import RemedyKind
from scheduling.fit.verdict import Obstacle
from scheduling.gang import set_order
from web.times import clock, naive_utc
from workflows.explain.disagreement import JUDGED
from workflows.explain.reasons import Why
from workflows.explain.summary import (
    WaitSummary,
    first_waiting,
    group_sentence,
    status_sentence,
    waiting_groups,
    workflow_sentence,
)
from workflows.explain.waiting_beside import WaitingBeside, waiting_beside
from workflows.feasibility.verdict.remedy_sentences import help_of
from workflows.feasibility.verdict.report import FeasibilityReport, feasibility
from workflows.homes import at_home
from workflows.lifecycle import patience
from workflows.lifecycle.statuses import TERMINAL
from workflows.models import ObservedObject, ObservedPod, TaskGroup, Workflow
from workflows.selectors import group_values
from workflows.values.observation import POD_GROUP
from workflows.values.placement import GroupPlacement

Json = dict[str, Any]

JUDGED_REASONS = frozenset({*JUDGED, Why.LABELS})
"""Reasons that a verdict on the nodes explains further; it does not cover channels and drivers."""

HELP_CONTRADICTED = (
    "Nothing to do for a minute: its scheduler looks again. Then read what it says, and look at what is not "
    "observed."
)

_OF_ROOM = frozenset({Why.TOPOLOGY, Why.CAPACITY, Why.NODES})

ANSWER_AFTER = timedelta(seconds=30)
"""How long a scheduler may say nothing of a group before somebody should look at it."""

MOST_VERDICTS = 20
"""Groups of one request whose verdict is computed; each may cost a few tenths of a second on many nodes."""

VERDICTS_AT_ONCE = 3
WAITS_AT_ONCE = 200


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

    beside: WaitingBeside
    """The gangs of others that wait for the same scheduler, as far as they are followed."""

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
        if self.report and self.report.verdict and self.why in _OF_ROOM:
            if not self.report.lacks_place and self.report.verdict.obstacle is None:
                own = self.evidence.get("help") or self.why.help
                return own if self.report.is_uncertain else HELP_CONTRADICTED
            return help_of(self.report.verdict, self.report.remedies) or self.why.help
        return self.evidence.get("help") or self.why.help

    @property
    def all_evidence(self) -> Json:
        """The evidence with the pending preferences, and how many gangs of others wait too."""
        patience_json = {"patience": self.preferences.as_json()} if self.preferences else {}
        others = {"waiting_beside": self.beside.as_json()} if self.beside.groups else {}
        return {**self.evidence, **patience_json, **others}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRange:
    """Groups of a workflow that wait, from the ``offset``th on, ``limit`` of them or all."""

    workflow: Workflow
    offset: int
    limit: int | None

    @property
    def groups(self) -> QuerySet[TaskGroup]:
        end = None if self.limit is None else self.offset + self.limit
        return waiting_groups(self.workflow).select_related("backend")[self.offset : end]

    @property
    def judged(self) -> list[TaskGroup]:
        """The first of them that a verdict explains further. One query."""
        judged = waiting_groups(self.workflow).filter(waiting_why__in=[why.value for why in JUDGED_REASONS])
        groups = judged.filter(pk__in=self.groups.values("pk")) if self.offset or self.limit else judged
        return list(groups.select_related("backend")[:MOST_VERDICTS])

    @property
    def is_long(self) -> bool:
        """Whether they take more than is read and judged at once. Two queries, one of many groups."""
        return self.groups[WAITS_AT_ONCE:].exists() or len(self.judged) > VERDICTS_AT_ONCE

    def batches(self) -> Iterator[list[TaskGroup]]:
        """The groups, a few in memory at a time. Those that begin or end to wait meanwhile may be missing."""
        rows, after, left = self.groups, -1, self.limit
        while groups := list(rows[:WAITS_AT_ONCE]):
            yield groups
            after, left = groups[-1].position, left and left - len(groups)
            rows = waiting_groups(self.workflow).filter(position__gt=after).select_related("backend")[:left]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowExplanation:
    """A workflow in one sentence, and groups of it that wait; ``more_waits``: others follow."""

    sentence: str
    waits: Iterator[WaitExplanation]
    more_waits: bool


def explain(selection: WaitRange, *, user: Caller, now: datetime) -> WorkflowExplanation:
    """Explain a workflow to a user."""
    workflow, judged = selection.workflow, selection.judged
    first, number = first_waiting(workflow)
    if first and first.waiting_why in JUDGED_REASONS:
        judged = [first, *(group for group in judged if group.pk != first.pk)]
    reports = {group.pk: _report(group, user=user, now=now) for group in judged}
    if first:
        wait = _wait(first, reports.get(first.pk), now=now)
        sentence = status_sentence(workflow.status, WaitSummary(wait.group, wait.sentence, number))
    else:
        sentence = workflow_sentence(workflow, now=now)
    end = selection.offset + selection.limit if selection.limit is not None else number
    return WorkflowExplanation(
        sentence=sentence,
        waits=(
            _wait(group, reports.get(group.pk), now=now) for batch in selection.batches() for group in batch
        ),
        more_waits=number > end,
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
    is_changed = "pod_changes" in group.waiting_evidence
    written_at = partial(_written_at, group)
    verdict = (
        _verdict_sentence(report, why, is_changed=is_changed, written_at=written_at, now=now)
        if report
        else ""
    )
    if preferences and verdict:  # the verdict counts preferences that are still required
        verdict = f"Under this requirement, {verdict[0].lower()}{verdict[1:]}"
    if report and report.lacks_place and why in _OF_ROOM:
        why = _kind_of_room(report)
    beside = waiting_beside(group) if report and why in JUDGED_REASONS else WaitingBeside(0, 0)
    own = group_sentence(group, now=now)
    if verdict and group.waiting_why == Why.NODES and why in (Why.TOPOLOGY, Why.CAPACITY):
        own = own.removeprefix(group.waiting_reason)  # a scheduler counts closed nodes wherever it finds none
    if preferences and why in JUDGED_REASONS:
        why = Why.PATIENCE
    return WaitExplanation(
        group=group.name,
        status=group.status,
        why=why,
        sentence=" ".join(filter(None, (own.strip(), verdict, beside.sentence))),
        since=group.waiting_since,
        evidence=group.waiting_evidence,
        preferences=preferences,
        report=report,
        beside=beside,
        conditions=group.conditions,
        recovery=group.recovery.summary,
        avoided_nodes=group.avoided_nodes,
        explained_at=now,
    )


def _written_at(group: TaskGroup) -> datetime | None:
    """When the objects that carry its scheduler's words last changed: its pod groups, or else its pods.

    One query, or two.
    """
    pod_groups = at_home(ObservedObject.objects.filter(group_uuid=group.pk, kind=POD_GROUP))
    times = [
        at for status, at in pod_groups.values_list("digest__status", "seen_at") if "message" in str(status)
    ]
    if times:
        return max(times)
    pods = at_home(ObservedPod.objects.filter(group_uuid=group.pk, absent=False, node_name=""))
    at: datetime | None = pods.aggregate(at=Max("seen_at"))["at"]
    return at


def _kind_of_room(report: FeasibilityReport) -> Why:
    """What is missing by the verdict: closed nodes are the cause only where it would fit with them alone."""
    if any(remedy.kind is RemedyKind.OPEN and not remedy.after_work for remedy in report.remedies):
        return Why.NODES
    return Why.TOPOLOGY if report.has_total_room else Why.CAPACITY


def _preferences(group: TaskGroup) -> PendingPreferences | None:
    """The preferences that are still required while the group's clock of patience runs."""
    keys = [line["key"] for line in group.constraints if line.get("waitSeconds") and not line["relaxed"]]
    if group.unplaced_since is None or not keys:
        return None
    return PendingPreferences(
        keys=tuple(dict.fromkeys(keys)),
        next_relaxation=patience.next_relaxation(group.constraints, group.unplaced_since),
    )


def _verdict_sentence(
    report: FeasibilityReport,
    why: Why,
    *,
    is_changed: bool,
    written_at: Callable[[], datetime | None],
    now: datetime,
) -> str:
    """The verdict beside the scheduler's reason, which it does not contradict: the scheduler decides."""
    fits = not report.lacks_place
    if report.in_vain or report.is_uncertain:
        return report.sentence
    if fits and report.verdict and report.verdict.order:
        order = set_order.sentence(report.verdict.order)
        return (
            f"There is room now with its sets in another order, which they are given while it waits: {order}."
        )
    if fits and why == Why.QUOTA:
        return "But for that, it would fit now."
    obstacle = report.verdict.obstacle if report.verdict else None
    if not fits or obstacle is Obstacle.QUOTA or why not in _OF_ROOM:
        return report.sentence
    if is_changed:
        return "The observed nodes have room for its pods as they were sent, so look at what was changed."
    checked = clock(report.freshness.observed_at, now=now) if report.freshness.observed_at else "now"
    at = written_at()
    time = f", written at {clock(at, now=now)}" if at else ""
    others = "" if report.others_known else "other tenants' pods, "
    return (
        f"That is what its scheduler says{time}. The nodes as observed at {checked} have room: if both stay "
        f"so, the obstacle is something that is not observed ({others}a quota, a resource claim, or a pod "
        "that has just started or ended)."
    )


def _report(group: TaskGroup, *, user: Caller, now: datetime) -> FeasibilityReport | None:
    """The verdict on a group that waits; None where no node is known."""
    placement = GroupPlacement.from_json(group.placement)
    cluster = placement.terms.cluster_uid or group.backend.cluster_id
    (report,) = feasibility([group_values(group, placement)], cluster=cluster, user=user, now=now)
    return report if report.verdict else None
