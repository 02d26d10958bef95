"""What an administrator of Kueue makes for a pool: Topology, ResourceFlavor, ClusterQueue and LocalQueue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcluster.api import Api

HOSTNAME = "kubernetes.io/hostname"

VERSION = "kueue.x-k8s.io/v1beta2"
KUEUE = f"/apis/{VERSION}"
GPU = "nvidia.com/gpu"
MANAGER = "localcluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue of one flavor: the nodes with ``node_labels``, which have the ``levels``, broadest first.

    Host names come after the levels. ``local`` names the LocalQueue by which the namespace joins, all other
    objects have the queue's name. ``preemption`` is of lower priority within the queue. ``more`` are the
    quotas of resources other than GPUs: Kueue admits nothing that requests a resource without quota.
    """

    name: str
    local: str
    namespace: str
    node_labels: Mapping[str, str]
    levels: Sequence[str]
    gpus: int = 1000
    more: Mapping[str, str] = field(default_factory=dict)
    preemption: str = "Never"


def objects_of(queue: Queue) -> dict[str, dict[str, Any]]:
    """The queue's objects by their path, each after those that it names."""
    quotas = {GPU: queue.gpus, **queue.more}
    resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
    flavors = [{"name": queue.name, "resources": resources}]
    specs: list[tuple[str, str, str, dict[str, Any]]] = [
        (
            "topologies",
            "Topology",
            queue.name,
            {"levels": [{"nodeLabel": label} for label in (*queue.levels, HOSTNAME)]},
        ),
        (
            "resourceflavors",
            "ResourceFlavor",
            queue.name,
            {"nodeLabels": dict(queue.node_labels), "topologyName": queue.name},
        ),
        (
            "clusterqueues",
            "ClusterQueue",
            queue.name,
            {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": list(quotas), "flavors": flavors}],
                "preemption": {"withinClusterQueue": queue.preemption},
            },
        ),
        (
            f"namespaces/{queue.namespace}/localqueues",
            "LocalQueue",
            queue.local,
            {"clusterQueue": queue.name},
        ),
    ]
    return {
        f"{KUEUE}/{place}/{name}": {
            "apiVersion": VERSION,
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        for place, kind, name, spec in specs
    }


def apply(api: Api, queue: Queue) -> list[str]:
    """Make the queue, or make it as it is described here; the paths of its objects."""
    objects = objects_of(queue)
    for path, body in objects.items():
        api.apply(path, body, manager=MANAGER)
    return list(objects)
