"""The first obstacle on a task group's way, found by an ordered tuple of finders.

A pure function from observations to a reason: the caller reads, this module decides what matters most. Only
the first obstacle is stated: somebody whose cluster does not answer need not read what its scheduler reported
an hour ago. What a scheduler reports is read by ``explain.unplaced``; conditions that it leaves behind do not
count once the pods have nodes (KAI v0.13 keeps them).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from scheduling.sentences import agree, count_of
from web.times import naive_utc
from workflows.explain.levels import ADVICE
from workflows.explain.observed_group import ObservedGroup
from workflows.explain.obstacles import (
    MOST_EVIDENCE,
    busy_reason,
    domain_evidence,
    evidence_of,
    image_reason,
    occupied_sentence,
    unprepared_sentence,
)
from workflows.explain.reasons import CREATING, Json, Reason, Why
from workflows.explain.unplaced import missing_reason, retry_reason, unplaced_reason
from workflows.lifecycle.statuses import TERMINAL, TaskStatus

Finder = Callable[[ObservedGroup], Reason | None]

MOST_AWAY = 3
"""Nodes that are away and named in the sentence."""

_QUOTA_TEXT = "exceeded quota: "
"""Of an API server's refusal: Kubernetes 1.37 ``apiserver/.../resourcequota/controller.go``."""


def _beside_containers(find: Finder) -> Finder:
    """A finder whose evidence has the containers and claims that are not ready, too."""

    def find_with(group: ObservedGroup) -> Reason | None:
        reason = find(group)
        return reason and replace(reason, evidence=_evidence_of_starting(group) | reason.evidence)

    return find_with


def _evidence_of_starting(group: ObservedGroup) -> Json:
    parts = {
        "containers": evidence_of(group.starting),
        "unprepared_claims": evidence_of(group.unprepared),
    }
    return {key: part for key, part in parts.items() if part}


def _unreachable(group: ObservedGroup) -> Reason | None:
    if group.unreachable_since is None:
        return None
    since = naive_utc(group.unreachable_since, precision="seconds")
    return Reason(
        Why.CLUSTER,
        f'The cluster of backend "{group.backend}" has not answered since {since} UTC; the group continues '
        "as soon as it does.",
        {"cluster": {"backend": group.backend, "unreachable_since": since}},
    )


def _missing_levels(group: ObservedGroup) -> Reason | None:
    if not group.missing_levels or (group.waiting and group.waiting.placed):
        return None
    why = Why.DRIFT if group.drift else Why.LABELS
    return Reason(why, f"{group.missing_levels} {ADVICE}", group.node_evidence)


def _not_made(group: ObservedGroup) -> Reason | None:
    """Objects that the cluster did not take."""
    if not group.trouble:
        return None
    evidence = {"cluster": {"backend": group.backend, "said": group.trouble}}
    if group.compute_domains_unserved:
        text = f'The cluster of backend "{group.backend}" does not serve ComputeDomains: {group.trouble}'
        return Reason(Why.NOT_SERVED, text, evidence)
    if missing := missing_reason(group, [group.trouble]):
        return missing
    silent = group.silent_scheduler
    scheduler = f'Scheduler "{silent}" does not answer. ' if silent else ""
    failed = "Its objects could not be created in the cluster; this is tried again, at most a minute later"
    refused = Why.NAMESPACE_QUOTA if _QUOTA_TEXT in group.trouble else Why.NOT_MADE
    text = f"{scheduler}{failed}: {group.trouble.rstrip('.')}."
    return Reason(Why.SILENT if silent else refused, text, evidence)


def _claim_template(group: ObservedGroup) -> Reason | None:
    """Pods that wait for the template of their claims."""
    if not group.template:
        return None
    text = f"It waits for claim template {group.template}, which the cluster's ComputeDomain controller "
    text += (
        "had made and which was deleted; by what is not known, but not by this service. "
        "The controller makes it again only after 10 minutes to an hour."
        if group.template_removed
        else "has not created yet."
    )
    evidence = {"claim_template": {"name": group.template, "made": group.template_removed}}
    return Reason(Why.CLAIM_TEMPLATE, text, evidence)


def _nodes_away(group: ObservedGroup) -> Reason | None:
    """Nodes of its pods that are not ready or unreachable."""
    nodes = group.nodes_away
    text = " ".join(node.sentence for node in nodes[:MOST_AWAY])
    more = f" {count_of(len(nodes) - MOST_AWAY, 'more node')} too." if len(nodes) > MOST_AWAY else ""
    evidence = {"nodes_away": [node.as_json() for node in nodes[:MOST_EVIDENCE]]}
    return Reason(Why.NODE_AWAY, f"{text}{more}", evidence) if nodes else None


def _busy_nodes(group: ObservedGroup) -> Reason | None:
    """Tasks that cannot get the nodes that were assigned to them."""
    if not group.busy:
        return None
    reason = busy_reason(group.busy, group.occupied)
    return replace(reason, evidence=reason.evidence | group.node_evidence)


def _images(group: ObservedGroup) -> Reason | None:
    return image_reason(group.starting)


def _missing_objects(group: ObservedGroup) -> Reason | None:
    """Objects that containers, or their volumes, name and that do not exist."""
    if not group.starting:
        return None
    messages = [container.message for container in group.starting]
    return missing_reason(group, messages) or missing_reason(group, group.reports)


def _former_channel(group: ObservedGroup) -> Reason | None:
    """Nodes of its pods that still carry a former ComputeDomain."""
    former = [node for node in group.occupied if node.ended]
    text = f"All tasks have nodes and cannot start there yet. {occupied_sentence(former)}"
    return Reason(Why.CHANNEL, text, {"nodes_held": evidence_of(former)}) if former else None


def _preparing(group: ObservedGroup) -> Reason | None:
    """Tasks whose claims are not prepared yet: what the domain lists, and what kubelets report of it."""
    unready = group.domain if group.domain and group.domain.unready else None
    if not unready and not group.unprepared:
        return None
    sentences = [
        "All tasks have nodes and are starting.",
        unready.sentence if unready else "",
        unprepared_sentence(group.unprepared),
    ]
    return Reason(Why.NVLINK, " ".join(filter(None, sentences)), domain_evidence(unready) if unready else {})


def _own_domain(group: ObservedGroup) -> Reason | None:
    """The ComputeDomain of a running group, which is gone or misses nodes."""
    domain = group.domain
    if domain is None or not domain.unready or not (domain.is_reported or domain.is_deleted):
        return None
    return Reason(Why.NVLINK, domain.sentence, domain_evidence(domain))


def _barrier(group: ObservedGroup) -> Reason | None:
    """Tasks that are ready to begin and wait for their peers."""
    return group.barrier.reason if group.barrier and not group.is_unplaced else None


def _starting(group: ObservedGroup) -> Reason:
    """All tasks have nodes, and nothing is known that keeps their containers from starting."""
    counts = sorted(Counter(container.reason for container in group.starting).items())
    parts = [f"{count} {agree(count, 'waits', 'wait')} for {reason}" for reason, count in counts]
    listed = f": {', '.join(parts)}" if parts else ""
    return Reason(Why.STARTING, f"All tasks have nodes and are starting{listed}.")


_OF_RUNNING: tuple[Finder, ...] = (
    lambda group: group.tries_wait,
    _claim_template,
    _busy_nodes,
    _nodes_away,
    _own_domain,
    _images,
    _missing_objects,
    _barrier,
    retry_reason,
)
_BEFORE_PODS: tuple[Finder, ...] = (
    lambda group: group.tries_wait,
    lambda group: group.request_wait,
    _unreachable,
    lambda group: group.attempt_wait,
    _missing_levels,
    _not_made,
    _claim_template,
    lambda group: CREATING if group.waiting is None else None,
)
_OF_UNPLACED: tuple[Finder, ...] = (_busy_nodes, unplaced_reason)
_OF_STARTING: tuple[Finder, ...] = (
    _nodes_away,
    *map(
        _beside_containers,
        (_images, _missing_objects, _former_channel, _preparing, _barrier, _starting),
    ),
)


def waiting_reason(group: ObservedGroup) -> Reason | None:
    """The reason why the group, or a task of it that is tried again, does not run; None if nothing waits."""
    return next((reason for find in _finders(group) if (reason := find(group))), None)


def _finders(group: ObservedGroup) -> tuple[Finder, ...]:
    if group.status in TERMINAL:
        return ()
    if group.status == TaskStatus.RUNNING:
        return _OF_RUNNING
    return (*_BEFORE_PODS, *(_OF_UNPLACED if group.is_unplaced else _OF_STARTING))
