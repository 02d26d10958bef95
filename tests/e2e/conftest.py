"""The whole service as separate processes, and corners of its cluster for each test."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcluster import nodes
from localcluster.api import Api
from localcluster.demo.view import POD_GROUPS, View
from localcluster.rest import Refused, Rest
from tests.builders.waiting import pause
from tests.e2e import rights
from tests.e2e.kueue_queues import Queues

SECONDS = 150.0
RACK = "osmo.local/rack"
CLIQUE = "nvidia.com/gpu.clique"

OF_A_GROUP = (
    "Pod",
    "Service",
    "Secret",
    *POD_GROUPS,
    "CompositePodGroup",
    "Workload (Kubernetes)",
    "ComputeDomain",
)
UNENDED = {"PENDING", "RUNNING", "WAITING"}
ENDS_WHEN_LOST = {"preempted": "fail", "node_lost": "fail"}
"""The recovery of a pool whose groups end when they lose a task."""


@dataclass
class World:
    """What a test sees: the service as its user, the API server as its judge, and a pool of its own."""

    service: Rest
    api: Api
    view: View
    kubeconfig: Path
    namespace: str
    backend: str
    prefix: str

    def wait(self, look, until, seconds=SECONDS):
        """Look until ``until`` is true of what is seen; fails with the last look when time is up."""
        began = time.monotonic()
        while True:
            seen = look()
            if until(seen):
                return seen
            waited = time.monotonic() - began
            if waited > seconds:
                pytest.fail(f"not within {seconds:g} s; last seen: {seen}")
            pause(waited, least=0.2)

    def make_pool(self, name="pool", *, racks=2, size=2, nvlink=False, scheduler="kai", **more):
        """Racks of ``size`` nodes with four GPUs each, and a pool over them; returns the pool's name."""
        pool = f"{self.prefix}{name}"
        labels = {"osmo.local/pool": pool}
        made = [
            node
            for rack in range(racks)
            for node in nodes.rack(
                f"{pool}-r{rack}",
                count=size,
                gpus=4,
                labels=labels | {RACK: f"r{rack}"} | ({CLIQUE: f"{pool}.{rack}"} if nvlink else {}),
            )
        ]
        nodes.create(self.api, made)
        nodes.wait_ready(self.api, made)
        keys = [{"key": "rack", "label": RACK}]
        content = {
            "backend": f"{self.backend}-{scheduler}",
            "nvlink": nvlink,
            "node_selector": labels,
            "topology_keys": keys + ([{"key": "clique", "label": CLIQUE}] if nvlink else []),
            "platforms": {"gpu": {}},
            "default_platform": "gpu",
            **more,
        }
        self.service.call("PUT", f"/api/configs/pool/{pool}", {"configs": content})
        return pool

    def submit(self, pool, text, **query):
        return self.service.submit(pool, text, **query)["name"]

    def groups(self, workflow):
        return {group["name"]: group for group in self.service.workflow(workflow)["groups"]}

    def wait_group(self, workflow, group, status):
        def ended_otherwise(found):
            return found["status"] != status and (
                found["status"] == "COMPLETED" or "FAILED" in found["status"]
            )

        found = self.wait(
            lambda: self.groups(workflow)[group],
            lambda found: found["status"] == status or ended_otherwise(found),
        )
        assert found["status"] == status, found
        return found

    def wait_released(self, workflow, seconds=SECONDS):
        """Wait until nothing of it is left; its own end is concluded a moment after its last group's."""

        def released(answer):
            is_released = all(group["released_at"] for group in answer["groups"])
            return is_released and answer["status"] not in UNENDED

        return self.wait(lambda: self.service.workflow(workflow), released, seconds)

    def pods(self, workflow):
        return [
            pod
            for group in self.service.workflow(workflow)["groups"]
            for pod in self.view.of_group(self.namespace, "Pod", group["uuid"])
        ]

    def bound_pods(self, workflow):
        """Its pods once each has a node, one after another: a group runs as soon as one task does."""
        tasks = sum(len(group["tasks"]) for group in self.service.workflow(workflow)["groups"])
        return self.wait(
            lambda: self.pods(workflow),
            lambda pods: len(pods) == tasks and all("nodeName" in pod["spec"] for pod in pods),
        )

    def kill_pod(self, workflow, task):
        """Delete the pod of a task at once, as somebody with a force option does."""
        tasks = [task for group in self.groups(workflow).values() for task in group["tasks"]]
        pod = next(found["pod_name"] for found in tasks if found["name"] == task)
        body = {"gracePeriodSeconds": 0}
        self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{pod}", body=body)

    def left(self, workflow):
        """Objects in the cluster that carry a group of this workflow."""
        return [
            f"{kind} {item['metadata']['name']}"
            for group in self.service.workflow(workflow)["groups"]
            for kind in OF_A_GROUP
            for item in self.view.of_group(self.namespace, kind, group["uuid"])
        ]

    def clear(self):
        """Cancel what still runs in this test's pools, and remove its nodes once nothing of it is on them."""
        everyone = {"all_pools": "true", "all_users": "true", "limit": 1000}
        listed = self.service.call("GET", "/api/workflow", **everyone)["workflows"]
        own_work = [entry for entry in listed if entry["pool"].startswith(self.prefix)]
        listed, _ = self.api.list(nodes.PATH)
        own_nodes = [node["metadata"] for node in listed if node["metadata"]["name"].startswith(self.prefix)]
        for node in own_nodes:
            if nodes.KUBELET_LABEL in node["labels"]:
                nodes.start_kubelet(self.api, node["name"])  # or its pods would stay
        for entry in own_work:
            if entry["status"] in UNENDED:
                self._end(entry["name"])
        for entry in own_work:
            self.wait_released(entry["name"])
        for node in own_nodes:
            self.api.delete(f"{nodes.PATH}/{node['name']}")

    def _end(self, workflow):
        try:
            self.service.cancel(workflow, force="true")
        except Refused as refused:
            if refused.status != 409:  # that is: it ended since the list was read
                raise

    def annotate(self, pod, **sim):
        """Steer a running pod: ``run_for``, ``exit_code``."""
        wanted = {f"sim.osmo.local/{name.replace('_', '-')}": value for name, value in sim.items()}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
        self.api.patch(path, {"metadata": {"annotations": wanted}})


@pytest.fixture(scope="session")
def kueue_backend(stack, kueue):
    """A backend of Kueue on the run's cluster, once for all tests of a worker that need it."""
    content = {
        "kubeconfig": str(stack.kubeconfig),
        "k8s_namespace": stack.namespace,
        "scheduler_settings": {"scheduler_type": "kueue"},
    }
    stack.service.call("POST", f"/api/configs/backend/{stack.backend}-kueue", {"configs": content})


@pytest.fixture(scope="session")
def composites_backend(stack):
    """A backend whose administrator vouches for composites, once for all tests of a worker.

    Before it was probed it counts as one without them.
    """
    content = {
        "kubeconfig": str(stack.kubeconfig),
        "k8s_namespace": stack.namespace,
        "scheduler_settings": {"scheduler_type": "kubernetes"},
        "composite_pod_groups": True,
    }
    path = f"/api/configs/backend/{stack.backend}-composites"
    stack.service.call("POST", path, {"configs": content})
    stack.wait(
        lambda: stack.service.get(path)["conditions"],
        lambda found: any((c["type"], c["status"]) == ("CompositesHeld", "True") for c in found),
    )


@pytest.fixture(scope="session")
def own_queues(stack, kueue):
    """A backend of Kueue with queues of the service's own, once for all tests of a worker that need it."""
    for body in rights.manifests("kueue-queues.yaml"):
        rights._apply(stack.api, body)
    rights.until_granted(stack.api, "kueue-queues.yaml")
    content = {
        "kubeconfig": str(stack.kubeconfig),
        "k8s_namespace": stack.namespace,
        "scheduler_settings": {"scheduler_type": "kueue"},
        "queue_settings": {"own_queues": True},
    }
    stack.service.call("POST", f"/api/configs/backend/{stack.backend}-owned", {"configs": content})


@pytest.fixture
def queues(world, kueue_backend):
    queues = Queues(world)
    yield queues
    queues.clear()


def workflow(*groups, name="w", resources="one: {gpu: 4}", extra=""):
    """A workflow document; each group is (name, tasks, {more of the first task})."""
    lines = [f"workflow:\n  name: {name}\n  groups:"]
    for group, tasks, *more in groups:
        lines.append(f"  - name: {group}\n    tasks:")
        for index, task in enumerate(tasks):
            options = {"resource": "one", **(more[0] if more and index == 0 else {})}
            lines.append(
                f"    - {{name: {task}, image: busybox, command: [sleep], lead: {index == 0}".lower()
            )
            lines[-1] += "".join(f", {key}: {value}" for key, value in options.items()) + "}"
    return "\n".join(lines) + f"\n  resources:\n    {resources}\n{extra}"
