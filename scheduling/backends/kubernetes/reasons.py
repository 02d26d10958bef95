"""Why a gang waits, from the conditions of its pod groups and from the service's own counts.

The scheduler reports nothing on some waits (pods before their pod group, fewer pods than the minimum), and
never on a composite. Of a tree it reports on the pod groups: on those that failed their own text, on their
siblings that of a composite, which names its number of groups as ``minCount``. No text names a topology
key, and its domains are those of all nodes of the cluster: no number of it is repeated. Seen on
kube-scheduler 1.37.2.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduling.backends.base import UNRECOGNISED, Meaning, Waiting, WaitingReason, WaitKind
from scheduling.topology.requirements import describe

SLOW_QUEUE = "QueuesPodByPod"
MANY_PODS = 500
"""From so many pods of one gang on, people notice the time that the scheduler's queue takes for them.

With gate ``CompositePodGroup`` 1.37.2 copies the state of the whole gang for each of its pods whenever one
more comes (``GangScheduling.PreEnqueue``): the time grows with the third power of their number. It says
nothing meanwhile. Without the gate it only counts (kubernetes/kubernetes pull request 141030).
"""

MEANINGS: Mapping[str, Meaning] = {
    **dict.fromkeys(("TopologyNotSatisfied",), Meaning(WaitKind.TOPOLOGY)),
    **dict.fromkeys(("NotEnoughRoom",), Meaning(WaitKind.CAPACITY)),
    **dict.fromkeys(("PodGroupMissing", "PodsMissing"), Meaning(WaitKind.PODS)),
    SLOW_QUEUE: Meaning(
        WaitKind.OTHER,
        "Wait, or split the group. Where every gang is one set, an administrator can switch the scheduler's "
        "gate CompositePodGroup off.",
    ),
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
    elif waiting.pods >= MANY_PODS and not any(_is_answered(group) for group in groups.values()):
        yield WaitingReason(
            SLOW_QUEUE,
            f"The scheduler has not answered yet. Where composite pod groups are on, Kubernetes 1.37 queues "
            f"the {waiting.pods:,} pods of a gang slowly: about a minute for 900, and hours for 4,600.",
        )
    for name, group in groups.items():
        conditions: Sequence[Mapping[str, Any]] = group.get("status", {}).get("conditions") or []
        for condition in conditions:
            if condition.get("type") == UNPLACED and condition.get("status") == "False":
                yield _unplaced(name, group, str(condition.get("message", "")), waiting)


def _is_answered(group: Mapping[str, Any]) -> bool:
    conditions: Sequence[Mapping[str, Any]] = group.get("status", {}).get("conditions") or []
    return any(condition.get("type") == UNPLACED for condition in conditions)


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
    words = waiting.sets.get(name, "the task group")
    unlabelled = "no feasible placements found" in message
    if not unlabelled and "placements are available" not in message:
        return WaitingReason(UNRECOGNISED, f"The scheduler says of {words}: {message}", message)
    spec = group.get("spec", {})
    count = spec.get("schedulingPolicy", {}).get("gang", {}).get("minCount")
    above = [other for other in waiting.sets if name.startswith(f"{other}-")]
    if above and not _is_own(message, count, above, waiting):
        root = waiting.sets[min(above, key=len)]
        sentence = f"There is no place for all sets of {root} together at the moment."
        return WaitingReason("TopologyNotSatisfied", sentence, message)
    constraints = spec.get("schedulingConstraints") or {}
    label = next((str(entry.get("key")) for entry in constraints.get("topology") or ()), "")
    if not label:
        absent = "no node" if unlabelled else "no room"
        return WaitingReason("NotEnoughRoom", f"There is {absent} for {_tasks(count)} of {words}.", message)
    key = next((level.key for level in waiting.levels if level.label == label), label)
    if unlabelled:
        return WaitingReason("TopologyNotSatisfied", f"No node carries label {label} of key {key}.", message)
    beside = " beside the other sets" if above else ""
    sentence = (
        f"No {key} has room for {_tasks(count)} of {words}{beside} at the moment; one {key} is required."
    )
    return WaitingReason("TopologyNotSatisfied", sentence, message)


def _is_own(message: str, count: int | None, above: Sequence[str], waiting: Waiting) -> bool:
    """Whether a text holds for its pod group, whatever domain the groups above it have.

    Inside another group with a key it describes the first domain of that group that was tried, perhaps one
    of another pool's nodes; how many domains it counts is of all nodes of the cluster in any case.
    """
    if any(waiting.sets[other] != describe(()) for other in above):
        return False
    minimum = re.search(r"minCount \((\d+)\)", message)
    if minimum is None:
        return True
    sizes = [sum(other.rpartition("-")[0] == group for other in waiting.sets) for group in above]
    return int(minimum[1]) == count and count not in sizes


def _tasks(count: int | None) -> str:
    return "the task" if count == 1 else f"the {count} tasks" if count else "the tasks"
