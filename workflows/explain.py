"""Why a task group waits, in words its user can act on.

A pure function from what was observed to sentences: the caller gathers, this decides what matters
most. The first obstacle on a group's way is told, not all of them: somebody whose cluster does not answer
need not read what its scheduler said an hour ago. What a scheduler says is read by its own scheduler
backend; conditions it left behind say nothing once the pods have nodes (KAI v0.13 keeps them).

Nodes that a topology label keeps out are told beside the scheduler's reason, because KAI never mentions
them: to it they do not exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.backends.base import SchedulerBackend, Waiting
from scheduling.coverage import LabelCoverage, LevelCoverage
from scheduling.errors import listing
from workflows.level_conditions import ADVICE
from workflows.statuses import TERMINAL, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """A task group as last observed.

    ``upstream`` names the groups it still waits for, ``trouble`` what the last reconcile could not do,
    ``template`` the claim template of its ComputeDomain (empty: it has none). ``lost`` says which levels
    its constraints need in vain (``level_conditions``), ``coverage`` how far nodes carry those that there
    are, where nodes are known. ``waiting`` is for the scheduler backend and None before the pod group and
    pods are made. ``starting`` counts placed pods by what their containers wait for. ``again`` names tasks of
    a running group that are tried again and have no node yet.
    """

    status: str
    upstream: Sequence[str] = ()
    backend: str
    unreachable_since: str | None = None
    trouble: str = ""
    template: str = ""
    template_seen: bool = False
    lost: str = ""
    coverage: LabelCoverage | None = None
    waiting: Waiting | None = None
    starting: Mapping[str, int]
    again: Sequence[str] = ()


def waiting_reason(seen: GroupSeen, *, scheduler: SchedulerBackend) -> str:
    """Say why the group, or a task of it that is tried again, is not running, or nothing."""
    if seen.status in TERMINAL:
        return ""
    if seen.status == TaskStatus.RUNNING:
        return _of_retries(seen, scheduler)
    if obstacle := _before_the_cluster(seen) or _before_the_scheduler(seen):
        return obstacle
    if seen.waiting is None:
        return "Its objects are being made in the cluster."
    return " ".join(_of_placement(seen, seen.waiting, scheduler))


def starts_after(upstream: Sequence[str]) -> str:
    """Say what a group with unfinished groups above it waits for; nothing without any."""
    if not upstream:
        return ""
    noun, verb = ("group", "has") if len(upstream) == 1 else ("groups", "have")
    return f"It starts when {noun} {listing(upstream)} {verb} completed."


def _before_the_cluster(seen: GroupSeen) -> str:
    if seen.upstream:
        return starts_after(seen.upstream)
    if seen.unreachable_since is not None:
        return (
            f'The cluster of backend "{seen.backend}" does not answer since {seen.unreachable_since} UTC; '
            "the group goes on as soon as it does."
        )
    return ""


def _before_the_scheduler(seen: GroupSeen) -> str:
    if seen.lost and not (seen.waiting and seen.waiting.placed):
        return f"{seen.lost} {ADVICE}"
    if seen.trouble:
        return f"Its objects could not be made in the cluster, and it is tried again: {seen.trouble}"
    if seen.template and not seen.template_seen:
        return (
            f"It waits for claim template {seen.template}, which the cluster's ComputeDomain controller "
            "has not made yet."
        )
    return ""


def _of_placement(seen: GroupSeen, waiting: Waiting, scheduler: SchedulerBackend) -> list[str]:
    if waiting.placed:
        return [_starting(seen.starting)]
    said = [reason.message for reason in scheduler.waiting_reasons(waiting)[:2]]
    return [
        *(said or ["The scheduler has not placed it yet and has given no reason."]),
        *(uncovered(seen.coverage) if seen.coverage else ()),
    ]


def _of_retries(seen: GroupSeen, scheduler: SchedulerBackend) -> str:
    if not seen.again or seen.waiting is None or seen.waiting.placed:
        return ""
    verb = "waits" if len(seen.again) == 1 else "wait"
    said = f"Tried again, {listing(seen.again)} {verb} for a place."
    return " ".join([said, *(reason.message for reason in scheduler.waiting_reasons(seen.waiting)[:2])])


def uncovered(coverage: LabelCoverage) -> list[str]:
    """Count and name the nodes that a label keeps out, one sentence for each level that does."""
    said: set[int] = set()
    sentences = []
    for one in coverage.levels:
        if not one.hidden or one.hidden in said:
            continue
        said.add(one.hidden)
        verb, those = ("lacks", "it") if one.hidden == 1 else ("lack", "them")
        sentences.append(
            f"{one.hidden} of the pool's {_nodes(coverage.nodes)} {verb} label {one.level.label} of key "
            f'"{one.level.key}" or of a broader one, so the scheduler does not see {those} for these tasks'
            f"{_few(one)}."
        )
    return sentences


def _few(one: LevelCoverage) -> str:
    if not one.hidden_names:
        return ""
    rest = one.hidden - len(one.hidden_names)
    return ": " + ", ".join(one.hidden_names) + (f" and {rest} more" if rest else "")


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _starting(starting: Mapping[str, int]) -> str:
    if not starting:
        return "All tasks have nodes and are starting."
    parts = [f"{count} wait for {reason}" for reason, count in sorted(starting.items())]
    return f"All tasks have nodes and are starting: {', '.join(parts)}."
