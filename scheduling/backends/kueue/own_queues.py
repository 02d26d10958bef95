"""Queues of Kueue that the service makes for a pool: LocalQueue, ClusterQueue, ResourceFlavor, Topology.

What Kueue does with running Workloads whose flavor leaves their ClusterQueue is not known, so nothing here
ever changes under running work. Topology and flavor are named by their content. The two queues of a pool have
one name, which stands for the flavor and the resources in it: new keys, another node selector or a template
with another resource lead to new queues, and the earlier ones stay until no group names them. Only quotas are
edited.

Kueue admits nothing that requests a resource without quota in its queue, so every resource that a pod of the
pool can request has one. GPUs have the pool's maximum, all else more than any cluster has: the nodes decide.
A guarantee below the maximum would need a cohort in which all pools lend: it is not offered.

Source: definitions of v0.19 (a flavor with a Topology has one to eight node labels; a ClusterQueue has a
resource once, and at most 64 of them); ``kubernetes.io/metadata.name`` is on every namespace.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from scheduling import names
from scheduling.backends.base import Manifest, PoolRequest, ResourceKind
from scheduling.backends.kueue.queues import (
    CLUSTER_QUEUE,
    FLAVOR,
    LOCAL_QUEUE,
    RESOURCES,
    TOPOLOGY,
    levels_needed,
)
from scheduling.kubernetes_syntax import GPU

KINDS = (TOPOLOGY, FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE)

ANY_NODE: Mapping[str, str] = {"kubernetes.io/os": "linux"}
"""The node labels of a pool without selector: a flavor must have one, and each kubelet sets this one."""

MAX_NODE_LABELS = 8
"""Of a flavor, by its definition. The pods' own selector has the rest, and Kueue reads that too."""

UNBOUNDED = "1E"
"""More bytes or devices than a cluster has, and less than Kueue's 64 bits hold."""
UNBOUNDED_CPU = "1P"
"""Kueue counts thousandths of a core."""


def objects(request: PoolRequest) -> tuple[Manifest, ...]:
    """The objects that a pool needs, each after those that it names."""
    labels = [level.label for level in levels_needed(request.levels)]
    levels = [{"nodeLabel": label} for label in labels]
    flavor = {"nodeLabels": _node_labels(request), "topologyName": _topology(request)}
    queue = name_of(request)
    return (
        _object(request, TOPOLOGY, _topology(request), {"levels": levels}),
        _object(request, FLAVOR, _flavor(request), flavor),
        _of_pool(request, _object(request, CLUSTER_QUEUE, queue, _cluster_queue(request))),
        _of_pool(request, _object(request, LOCAL_QUEUE, queue, {"clusterQueue": queue})),
    )


def name_of(request: PoolRequest) -> str:
    """The name of a pool's LocalQueue and ClusterQueue."""
    return names.own_queue(
        request.namespace,
        request.pool,
        flavor=_flavor(request),
        resources=_resources(request),
        prefix=request.queues.prefix,
    )


def leads_to(obj: Mapping[str, Any]) -> tuple[tuple[ResourceKind, str], ...]:
    """The objects that one of ``KINDS`` names."""
    spec = obj.get("spec") or {}
    match obj["kind"]:
        case LOCAL_QUEUE.kind:
            return ((CLUSTER_QUEUE, str(spec.get("clusterQueue") or "")),)
        case CLUSTER_QUEUE.kind:
            groups = spec.get("resourceGroups") or ()
            return tuple((FLAVOR, str(flavor["name"])) for group in groups for flavor in group["flavors"])
        case FLAVOR.kind:
            return ((TOPOLOGY, str(spec.get("topologyName") or "")),)
    return ()


def removable_in(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """A cohort would lend out quotas that are no quotas; ``stopPolicy`` stays an administrator's."""
    return ("admissionChecksStrategy", "cohortName") if obj["kind"] == CLUSTER_QUEUE.kind else ()


def _topology(request: PoolRequest) -> str:
    return names.topology(request.installation, [level.label for level in levels_needed(request.levels)])


def _flavor(request: PoolRequest) -> str:
    return names.flavor(request.installation, _node_labels(request), topology=_topology(request))


def _node_labels(request: PoolRequest) -> dict[str, str]:
    return dict(islice(sorted((request.node_selector or ANY_NODE).items()), MAX_NODE_LABELS))


def _resources(request: PoolRequest) -> list[str]:
    return sorted(RESOURCES | request.resources)


def _cluster_queue(request: PoolRequest) -> Manifest:
    resources = _resources(request)
    quotas = [{"name": name, "nominalQuota": _quota(request, name)} for name in resources]
    flavors = [{"name": _flavor(request), "resources": quotas}]
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": request.namespace}},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": resources, "flavors": flavors}],
    }


def _quota(request: PoolRequest, resource: str) -> str:
    """As Go writes it (1000 is 1k): Kueue writes each object that it puts a finalizer on."""
    if resource == GPU and request.gpu_maximum >= 0:
        number, suffixes = int(request.gpu_maximum), iter(("k", "M", "G"))
        suffix = ""
        while number and not number % 1000:
            number, suffix = number // 1000, next(suffixes)
        return f"{number}{suffix}"
    return UNBOUNDED_CPU if resource == "cpu" else UNBOUNDED


def _object(request: PoolRequest, kind: ResourceKind, name: str, spec: Manifest) -> Manifest:
    metadata: Manifest = {"name": name, "labels": {names.INSTALLATION_LABEL: request.installation.hex}}
    if kind.namespaced:
        metadata["namespace"] = request.namespace
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _of_pool(request: PoolRequest, manifest: Manifest) -> Manifest:
    manifest["metadata"]["labels"] |= {
        names.NAMESPACE_LABEL: request.namespace,
        names.POOL_LABEL: request.pool,
    }
    return manifest
