"""The demo's cluster and one pool more, on a queue of Kueue that somebody else made.

::

    queued   zone q1: clique q-a [4] q-b [4]
"""

from collections.abc import Callable
from typing import Any

from localcluster import controlplane, nodes, scenario, stack
from localcluster.api import Api
from localcluster.standins.commands import kueue_command
from localcluster.standins.kueue.values import HOSTNAME

QUEUED = "queued"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
BACKENDS = {**scenario.BACKENDS, QUEUED: "kueue"}
PLACES = {
    **scenario.PLACES,
    QUEUED: scenario.Place(
        backend=QUEUED,
        nvlink=True,
        keys={"zone": scenario.ZONE, "clique": scenario.CLIQUE},
        racks={
            "q-a": {scenario.ZONE: "q1", scenario.CLIQUE: "q-a.1"},
            "q-b": {scenario.ZONE: "q1", scenario.CLIQUE: "q-b.1"},
        },
        more={"local_queue": QUEUED},
    ),
}


def all_nodes() -> list[nodes.Node]:
    return scenario.all_nodes(PLACES)


def configure(running: stack.Running, *, progress: Callable[[str], None]) -> None:
    """Start Kueue's stand-in, make its queue, then all backends and pools."""
    assert running.plane is not None
    api = Api(running.plane.access())
    controlplane.install_kueue(api)
    running.supervisor.start(kueue_command(running.plane))
    controlplane.create_namespace(api, scenario.namespace(QUEUED))
    for plural, kind, spec in _queue():
        place = f"namespaces/{scenario.namespace(QUEUED)}/{plural}" if plural == "localqueues" else plural
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": QUEUED}}
        api.create(f"{KUEUE}/{place}", {**body, "spec": spec})
    api.close()
    scenario.configure(running, progress=progress, backends=BACKENDS, places=PLACES)


def _queue() -> list[tuple[str, str, dict[str, Any]]]:
    """Plural, kind and spec of what an administrator of Kueue makes for the pool."""
    levels = [{"nodeLabel": label} for label in (scenario.ZONE, scenario.CLIQUE, HOSTNAME)]
    quota = [{"name": "nvidia.com/gpu", "nominalQuota": 1000}]
    cluster_queue = {
        "namespaceSelector": {},
        "resourceGroups": [
            {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": QUEUED, "resources": quota}]}
        ],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    return [
        ("topologies", "Topology", {"levels": levels}),
        (
            "resourceflavors",
            "ResourceFlavor",
            {"nodeLabels": {scenario.POOL_LABEL: QUEUED}, "topologyName": QUEUED},
        ),
        ("clusterqueues", "ClusterQueue", cluster_queue),
        ("localqueues", "LocalQueue", {"clusterQueue": QUEUED}),
    ]
