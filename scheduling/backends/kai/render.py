"""KAI: one PodGroup for a task group, with a tree of subgroups and several Topology objects.

Rules observed on running KAI v0.13 and v0.17; a gang that breaks one of them stays pending for ever:

- Every constraint has a preferred level at least as narrow as its required one. With a required level alone
  KAI descends to the narrowest domain that all candidate nodes share and finds no room there.
- Each constraint names a Topology cut at its own narrowest level. A node that lacks any label of a Topology
  is invisible to every constraint on it, so an uncut Topology would waste nodes.
- With subgroups every pod carries a subgroup's name, only leaves have ``minMember`` and the pod group has
  none (v0.15 refuses it on inner subgroups); without subgroups no pod carries a subgroup's name.
- KAI places siblings in order of name and never moves them; see ``subgroups`` for wrapping.
- An external Topology cannot be cut: every constraint names all of it, and nodes without its narrowest label
  stay unused.
- Pods have no ownerReferences: KAI's podgrouper would overwrite their pod group. From v0.15 on it passes over
  a pod with the annotation ``kai.scheduler/skip-podgrouper``; no version reads it as a label.

``markUnschedulable`` and ``schedulingBackoff`` stay unset: the defaults mark pods with a reason and
retry. ``preemptibility`` stays unset: it follows from the priority.
"""

import json
from collections.abc import Mapping, Sequence
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
)
from scheduling.backends.by_table import ByTable
from scheduling.backends.kai import evictions, installation, meanings, minimum, queue_rules, reasons, relax
from scheduling.backends.kai.features import POD_GROUP, QUEUE, TOPOLOGY
from scheduling.backends.kai.version import (
    OLDEST,
    OPTIONAL_LEAVES,
    PREEMPTION_DELAY,
    STALENESS_GRACE,
    version_from_schema,
)
from scheduling.capabilities import Capability, SchedulerVersion
from scheduling.errors import UnsupportedCapability
from scheduling.gang.free_preferences import at_preference_levels
from scheduling.gang.pins import node_labels, pinned
from scheduling.gang.set_order import ordered
from scheduling.gang.stages import at_stage
from scheduling.gang.subgroups import Subgroup, lay_out
from scheduling.gang.tree import Constraint, ConstraintTree, build_tree
from scheduling.queues.queue_state import QueueState
from scheduling.topology.levels import MAX_LEVELS, Level, Levels
from scheduling.topology.requirements import describe

POD_GROUP_ANNOTATION = "pod-group-name"
QUEUE_LABEL = "kai.scheduler/queue"
SUBGROUP_LABEL = minimum.SUBGROUP_LABEL
SKIP_PODGROUPER_ANNOTATION = "kai.scheduler/skip-podgrouper"
SETS_ANNOTATION = "osmo.topology_sets"
SETS_OMITTED_ANNOTATION = "osmo.topology_sets_omitted"

MAX_SETS_ANNOTATION = 32 * 1024
"""Bytes of the user's words kept on a pod group; Kubernetes allows 256 KiB for all annotations."""

_as_written = json.JSONEncoder(ensure_ascii=False).encode  # ``json.dumps`` would make one for each call
_UNLIMITED: Mapping[str, float] = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


class Kai(ByTable):
    """NVIDIA's KAI scheduler, 0.13 and later."""

    name = "kai"
    oldest = OLDEST
    needs: Mapping[Capability, SchedulerVersion] = {
        **dict.fromkeys(Capability, OLDEST),
        Capability.QUEUE_PREEMPTION_DELAY: PREEMPTION_DELAY,
    }
    max_levels = MAX_LEVELS
    meanings = meanings.MEANINGS
    queue = QUEUE
    pool_kinds = (QUEUE, TOPOLOGY)
    installation_queries = installation.QUERIES
    removable = ("preemptMinRuntime", "reclaimMinRuntime")

    resized = staticmethod(minimum.resized)
    relaxed = staticmethod(relax.relaxed)
    read_queue = staticmethod(queue_rules.read_queue)
    is_preemptible = staticmethod(queue_rules.is_preemptible)
    shortages = staticmethod(queue_rules.shortages)
    waiting_reasons = staticmethod(reasons.read)
    last_report = staticmethod(reasons.last_report)
    read_eviction = staticmethod(evictions.read_eviction)
    check_installation = staticmethod(installation.check_installation)

    def version_of(self, *, kubernetes: str, pod_group_schema: Mapping[str, Any] | None) -> SchedulerVersion:
        """Infer the version from the PodGroup schema alone; Kubernetes' own says nothing about KAI."""
        del kubernetes
        if pod_group_schema is None:
            raise UnsupportedCapability(
                f"KAI is not installed: the cluster serves no {POD_GROUP.crd}. KAI {OLDEST} or "
                "later is needed."
            )
        return version_from_schema(pod_group_schema)

    def render(self, request: GangRequest) -> RenderedGang:
        form = request.form
        tree = ordered(at_stage(build_tree(request.gang, request.terms.levels), form.stage), form.order)
        tree = at_preference_levels(tree, form.preference_levels)
        tree = pinned(tree, form.pins)
        subgroups = lay_out(tree)
        subgroup_names = {sub.path: sub.name for sub in subgroups if sub.node}
        return RenderedGang(
            pod_groups=(_pod_group(request, tree, subgroups),),
            pods=_pods(request, tree, subgroups),
            topologies=_topologies(request, tree),
            constraints=applied(tree, subgroup_names),
            sets={sub.name: _describe(sub) for sub in subgroups},
            never_stale=_is_never_stale(request),
            optional_leaves=(request.terms.version or OLDEST) >= OPTIONAL_LEAVES,
        )

    def pool_objects(self, request: PoolRequest) -> tuple[Manifest, ...]:
        return (
            *_parent_queues(request),
            _pool_queue(request),
            *(
                topology(request.installation, request.levels[: rank + 1])
                for rank in range(0 if request.external_topology else len(request.levels))
            ),
        )

    def above(self, pool_object: Mapping[str, Any]) -> str:
        return str((pool_object.get("spec") or {}).get("parentQueue") or "")

    def children_of(self, pool_object: Mapping[str, Any]) -> tuple[str, ...]:
        """The child queues; KAI 0.14 and later refuse to delete a queue that has any in its status."""
        return tuple(map(str, (pool_object.get("status") or {}).get("childQueues") or ()))

    def queues_of(self, request: PoolRequest) -> tuple[QueueState, ...]:
        manifests = (_pool_queue(request), *_parent_queues(request))
        return tuple(queue_rules.configured(manifest) for manifest in manifests)


def _pod_group(request: GangRequest, tree: ConstraintTree, subgroups: Sequence[Subgroup]) -> Manifest:
    spec: Manifest = {"queue": request.terms.queue}
    if request.priority_class:
        spec["priorityClassName"] = request.priority_class
    if constraint := tree.root.constraint:
        spec["topologyConstraint"] = _constraint(request, constraint)
    if request.terms.preemption_delay and (request.terms.version or OLDEST) >= PREEMPTION_DELAY:
        spec["preemptionDelay"] = _duration(request.terms.preemption_delay)
    if subgroups:
        spec["subGroups"] = [_subgroup(request, subgroup) for subgroup in subgroups]
    else:
        spec["minMember"] = tree.root.size
    if _is_never_stale(request):
        spec[minimum.GRACE_FIELD] = minimum.NO_GRACE
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": names.pod_group(request.group),
            "namespace": request.terms.namespace,
            "labels": {
                **request.labels,
                names.INSTALLATION_LABEL: request.terms.installation.hex,
                names.GROUP_LABEL: request.group.hex,
                **_queue_labels(request),
            },
            "annotations": {**request.annotations, **_set_annotations(subgroups)},
        },
        "spec": spec,
    }


def _is_never_stale(request: GangRequest) -> bool:
    return request.terms.version is not None and request.terms.version >= STALENESS_GRACE


def _subgroup(request: GangRequest, subgroup: Subgroup) -> Manifest:
    entry: Manifest = {"name": subgroup.name}
    if subgroup.parent:
        entry["parent"] = subgroup.parent
    if subgroup.is_leaf:
        entry["minMember"] = len(subgroup.tasks)
    if subgroup.constraint:
        entry["topologyConstraint"] = _constraint(request, subgroup.constraint)
    return entry


def _constraint(request: GangRequest, constraint: Constraint) -> Manifest:
    cut = _cut(request.terms.levels, constraint)
    own_topology = names.topology(request.terms.installation, [level.label for level in cut])
    entry = {"topology": request.terms.external_topology or own_topology}
    if constraint.required is not None:
        entry["requiredTopologyLevel"] = request.terms.levels[constraint.required].label
    entry["preferredTopologyLevel"] = cut[-1].label
    return entry


def _cut(levels: Levels, constraint: Constraint) -> Levels:
    """The levels a constraint's Topology lists: all down to the narrowest it names."""
    if constraint.narrowest is None:
        raise ValueError("an empty constraint names no Topology")
    return levels[: constraint.narrowest + 1]


def _topologies(request: GangRequest, tree: ConstraintTree) -> tuple[Manifest, ...]:
    """Each Topology that the gang's constraints name and the service owns, once, shortest first."""
    if request.terms.external_topology:
        return ()
    depths = {node.constraint.narrowest for node in tree.root.walk()}
    return tuple(
        topology(request.terms.installation, request.terms.levels[: depth + 1])
        for depth in sorted(depth for depth in depths if depth is not None)
    )


def topology(installation: UUID, levels: Sequence[Level]) -> Manifest:
    """The Topology object of these levels, broadest first."""
    labels = [level.label for level in levels]
    return {
        "apiVersion": TOPOLOGY.api_version,
        "kind": TOPOLOGY.kind,
        "metadata": {
            "name": names.topology(installation, labels),
            "labels": {names.INSTALLATION_LABEL: installation.hex},
        },
        "spec": {"levels": [{"nodeLabel": label} for label in labels]},
    }


def levels_in(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The node labels that a Topology object lists, broadest first."""
    entries = (manifest.get("spec") or {}).get("levels") or ()
    return tuple(str(entry.get("nodeLabel", "")) for entry in entries)


def _pods(
    request: GangRequest, tree: ConstraintTree, subgroups: Sequence[Subgroup]
) -> Mapping[str, PodParts]:
    labels = node_labels(tree)
    leaves = [(sub.name, sub.tasks) for sub in subgroups if sub.is_leaf]
    pods = {}
    for subgroup, tasks in leaves or [("", tree.root.tasks)]:
        parts = _parts(request, subgroup=subgroup, node_labels=labels.get(tasks[0].name, {}))
        pods.update({task.name: parts for task in tasks})
    return pods


def _parts(request: GangRequest, *, subgroup: str, node_labels: Mapping[str, str]) -> PodParts:
    labels = _queue_labels(request)
    if subgroup:
        labels[SUBGROUP_LABEL] = subgroup
    annotations = {
        POD_GROUP_ANNOTATION: names.pod_group(request.group),
        SKIP_PODGROUPER_ANNOTATION: "true",
    }
    return PodParts(labels, annotations, request.terms.scheduler_name, {}, node_labels)


def _set_annotations(subgroups: Sequence[Subgroup]) -> dict[str, str]:
    """The user's name of each subgroup's set, as many as fit: ``{"00-…": [["rack", "r1"]]}``."""
    entries: list[str] = []
    room = MAX_SETS_ANNOTATION - 2
    for subgroup in subgroups:
        entry = f"{json.dumps(subgroup.name)}: {_as_written(subgroup.path)}"
        room -= len(entry.encode()) + 2
        if room < 0:
            break
        entries.append(entry)
    annotations = {SETS_ANNOTATION: "{" + ", ".join(entries) + "}"} if entries else {}
    if len(entries) < len(subgroups):
        annotations[SETS_OMITTED_ANNOTATION] = str(len(subgroups) - len(entries))
    return annotations


def _queue_labels(request: GangRequest) -> dict[str, str]:
    """The labels by which KAI finds the queue and the shard of a pod group or pod."""
    return {request.terms.queue_label or QUEUE_LABEL: request.terms.queue, **request.terms.shard}


def _parent_queues(request: PoolRequest) -> tuple[Manifest, ...]:
    """Our parent queue; none where the pools' queues stand below somebody else's."""
    if request.queues.parent:
        return ()
    gpu = {**_UNLIMITED, "quota": request.queues.parent_gpus}
    return (_queue(request, request.queues.parent_queue(request.namespace), gpu=gpu),)


def _pool_queue(request: PoolRequest) -> Manifest:
    gpu = {
        "quota": request.gpu_guarantee,
        "limit": request.gpu_maximum,
        "overQuotaWeight": request.gpu_weight,
    }
    queue = _queue(request, request.queues.queue(request.namespace, request.pool), gpu=gpu)
    queue["metadata"]["labels"][names.POOL_LABEL] = request.pool
    queue["spec"]["parentQueue"] = request.queues.parent_queue(request.namespace)
    runtimes = {
        "preemptMinRuntime": request.queues.preempt_min_runtime,
        "reclaimMinRuntime": request.queues.reclaim_min_runtime,
    }
    queue["spec"] |= {field: _duration(seconds) for field, seconds in runtimes.items() if seconds}
    return queue


def _duration(seconds: float) -> str:
    """As Go writes it, in whole milliseconds."""
    return f"{round(seconds * 1000)}ms" if seconds % 1 else f"{int(seconds)}s"


def _queue(request: PoolRequest, name: str, *, gpu: Mapping[str, float]) -> Manifest:
    """A Queue. KAI allows nothing of a resource that it leaves out: CPU and memory are set to unlimited."""
    return {
        "apiVersion": QUEUE.api_version,
        "kind": QUEUE.kind,
        "metadata": {
            "name": name,
            "labels": {
                names.INSTALLATION_LABEL: request.installation.hex,
                names.NAMESPACE_LABEL: request.namespace,
            },
        },
        "spec": {"resources": {"gpu": dict(gpu), "cpu": dict(_UNLIMITED), "memory": dict(_UNLIMITED)}},
    }


def _describe(subgroup: Subgroup) -> str:
    """The name of a subgroup in explanations."""
    if subgroup.node is None and not subgroup.name.endswith("-all"):
        return f"the remaining tasks of {describe(subgroup.path)}"
    return describe(subgroup.path)
