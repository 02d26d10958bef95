"""Kueue: a Workload of ours is admitted first and names the node of each pod; pods come after.

The Workload has no owner and no pods of Kueue's own making; none of its webhooks or pod integrations is
needed. It is admitted as a whole, with the nodes of all its pods, or not at all. Then each pod is
made with its node as selector and bound by Kubernetes' own scheduler. Its annotations say that it is Kueue's,
and whose: otherwise its use would count twice, once as the Workload's and once as somebody else's.

Kueue holds no tree: see ``pod_sets`` for what becomes of sets inside sets. A set that requires a domain
around others is pinned to one (``gang.pins``) in the templates of its pod sets; a Workload without its pins
is switched off, so that nothing is admitted that nothing holds.
Source: Kueue's main of August 2026 (after v0.19.2), seen running; its definitions of v0.19.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from scheduling import names
from scheduling.backends.applied import applied
from scheduling.backends.base import (
    GangRequest,
    Manifest,
    PodParts,
    PoolRequest,
    RenderedGang,
    Waiting,
    WaitingReason,
)
from scheduling.backends.by_table import ByTable
from scheduling.backends.kueue import admissions, installation, own_queues, queues, reasons, waking
from scheduling.backends.kueue.assignment import nodes_of_tasks, pod_set_answers, read_assignment
from scheduling.backends.kueue.features import WORKLOAD
from scheduling.backends.kueue.pod_sets import PodSet, pod_sets
from scheduling.backends.kueue.version import OLDEST, release_at, too_many, version_from_schema
from scheduling.backends.plain_texts import PlainTexts
from scheduling.backends.priorities import PRIORITIES
from scheduling.capabilities import Capabilities, Capability, SchedulerVersion
from scheduling.errors import Fault, InvalidSpec, UnsupportedCapability
from scheduling.gang.gang_form import GangForm
from scheduling.gang.pins import digest_of, node_labels, pinned
from scheduling.gang.slices import required_around
from scheduling.gang.tree import ConstraintTree
from scheduling.preflight import CheckResult, Observed
from scheduling.topology.levels import HOSTNAME_LABEL, MAX_LEVELS, DomainPath

_TAS = "kueue.x-k8s.io/podset-"
REQUIRED_ANNOTATION = f"{_TAS}required-topology"
PREFERRED_ANNOTATION = f"{_TAS}preferred-topology"
UNCONSTRAINED_ANNOTATION = f"{_TAS}unconstrained-topology"
WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
"""Of a pod: by it Kueue finds the pods of a Workload on a node that is cordoned, and leaves them there."""


MOST_PODS = 100_000
"""Of one pod set; an answer that names more nodes is not read."""


def _pod_group_name(group: UUID, *, generation: int, form: GangForm) -> str:
    """A name of its own for each choice of pins: another Workload takes the place of one with others."""
    name = names.uneditable_pod_group(group, generation=generation)
    return f"{name}-{digest_of(form.pins)}" if form.pins else name


class Kueue(PlainTexts, ByTable):
    """Kueue, with topology-aware scheduling.

    A Workload that is admitted keeps its pods' places, and its pod sets cannot be edited once it has reserved
    quota. Queues, flavors and Topologies belong to the cluster's administrators, unless the backend's
    settings ask for own ones.
    """

    name = "kueue"
    oldest = OLDEST
    needs: Mapping[Capability, SchedulerVersion] = {
        Capability.GANG: OLDEST,
        Capability.GANG_MULTI_SET: OLDEST,
        Capability.GANG_REPLACE_TASK: OLDEST,
        Capability.TOPOLOGY_REQUIRED: OLDEST,
        Capability.TOPOLOGY_PREFERRED: OLDEST,
        Capability.TOPOLOGY_EQUAL_SETS: OLDEST,
        Capability.TOPOLOGY_CHOSEN_DOMAIN: OLDEST,
        Capability.TOPOLOGY_PATH_DOMAINS: OLDEST,
    }
    max_levels = MAX_LEVELS - 1  # the Topology ends with the host, which may be none of the pool's keys
    joined_kinds = (queues.LOCAL_QUEUE, queues.CLUSTER_QUEUE, queues.FLAVOR)
    owned_kinds = own_queues.KINDS
    meanings = reasons.MEANINGS
    whole_fields = ("nodeLabels", "namespaceSelector")
    owned_capabilities = frozenset({Capability.QUEUE_LIMIT})
    installation_queries = installation.QUERIES

    own_conditions = admissions.OWN_CONDITIONS
    pod_group_name = staticmethod(_pod_group_name)
    admission = staticmethod(admissions.read)
    holds_room = staticmethod(admissions.is_reserved)
    ready = staticmethod(admissions.ready)
    wake = staticmethod(waking.wake)
    is_unanswered = staticmethod(waking.is_unanswered)
    levels_needed = staticmethod(queues.levels_needed)
    read_joined = staticmethod(queues.read)
    joined_queue = staticmethod(queues.joined)
    queued = staticmethod(queues.queued)
    leads_to = staticmethod(own_queues.leads_to)
    removable_in = staticmethod(own_queues.removable_in)

    def version_of(self, *, kubernetes: str, pod_group_schema: Mapping[str, Any] | None) -> SchedulerVersion:
        """Infer the version from what the cluster serves alone; Kubernetes' own says nothing about Kueue."""
        del kubernetes
        if pod_group_schema is None:
            raise UnsupportedCapability(
                f"Kueue {OLDEST} or later is needed: the cluster does not serve {WORKLOAD.crd} in "
                f"{WORKLOAD.api_version}."
            )
        return version_from_schema(pod_group_schema)

    def capabilities(self, version: SchedulerVersion | None) -> Capabilities:
        return replace(super().capabilities(version), max_pod_sets=release_at(version).pod_sets)

    def bounds(self, tree: ConstraintTree, capabilities: Capabilities) -> list[Fault]:
        """Refuse more pod sets than a Workload of this version has."""
        count, most = len(pod_sets(tree)), capabilities.max_pod_sets
        if most is None or count <= most:
            return []
        message = too_many(count, most, version=capabilities.version)
        return [Fault(tree.gang.path, "unsupported_capability", message, capability="max_pod_sets")]

    def render(self, request: GangRequest) -> RenderedGang:
        tree = pinned(self.tree(request), request.form.pins)
        sets = pod_sets(tree)
        workload = _workload(request, sets, node_labels(tree))
        if required_around(tree.root):  # nothing would hold them yet
            workload = self.switched_off(workload)
        return RenderedGang(
            pod_groups=(workload,),
            pods={
                task.name: _parts(request, pod_set, task.name) for pod_set in sets for task in pod_set.tasks
            },
            topologies=(),
            constraints=applied(tree, {pod_set.path: pod_set.name for pod_set in sets if pod_set.constraint}),
            sets={pod_set.name: pod_set.words for pod_set in sets},
        )

    def nodes_held(self, pod_group: Mapping[str, Any]) -> frozenset[str]:
        try:
            answers = [a for a in pod_set_answers(pod_group).values() if "topologyAssignment" in a]
            counts = [read_assignment(a["topologyAssignment"], pods=MOST_PODS) for a in answers]
        except InvalidSpec:  # the gang itself says so
            return frozenset()
        return frozenset(node for nodes in counts for node, _ in nodes)

    def switched_off(self, pod_group: Manifest) -> Manifest:
        return {**pod_group, "spec": {**pod_group["spec"], "active": False}}

    def nodes(
        self, request: GangRequest, pod_group: Mapping[str, Any], *, domains: Mapping[str, DomainPath]
    ) -> Mapping[str, str]:
        """Spread the tasks of each pod set over the nodes that Kueue assigned to it."""
        answers = pod_set_answers(pod_group)
        nodes: dict[str, str] = {}
        for pod_set in pod_sets(pinned(self.tree(request), request.form.pins)):
            answer = answers.get(pod_set.name) or {}
            if "topologyAssignment" not in answer:
                raise InvalidSpec(
                    _no_nodes(pod_set.words, queue=request.terms.queue, flavors=answer.get("flavors"))
                )
            counts = read_assignment(answer["topologyAssignment"], pods=len(pod_set.tasks))
            nodes |= nodes_of_tasks(pod_set, counts, domains, present=request.nodes)
        return nodes

    def counts_by_flavor(self, version: SchedulerVersion | None) -> bool:
        return not release_at(version).counts_across_flavors

    def pool_objects(self, request: PoolRequest) -> tuple[Manifest, ...]:
        """The queue of a pool that has one of ours, with all that it leads to."""
        return own_queues.objects(request) if self.own_queue(request) else ()

    def own_queue(self, request: PoolRequest) -> str:
        return own_queues.name_of(request) if request.queues.own and not request.local_queue else ""

    def waiting_reasons(self, waiting: Waiting) -> tuple[WaitingReason, ...]:
        return () if waiting.placed else reasons.read(waiting)

    def check_installation(
        self, observed: Observed, *, kubernetes: SchedulerVersion, scheduler_name: str, shard: str
    ) -> tuple[CheckResult, ...]:
        """Judge the configuration alone: Kueue has no shards and binds no pods."""
        del kubernetes, scheduler_name, shard
        return tuple(installation.check_installation(observed))


def _no_nodes(words: str, *, queue: str, flavors: object) -> str:
    """Why a pod set is admitted and has no nodes. One that uses no quota at all has no flavor, either."""
    if flavors:
        return (
            f'Kueue admitted {words} without naming nodes: the flavor of queue "{queue}" has no Topology '
            f"that ends with {HOSTNAME_LABEL}."
        )
    return (
        f'Kueue admitted {words} without naming nodes: queue "{queue}" has quota for nothing that its tasks '
        'request. Quota for "pods" is for every task.'
    )


def _workload(
    request: GangRequest, sets: tuple[PodSet, ...], node_labels: Mapping[str, Mapping[str, str]]
) -> Manifest:
    spec: Manifest = {
        "queueName": request.terms.queue,
        "podSets": [
            _pod_set(request, pod_set, node_labels.get(pod_set.tasks[0].name, {})) for pod_set in sets
        ],
    }
    if request.priority_class:
        spec |= {
            "priority": PRIORITIES[request.priority_class.rpartition("-")[2].upper()],
            "priorityClassRef": {
                "group": "scheduling.k8s.io",
                "kind": "PriorityClass",
                "name": request.priority_class,
            },
        }
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {
            "name": _pod_group_name(request.group, generation=request.generation, form=request.form),
            "namespace": request.terms.namespace,
            "labels": {
                **request.labels,
                names.INSTALLATION_LABEL: request.terms.installation.hex,
                names.GROUP_LABEL: request.group.hex,
            },
            "annotations": dict(request.annotations),
        },
        "spec": spec,
    }


def _pod_set(request: GangRequest, pod_set: PodSet, node_labels: Mapping[str, str]) -> Manifest:
    spec = request.pod_specs.get(pod_set.shape) or _empty_spec()
    if node_labels:
        spec = {**spec, "nodeSelector": {**spec.get("nodeSelector", {}), **node_labels}}
    return {
        "name": pod_set.name,
        "count": len(pod_set.tasks),
        "template": {"spec": spec},
        "topologyRequest": _topology_request(request, pod_set),
    }


def _empty_spec() -> Manifest:
    """The least that a template may be: of tasks that ask for nothing."""
    return {"restartPolicy": "Never", "containers": [{"name": "task"}]}


def _topology_request(request: GangRequest, pod_set: PodSet) -> Manifest:
    constraint, levels = pod_set.constraint, request.terms.levels
    entry: Manifest = {}
    if constraint.required is not None:
        entry["required"] = levels[constraint.required].label
    elif constraint.preferred is not None:
        entry["preferred"] = levels[constraint.preferred].label
    else:
        entry["unconstrained"] = True
    if pod_set.slice_level is not None:
        entry["podSetSliceRequiredTopology"] = levels[pod_set.slice_level].label
        entry["podSetSliceSize"] = pod_set.slice_size
    return entry


def _parts(request: GangRequest, pod_set: PodSet, task: str) -> PodParts:
    entry = _topology_request(request, pod_set)
    if "required" in entry:
        annotations = {REQUIRED_ANNOTATION: str(entry["required"])}
    elif "preferred" in entry:
        annotations = {PREFERRED_ANNOTATION: str(entry["preferred"])}
    else:
        annotations = {UNCONSTRAINED_ANNOTATION: "true"}
    annotations[WORKLOAD_ANNOTATION] = _pod_group_name(
        request.group, generation=request.generation, form=request.form
    )
    node = request.nodes.get(task)
    spec: Manifest = {"priorityClassName": request.priority_class} if request.priority_class else {}
    node_labels = {HOSTNAME_LABEL: node} if node else {}
    return PodParts({}, annotations, request.terms.scheduler_name, spec, node_labels)
