"""A corner of the shared cluster for one test, with the stand-ins at work on it."""

import secrets
import time
from dataclasses import dataclass

import pytest

from localcluster import controlplane, nodes
from localcluster.api import Api, ApiError

LIMIT_SECONDS = 150
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@dataclass
class Corner:
    """A namespace, nodes with labels of their own, a queue, and Topologies of zones and of racks."""

    api: Api
    name: str

    def label(self, level):
        return f"{self.name}.test/{level}"

    def both(self, level):
        """Required and preferred ``zone`` or ``rack``, on the Topology cut at that level."""
        label = self.label(level)
        return {
            "topology": f"{self.name}-{level}",
            "requiredTopologyLevel": label,
            "preferredTopologyLevel": label,
        }

    def path(self, plural, name=""):
        group = {
            "pods": "/api/v1",
            "events": "/api/v1",
            "podgroups": "/apis/scheduling.run.ai/v2alpha2",
            "computedomains": "/apis/resource.nvidia.com/v1beta1",
        }.get(plural, "/apis/resource.k8s.io/v1")
        return f"{group}/namespaces/{self.name}/{plural}{'/' if name else ''}{name}"

    def pod_group(self, name, **spec):
        body = {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": f"{self.name}-{name}"},
            "spec": {"queue": self.name, **spec},
        }
        self.api.create(self.path("podgroups"), body)

    def pods(self, group, count, *, prefix="p", subgroup=None, gpus=1, template=None):
        """Create pods of a group; with ``template`` each claims a channel from it."""
        for number in range(count):
            container = {
                "name": "main",
                "image": "any",
                "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
            }
            spec = {
                "schedulerName": "kai-scheduler",
                "nodeSelector": {"corner": self.name},
                "containers": [container],
            }
            if template:
                container["resources"]["claims"] = [{"name": "channel"}]
                spec["resourceClaims"] = [{"name": "channel", "resourceClaimTemplateName": template}]
            body = {
                "metadata": {
                    "name": f"{prefix}{number}",
                    "annotations": {"pod-group-name": f"{self.name}-{group}"},
                    "labels": {"kai.scheduler/subgroup-name": subgroup} if subgroup else {},
                },
                "spec": spec,
            }
            self.api.create(self.path("pods"), body)

    def all(self, plural):
        return self.api.list(self.path(plural))[0]

    def running(self):
        """Node by pod, of the pods that run."""
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"]
            for each in self.all("pods")
            if each["status"]["phase"] == "Running"
        }

    def group(self, name):
        return self.api.get(self.path("podgroups", f"{self.name}-{name}"))

    def compute_domain(self, name):
        channel = {"resourceClaimTemplate": {"name": f"{name}-channel"}, "allocationMode": "Single"}
        body = {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": {"name": name},
            "spec": {"numNodes": 0, "channel": channel},
        }
        self.api.create(self.path("computedomains"), body)
        self.until(lambda: self.api.find(self.path("resourceclaimtemplates", f"{name}-channel")))

    def until(self, holds):
        """Wait for something and return it."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not (found := holds()):
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.05)
        return found


def settle(api, name, racks, *, cliques=False):
    """Make the corner's nodes (``{"zone/rack": count}``), queue and Topologies; return the nodes."""
    corner = Corner(api, name)
    wanted = []
    for path, count in racks.items():
        zone, rack = path.split("/")
        labels = {"corner": name, corner.label("zone"): zone, corner.label("rack"): rack}
        if cliques:
            labels["nvidia.com/gpu.clique"] = f"{name}.{rack}"
        wanted.extend(nodes.rack(f"{name}-{rack}", count=count, labels=labels))
    nodes.create(api, wanted)
    nodes.wait_ready(api, wanted)
    levels = [corner.label("zone"), corner.label("rack")]
    for level, depth in (("zone", 1), ("rack", 2)):
        body = {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": f"{name}-{level}"},
            "spec": {"levels": [{"nodeLabel": each} for each in levels[:depth]]},
        }
        api.create("/apis/kai.scheduler/v1alpha1/topologies", body)
    body = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": {"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": UNLIMITED}},
    }
    api.create("/apis/scheduling.run.ai/v2/queues", body)
    return corner, wanted


def clear(corner, wanted):
    """Remove what would disturb other tests; what lives in the namespace goes with it."""
    paths = [corner.path("podgroups", each["metadata"]["name"]) for each in corner.all("podgroups")]
    paths.append(corner.path("pods") + "?gracePeriodSeconds=0")
    paths.extend(
        corner.path("computedomains", each["metadata"]["name"]) for each in corner.all("computedomains")
    )
    paths.extend(f"{nodes.PATH}/{each.name}" for each in wanted)
    paths.extend(
        f"/apis/kai.scheduler/v1alpha1/topologies/{corner.name}-{level}" for level in ("zone", "rack")
    )
    paths.append(f"/apis/scheduling.run.ai/v2/queues/{corner.name}")
    paths.append(f"/api/v1/namespaces/{corner.name}")
    for path in paths:
        corner.until(lambda path=path: deleted(corner.api, path))


def deleted(api, path):
    """Ask for a deletion; a busy server may refuse it for now."""
    try:
        api.delete(path)
    except ApiError as error:
        if error.code in (409, 429) or error.code >= 500:
            return False
        raise
    return True


@pytest.fixture
def make_corner():
    """A function ``(plane, racks, cliques=False)`` that makes a corner of that cluster."""
    made = []

    def make(plane, racks, *, cliques=False):
        api = Api(plane.access())
        name = f"standins-{secrets.token_hex(4)}"
        controlplane.create_namespace(api, name)
        corner, wanted = settle(api, name, racks, cliques=cliques)
        made.append((corner, wanted))
        return corner

    yield make
    for corner, wanted in made:
        clear(corner, wanted)
        corner.api.close()
