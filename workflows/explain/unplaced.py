"""What a task group without a place waits for, by its scheduler's reports and by the objects behind them.

Each scheduler backend reads its own scheduler's texts. Nodes without a topology label are stated beside the
scheduler's reason, because KAI never mentions them: it does not see them. An obstacle that only objects show
(``explain.obstacles``) comes before the scheduler's reason where it is the cause. Pure.
"""

import re
from collections.abc import Mapping, Sequence

from scheduling.backends.base import UNRECOGNISED, Meaning, Waiting, WaitingReason
from scheduling.backends.claims import PluginMessage, plugin_messages
from scheduling.backends.missing_objects import NOT_CREATED, missing_objects, missing_sentence
from scheduling.sentences import agree, count_of, listing, plural
from workflows.explain.levels import uncovered
from workflows.explain.observed_group import ObservedGroup
from workflows.explain.obstacles import MOST_EVIDENCE, held_sentence, occupied_sentence
from workflows.explain.reasons import Json, Reason, Why

HELP_CREDENTIAL = (
    "Create the Secret with its keys in that namespace, or ask an administrator to; the group then goes on "
    "by itself. Or cancel, correct the credential's name or key in the spec, and submit again."
)

MOST_RAW = 5
MOST_DOMAINS = 10
MOST_CHARACTERS = 500

_ROOM = {Why.TOPOLOGY, Why.CAPACITY, Why.NODES}
"""One cause: room is missing, in a domain or on nodes, some of which are closed perhaps.

Whether nodes that are closed or lack a label would help, the verdict says (``scheduling.fit.remedies``).
"""

_BEFORE_ROOM = {Why.POD, Why.NOT_SERVED}
"""Causes that no room cures."""


def missing_reason(group: ObservedGroup, texts: Sequence[str]) -> Reason | None:
    """Objects that its pods name and that do not exist, by these texts."""
    objects = missing_objects(texts, credential_prefix=group.credential_prefix)
    if not objects:
        return None
    quotes = [text[:MOST_CHARACTERS] for text in dict.fromkeys(texts) if missing_objects([text])]
    named = [obj.as_json() for obj in objects[:MOST_EVIDENCE]]
    return Reason(
        Why.MISSING,
        missing_sentence(objects, namespace=group.namespace),
        {"missing_objects": {"namespace": group.namespace, "named": named, "said": quotes[:MOST_RAW]}},
        own_help=HELP_CREDENTIAL if all(obj.credential for obj in objects) else "",
    )


def unplaced_reason(group: ObservedGroup) -> Reason | None:
    """What a group whose pods have no nodes waits for."""
    waiting, texts = group.waiting, group.scheduler.texts
    if waiting is None:
        return None
    reasons = _current(texts.waiting_reasons(waiting), waiting)
    if missing := _missing_objects(group, waiting, reasons):
        return missing
    cause = of_one_cause(reasons, texts.meanings)
    kind = _kind(cause[0], texts.meanings) if cause else Why.SILENT
    obstacle = _obstacle(group, reasons) if kind != Why.PODS else None
    why = obstacle.why if obstacle else kind
    is_complete = why in (Why.CHANNEL, Why.CLAIM, Why.NOT_SERVED) and obstacle is not None
    sentences = [] if is_complete else _messages(cause)
    if why == Why.NODES and sentences:  # it counts closed nodes wherever it finds no place
        sentences.insert(0, "Its scheduler finds no place for it and says:")
    if not reasons and not obstacle:
        sentences = ["The scheduler has not placed it yet and has given no reason."]
    if obstacle:
        sentences.insert(0, obstacle.sentence)
    if not is_complete and why != Why.QUOTA:
        sentences.append(_left_out(group, waiting))
    if group.coverage and why not in _ROOM | {Why.QUOTA}:
        sentences += uncovered(group.coverage)
    own_help = _help(cause[0], texts.meanings) if cause and not obstacle else ""
    evidence = _scheduler_evidence(reasons, waiting) | group.node_evidence
    return Reason(why, " ".join(filter(None, sentences)), evidence, own_help)


def _missing_objects(
    group: ObservedGroup, waiting: Waiting, reasons: Sequence[WaitingReason]
) -> Reason | None:
    """Objects that its scheduler misses, or that reports name while it has none of its own on that."""
    texts = [*waiting.pod_messages, *(reason.raw for reason in reasons)]
    reports = group.reports if not texts or any(NOT_CREATED in text for text in texts) else ()
    return missing_reason(group, [*texts, *reports])


def _left_out(group: ObservedGroup, waiting: Waiting) -> str:
    """The nodes on which no room is asked for, because another ComputeDomain holds their channel."""
    if waiting.pods or group.scheduler.admission is None:
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
    kinds = [(_kind(reason, meanings), reason) for reason in reasons]
    recognised = [entry for entry in kinds if entry[0] != Why.SCHEDULER]
    if not recognised:
        return list(reasons)
    first, reason = next((entry for entry in recognised if entry[0] in _BEFORE_ROOM), recognised[0])
    if first == Why.PODS:
        return [reason]
    if first not in _ROOM:
        return [reason for kind, reason in kinds if kind == first]
    room = [reason for kind, reason in kinds if kind in _ROOM]
    return [reason for kind, reason in kinds if kind in _ROOM - {Why.NODES}] or room


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


def _obstacle(group: ObservedGroup, reasons: Sequence[WaitingReason]) -> Reason | None:
    """The obstacle that objects show behind the scheduler's reasons.

    A scheduler may leave a pod group's first reasons although its pods wait for something else by now, so the
    pods' own messages on claims count as well. It may report nothing while it counts on pods that are being
    deleted.
    """
    if group.drift:
        return Reason(Why.DRIFT, group.drift.sentence)
    pod_messages = group.waiting.pod_messages if group.waiting else ()
    plugins = plugin_messages([*(reason.raw for reason in reasons), *pod_messages])
    busy = PluginMessage.CLAIMS_IN_USE in plugins
    missing = [reason.message for reason in reasons if reason.code == "ClaimMissing"]
    former = [node for node in group.occupied if node.ended]
    if former and (busy or missing or not reasons):
        return Reason(Why.CHANNEL, occupied_sentence(former))
    if (not busy and not missing) or PluginMessage.NOT_ENOUGH_RESOURCES in plugins:
        return None
    if not busy:
        return Reason(Why.CLAIM, missing[0])
    if group.occupied:
        text = "Each node has one NVLink channel, and running work uses too many of them."
        return Reason(Why.CLAIM, text)
    return Reason(
        Why.NOT_SERVED,
        "No node has a free NVLink channel for it, and no ComputeDomain is known to hold one: NVIDIA's "
        "driver may not run on the pool's nodes.",
    )


def retry_reason(group: ObservedGroup) -> Reason | None:
    """The place that tasks of a running group wait for, which are tried again."""
    waiting, number = group.waiting, len(group.retried)
    if waiting is None or waiting.placed or not number:
        return None
    verbs = agree(number, "is tried again and waits", "are tried again and wait")
    text = f"{plural(number, 'Task')} {listing(group.retried)} {verbs} for a place."
    reasons = _current(group.scheduler.texts.waiting_reasons(waiting), waiting)
    messages = _messages(of_one_cause(reasons, group.scheduler.texts.meanings))
    evidence: Json = {"tried_again": list(group.retried)} | _scheduler_evidence(reasons, waiting)
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


def _scheduler_evidence(reasons: Sequence[WaitingReason], waiting: Waiting) -> Json:
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
