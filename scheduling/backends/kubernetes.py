"""Kubernetes' own scheduler, 1.37 and later: gang and one required level.

A PodGroup has a gang minimum and at most one topology key. It has no preferred level and no nesting, and a
domain is one label value instead of a path. So a task group of several co-location sets, which would need
several pod groups and be no gang any more, is refused.

Specs are immutable and a PodGroup with live pods cannot be deleted, so its name contains the generation and a
new PodGroup gets a new name. Pods that join a PodGroup whose peers have finished wait for ever; therefore a
retry renders the living tasks as a gang of the next generation.

This scheduler reports nothing on some waits (pods before their PodGroup, fewer pods than the minimum); those
reasons come from the service's own counts. Source: kube-scheduler 1.37.2, run.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduling import names
from scheduling.backends.applied import applied
from scheduling.backends.base import (
    UNRECOGNISED,
    Feature,
    GangRequest,
    Manifest,
    Meaning,
    PodParts,
    Purpose,
    ReadBack,
    RenderedGang,
    ResourceKind,
    Waiting,
    WaitingReason,
    WaitKind,
)
from scheduling.backends.by_table import ByTable
from scheduling.backends.facets import SchedulerBackend
from scheduling.backends.plain_texts import PlainTexts
from scheduling.capabilities import Capability, SchedulerVersion
from scheduling.errors import UnsupportedCapability
from scheduling.gang.tree import ConstraintTree
from scheduling.sentences import count_of
from scheduling.topology.levels import MAX_LEVELS
from scheduling.topology.requirements import describe

MEANINGS: Mapping[str, Meaning] = {
    **dict.fromkeys(("TopologyNotSatisfied",), Meaning(WaitKind.TOPOLOGY)),
    **dict.fromkeys(("NotEnoughRoom",), Meaning(WaitKind.CAPACITY)),
    **dict.fromkeys(("PodGroupMissing", "PodsMissing"), Meaning(WaitKind.PODS)),
}
"""The meanings of its reasons' codes."""

OLDEST = SchedulerVersion(1, 37)
"""The first that serves pod groups in ``v1beta1``; 1.36 served an alpha of them that 1.37 removed."""

API = "scheduling.k8s.io/v1beta1"
UNPLACED = "PodGroupInitiallyScheduled"
"""The condition that says whether a pod group was placed."""

SET_ANNOTATION = "osmo.topology_set"


POD_GROUP = ResourceKind(API, "PodGroup", "podgroups")


class Kubernetes(PlainTexts, ByTable):
    """The scheduler of Kubernetes itself.

    Specs of its pod groups are immutable. It has no queues and reads node labels directly.
    """

    name = "kubernetes"
    oldest = OLDEST
    needs: Mapping[Capability, SchedulerVersion] = {
        Capability.GANG: OLDEST,
        Capability.GANG_REPLACE_TASK: OLDEST,
        Capability.TOPOLOGY_REQUIRED: OLDEST,
        Capability.TOPOLOGY_MIXED_PODS: OLDEST,
    }
    max_levels = MAX_LEVELS
    meanings = MEANINGS

    def version_of(self, *, kubernetes: str, pod_group_schema: Mapping[str, Any] | None) -> SchedulerVersion:
        version = SchedulerVersion.parse(kubernetes)
        if version < OLDEST:
            raise UnsupportedCapability(
                f"Kubernetes {OLDEST} or later is needed; the cluster runs {version}."
            )
        if pod_group_schema is None:
            raise UnsupportedCapability(
                f"The cluster does not serve {API}, which has PodGroups: the API server of its Kubernetes "
                f"{version} needs the feature gates GenericWorkload and TopologyAwareWorkloadScheduling and "
                f"--runtime-config={API}=true, its scheduler the same gates."
            )
        return version

    def render(self, request: GangRequest) -> RenderedGang:
        """Create the pod group. Raises for a gang that one pod group cannot hold."""
        tree = self.tree(request)
        name = names.uneditable_pod_group(request.group, generation=request.generation)
        root = tree.root
        parts = _parts(request, name)
        return RenderedGang(
            pod_groups=(_pod_group(request, tree, name),),
            pods={task.name: parts for task in root.tasks},
            topologies=(),
            constraints=applied(tree, {root.path: name} if root.constraint else {}),
            sets={name: describe(root.path)},
        )

    def waiting_reasons(self, waiting: Waiting) -> tuple[WaitingReason, ...]:
        return () if waiting.placed else tuple(dict.fromkeys(_reasons(waiting)))


def _pod_group(request: GangRequest, tree: ConstraintTree, name: str) -> Manifest:
    root = tree.root
    spec: Manifest = {"schedulingPolicy": {"gang": {"minCount": len(root.tasks)}}}
    if root.constraint.required is not None:
        label = request.terms.levels[root.constraint.required].label
        spec["schedulingConstraints"] = {"topology": [{"key": label}]}
    if request.priority_class:
        spec["priorityClassName"] = request.priority_class
    words = json.dumps(root.path, ensure_ascii=False)
    return {
        "apiVersion": API,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": name,
            "namespace": request.terms.namespace,
            "labels": {
                **request.labels,
                names.INSTALLATION_LABEL: request.terms.installation.hex,
                names.GROUP_LABEL: request.group.hex,
            },
            "annotations": {**request.annotations, SET_ANNOTATION: words},
        },
        "spec": spec,
    }


def _parts(request: GangRequest, pod_group: str) -> PodParts:
    spec: Manifest = {"schedulingGroup": {"podGroupName": pod_group}}
    if request.priority_class:
        spec["priorityClassName"] = request.priority_class
    return PodParts({}, {}, request.terms.scheduler_name, spec)


def _reasons(waiting: Waiting) -> Iterator[WaitingReason]:
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


def _unplaced(name: str, group: Mapping[str, Any], message: str, waiting: Waiting) -> WaitingReason:
    constraints = group.get("spec", {}).get("schedulingConstraints") or {}
    label = next((str(entry.get("key")) for entry in constraints.get("topology") or ()), "")
    key = next((level.key for level in waiting.levels if level.label == label), label)
    words = waiting.sets.get(name, "the task group")
    if match := re.search(r"0/(\d+) placements are available", message):
        count = group.get("spec", {}).get("schedulingPolicy", {}).get("gang", {}).get("minCount")
        tasks = "task" if count == 1 else f"{count or ''} tasks".strip()
        if not key:  # the cluster is its only placement
            return WaitingReason("NotEnoughRoom", f"There is no room for the {tasks} of {words}.", message)
        sentence = (
            f"None of {count_of(int(match[1]), f'{key} domain')} has room for the {tasks} of {words} at the "
            f"moment; one {key} is required."
        )
        return WaitingReason("TopologyNotSatisfied", sentence, message)
    if "no feasible placements found" in message:
        sentence = (
            f"No node carries label {label} of key {key}, or none of its domains can ever hold {words}."
        )
        return WaitingReason("TopologyNotSatisfied", sentence, message)
    return WaitingReason(UNRECOGNISED, f"The scheduler says of {words}: {message}", message)


_IMPLEMENTATION = Kubernetes()

KUBERNETES = SchedulerBackend(
    scheduler_name="default-scheduler",
    pod_group=POD_GROUP,
    read_back=ReadBack(),
    features=(Feature(POD_GROUP, (), Purpose.SCHEDULER),),
    rendering=_IMPLEMENTATION,
    texts=_IMPLEMENTATION,
)
