"""Queues of Kueue on a pool's nodes, made and removed as an administrator does."""

from localcluster.standins.kueue.values import HOSTNAME
from scheduling import names
from tests.standins.conftest import deleted

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"


class Queues:
    """Queues on the nodes of pools, as an administrator makes them."""

    def __init__(self, world):
        self._world, self._paths = world, []

    def make(self, pool, *labels, within="Never", queue="", gpus=1000):
        """A queue of the pool's own name, or ``queue``, which the pool has to name."""
        levels = [{"nodeLabel": label} for label in (*labels, HOSTNAME)]
        self._create("topologies", "Topology", pool, {"levels": levels})
        flavor = {"nodeLabels": {"osmo.local/pool": pool}, "topologyName": pool}
        self._create("resourceflavors", "ResourceFlavor", pool, flavor)
        quota = [{"name": GPU, "nominalQuota": gpus}]
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [{"name": pool, "resources": quota}]}],
            "preemption": {"withinClusterQueue": within},
        }
        self._create("clusterqueues", "ClusterQueue", pool, spec)
        namespace = self._world.namespace
        name = queue or names.queue(namespace, pool)
        self._create(f"namespaces/{namespace}/localqueues", "LocalQueue", name, {"clusterQueue": pool})

    def _create(self, plural, kind, name, spec):
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
        self._world.api.create(f"{KUEUE}/{plural}", body | {"spec": spec})
        self._paths.append(f"{KUEUE}/{plural}/{name}")

    def clear(self):
        for path in reversed(self._paths):
            self._world.wait(lambda path=path: deleted(self._world.api, path), bool)
