"""The evidence of a reason as JSON: observations without interpretation, long lists cut."""

import re
from collections.abc import Sequence
from typing import Any

from scheduling.backends.base import UNRECOGNISED, Waiting, WaitingReason
from web.times import naive_utc
from workflows.explain.observed_group import ObservedGroup
from workflows.explain.obstacles import MOST_EVIDENCE, drift_evidence, evidence_of
from workflows.lifecycle.domain_health import DomainHealth

Json = dict[str, Any]

MOST_RAW = 5
MOST_DOMAINS = 10
MOST_CHARACTERS = 500


def scheduler_evidence(reasons: Sequence[WaitingReason], waiting: Waiting) -> Json:
    """The scheduler's own texts and the numbers read from them."""
    evidence: Json = {"pods": {"expected": waiting.pods_expected, "exist": waiting.pods}}
    if unrecognised := [reason.raw[:MOST_CHARACTERS] for reason in reasons if reason.code == UNRECOGNISED]:
        evidence["unrecognised"] = unrecognised[:MOST_RAW]
    if texts := _without_repeats([reason.raw for reason in reasons], waiting.pod_messages):
        evidence["scheduler_says"] = [text[:MOST_CHARACTERS] for text in texts[:MOST_RAW]]
    domains = [dict(reason.facts) for reason in reasons if reason.code == "DomainTooSmall" and reason.facts]
    if domains:
        evidence["domains"] = domains[:MOST_DOMAINS]
    quotas = ("OverQuota", "QuotaExceeded", "QuotaTooSmall")
    if quota := next((reason for reason in reasons if reason.code in quotas), None):
        evidence["quota"] = dict(quota.facts)
    return evidence


_KIND_AND_COUNTS = re.compile(r"(?:[\w ]+:)?[\d\s.]*")


def _without_repeats(own: Sequence[str], of_pods: Sequence[str]) -> list[str]:
    """The texts, each once; left out is one of pods that an own text has, or that only joins own ones."""
    texts = list(dict.fromkeys(filter(None, own)))
    own_words = sorted((text.rstrip(" .") for text in texts), key=len, reverse=True)
    for text in dict.fromkeys(of_pods):
        if any(text.rstrip(" .") in words for words in own_words):
            continue
        rest = text
        for words in filter(None, own_words):
            rest = rest.replace(words, "")
        if rest == text or not _KIND_AND_COUNTS.fullmatch(rest):
            texts.append(text)
    return list(dict.fromkeys(texts))


def node_evidence(group: ObservedGroup) -> Json:
    """Observations of nodes, of their labels and of the objects that name them."""
    evidence: Json = {}
    levels = group.coverage.levels if group.coverage else ()
    if group.coverage and any(level.hidden or level.lacking for level in levels):
        evidence["labels"] = [
            {
                "key": level.level.key,
                "label": level.level.label,
                "nodes": group.coverage.nodes,
                "without": level.lacking,
                "not_seen": level.hidden,
                "named": list(level.hidden_names or level.lacking_names),
            }
            for level in levels
            if level.hidden or level.lacking
        ]
    if group.drift:
        evidence["drift"] = drift_evidence(group.drift)
    if group.occupied:
        evidence["nodes_held"] = evidence_of(group.occupied)
    return evidence


def domain_evidence(domain: DomainHealth) -> Json:
    unready = domain.unready[:MOST_EVIDENCE]
    since = {
        node: naive_utc(domain.since[node], precision="seconds") for node in unready if node in domain.since
    }
    return {"nvlink_domain": {"nodes": domain.expected, "unready": list(unready), "since": since}}
