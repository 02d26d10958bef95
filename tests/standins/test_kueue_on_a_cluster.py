"""The stand-in for Kueue at work on a real API server, with kwok's nodes and Kubernetes' own scheduler."""

import re
import secrets
import time

import pytest
import yaml

from localcluster import controlplane, nodes
from localcluster.api import Api
from localcluster.directories import CHECKOUT
from localcluster.standins.kueue.encoding import decode
from localcluster.standins.kueue.values import HOSTNAME
from tests.standins.conftest import LIMIT_SECONDS, deleted

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"


class Corner:
    """A namespace, two racks of two nodes, and a queue on them that is no other test's."""

    def __init__(self, api, name):
        self.api, self.name, self.rack = api, name, f"{name}.test/rack"
        self.machines = []

    def settle(self):
        controlplane.create_namespace(self.api, self.name)
        for rack in ("r1", "r2"):
            labels = {"corner": self.name, self.rack: rack}
            self.machines += nodes.rack(f"{self.name}-{rack}", count=2, labels=labels)
        nodes.create(self.api, self.machines)
        nodes.wait_ready(self.api, self.machines)
        levels = [{"nodeLabel": self.rack}, {"nodeLabel": HOSTNAME}]
        self._make("topologies", "Topology", {"levels": levels})
        flavor = {"nodeLabels": {"corner": self.name}, "topologyName": self.name}
        self._make("resourceflavors", "ResourceFlavor", flavor)
        quota = [{"name": GPU, "nominalQuota": 1000}]
        group = {"coveredResources": [GPU], "flavors": [{"name": self.name, "resources": quota}]}
        queue = {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        self._make("clusterqueues", "ClusterQueue", queue)
        self._make(f"namespaces/{self.name}/localqueues", "LocalQueue", {"clusterQueue": self.name})

    def _make(self, plural, kind, spec):
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": self.name}}
        self.api.create(f"{KUEUE}/{plural}", body | {"spec": spec})

    def clear(self):
        for machine in self.machines:
            self.until(lambda path=f"{nodes.PATH}/{machine.name}": deleted(self.api, path))
        for plural in ("clusterqueues", "resourceflavors", "topologies"):
            self.until(lambda path=f"{KUEUE}/{plural}/{self.name}": deleted(self.api, path))
        self.until(lambda: deleted(self.api, f"/api/v1/namespaces/{self.name}"))

    def path(self, name):
        return f"{KUEUE}/namespaces/{self.name}/workloads/{name}"

    def workload(self, name, count, *, priority=0):
        container = {"name": "main", "image": "any", "resources": {"requests": {GPU: "8"}}}
        pod_set = {
            "name": "main",
            "count": count,
            "template": {"spec": {"containers": [container]}},
            "topologyRequest": {"required": self.rack},
        }
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": name},
            "spec": {"queueName": self.name, "priority": priority, "podSets": [pod_set]},
        }
        self.api.create(self.path("").rstrip("/"), body)

    def status(self, name):
        return self.api.get(self.path(name)).get("status", {})

    def holds(self, name, kind):
        conditions = self.status(name).get("conditions", [])
        return any((each["type"], each["status"]) == (kind, "True") for each in conditions)

    def places(self, name):
        """The nodes of an admitted workload; empty for one that waits."""
        if not (admission := self.status(name).get("admission")):
            return []
        (assigned,) = admission["podSetAssignments"]
        return [values[-1] for values, _ in decode(assigned["topologyAssignment"]).domains]

    def give_back(self, name):
        """What an evicted workload's owner does once its pods are gone."""
        body = self.api.get(self.path(name))
        status = body["status"]
        status.pop("admission")
        for each in status["conditions"]:
            if each["type"] in ("QuotaReserved", "Admitted"):
                each |= {"status": "False", "reason": "Pending", "message": "the pods are gone"}
        self.api.replace(f"{self.path(name)}/status", body)

    def until(self, condition):
        """Wait for something and return it."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not (value := condition()):
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.05)
        return value


@pytest.fixture
def corner(kueue):
    api = Api(kueue.access())
    place = Corner(api, f"kueue-{secrets.token_hex(4)}")
    place.settle()
    yield place
    place.clear()
    api.close()


PLURALS = {
    "Topology": "topologies",
    "ResourceFlavor": "resourceflavors",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "namespaces/default/localqueues",
}
PAGE = (CHECKOUT / "docs/how-to/kueue-pool.md").read_text()


@pytest.mark.parametrize("kind", PLURALS)
def test_an_object_on_the_page_for_administrators_is_accepted(kueue, kind):
    api = Api(kueue.access())
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    documents = [document for block in blocks for document in yaml.safe_load_all(block)]
    (body,) = [document for document in documents if document.get("kind") == kind]
    body["metadata"].pop("namespace", None)  # the page's own is not in this cluster
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    stored = api.call("POST", f"{KUEUE}/{PLURALS[kind]}", body=body, query=strict)
    assert stored["metadata"]["name"] == body["metadata"]["name"]
    api.close()


def test_a_workload_is_admitted_and_its_queues_show_it(corner):
    corner.workload("w", 2)

    placed = corner.until(lambda: corner.places("w"))

    assert placed == [f"{corner.name}-r1-0", f"{corner.name}-r1-1"]
    assert corner.holds("w", "Admitted")
    for path in (f"clusterqueues/{corner.name}", f"namespaces/{corner.name}/localqueues/{corner.name}"):
        status = corner.until(
            lambda path=path: (
                (status := corner.api.get(f"{KUEUE}/{path}").get("status", {})).get("admittedWorkloads")
                and status
            )
        )
        assert status["flavorsUsage"][0]["resources"][0]["total"] == "16"


def test_a_preempted_workload_is_asked_to_go_and_its_nodes_pass_on(corner):
    for name in ("low1", "low2"):
        corner.workload(name, 2)
        corner.until(lambda name=name: corner.places(name))
    corner.workload("high", 2, priority=10)
    (victim,) = corner.until(lambda: [name for name in ("low1", "low2") if corner.holds(name, "Evicted")])
    freed = corner.places(victim)
    assert freed, "the reservation stays until its owner gives it back"

    corner.give_back(victim)

    assert corner.until(lambda: corner.places("high")) == freed
    assert corner.places(victim) == []
    corner.api.delete(corner.path("high"))
    assert corner.until(lambda: corner.places(victim)) == freed


def test_a_node_that_is_removed_is_replaced_in_the_assignment(corner):
    corner.workload("w", 1)
    (lost,) = corner.until(lambda: corner.places("w"))

    corner.api.delete(f"{nodes.PATH}/{lost}")

    (node,) = corner.until(lambda: (now := corner.places("w")) != [lost] and now)
    assert node == f"{corner.name}-r1-1"
