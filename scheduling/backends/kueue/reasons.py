"""Why a Workload waits, from its conditions.

Kueue writes one condition ``QuotaReserved`` whose message joins the reasons of all pod sets. Source of the
texts: upstream's documentation and tests (v0.9 to v0.19); those of a missing level, of a topology without
room and of nodes that are left out were seen running (v0.17.0).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scheduling.backends.base import UNRECOGNISED, Meaning, RoomLoss, Waiting, WaitingReason, WaitKind
from scheduling.backends.kueue import admissions
from scheduling.queues.joined_queues import FlavorUsage, QueuePosition
from scheduling.sentences import agree, count_of, listing, plural

MEANINGS: Mapping[str, Meaning] = {
    **dict.fromkeys(("QuotaExceeded", "QuotaTooSmall", "QueueUnusable"), Meaning(WaitKind.QUOTA)),
    **dict.fromkeys(("TopologyNotSatisfied",), Meaning(WaitKind.TOPOLOGY)),
    **dict.fromkeys(("PodGroupMissing", "PodsMissing"), Meaning(WaitKind.PODS)),
}
"""The meanings of its reasons' codes."""

_POD_SET = re.compile(r"couldn't assign flavors to pod set (?P<set>[a-z0-9-]+): ")
_PARTIAL = re.compile(
    r'topology "(?P<topology>[^"]+)" allows to fit only (?P<fits>\d+) out of (?P<all>\d+) '
    r"(?P<kind>pod|slice)\(s\)"
)
_NONE = re.compile(
    r'topology "(?P<topology>[^"]+)" doesn\'t allow to fit any of (?P<all>\d+) (?P<kind>pod|slice)\(s\)'
)
_QUOTA = re.compile(
    r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>[^,;\s]+)"
    r"(?:, (?P<more>\S+) more needed)?"
)
_MAXIMUM = re.compile(r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>[^,;\s]+)")
_PREEMPTING = re.compile(r"Pending the preemption of (?P<count>\d+) workload")
_MISSING = re.compile(r"(?P<kind>LocalQueue|ClusterQueue) (?P<name>\S+) (?:doesn't exist|is inactive)")

_UNCOVERED = re.compile(r"resource (?P<resource>\S+) unavailable in ClusterQueue")
_SEVERAL = re.compile(r"more than one flavor assigned: (?P<flavors>.+)")
_NAMESPACE = re.compile(r"(?i)workload namespace doesn't match ClusterQueue selector")
_LEVEL = re.compile(r'Flavor "(?P<flavor>[^"]+)" does not contain the requested level')
_FLAT = re.compile(r'(?:^|: )Flavor "(?P<flavor>[^"]+)" does not support TopologyAwareScheduling$')


_NEXT_REASON = re.compile(r"; (?!excluded: )")
_LEFT_OUT = re.compile(
    r'(?:(?P<kind>nodeSelector|affinity|topologyDomain)|taint "(?P<taint>[^"]+)"|'
    r'resource "(?P<resource>[^"]+)"): (?P<nodes>\d+)'
)
_LEFT_OUT_BY = {
    "nodeSelector": "by the node selector",
    "affinity": "by node affinity",
    "topologyDomain": "outside the domain of the other tasks",
}

SILENCE = 30.0
"""For how many seconds Kueue may say nothing of a Workload; it writes within one on a quiet machine."""


def read(waiting: Waiting) -> tuple[WaitingReason, ...]:
    """The reasons of all pod sets, in Kueue's order."""
    return tuple(dict.fromkeys(_reasons(waiting)))


def lacks_room(message: str) -> bool:
    """Whether Kueue says in a condition that the nodes have no room."""
    return bool(_PARTIAL.search(message) or _NONE.search(message))


def _reasons(waiting: Waiting) -> Iterator[WaitingReason]:
    if not waiting.pod_groups:
        yield WaitingReason("PodGroupMissing", "The Workload of the task group is not in the cluster yet.")
    for workload in waiting.pod_groups:
        conditions = {str(c.get("type")): c for c in (workload.get("status") or {}).get("conditions") or ()}
        answer = admissions.read(workload)
        if answer.switched_off:
            yield _switched_off(workload, conditions["Evicted"])
        elif answer.lost is not None:
            yield _taken_back(answer.lost)
        elif (conditions.get("Admitted") or {}).get("status") == "True":
            yield from _after_admission(waiting)
        elif (conditions.get("QuotaReserved") or {}).get("status") == "True":
            yield _checked(workload)
        else:
            yield from _unreserved(conditions.get("QuotaReserved") or {}, waiting)


def _checked(workload: Mapping[str, Any]) -> WaitingReason:
    """Room is reserved, and checks of the queue are not ready; Kueue says at first nothing of them."""
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    waiting = [check for check in checks if check.get("state") != "Ready"]
    names = listing(str(check.get("name")) for check in waiting)
    texts = [str(check["message"]) for check in waiting if check.get("message")]
    which = (
        f"{plural(len(waiting), 'admission check')} {names}" if waiting else "its queue's admission checks"
    )
    message = f"Kueue has reserved room and waits for {which}."
    return WaitingReason("AdmissionChecks", " ".join([message, *texts]), "; ".join(texts))


def _switched_off(workload: Mapping[str, Any], condition: Mapping[str, Any]) -> WaitingReason:
    name = (workload.get("metadata") or {}).get("name")
    message = str(condition.get("message", ""))
    sentence = (
        f"Its Workload {name} is switched off ({condition.get('reason')}): it waits until somebody sets "
        "spec.active of the Workload to true."
    )
    return WaitingReason("SwitchedOff", sentence, message)


def _taken_back(lost: RoomLoss) -> WaitingReason:
    return WaitingReason("Evicted", f"Kueue took its room back. {lost.reason}", lost.reason)


def _after_admission(waiting: Waiting) -> Iterator[WaitingReason]:
    if waiting.pods < waiting.pods_expected:
        yield WaitingReason(
            "PodsMissing",
            f"Kueue has admitted it; {waiting.pods} of {waiting.pods_expected} pods exist.",
        )


def _unreserved(condition: Mapping[str, Any], waiting: Waiting) -> Iterator[WaitingReason]:
    if waiting.queue is not None and waiting.queue.faults:
        fault = waiting.queue.faults[0]
        yield WaitingReason("QueueUnusable", fault.message, "", (("reason", fault.reason),))
        return
    message = str(condition.get("message", ""))
    if not message and waiting.seconds >= SILENCE:
        yield WaitingReason(
            "KueueSilent",
            f"Kueue has said nothing of its Workload for {waiting.seconds:.0f} seconds: its manager may be "
            "down.",
        )
        return
    if not message:
        yield WaitingReason("NotConsidered", f"Kueue has not considered it yet.{_others(waiting)}")
        return
    for text in _NEXT_REASON.split(message):
        yield _reason(text, waiting)


def _reason(text: str, waiting: Waiting) -> WaitingReason:
    name = match["set"] if (match := _POD_SET.search(text)) else ""
    words = waiting.sets.get(name, "the task group")
    for pattern, code, sentence in _SENTENCES:
        if match := pattern.search(text):
            facts = _facts(match)
            usage = _usage(waiting, facts)
            text_of_usage = f" {_usage_sentence(waiting, usage)}" if usage else ""
            facts |= _usage_facts(usage) if usage else {}
            message = f"{sentence(match, words)}{_left_out(text)}{text_of_usage}"
            return WaitingReason(code, message, text, tuple(sorted(facts.items())))
    return WaitingReason(UNRECOGNISED, f"Kueue says of {words}: {text}", text)


def _left_out(text: str) -> str:
    """Which nodes Kueue left out, and why, as a sentence; empty where it says nothing of that."""
    _, _, causes = text.partition("; excluded: ")
    parts = [
        f"{match['nodes']} {_LEFT_OUT_BY.get(match['kind']) or _cause_of(match)}"
        for match in _LEFT_OUT.finditer(causes)
    ]
    return f" Nodes left out: {', '.join(parts)}." if parts else ""


def _cause_of(match: re.Match[str]) -> str:
    return f"by taint {match['taint']}" if match["taint"] else f"with too little free {match['resource']}"


def _facts(match: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in match.groupdict().items() if value is not None}


def _usage(waiting: Waiting, facts: Mapping[str, str]) -> FlavorUsage | None:
    """How full the queue is of the resource and flavor that a reason names."""
    flavors = waiting.queue.usage.flavors if waiting.queue and waiting.queue.usage else ()
    named = (facts.get("flavor"), facts.get("resource"))
    return next((entry for entry in flavors if (entry.flavor, entry.resource) == named), None)


def _usage_sentence(waiting: Waiting, usage: FlavorUsage) -> str:
    """Say what the queue uses of its quota, what it borrows or may borrow, and how many others wait there."""
    words = waiting.queue.usage.words if waiting.queue and waiting.queue.usage else ""
    text = f"{words} uses {_amount(usage.used)} of its {_amount(usage.quota)} {usage.resource}"
    if usage.borrowed:
        text += f", {_amount(usage.borrowed)} of them borrowed"
    if usage.most is not None and usage.most > usage.quota:
        text += f", and may borrow {_amount(usage.most - usage.quota)}"
    return f"{text}.{_others(waiting)}"


def _others(waiting: Waiting) -> str:
    """How many others wait in the queue and who goes first; Kueue's order is priority, then time.

    Workloads of others that are not followed are counted by Kueue alone, so their place is not known.
    """
    others = waiting.queue.usage.waiting - 1 if waiting.queue and waiting.queue.usage else 0
    if others < 1:
        return ""
    verb = agree(others, "waits", "wait")
    order = "those of higher priority, then older ones, go first"
    text = f" {count_of(others, 'other Workload')} {verb} there; {order}."
    return f"{text}{_place(waiting.position, others)}{_passing(waiting)}"


def _place(position: QueuePosition | None, others: int) -> str:
    """Its number in the queue, or the bounds of it where the order of some is not known."""
    if position is None:
        return ""
    unordered = others - position.before - position.behind
    first = position.before + 1
    if unordered < 0:  # the queue's own count is older than what was read of Workloads
        return f" At the moment {position.before} are before it."
    if not unordered:
        return f" It is number {first} of {others + 1}."
    last = first + unordered
    return f" It is number {first} to {last} of {others + 1}: the place of {unordered} is not known."


def _passing(waiting: Waiting) -> str:
    if waiting.queue is None or waiting.queue.usage is None:
        return ""
    if waiting.queue.usage.is_strict:
        return " Nothing passes the first one (StrictFIFO)."
    return " One that fits may pass those that do not (BestEffortFIFO)."


def _usage_facts(usage: FlavorUsage) -> dict[str, str]:
    amounts = {"quota": usage.quota, "used": usage.used, "borrowed": usage.borrowed}
    return {name: _amount(amount) for name, amount in amounts.items()}


def _amount(amount: float) -> str:
    return f"{amount:.15g}"


def _parts_of(match: re.Match[str]) -> str:
    return plural(int(match["all"]), "task" if match["kind"] == "pod" else "set")


def _none_fits(match: re.Match[str], words: str) -> str:
    parts = _parts_of(match)
    which = f"the {parts}" if int(match["all"]) == 1 else f"any of the {match['all']} {parts}"
    return f"No domain has room for {which} of {words} at the moment."


_SENTENCES: tuple[tuple[re.Pattern[str], str, Callable[[re.Match[str], str], str]], ...] = (
    (
        _PARTIAL,
        "TopologyNotSatisfied",
        lambda match, words: (
            f"No domain has room for all {match['all']} {_parts_of(match)} of {words} at the moment; the "
            f"best one has room for {match['fits']}."
        ),
    ),
    (
        _NONE,
        "TopologyNotSatisfied",
        _none_fits,
    ),
    (
        _QUOTA,
        "QuotaExceeded",
        lambda match, words: (
            f"The queue's quota of {match['resource']} in flavor {match['flavor']} is used"
            + (f": {words} needs {match['more']} more." if match["more"] else f", and {words} needs more.")
        ),
    ),
    (
        _MAXIMUM,
        "QuotaTooSmall",
        lambda match, words: (
            f"The queue never has as much {match['resource']} in flavor {match['flavor']} as {words} asks "
            "for."
        ),
    ),
    (
        _PREEMPTING,
        "Preempting",
        lambda match, words: f"Kueue preempts {match['count']} workloads to make room for {words}.",
    ),
    (
        _MISSING,
        "QueueUnusable",
        lambda match, words: f"{match['kind']} {match['name']} does not exist or is inactive; {words} waits.",
    ),
    (
        _UNCOVERED,
        "QueueUnusable",
        lambda match, words: f"The queue has no quota for {match['resource']}, which {words} requests.",
    ),
    (
        _SEVERAL,
        "QueueUnusable",
        lambda match, words: (
            f"What {words} requests is of several flavors ({match['flavors']}), and Kueue names nodes in one "
            "alone."
        ),
    ),
    (
        _NAMESPACE,
        "QueueUnusable",
        lambda _, words: f"The namespaceSelector of its ClusterQueue leaves the namespace of {words} out.",
    ),
    (
        _LEVEL,
        "QueueUnusable",
        lambda match, words: f"The Topology of flavor {match['flavor']} lacks the level that {words} names.",
    ),
    (
        _FLAT,
        "QueueUnusable",
        lambda match, words: (
            f"Flavor {match['flavor']} has resources that {words} requests and no Topology, so Kueue would "
            "name no nodes."
        ),
    ),
)
