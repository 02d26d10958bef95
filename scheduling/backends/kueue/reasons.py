"""Why a Workload waits, from its conditions.

Kueue writes one condition ``QuotaReserved`` whose message joins the reasons of all pod sets. Source of the
texts: upstream's documentation and tests (v0.9 to v0.19); only those of a missing level and of a topology
without room were seen running.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scheduling.backends.base import UNRECOGNISED, Waiting, WaitingReason

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


def read(waiting: Waiting) -> tuple[WaitingReason, ...]:
    """The reasons of all pod sets, in Kueue's order."""
    return tuple(dict.fromkeys(_reasons(waiting)))


def _reasons(waiting: Waiting) -> Iterator[WaitingReason]:
    if not waiting.pod_groups:
        yield WaitingReason("PodGroupMissing", "The Workload of the task group is not in the cluster yet.")
    for workload in waiting.pod_groups:
        conditions = {str(c.get("type")): c for c in (workload.get("status") or {}).get("conditions") or ()}
        if (conditions.get("Evicted") or {}).get("status") == "True":
            yield _evicted(conditions["Evicted"])
        elif (conditions.get("Admitted") or {}).get("status") == "True":
            yield from _after_admission(waiting)
        elif (conditions.get("QuotaReserved") or {}).get("status") == "True":
            yield WaitingReason(
                "AdmissionChecks", "Kueue has reserved room and waits for the admission checks of its queue."
            )
        else:
            yield from _unreserved(conditions.get("QuotaReserved") or {}, waiting)


def _evicted(condition: Mapping[str, Any]) -> WaitingReason:
    message = str(condition.get("message", ""))
    sentence = f"Kueue took its room back ({condition.get('reason')}): {message}"
    return WaitingReason("Evicted", sentence, message)


def _after_admission(waiting: Waiting) -> Iterator[WaitingReason]:
    if waiting.pods < waiting.pods_expected:
        yield WaitingReason(
            "PodsMissing",
            f"Kueue has admitted it; {waiting.pods} of {waiting.pods_expected} pods exist.",
        )
    for message in waiting.pod_messages:
        yield WaitingReason(
            "AssignedNodeBusy", f"A pod cannot start on the node that Kueue assigned: {message}", message
        )


def _unreserved(condition: Mapping[str, Any], waiting: Waiting) -> Iterator[WaitingReason]:
    message = str(condition.get("message", ""))
    if not message:
        yield WaitingReason("NotConsidered", "Kueue has not considered it yet.")
        return
    for text in message.split("; "):
        yield _reason(text, waiting)


def _reason(text: str, waiting: Waiting) -> WaitingReason:
    name = match["set"] if (match := _POD_SET.search(text)) else ""
    words = waiting.sets.get(name, "the task group")
    for pattern, code, sentence in _SENTENCES:
        if match := pattern.search(text):
            return WaitingReason(code, sentence(match, words), text, tuple(sorted(_facts(match).items())))
    return WaitingReason(UNRECOGNISED, f"Kueue says of {words}: {text}", text)


def _facts(match: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in match.groupdict().items() if value is not None}


def _parts_of(match: re.Match[str]) -> str:
    return "tasks" if match["kind"] == "pod" else "sets"


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
        lambda match, words: (
            f"No domain has room for any of the {match['all']} {_parts_of(match)} of {words} at the moment."
        ),
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
)
