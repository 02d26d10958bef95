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
from enum import StrEnum

from scheduling.backends.base import SchedulerBackend, Waiting
from scheduling.coverage import LabelCoverage, LevelCoverage
from scheduling.errors import listing
from workflows.level_conditions import ADVICE
from workflows.statuses import TERMINAL, TaskStatus


class Why(StrEnum):
    """What a group waits for; one of them at a time, the first obstacle on its way."""

    UPSTREAM = "upstream"
    CLUSTER = "cluster_unreachable"
    LABELS = "labels"
    NOT_MADE = "not_made"
    CLAIM_TEMPLATE = "claim_template"
    CREATING = "creating"
    QUOTA = "quota"
    TOPOLOGY = "topology"
    CAPACITY = "capacity"
    CHANNEL = "channel_held"
    CLAIM = "claim"
    PODS = "pods_missing"
    SCHEDULER = "scheduler"
    SILENT = "scheduler_silent"
    PATIENCE = "patience"
    STARTING = "starting"
    RETRY = "retry"
    UNKNOWN_SCHEDULER = "unknown_scheduler"


_OF_SCHEDULER: Mapping[str, Why] = {
    "OverQuota": Why.QUOTA,
    "QueueMissing": Why.QUOTA,
    "TopologyMissing": Why.TOPOLOGY,
    "TopologyNotSatisfied": Why.TOPOLOGY,
    "DomainTooSmall": Why.TOPOLOGY,
    "NotEnoughRoom": Why.CAPACITY,
    "ChannelInUse": Why.CHANNEL,
    "ClaimMissing": Why.CLAIM,
    "PodGroupMissing": Why.PODS,
    "PodsMissing": Why.PODS,
}
"""Codes of schedulers' reasons; whatever else one says is just what the scheduler says."""

HELP: Mapping[Why, str] = {
    Why.UPSTREAM: "Nothing to do: it starts by itself.",
    Why.CLUSTER: "An administrator looks at the backend; the group goes on by itself when it answers.",
    Why.LABELS: "An administrator puts the labels back on the nodes, or corrects the pool's topology keys.",
    Why.NOT_MADE: "It is tried again by itself; an administrator looks at what the cluster refuses.",
    Why.CLAIM_TEMPLATE: "An administrator looks at the ComputeDomain controller of the cluster.",
    Why.CREATING: "Nothing to do.",
    Why.QUOTA: "Wait until work of the pool ends, ask for a larger guarantee, or submit with priority LOW.",
    Why.TOPOLOGY: "Wait for the nearest domain, ask for fewer tasks in one domain, or prefer it instead.",
    Why.CAPACITY: "Wait until work ends, ask for less, or use another pool.",
    Why.CHANNEL: "Wait until the former ComputeDomain of the node has ended.",
    Why.CLAIM: "An administrator looks at the resource claims and the driver's devices.",
    Why.PODS: "Nothing to do: missing objects are made again.",
    Why.SCHEDULER: "Read what the scheduler says.",
    Why.SILENT: "An administrator looks whether the scheduler runs.",
    Why.PATIENCE: "Wait: what is preferred is no longer required when its time is over.",
    Why.STARTING: "Look at the events for images that cannot be pulled.",
    Why.RETRY: "Wait until a node for the retry is free.",
    Why.UNKNOWN_SCHEDULER: "An administrator installs the scheduler's package again.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a group waits: of what kind, and in a sentence."""

    why: Why
    text: str


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


def waiting_reason(seen: GroupSeen, *, scheduler: SchedulerBackend) -> Reason | None:
    """Say why the group, or a task of it that is tried again, is not running; None if nothing waits."""
    if seen.status in TERMINAL:
        return None
    if seen.status == TaskStatus.RUNNING:
        return _of_retries(seen, scheduler)
    if obstacle := _before_the_cluster(seen) or _before_the_scheduler(seen):
        return obstacle
    if seen.waiting is None:
        return Reason(Why.CREATING, "Its objects are being made in the cluster.")
    return _of_placement(seen, seen.waiting, scheduler)


def starts_after(upstream: Sequence[str]) -> str:
    """Say what a group with unfinished groups above it waits for; nothing without any."""
    if not upstream:
        return ""
    noun, verb = ("group", "has") if len(upstream) == 1 else ("groups", "have")
    return f"It starts when {noun} {listing(upstream)} {verb} completed."


def _before_the_cluster(seen: GroupSeen) -> Reason | None:
    if seen.upstream:
        return Reason(Why.UPSTREAM, starts_after(seen.upstream))
    if seen.unreachable_since is None:
        return None
    return Reason(
        Why.CLUSTER,
        f'The cluster of backend "{seen.backend}" does not answer since {seen.unreachable_since} UTC; '
        "the group goes on as soon as it does.",
    )


def _before_the_scheduler(seen: GroupSeen) -> Reason | None:
    if seen.lost and not (seen.waiting and seen.waiting.placed):
        return Reason(Why.LABELS, f"{seen.lost} {ADVICE}")
    if seen.trouble:
        text = f"Its objects could not be made in the cluster, and it is tried again: {seen.trouble}"
        return Reason(Why.NOT_MADE, text)
    if seen.template and not seen.template_seen:
        return Reason(
            Why.CLAIM_TEMPLATE,
            f"It waits for claim template {seen.template}, which the cluster's ComputeDomain controller "
            "has not made yet.",
        )
    return None


def _of_placement(seen: GroupSeen, waiting: Waiting, scheduler: SchedulerBackend) -> Reason:
    if waiting.placed:
        return Reason(Why.STARTING, _starting(seen.starting))
    said = scheduler.waiting_reasons(waiting)[:2]
    texts = [one.message for one in said]
    why = _OF_SCHEDULER.get(said[0].code, Why.SCHEDULER) if said else Why.SILENT
    silent = [] if said else ["The scheduler has not placed it yet and has given no reason."]
    hidden = uncovered(seen.coverage) if seen.coverage else ()
    return Reason(why, " ".join([*texts, *silent, *hidden]))


def _of_retries(seen: GroupSeen, scheduler: SchedulerBackend) -> Reason | None:
    if not seen.again or seen.waiting is None or seen.waiting.placed:
        return None
    verb = "waits" if len(seen.again) == 1 else "wait"
    said = f"Tried again, {listing(seen.again)} {verb} for a place."
    more = (reason.message for reason in scheduler.waiting_reasons(seen.waiting)[:2])
    return Reason(Why.RETRY, " ".join([said, *more]))


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
