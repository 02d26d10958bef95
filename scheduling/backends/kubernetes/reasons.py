"""Why a gang waits, from the conditions of its pod groups and from the service's own counts.

The scheduler reports nothing on some waits (pods before their pod group, fewer pods than the minimum), and
never on a composite. Of a tree it reports on the pod groups: on those that failed their own text, on their
siblings that of the composite, which names its number of groups as ``minCount``. No text names a topology
key. Seen on kube-scheduler 1.37.2.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduling.backends.base import UNRECOGNISED, Meaning, Waiting, WaitingReason, WaitKind
from scheduling.sentences import count_of

MEANINGS: Mapping[str, Meaning] = {
    **dict.fromkeys(("TopologyNotSatisfied",), Meaning(WaitKind.TOPOLOGY)),
    **dict.fromkeys(("NotEnoughRoom",), Meaning(WaitKind.CAPACITY)),
    **dict.fromkeys(("PodGroupMissing", "PodsMissing"), Meaning(WaitKind.PODS)),
}
"""The meanings of its reasons' codes."""

UNPLACED = "PodGroupInitiallyScheduled"
"""The condition that says whether a pod group was placed."""


def read(waiting: Waiting) -> Iterator[WaitingReason]:
    groups = {str(group.get("metadata", {}).get("name")): group for group in waiting.pod_groups}
    for name in waiting.expected:
        if name not in groups:
            yield WaitingReason(
                "PodGroupMissing",
                f"The pod group of {waiting.sets.get(name, name)} is not in the cluster yet.",
            )
    if waiting.pods < waiting.pods_expected:
        yield WaitingReason(
            "PodsMissing",
            f"{waiting.pods} of {waiting.pods_expected} pods exist; the gang waits for the rest.",
        )
    for name, group in groups.items():
        conditions: Sequence[Mapping[str, Any]] = group.get("status", {}).get("conditions") or []
        for condition in conditions:
            if condition.get("type") == UNPLACED and condition.get("status") == "False":
                yield _unplaced(name, group, str(condition.get("message", "")), waiting)


def loses_preemptor(pod_group: Mapping[str, Any]) -> bool:
    """Whether others were evicted for a pod group that has no place yet.

    kube-scheduler 1.37.2 lost 3 of 15 such trees once their victims had gone: nothing but a new pod made it
    look again (no label of a pod, group or node, no other minimum, no node that was opened).
    """
    conditions: Sequence[Mapping[str, Any]] = pod_group.get("status", {}).get("conditions") or []
    return any(
        (condition.get("type"), condition.get("status")) == (UNPLACED, "False")
        and "preempting" in str(condition.get("message"))
        for condition in conditions
    )


def _unplaced(name: str, group: Mapping[str, Any], message: str, waiting: Waiting) -> WaitingReason:
    spec = group.get("spec", {})
    constraints = spec.get("schedulingConstraints") or {}
    label = next((str(entry.get("key")) for entry in constraints.get("topology") or ()), "")
    key = next((level.key for level in waiting.levels if level.label == label), label)
    words = waiting.sets.get(name, "the task group")
    count = spec.get("schedulingPolicy", {}).get("gang", {}).get("minCount")
    if match := re.search(r"0/(\d+) placements are available", message):
        parent = str(spec.get("parentCompositePodGroupName") or "")
        if parent and (minimum := re.search(r"minCount \((\d+)\)", message)) and int(minimum[1]) != count:
            return _parts_unplaced(waiting.sets.get(parent, "the task group"), int(match[1]), message)
        tasks = "task" if count == 1 else f"{count or ''} tasks".strip()
        if not key:  # the cluster is its only placement
            return WaitingReason("NotEnoughRoom", f"There is no room for the {tasks} of {words}.", message)
        sentence = (
            f"None of {count_of(int(match[1]), f'{key} domain')} has room for the {tasks} of {words} at the "
            f"moment; one {key} is required."
        )
        return WaitingReason("TopologyNotSatisfied", sentence, message)
    if "no feasible placements found" in message:
        if not key:
            return WaitingReason("NotEnoughRoom", f"There is no node for {words}.", message)
        sentence = (
            f"No node carries label {label} of key {key}, or none of its domains can ever hold {words}."
        )
        return WaitingReason("TopologyNotSatisfied", sentence, message)
    return WaitingReason(UNRECOGNISED, f"The scheduler says of {words}: {message}", message)


def _parts_unplaced(words: str, placements: int, message: str) -> WaitingReason:
    """A composite cannot be placed, and one of its pod groups carries its text."""
    if placements == 1:
        sentence = f"There is no room for all parts of {words} together."
        return WaitingReason("NotEnoughRoom", sentence, message)
    sentence = f"None of {placements} domains has room for all parts of {words} together at the moment."
    return WaitingReason("TopologyNotSatisfied", sentence, message)
