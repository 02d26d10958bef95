"""Another tenant of the demo cluster: gangs that wait, for ``explain --cluster`` and the pages of a cluster.

::

    serving/pcs-0        a PodGroup of KAI as by Grove's backend: 10 and 9 pods in one clique, of at most 18
    serving/raycluster   a Workload of Kueue as by its integration of Ray: 5 pods in one clique, of 4 nodes

Owners are not in the cluster: a garbage collector leaves alone what it cannot look up.
"""

from typing import Any

from localcluster import kueue_queues, scenario
from localcluster.api import Api
from localcluster.controlplane import MANAGER, Plane, create_namespace

NAMESPACE = "serving"
QUEUE = "serving"
TOPOLOGY = "grove-topology"
GANG = "pcs-0"
WORKERS = {"prefill": 10, "decode": 9}
_RAY = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "name": "raycluster",
    "uid": "ray",
    "controller": True,
}
_GROVE = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "name": "pcs",
    "uid": "pcs",
    "controller": True,
}


def submit(plane: Plane) -> None:
    """Create the tenant's queues and gangs, or leave them as they are."""
    api = Api(plane.access())
    if api.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
        create_namespace(api, NAMESPACE)
    for path, body in objects().items():
        api.apply(path, body, manager=MANAGER)
    api.close()


def objects() -> dict[str, dict[str, Any]]:
    """All of it by path, each object after those that it names."""
    levels = [{"nodeLabel": label} for label in scenario.ALL_PLACES["gb200"].keys.values()]
    constraint = {
        "topology": TOPOLOGY,
        "requiredTopologyLevel": scenario.CLIQUE,
        "preferredTopologyLevel": scenario.CLIQUE,
    }
    pod_sets = [
        {
            "name": "workers",
            "count": scenario.NODES_PER_RACK + 1,
            "topologyRequest": {"required": scenario.CLIQUE},
            "template": {"spec": {"restartPolicy": "Never", **_containers()}},
        }
    ]
    kai = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{NAMESPACE}/podgroups"
    kueue = f"{kueue_queues.KUEUE}/namespaces/{NAMESPACE}"
    named: list[tuple[str, str, str, dict[str, Any]]] = [
        ("/apis/scheduling.run.ai/v2/queues", "scheduling.run.ai/v2", "Queue", {"name": "tenants"}),
        ("/apis/scheduling.run.ai/v2/queues", "scheduling.run.ai/v2", "Queue", {"name": QUEUE}),
        ("/apis/kai.scheduler/v1alpha1/topologies", "kai.scheduler/v1alpha1", "Topology", {"name": TOPOLOGY}),
        (kai, "scheduling.run.ai/v2alpha2", "PodGroup", {"name": GANG, "ownerReferences": [_GROVE]}),
        (f"{kueue}/localqueues", kueue_queues.VERSION, "LocalQueue", {"name": QUEUE}),
        (
            f"{kueue}/workloads",
            kueue_queues.VERSION,
            "Workload",
            {"name": "raycluster", "ownerReferences": [_RAY]},
        ),
    ]
    specs: list[dict[str, Any]] = [
        {"resources": _unlimited()},
        {"parentQueue": "tenants", "resources": _unlimited()},
        {"levels": levels},
        {
            "queue": QUEUE,
            "topologyConstraint": constraint,
            "subGroups": [{"name": name, "minMember": count} for name, count in WORKERS.items()],
        },
        {"clusterQueue": scenario.QUEUED},
        {"queueName": QUEUE, "podSets": pod_sets},
    ]
    bodies = {
        f"{path}/{metadata['name']}": {
            "apiVersion": version,
            "kind": kind,
            "metadata": metadata,
            "spec": spec,
        }
        for (path, version, kind, metadata), spec in zip(named, specs, strict=True)
    }
    return bodies | {
        f"/api/v1/namespaces/{NAMESPACE}/pods/{GANG}-{part}-{number}": _pod(part, number)
        for part, count in WORKERS.items()
        for number in range(count)
    }


def _pod(part: str, number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{GANG}-{part}-{number}",
            "annotations": {"pod-group-name": GANG},
            "labels": {"kai.scheduler/subgroup-name": part},
        },
        "spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", **_containers()},
    }


def _containers() -> dict[str, Any]:
    gpus = {kueue_queues.GPU: str(scenario.GPUS)}
    return {
        "containers": [
            {"name": "worker", "image": "worker", "resources": {"requests": gpus, "limits": gpus}},
        ]
    }


def _unlimited() -> dict[str, Any]:
    return {name: {"quota": -1, "limit": -1} for name in ("cpu", "gpu", "memory")}
