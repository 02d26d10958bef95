"""Why a task group waits, in words its user can act on.

A pure function from what was observed to sentences: the caller gathers, this decides what matters
most. The first obstacle on a group's way is told, not all of them: somebody whose cluster does not answer
need not read what its scheduler said an hour ago. What a scheduler says is read by its own scheduler
backend; conditions it left behind say nothing once the pods have nodes (KAI v0.13 keeps them).

Nodes that a topology label keeps out are told beside the scheduler's reason, because KAI never mentions
them: to it they do not exist. What is seen in objects alone (``explain.obstacles``) comes before what the
scheduler says where it is the cause of that. With each reason goes its evidence as data, what was seen
and not what it means, so that a page or a program need not read sentences.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduling.backends.base import SchedulerBackend, Waiting, WaitingReason
from scheduling.backends.claims import PluginMessage, plugin_messages
from scheduling.coverage import LabelCoverage, LevelCoverage
from scheduling.sentences import agree, count_of, listing, plain_listing, plural
from workflows.explain.levels import ADVICE
from workflows.explain.obstacles import (
    OccupiedNode,
    SplitSet,
    TopologyDrift,
    WaitingContainer,
    drift_evidence,
    drift_sentence,
    evidence_of,
    image_sentence,
    is_split,
    occupied_sentence,
    split_evidence,
    split_sentence,
)
from workflows.lifecycle.statuses import TERMINAL, TaskStatus

Json = dict[str, Any]

MOST_SAID = 5
MOST_RAW = 500


class Why(StrEnum):
    """What a group waits for; one of them at a time, the first obstacle on its way."""

    UPSTREAM = "upstream"
    CLUSTER = "cluster_unreachable"
    LABELS = "labels"
    DRIFT = "drift"
    NOT_MADE = "not_made"
    NOT_SERVED = "compute_domain_not_served"
    CLAIM_TEMPLATE = "claim_template"
    CREATING = "creating"
    QUOTA = "quota"
    TOPOLOGY = "topology"
    CAPACITY = "capacity"
    CHANNEL = "channel_held"
    CLAIM = "claim"
    PODS = "pods_missing"
    SPLIT = "other_half"
    SCHEDULER = "scheduler"
    SILENT = "scheduler_silent"
    PATIENCE = "patience"
    IMAGE = "image"
    STARTING = "starting"
    RETRY = "retry"
    UNKNOWN_SCHEDULER = "unknown_scheduler"


_OF_SCHEDULER: Mapping[str, Why] = {
    "OverQuota": Why.QUOTA,
    "QueueMissing": Why.QUOTA,
    "TopologyMissing": Why.DRIFT,
    "TopologyNotSatisfied": Why.TOPOLOGY,
    "DomainTooSmall": Why.TOPOLOGY,
    "NotEnoughRoom": Why.CAPACITY,
    "ChannelInUse": Why.CLAIM,
    "ClaimMissing": Why.CLAIM,
    "PodGroupMissing": Why.PODS,
    "PodsMissing": Why.PODS,
}
"""Codes of schedulers' reasons; whatever else one says is just what the scheduler says."""

_ROOM = {Why.TOPOLOGY, Why.CAPACITY}
"""One cause: the place that is missing, counted in a domain or on nodes."""

HELP: Mapping[Why, str] = {
    Why.UPSTREAM: "Nothing to do: it starts by itself.",
    Why.CLUSTER: "An administrator looks at the backend; the group goes on by itself when it answers.",
    Why.LABELS: "An administrator puts the labels back on the nodes, or corrects the pool's topology keys.",
    Why.DRIFT: "An administrator puts the Topology object back, or corrects the pool's topology keys.",
    Why.NOT_SERVED: "An administrator installs or repairs NVIDIA's DRA driver for ComputeDomains.",
    Why.NOT_MADE: "It is tried again by itself; an administrator looks at what the cluster refuses.",
    Why.CLAIM_TEMPLATE: "An administrator looks at the ComputeDomain controller of the cluster.",
    Why.CREATING: "Nothing to do.",
    Why.QUOTA: "Wait until work of the pool ends, ask for a larger guarantee, or submit with priority LOW.",
    Why.TOPOLOGY: "Wait for the nearest domain, ask for fewer tasks in one domain, or prefer it instead.",
    Why.CAPACITY: "Wait until work ends, ask for less, or use another pool.",
    Why.CHANNEL: "Wait until the former ComputeDomain of the node has ended.",
    Why.CLAIM: "Wait until work with NVLink ends; else an administrator looks at the resource claims.",
    Why.PODS: "Nothing to do: missing objects are made again.",
    Why.SPLIT: "Wait until the rest has a place, or cancel; a pool on KAI places a group as a whole.",
    Why.SCHEDULER: "Read what the scheduler says.",
    Why.SILENT: "An administrator looks whether the scheduler runs.",
    Why.PATIENCE: "Wait: what is preferred is no longer required when its time is over.",
    Why.IMAGE: "Cancel, correct the image's name or its registry's credentials, and submit again.",
    Why.STARTING: "Nothing to do while images are pulled; look at the workflow's events if it takes long.",
    Why.RETRY: "Wait until a node for the retry is free.",
    Why.UNKNOWN_SCHEDULER: "An administrator installs the scheduler's package again.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a group waits: of what kind, in a sentence, and what that rests on."""

    why: Why
    text: str
    evidence: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """A task group as last observed.

    ``upstream`` names the groups it still waits for, ``trouble`` what the last reconcile could not do,
    ``template`` the claim template of its ComputeDomain (empty: it has none). ``lost`` says which levels
    its constraints need in vain (``level_conditions``), ``coverage`` how far nodes carry those that there
    are, where nodes are known. ``waiting`` is for the scheduler backend and None before the pod group and
    pods are made. ``starting`` are containers on nodes that wait for something. ``again`` names tasks of
    a running group that are tried again and have no node yet. ``halves`` are the sets of a gang that became
    several pod groups, ``held`` nodes with another group's ComputeDomain. ``unserved`` says that the trouble
    is the lack of ComputeDomains in the cluster, ``drift`` how its Topology object was changed by hand.
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
    starting: Sequence[WaitingContainer]
    again: Sequence[str] = ()
    halves: Sequence[SplitSet] = ()
    held: Sequence[OccupiedNode] = ()
    unserved: bool = False
    drift: TopologyDrift | None = None


def waiting_reason(seen: ObservedGroup, *, scheduler: SchedulerBackend) -> Reason | None:
    """Say why the group, or a task of it that is tried again, is not running; None if nothing waits."""
    if seen.status in TERMINAL:
        return None
    if seen.status == TaskStatus.RUNNING:
        return _of_running(seen, scheduler)
    if obstacle := _before_the_cluster(seen) or _before_the_scheduler(seen):
        return obstacle
    if seen.waiting is None:
        return Reason(Why.CREATING, "Its objects are being made in the cluster.")
    return _of_placement(seen, seen.waiting, scheduler)


def starts_after(upstream: Sequence[str]) -> str:
    """Say what a group with unfinished groups above it waits for; nothing without any."""
    if not upstream:
        return ""
    number = len(upstream)
    verb = agree(number, "has", "have")
    return f"It starts when {plural(number, 'group')} {listing(upstream)} {verb} completed."


def _before_the_cluster(seen: ObservedGroup) -> Reason | None:
    if seen.upstream:
        return Reason(Why.UPSTREAM, starts_after(seen.upstream), {"upstream": list(seen.upstream)})
    if seen.unreachable_since is None:
        return None
    return Reason(
        Why.CLUSTER,
        f'The cluster of backend "{seen.backend}" does not answer since {seen.unreachable_since} UTC; '
        "the group goes on as soon as it does.",
        {"cluster": {"backend": seen.backend, "unreachable_since": seen.unreachable_since}},
    )


def _before_the_scheduler(seen: ObservedGroup) -> Reason | None:
    if seen.lost and not (seen.waiting and seen.waiting.placed):
        why = Why.DRIFT if seen.drift else Why.LABELS
        return Reason(why, f"{seen.lost} {ADVICE}", _of_nodes(seen))
    if seen.trouble and seen.unserved:
        text = f'The cluster of backend "{seen.backend}" does not serve ComputeDomains: {seen.trouble}'
        return Reason(Why.NOT_SERVED, text, {"cluster": {"backend": seen.backend, "said": seen.trouble}})
    if seen.trouble:
        text = f"Its objects could not be made in the cluster, and it is tried again: {seen.trouble}"
        return Reason(Why.NOT_MADE, text, {"cluster": {"backend": seen.backend, "said": seen.trouble}})
    if seen.template and not seen.template_seen:
        return Reason(
            Why.CLAIM_TEMPLATE,
            f"It waits for claim template {seen.template}, which the cluster's ComputeDomain controller "
            "has not made yet.",
            {"claim_template": {"name": seen.template, "made": False}},
        )
    return None


def _of_placement(seen: ObservedGroup, waiting: Waiting, scheduler: SchedulerBackend) -> Reason:
    if waiting.placed:
        return _of_starting(seen)
    said = _holding(scheduler.waiting_reasons(waiting), waiting)
    evidence = _of_scheduler(said, waiting) | _of_nodes(seen)
    why, first = _seen_before(seen, said)
    enough = first and why in (Why.CHANNEL, Why.CLAIM, Why.NOT_SERVED)
    texts = [] if enough else [reason.message for reason in of_one_cause(said)[:2]]
    if not said and not first:
        why, texts = Why.SILENT, ["The scheduler has not placed it yet and has given no reason."]
    hidden = uncovered(seen.coverage) if seen.coverage else ()
    return Reason(why, " ".join(filter(None, [first, *texts, *hidden])), evidence)


def _holding(reasons: Sequence[WaitingReason], waiting: Waiting) -> list[WaitingReason]:
    """The reasons that still hold: a scheduler does not take back that pods were missing."""
    complete = waiting.pods >= waiting.pods_expected
    return [reason for reason in reasons if not (complete and reason.code == "PodsMissing")]


def of_one_cause(reasons: Sequence[WaitingReason]) -> list[WaitingReason]:
    """Those of the first cause that is known; two causes in one sentence contradict each other.

    While pods are missing, a scheduler judges no room: what it says of room is of an earlier time. Of
    missing pods the first count is the current one.
    """
    first = next((reason for reason in reasons if _kind(reason) != Why.SCHEDULER), None)
    if first is None:
        return list(reasons)
    if _kind(first) == Why.PODS:
        return [first]
    cause = _ROOM if _kind(first) in _ROOM else {_kind(first)}
    return [reason for reason in reasons if _kind(reason) in cause]


def _kind(reason: WaitingReason) -> Why:
    return _OF_SCHEDULER.get(reason.code, Why.SCHEDULER)


def _seen_before(seen: ObservedGroup, said: Sequence[WaitingReason]) -> tuple[Why, str]:
    """What objects show to be behind what the scheduler says, in words; else of what kind that is."""
    why = _kind(of_one_cause(said)[0]) if said else Why.SILENT
    if why == Why.PODS:
        return why, ""
    if is_split(seen.halves):
        return Why.SPLIT, split_sentence(seen.halves)
    if seen.drift:
        return Why.DRIFT, drift_sentence(seen.drift)
    return _of_claims(seen, said) or (why, "")


def _of_claims(seen: ObservedGroup, said: Sequence[WaitingReason]) -> tuple[Why, str] | None:
    """Who is in the way of claims that cannot be allocated; None where claims are not what it waits for.

    A scheduler may leave a pod group's first reasons although its pods wait for something else by now, so the
    pods' own messages count as well. It may say nothing while it counts on pods that are being deleted.
    """
    pods = seen.waiting.pod_messages if seen.waiting else ()
    plugins = plugin_messages([*(one.raw for one in said), *pods])
    busy = PluginMessage.CLAIMS_IN_USE in plugins
    missing = [one.message for one in said if one.code == "ClaimMissing"]
    former = [one for one in seen.held if one.ended]
    if former and (busy or missing or not said):
        return Why.CHANNEL, occupied_sentence(former)
    if not busy and not missing:
        return None
    if PluginMessage.NOT_ENOUGH_RESOURCES in plugins:
        return None
    if not busy:
        return Why.CLAIM, missing[0]
    if seen.held:
        return Why.CLAIM, "Nodes have one NVLink channel each, and running work holds too many of them."
    return Why.NOT_SERVED, (
        "No node has a free NVLink channel for it, and no ComputeDomain is seen to hold one: NVIDIA's "
        "driver may not run on the pool's nodes."
    )


def _of_starting(seen: ObservedGroup) -> Reason:
    """All tasks have nodes: what keeps containers from starting."""
    evidence: Json = {"containers": evidence_of(seen.starting)} if seen.starting else {}
    if images := [one for one in seen.starting if one.is_image]:
        return Reason(Why.IMAGE, image_sentence(images), evidence)
    if former := [one for one in seen.held if one.ended]:
        return Reason(
            Why.CHANNEL,
            f"All tasks have nodes and cannot start there yet. {occupied_sentence(former)}",
            evidence | {"nodes_held": evidence_of(former)},
        )
    return Reason(Why.STARTING, _starting(Counter(one.reason for one in seen.starting)), evidence)


def _of_running(seen: ObservedGroup, scheduler: SchedulerBackend) -> Reason | None:
    """What tasks of a running group wait for."""
    if images := [one for one in seen.starting if one.is_image]:
        return Reason(Why.IMAGE, image_sentence(images), {"containers": evidence_of(images)})
    if seen.waiting is None or seen.waiting.placed:
        return None
    if is_split(seen.halves) and not seen.again:
        return _of_placement(seen, seen.waiting, scheduler)
    return _of_retries(seen, seen.waiting, scheduler)


def _of_retries(seen: ObservedGroup, waiting: Waiting, scheduler: SchedulerBackend) -> Reason | None:
    if not seen.again:
        return None
    verb = agree(len(seen.again), "waits", "wait")
    text = f"Tried again, {listing(seen.again)} {verb} for a place."
    said = _holding(scheduler.waiting_reasons(waiting), waiting)
    more = (reason.message for reason in of_one_cause(said)[:2])
    evidence = {"tried_again": list(seen.again)} | _of_scheduler(said, waiting)
    return Reason(Why.RETRY, " ".join([text, *more]), evidence)


def _of_scheduler(said: Sequence[WaitingReason], waiting: Waiting) -> Json:
    """What the scheduler said, in its own words and the numbers read in them."""
    found: Json = {"pods": {"expected": waiting.pods_expected, "exist": waiting.pods}}
    raw = dict.fromkeys([*(one.raw[:MOST_RAW] for one in said if one.raw), *waiting.pod_messages])
    if raw:
        found["scheduler_says"] = list(raw)[:MOST_SAID]
    domains = [dict(one.facts) for one in said if one.code == "DomainTooSmall" and one.facts]
    if domains:
        found["domains"] = domains[: MOST_SAID * 2]
    if quota := next((one for one in said if one.code == "OverQuota"), None):
        found["quota"] = dict(quota.facts)
    return found


def _of_nodes(seen: ObservedGroup) -> Json:
    """What was seen of nodes, their labels and the objects that speak of them."""
    found: Json = {}
    if seen.coverage and (lacking := [one for one in seen.coverage.levels if one.hidden or one.lacking]):
        found["labels"] = [
            {
                "key": one.level.key,
                "label": one.level.label,
                "nodes": seen.coverage.nodes,
                "without": one.lacking,
                "not_seen": one.hidden,
                "named": list(one.hidden_names or one.lacking_names),
            }
            for one in lacking
        ]
    if seen.drift:
        found["drift"] = drift_evidence(seen.drift)
    if seen.held:
        found["nodes_held"] = evidence_of(seen.held)
    if seen.halves:
        found["sets"] = split_evidence(seen.halves)
    return found


def uncovered(coverage: LabelCoverage) -> list[str]:
    """Count and name the nodes that a label keeps out, one sentence for each level that does."""
    said: set[int] = set()
    sentences = []
    for one in coverage.levels:
        if not one.hidden or one.hidden in said:
            continue
        said.add(one.hidden)
        verb, those = agree(one.hidden, "lacks", "lack"), agree(one.hidden, "it", "them")
        nodes = count_of(coverage.nodes, "node")
        sentences.append(
            f"{one.hidden} of the pool's {nodes} {verb} label {one.level.label} of key "
            f'"{one.level.key}" or of a broader one, so the scheduler does not see {those} for these tasks'
            f"{_few(one)}."
        )
    return sentences


def _few(one: LevelCoverage) -> str:
    if not one.hidden_names:
        return ""
    names = one.hidden_names
    return f": {plain_listing(names, limit=len(names), total=one.hidden)}"


def _starting(starting: Mapping[str, int]) -> str:
    if not starting:
        return "All tasks have nodes and are starting."
    parts = [
        f"{count} {agree(count, 'waits', 'wait')} for {reason}" for reason, count in sorted(starting.items())
    ]
    return f"All tasks have nodes and are starting: {', '.join(parts)}."
