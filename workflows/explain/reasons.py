"""Why a task group waits, in sentences that its user can act on.

A pure function from observations to a reason: the caller reads, this module decides what matters most. Only
the first obstacle is stated: somebody whose cluster does not answer need not read what its scheduler reported
an hour ago. Each scheduler backend reads its own scheduler's texts; conditions that a scheduler leaves behind
do not count once the pods have nodes (KAI v0.13 keeps them).

Nodes without a topology label are stated beside the scheduler's reason, because KAI never mentions them: it
does not see them. An obstacle that only objects show (``explain.obstacles``) comes before the scheduler's
reason where it is the cause. Each reason carries its evidence as data, observations without interpretation,
so that neither a page nor a program need read sentences.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from scheduling.backends.base import Meaning, Waiting, WaitingReason
from scheduling.backends.claims import PluginMessage, plugin_messages
from scheduling.backends.facets import SchedulerBackend
from scheduling.backends.missing_objects import NOT_CREATED, missing_objects, missing_sentence
from scheduling.sentences import agree, count_of, listing, plural
from web.times import naive_utc
from workflows.explain.levels import ADVICE, uncovered
from workflows.explain.observed_group import NodeAway, ObservedGroup
from workflows.explain.obstacles import (
    MOST_EVIDENCE,
    BarrierWait,
    barrier_evidence,
    barrier_sentence,
    busy_evidence,
    busy_sentence,
    drift_sentence,
    evidence_of,
    held_sentence,
    image_sentence,
    occupied_sentence,
    unprepared_sentence,
)
from workflows.explain.reason_evidence import (
    MOST_CHARACTERS,
    MOST_RAW,
    Json,
    domain_evidence,
    node_evidence,
    scheduler_evidence,
)
from workflows.lifecycle.statuses import TERMINAL, TaskStatus


class Why(StrEnum):
    """The kind of a reason; a group has one at a time, the first obstacle on its way."""

    UPSTREAM = "upstream"
    ATTEMPT = "attempt_before"
    NO_PROGRESS = "no_progress"
    CLUSTER = "cluster_unreachable"
    LABELS = "labels"
    DRIFT = "drift"
    NOT_MADE = "not_made"
    MISSING = "missing_object"
    NAMESPACE_QUOTA = "namespace_quota"
    NOT_SERVED = "compute_domain_not_served"
    CLAIM_TEMPLATE = "claim_template"
    CREATING = "creating"
    QUOTA = "quota"
    TOPOLOGY = "topology"
    CAPACITY = "capacity"
    NODES = "nodes_closed"
    POD = "pod_not_placeable"
    CHANNEL = "channel_held"
    CLAIM = "claim"
    PODS = "pods_missing"
    SCHEDULER = "scheduler"
    SILENT = "scheduler_silent"
    DISAGREES = "scheduler_disagrees"
    PATIENCE = "patience"
    IMAGE = "image"
    NVLINK = "nvlink_domain"
    NODE_AWAY = "node_away"
    LOSS = "loss_unexplained"
    BARRIER = "start_barrier"
    STARTING = "starting"
    RETRY = "retry"
    NODE_BUSY = "assigned_node_busy"
    UNKNOWN_SCHEDULER = "unknown_scheduler"
    UNFORESEEN = "unforeseen_error"


_ROOM = {Why.TOPOLOGY, Why.CAPACITY, Why.NODES}
"""One cause: room is missing, in a domain or on nodes, some of which are closed perhaps.

Whether nodes that are closed or lack a label would help, the verdict says (``scheduling.fit.remedies``).
"""

_BEFORE_ROOM = {Why.POD, Why.NOT_SERVED}
"""Causes that no room cures."""

HELP: Mapping[Why, str] = {
    Why.UPSTREAM: "Nothing to do: it starts by itself.",
    Why.ATTEMPT: "Nothing to do: the next attempt begins by itself.",
    Why.NO_PROGRESS: "An administrator finds out what takes its room each time: the last loss says it.",
    Why.CLUSTER: "An administrator checks the backend; the group continues when the cluster answers.",
    Why.LABELS: "An administrator puts the labels back on the nodes, or corrects the pool's topology keys.",
    Why.DRIFT: "An administrator restores the Topology object, or corrects the pool's topology keys.",
    Why.NOT_SERVED: "An administrator installs or repairs NVIDIA's DRA driver for ComputeDomains.",
    Why.NOT_MADE: "The service tries again; an administrator removes the cause that it names.",
    Why.MISSING: "An administrator creates what is missing, or corrects the pod template that names it; the "
    "group then goes on by itself.",
    Why.NAMESPACE_QUOTA: "Wait until work of the namespace ends, or ask its administrator for more.",
    Why.CLAIM_TEMPLATE: "An administrator checks the ComputeDomain controller of the cluster.",
    Why.CREATING: "Nothing to do.",
    Why.QUOTA: "Wait until work of the pool ends, ask for a larger guarantee, or submit with priority LOW.",
    Why.TOPOLOGY: "Wait for the nearest domain, put fewer tasks in one domain, or prefer the key instead.",
    Why.CAPACITY: "Wait until work ends, ask for less, or use another pool.",
    Why.NODES: "Wait until nodes are open again; an administrator uncordons them or looks after them.",
    Why.POD: "An administrator corrects the pool's pod template, or makes the object that it names.",
    Why.CHANNEL: "Wait until the former ComputeDomain of the node is gone.",
    Why.CLAIM: "Wait until work with NVLink ends; otherwise an administrator checks the resource claims.",
    Why.PODS: "Nothing to do: missing objects are created again.",
    Why.SCHEDULER: "Read the scheduler's message.",
    Why.SILENT: "An administrator checks whether the scheduler runs.",
    Why.DISAGREES: "An administrator looks at the scheduler; a restart of it has helped others.",
    Why.PATIENCE: "Wait: the preference stops being required when its time is over.",
    Why.IMAGE: "Cancel, correct the image's name or its registry's credentials, and submit again.",
    Why.NVLINK: "Nothing to do for a minute; then an administrator looks at NVIDIA's daemon on these nodes.",
    Why.NODE_AWAY: "An administrator repairs or removes the node; if it comes back in time, work goes on.",
    Why.LOSS: "Nothing to do: it is decided within seconds, at most 90.",
    Why.BARRIER: "Nothing to do for a minute; then see why the named tasks or DNS in the pods are not there.",
    Why.STARTING: "Nothing to do while images are pulled; read the workflow's events if it takes long.",
    Why.RETRY: "Wait until a node for the retry is free.",
    Why.NODE_BUSY: "Nothing to do: the group's room is given back and asked for again.",
    Why.UNKNOWN_SCHEDULER: "An administrator installs the scheduler's package again.",
    Why.UNFORESEEN: "It is tried again by itself; an administrator reads the worker's log.",
}

HELP_CREDENTIAL = (
    "Create the Secret with its keys in that namespace, or ask an administrator to; the group then goes on "
    "by itself. Or cancel, correct the credential's name or key in the spec, and submit again."
)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a group waits: the kind, a sentence, and the evidence as JSON."""

    why: Why
    text: str
    evidence: Json = field(default_factory=dict)


MOST_AWAY = 3
"""Nodes that are away and named in the sentence."""


def waiting_reason(group: ObservedGroup, *, scheduler: SchedulerBackend) -> Reason | None:
    """The reason why the group, or a task of it that is tried again, does not run; None if nothing waits."""
    if group.status in TERMINAL:
        return None
    if group.node_wait or group.held_back or group.paused:
        return _of_old_tries(group)
    if group.status == TaskStatus.RUNNING:
        return _of_template(group) or _of_busy(group) or _of_running(group, scheduler)
    if obstacle := _of_request(group) or _before_the_cluster(group) or _before_the_scheduler(group):
        return obstacle
    if group.waiting is None:
        return CREATING
    return _of_placement(group, group.waiting, scheduler)


def _of_old_tries(group: ObservedGroup) -> Reason:
    """What tasks that are tried again wait for, or whether they are."""
    if group.node_wait:
        return Reason(Why.NODE_AWAY, group.node_wait)
    return Reason(Why.LOSS, group.held_back) if group.held_back else Reason(Why.NO_PROGRESS, group.paused)


def _of_request(group: ObservedGroup) -> Reason | None:
    """Why it cannot ask its scheduler for room, or gets no answer."""
    if group.quota:
        evidence = {"namespace_quota": {"requested": dict(group.quota_requested)}}
        return Reason(Why.NAMESPACE_QUOTA, group.quota, evidence)
    if group.silence:
        return Reason(Why.SILENT, group.silence)
    return Reason(Why.TOPOLOGY, group.unchosen) if group.unchosen else None


CREATING = Reason(Why.CREATING, "Its objects are being created in the cluster.")
MOST_UPSTREAM = 20


def _of_busy(group: ObservedGroup) -> Reason | None:
    """Tasks that cannot get the nodes that were assigned to them."""
    if not group.busy:
        return None
    occupied = occupied_sentence(group.occupied) if group.occupied else ""
    text = " ".join(filter(None, [busy_sentence(group.busy), occupied]))
    return Reason(Why.NODE_BUSY, text, {"assigned_nodes": busy_evidence(group.busy)} | node_evidence(group))


def upstream_reason(upstream: Sequence[str]) -> Reason | None:
    """The reason of a group that starts after upstream groups, in their order; None without any.

    It holds until the group starts, whichever of them have completed.
    """
    if not upstream:
        return None
    number = len(upstream)
    text = (
        f"It starts when group {listing(upstream)} has completed."
        if number == 1
        else f"It starts when all of its {number} upstream groups have completed: {listing(upstream)}."
    )
    return Reason(Why.UPSTREAM, text, {"upstream": list(upstream[:MOST_UPSTREAM])})


def _before_the_cluster(group: ObservedGroup) -> Reason | None:
    if group.unreachable_since is None:
        return _of_attempt(group) if group.attempt_before else None
    since = naive_utc(group.unreachable_since, precision="seconds")
    return Reason(
        Why.CLUSTER,
        f'The cluster of backend "{group.backend}" has not answered since {since} UTC; the group continues '
        "as soon as it does.",
        {"cluster": {"backend": group.backend, "unreachable_since": since}},
    )


def _of_attempt(group: ObservedGroup) -> Reason:
    """Why its next attempt has not begun yet."""
    if not group.no_progress:
        return Reason(Why.ATTEMPT, group.attempt_before)
    return Reason(Why.NO_PROGRESS, f"{group.attempt_before} {group.no_progress}")


_QUOTA_TEXT = "exceeded quota: "
"""Of an API server's refusal: Kubernetes 1.37 ``apiserver/.../resourcequota/controller.go``."""


def _before_the_scheduler(group: ObservedGroup) -> Reason | None:
    if group.missing_levels and not (group.waiting and group.waiting.placed):
        why = Why.DRIFT if group.drift else Why.LABELS
        return Reason(why, f"{group.missing_levels} {ADVICE}", node_evidence(group))
    if group.trouble and group.compute_domains_unserved:
        text = f'The cluster of backend "{group.backend}" does not serve ComputeDomains: {group.trouble}'
        return Reason(Why.NOT_SERVED, text, {"cluster": {"backend": group.backend, "said": group.trouble}})
    if missing := _of_missing(group, [group.trouble]):
        return missing
    if group.trouble:
        silent = group.silent_scheduler
        scheduler = f'Scheduler "{silent}" does not answer. ' if silent else ""
        failed = (
            "Its objects could not be created in the cluster; this is tried again, at most a minute later"
        )
        text = f"{scheduler}{failed}: {group.trouble.rstrip('.')}."
        refused = Why.NAMESPACE_QUOTA if _QUOTA_TEXT in group.trouble else Why.NOT_MADE
        why = Why.SILENT if scheduler else refused
        return Reason(why, text, {"cluster": {"backend": group.backend, "said": group.trouble}})
    return _of_template(group)


def _of_missing(group: ObservedGroup, texts: Sequence[str]) -> Reason | None:
    """Objects that its pods name and that do not exist, by these texts."""
    objects = missing_objects(texts, credential_prefix=group.credential_prefix)
    if not objects:
        return None
    quotes = [text[:MOST_CHARACTERS] for text in dict.fromkeys(texts) if missing_objects([text])]
    named = [obj.as_json() for obj in objects[:MOST_EVIDENCE]]
    evidence: Json = {
        "missing_objects": {"namespace": group.namespace, "named": named, "said": quotes[:MOST_RAW]}
    }
    if all(obj.credential for obj in objects):
        evidence["help"] = HELP_CREDENTIAL
    return Reason(Why.MISSING, missing_sentence(objects, namespace=group.namespace), evidence)


def _of_template(group: ObservedGroup) -> Reason | None:
    """Pods that wait for the template of their claims."""
    if not group.template:
        return None
    evidence = {"claim_template": {"name": group.template, "made": False}}
    text = f"It waits for claim template {group.template}, which the cluster's ComputeDomain controller "
    if not group.template_removed:
        return Reason(Why.CLAIM_TEMPLATE, f"{text}has not created yet.", evidence)
    text += (
        "had made and which was deleted; by what is not known, but not by this service. "
        "The controller makes it again only after 10 minutes to an hour."
    )
    return Reason(Why.CLAIM_TEMPLATE, text, {"claim_template": {"name": group.template, "made": True}})


def _of_placement(group: ObservedGroup, waiting: Waiting, scheduler: SchedulerBackend) -> Reason:
    if waiting.placed:
        return _of_starting(group)
    if reason := _of_busy(group):
        return reason
    reasons, meanings = _current(scheduler.texts.waiting_reasons(waiting), waiting), scheduler.texts.meanings
    texts = [*waiting.pod_messages, *(reason.raw for reason in reasons)]
    reports = group.reports if not texts or any(NOT_CREATED in text for text in texts) else ()
    if missing := _of_missing(group, [*texts, *reports]):
        return missing
    evidence = scheduler_evidence(reasons, waiting) | node_evidence(group)
    cause = of_one_cause(reasons, meanings)
    why, obstacle = _obstacle(group, reasons, _kind(cause[0], meanings) if cause else Why.SILENT)
    if cause and not obstacle and (own_help := _help(cause[0], meanings)):
        evidence["help"] = own_help
    is_complete = obstacle and why in (Why.CHANNEL, Why.CLAIM, Why.NOT_SERVED)
    sentences = [] if is_complete else _messages(cause)
    if why == Why.NODES and sentences:  # it counts closed nodes wherever it finds no place
        sentences = ["Its scheduler finds no place for it and says:", *sentences]
    if not reasons and not obstacle:
        why, sentences = Why.SILENT, ["The scheduler has not placed it yet and has given no reason."]
    hidden = uncovered(group.coverage) if group.coverage and why not in _ROOM | {Why.QUOTA} else ()
    left_out = "" if is_complete or why == Why.QUOTA else _left_out(group, waiting, scheduler)
    return Reason(why, " ".join(filter(None, [obstacle, *sentences, left_out, *hidden])), evidence)


def _left_out(group: ObservedGroup, waiting: Waiting, scheduler: SchedulerBackend) -> str:
    """The nodes on which no room is asked for, because another ComputeDomain holds their channel."""
    if waiting.pods or scheduler.admission is None:
        return ""
    return held_sentence(group.occupied)


def _current(reasons: Sequence[WaitingReason], waiting: Waiting) -> list[WaitingReason]:
    """The reasons that still hold: a scheduler does not withdraw its report of missing pods."""
    complete = waiting.pods >= waiting.pods_expected
    return [reason for reason in reasons if not (complete and reason.code == "PodsMissing")]


def of_one_cause(reasons: Sequence[WaitingReason], meanings: Mapping[str, Meaning]) -> list[WaitingReason]:
    """The reasons of the first known cause: two causes in one sentence contradict each other.

    While pods are missing, a scheduler does not judge room, so its reason on room is an earlier one. Of
    several counts of missing pods the first is the current one. Closed nodes are the cause only where nothing
    else lacks room: a scheduler counts them whenever it finds none.
    """
    recognised = [reason for reason in reasons if _kind(reason, meanings) != Why.SCHEDULER]
    first = next(
        (reason for reason in recognised if _kind(reason, meanings) in _BEFORE_ROOM),
        recognised[0] if recognised else None,
    )
    if first is None:
        return list(reasons)
    kind = _kind(first, meanings)
    if kind == Why.PODS:
        return [first]
    if kind not in _ROOM:
        return [reason for reason in reasons if _kind(reason, meanings) == kind]
    room = [reason for reason in reasons if _kind(reason, meanings) in _ROOM]
    return [reason for reason in room if _kind(reason, meanings) != Why.NODES] or room


def _messages(cause: Sequence[WaitingReason]) -> list[str]:
    """The first two sentences of a cause; sets of one tree may share one."""
    return list(dict.fromkeys(reason.message for reason in cause))[:2]


def _kind(reason: WaitingReason, meanings: Mapping[str, Meaning]) -> Why:
    meaning = meanings.get(reason.code)
    return Why(meaning.kind) if meaning else Why.SCHEDULER


def _help(reason: WaitingReason, meanings: Mapping[str, Meaning]) -> str:
    """The scheduler's own advice; empty for what the kind says."""
    meaning = meanings.get(reason.code)
    return meaning.help if meaning else ""


def _obstacle(group: ObservedGroup, reasons: Sequence[WaitingReason], why: Why) -> tuple[Why, str]:
    """The obstacle that objects show behind the scheduler's reasons; without one, the reasons' kind alone."""
    if why == Why.PODS:
        return why, ""
    if group.drift:
        return Why.DRIFT, drift_sentence(group.drift)
    return _of_claims(group, reasons) or (why, "")


def _of_claims(group: ObservedGroup, reasons: Sequence[WaitingReason]) -> tuple[Why, str] | None:
    """What blocks claims that cannot be allocated; None where the group does not wait for claims.

    A scheduler may leave a pod group's first reasons although its pods wait for something else by now, so the
    pods' own messages count as well. It may report nothing while it counts on pods that are being deleted.
    """
    pod_messages = group.waiting.pod_messages if group.waiting else ()
    plugins = plugin_messages([*(reason.raw for reason in reasons), *pod_messages])
    busy = PluginMessage.CLAIMS_IN_USE in plugins
    missing = [reason.message for reason in reasons if reason.code == "ClaimMissing"]
    former = [node for node in group.occupied if node.ended]
    if former and (busy or missing or not reasons):
        return Why.CHANNEL, occupied_sentence(former)
    if not busy and not missing:
        return None
    if PluginMessage.NOT_ENOUGH_RESOURCES in plugins:
        return None
    if not busy:
        return Why.CLAIM, missing[0]
    if group.occupied:
        return Why.CLAIM, "Each node has one NVLink channel, and running work uses too many of them."
    return Why.NOT_SERVED, (
        "No node has a free NVLink channel for it, and no ComputeDomain is known to hold one: NVIDIA's "
        "driver may not run on the pool's nodes."
    )


def _of_starting(group: ObservedGroup) -> Reason:
    """All tasks have nodes: why their containers have not started."""
    if group.nodes_away:
        return away_reason(group.nodes_away)
    evidence: Json = {"containers": evidence_of(group.starting)} if group.starting else {}
    evidence |= {"unprepared_claims": evidence_of(group.unprepared)} if group.unprepared else {}
    if reason := _of_containers(group, evidence):
        return reason
    if former := [node for node in group.occupied if node.ended]:
        return Reason(
            Why.CHANNEL,
            f"All tasks have nodes and cannot start there yet. {occupied_sentence(former)}",
            evidence | {"nodes_held": evidence_of(former)},
        )
    if reason := _of_preparing(group, evidence):
        return reason
    if group.barrier:
        return _of_barrier(group.barrier, evidence)
    counts = Counter(container.reason for container in group.starting)
    return Reason(Why.STARTING, _starting_sentence(counts), evidence)


def _of_containers(group: ObservedGroup, evidence: Json) -> Reason | None:
    """Containers that kubelets cannot start: their image, or what they and their volumes name."""
    if images := [container for container in group.starting if container.is_image]:
        return Reason(Why.IMAGE, image_sentence(images), evidence | {"containers": evidence_of(images)})
    if not group.starting:
        return None
    of_containers = [container.message for container in group.starting]
    missing = _of_missing(group, of_containers) or _of_missing(group, group.reports)
    return missing and replace(missing, evidence=missing.evidence | evidence)


def _of_preparing(group: ObservedGroup, evidence: Json) -> Reason | None:
    """Tasks whose claims are not prepared yet: what the domain lists, and what kubelets report of it."""
    reports = f" {unprepared_sentence(group.unprepared)}" if group.unprepared else ""
    begin = "All tasks have nodes and are starting."
    if group.domain and group.domain.unready:
        text = f"{begin} {group.domain.sentence}{reports}"
        return Reason(Why.NVLINK, text, evidence | domain_evidence(group.domain))
    return Reason(Why.NVLINK, f"{begin}{reports}", evidence) if reports else None


def away_reason(nodes: Sequence[NodeAway]) -> Reason:
    """The reason of a group that has pods on nodes that are away."""
    text = " ".join(node.sentence for node in nodes[:MOST_AWAY])
    more = f" {count_of(len(nodes) - MOST_AWAY, 'more node')} too." if len(nodes) > MOST_AWAY else ""
    return Reason(
        Why.NODE_AWAY,
        f"{text}{more}",
        {"nodes_away": [node.as_json() for node in nodes[:MOST_EVIDENCE]]},
    )


def _of_barrier(wait: BarrierWait, evidence: Json) -> Reason:
    """Tasks that are ready to begin and wait for their peers."""
    own = {"start_barrier": barrier_evidence(wait)}
    return Reason(Why.BARRIER, barrier_sentence(wait), evidence | own)


def _of_running(group: ObservedGroup, scheduler: SchedulerBackend) -> Reason | None:
    """Why tasks of a running group wait."""
    if group.nodes_away:
        return away_reason(group.nodes_away)
    if group.domain and group.domain.unready and (group.domain.is_reported or group.domain.is_deleted):
        return Reason(Why.NVLINK, group.domain.sentence, domain_evidence(group.domain))
    if reason := _of_containers(group, {}):
        return reason
    if group.waiting is None or group.waiting.placed:
        return _of_barrier(group.barrier, {}) if group.barrier else None
    return _of_retries(group, group.waiting, scheduler)


def _of_retries(group: ObservedGroup, waiting: Waiting, scheduler: SchedulerBackend) -> Reason | None:
    if not group.retried:
        return None
    number = len(group.retried)
    verbs = agree(number, "is tried again and waits", "are tried again and wait")
    text = f"{plural(number, 'Task')} {listing(group.retried)} {verbs} for a place."
    reasons = _current(scheduler.texts.waiting_reasons(waiting), waiting)
    messages = _messages(of_one_cause(reasons, scheduler.texts.meanings))
    evidence: Json = {"tried_again": list(group.retried)} | scheduler_evidence(reasons, waiting)
    if queue := _queue_sentence(group.queued_behind):
        evidence["queued_behind"] = group.queued_behind
    return Reason(Why.RETRY, " ".join(filter(None, [text, queue, *messages])), evidence)


def _queue_sentence(groups: int) -> str:
    """The queue before a task that is tried again: its gang has its minimum without it."""
    if not groups:
        return ""
    verb = agree(groups, "has", "have")
    return (
        f"It is queued behind {count_of(groups, 'group')} of the pool that {verb} no task running: "
        "the scheduler serves these first."
    )


def _starting_sentence(starting: Mapping[str, int]) -> str:
    if not starting:
        return "All tasks have nodes and are starting."
    parts = [
        f"{count} {agree(count, 'waits', 'wait')} for {reason}" for reason, count in sorted(starting.items())
    ]
    return f"All tasks have nodes and are starting: {', '.join(parts)}."
