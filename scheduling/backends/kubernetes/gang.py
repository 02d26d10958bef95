"""Kubernetes' own scheduler, 1.37 and later: pod groups, and composites of them.

A PodGroup has a gang minimum and at most one topology key; a gang of one set is one alone. Several sets are a
tree of CompositePodGroups with pod groups at its ends, if the scheduler holds composites: without its gate
``CompositePodGroup`` it ignores them in silence, and the API does not say whether it has that gate. So these
capabilities need a version that names the gate, which a trial has shown or an administrator vouches for.

Specs are immutable but for a gang's minimum, and a PodGroup with live pods cannot be deleted, so the names of
groups contain the generation, and new groups get new names. Pods that join a PodGroup whose peers have
finished wait for ever; therefore a retry renders the living tasks as a gang of the next generation.

There is no preferred level: the service's own search chooses a domain for each preference
(``fit.preferring``), and node affinity leads the pods there. It counts inside a gang and never blocks one.

Source: kube-scheduler and kube-apiserver 1.37.2, run.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from scheduling import names
from scheduling.backends.applied import applied
from scheduling.backends.base import (
    GangRequest,
    Manifest,
    ObjectQuery,
    PodParts,
    RenderedGang,
    ResourceKind,
    Waiting,
    WaitingReason,
)
from scheduling.backends.by_table import ByTable
from scheduling.backends.kubernetes import reasons
from scheduling.backends.kubernetes.group_kinds import (
    API,
    COMPOSITE,
    COMPOSITE_GATE,
    COMPOSITES_SWITCHED_ON,
    POD_GROUP,
    SWITCHED_ON,
    WORKLOAD,
)
from scheduling.backends.kubernetes.group_tree import TreeGroup, lay_out
from scheduling.backends.kubernetes.workload import check_tree, templates_of
from scheduling.backends.plain_texts import PlainTexts
from scheduling.capabilities import Capabilities, Capability, SchedulerVersion
from scheduling.errors import Fault, UnsupportedCapability
from scheduling.gang.pins import node_labels, pinned
from scheduling.gang.tree import ConstraintTree, grow
from scheduling.kubernetes_syntax import GPU
from scheduling.preflight import CheckResult, Observed, passed
from scheduling.topology.levels import MAX_LEVELS
from scheduling.topology.requirements import describe

OLDEST = SchedulerVersion(1, 37)
WITH_COMPOSITES = OLDEST.with_gates(COMPOSITE_GATE)
ALL_OR_NONE: Manifest = {"disruptionMode": {"all": {}}}
"""Of a root: whoever is preempted, all are; by default a tree loses single pods or sets."""

SET_ANNOTATION = "osmo.topology_set"


class Kubernetes(PlainTexts, ByTable):
    """The scheduler of Kubernetes itself. It has no queues and reads node labels directly."""

    name = "kubernetes"
    oldest = OLDEST
    needs: Mapping[Capability, SchedulerVersion] = {
        Capability.GANG: OLDEST,
        Capability.GANG_MULTI_SET: WITH_COMPOSITES,
        Capability.GANG_REPLACE_TASK: OLDEST,
        Capability.TOPOLOGY_REQUIRED: OLDEST,
        Capability.TOPOLOGY_PREFERRED: OLDEST,
        Capability.TOPOLOGY_BOTH_TYPES: OLDEST,
        Capability.TOPOLOGY_MIXED_PODS: OLDEST,
        Capability.TOPOLOGY_EQUAL_SETS: WITH_COMPOSITES,
        Capability.TOPOLOGY_NESTED: WITH_COMPOSITES,
    }
    max_levels = MAX_LEVELS
    prefers_by_affinity = True
    meanings = reasons.MEANINGS
    installation_queries: tuple[ObjectQuery, ...] = ()

    def version_of(self, *, kubernetes: str, pod_group_schema: Mapping[str, Any] | None) -> SchedulerVersion:
        version = SchedulerVersion.parse(kubernetes)
        if version < OLDEST:
            raise UnsupportedCapability(
                f"Kubernetes {OLDEST} or later is needed; the cluster runs {version}."
            )
        if pod_group_schema is None:
            raise UnsupportedCapability(
                f"The cluster does not serve {API}, which has PodGroups. {SWITCHED_ON}"
            )
        return version

    def bounds(self, tree: ConstraintTree, capabilities: Capabilities) -> list[Fault]:
        if Capability.GANG_MULTI_SET not in capabilities:
            return []
        return check_tree(lay_out(tree, ""), path=tree.gang.path)

    def advised(self, fault: Fault) -> Fault:
        """A fault with the way to the capability that it lacks."""
        if fault.capability not in (Capability.GANG_MULTI_SET, Capability.TOPOLOGY_NESTED):
            return fault
        return replace(fault, message=f"{fault.message} {COMPOSITES_SWITCHED_ON}")

    def render(self, request: GangRequest) -> RenderedGang:
        """Create the groups of a gang. Raises for one that they cannot hold."""
        tree = pinned(self.tree(request), request.form.pins)
        with_preferences = grow(request.gang, request.terms.levels)
        root = lay_out(tree, names.uneditable_pod_group(request.group, generation=request.generation))
        if faults := check_tree(root, path=request.gang.path):
            raise UnsupportedCapability(f'Task group "{request.gang.name}" cannot be held.', faults)
        groups = tuple(root.walk())
        specs = {group.name: _spec(request, group) for group in groups}
        specs[root.name] |= ALL_OR_NONE
        workload: tuple[Manifest, ...] = ()
        if root.children:
            templates = templates_of(root, specs)
            spec = {"compositePodGroupTemplates": [templates.root]}
            workload = (_manifest(request, WORKLOAD, root.name, spec),)
            for group in groups:
                specs[group.name] = {**_references(root, group, templates.names), **specs[group.name]}
        sets = {group.path: group.name for group in groups if group.is_set}
        return RenderedGang(
            parents=(
                *workload,
                *(
                    _manifest(request, COMPOSITE, group.name, specs[group.name], words=group)
                    for group in groups
                    if group.children
                ),
            ),
            pod_groups=tuple(
                _manifest(request, POD_GROUP, group.name, specs[group.name], words=group)
                for group in groups
                if group.tasks
            ),
            pods=_pods(request, groups, node_labels(tree)),
            topologies=(),
            constraints=applied(with_preferences, {path: sets[path] for path in _constrained(tree)}),
            sets={group.name: _words(group) for group in groups},
        )

    def check_installation(
        self, observed: Observed, *, kubernetes: SchedulerVersion, scheduler_name: str, shard: str
    ) -> tuple[CheckResult, ...]:
        """Suggest what no API shows: by default domains are compared by CPU and memory alone."""
        del observed, kubernetes, shard
        message = "Sets take the fullest domain that fits, by the resources that the scheduler scores."
        to_do = (
            f"Name {GPU} in scoringStrategy.resources of NodeResourcesFit in the profile {scheduler_name} of "
            "the scheduler's configuration: by default it scores CPU and memory alone, and chance decides "
            "between domains with equal use of those."
        )
        return (passed("kubernetes_scoring", message, to_do),)

    def waiting_reasons(self, waiting: Waiting) -> tuple[WaitingReason, ...]:
        return () if waiting.placed else tuple(dict.fromkeys(reasons.read(waiting)))


def _constrained(tree: ConstraintTree) -> list[Any]:
    return [node.path for node in tree.root.walk() if node.constraint]


def _spec(request: GangRequest, group: TreeGroup) -> Manifest:
    """The spec of a group without what names other objects, as its template has it."""
    gang = {"minGroupCount": len(group.children)} if group.children else {"minCount": len(group.tasks)}
    spec: Manifest = {"schedulingPolicy": {"gang": gang}}
    if group.level is not None:
        label = request.terms.levels[group.level].label
        spec["schedulingConstraints"] = {"topology": [{"key": label}]}
    if request.priority_class:
        spec["priorityClassName"] = request.priority_class
    return spec


def _references(root: TreeGroup, group: TreeGroup, templates: Mapping[str, str]) -> Manifest:
    parent = {"parentCompositePodGroupName": group.parent} if group.parent else {}
    return {
        **parent,
        "workloadRef": {"workloadName": root.name, "templateName": templates[group.name]},
    }


def _manifest(
    request: GangRequest, kind: ResourceKind, name: str, spec: Manifest, *, words: TreeGroup | None = None
) -> Manifest:
    annotations = dict(request.annotations)
    if words is not None:
        annotations[SET_ANNOTATION] = json.dumps(words.path, ensure_ascii=False)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": request.terms.namespace,
            "labels": {
                **request.labels,
                names.INSTALLATION_LABEL: request.terms.installation.hex,
                names.GROUP_LABEL: request.group.hex,
            },
            "annotations": annotations,
        },
        "spec": spec,
    }


def _pods(
    request: GangRequest, groups: Collection[TreeGroup], labels: Mapping[str, Mapping[str, str]]
) -> Mapping[str, PodParts]:
    pods: dict[str, PodParts] = {}
    present = _labels_present(request, groups)
    for group in groups:
        spec: Manifest = {"schedulingGroup": {"podGroupName": group.name}}
        if request.priority_class:
            spec["priorityClassName"] = request.priority_class
        for task in group.tasks:  # those of one group have the same pins
            pods[task.name] = PodParts(
                {},
                {},
                request.terms.scheduler_name,
                spec,
                labels.get(task.name, {}),
                present[group.name],
            )
    return pods


def _labels_present(request: GangRequest, groups: Collection[TreeGroup]) -> Mapping[str, tuple[str, ...]]:
    """By group, the labels broader than its key or its parent's: without them a node is on no path of labels.

    The scheduler itself takes a domain of a flat set for the nodes with one label value. ``groups`` has each
    before its children.
    """
    terms = request.terms
    by_paths = terms.version is not None and terms.version.has(WITH_COMPOSITES)
    ranks: dict[str, int] = {}
    for group in groups:
        ranks[group.name] = ranks.get(group.parent, 0) if group.level is None else group.level
    return {
        name: tuple(level.label for level in terms.levels[:rank]) if by_paths else ()
        for name, rank in ranks.items()
    }


def _words(group: TreeGroup) -> str:
    """A group's set as people name it."""
    words = describe(group.path)
    return words if group.is_set or group.children else f"the remaining tasks of {words}"
