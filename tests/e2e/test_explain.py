"""Each kind of reason to wait, provoked on the local cluster: what is said, and what that rests on.

What the explanation said is kept; ``python -m tests.e2e.explain_table`` prints it.
"""

import os
import secrets
import signal
from contextlib import contextmanager

import pytest

from localcluster import build, controlplane
from localcluster.api import Api
from localcluster.demo.view import View
from localcluster.supervisor import Supervisor
from tests.e2e.conftest import RACK, World, workflow
from tests.e2e.explanations import explain

ONE_RACK = "one: {gpu: 4, topology: [{key: rack}]}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COMPUTE_DOMAINS = f"{CRDS}/computedomains.resource.nvidia.com"


@pytest.fixture
def explained(world):
    return lambda name, why, **more: explain(world, name, why, **more)


def runs(world, pool, *groups, **more):
    """Submit a workflow of one group and wait until it runs."""
    name = world.submit(pool, workflow(*groups, **more))
    world.wait_group(name, "g", "RUNNING")
    return name


def test_upstream(world, explained):
    pool = world.make_pool()
    second = ("second", ["b"], {"inputs": "[{task: a}]"})
    name = world.submit(pool, workflow(("first", ["a"]), second))
    found = explained(name, "upstream", group="second", by="a group that takes input from one that runs")
    assert "first" in found["sentence"]
    assert found["evidence"]["upstream"] == ["first"]


def test_capacity(world, explained):
    pool = world.make_pool(racks=1)
    first = runs(world, pool, ("g", ["a", "b"]))
    name = world.submit(pool, workflow(("g", ["a"])))
    found = explained(name, "capacity", by="all GPUs of the pool held by another workflow", says=first)
    assert found["feasibility"]["verdict"] == "not_now"


def test_topology(world, explained):
    """One node of each rack is held: two are free, but not in one rack."""
    pool = world.make_pool()
    holders = {runs(world, pool, ("g", ["a"]), resources=one_node(pool, rack)) for rack in (0, 1)}
    name = world.submit(pool, workflow(("g", ["a", "b"]), resources=ONE_RACK))
    found = explained(
        name, "topology", by="one free node in each of two racks, and a gang of two", says="in all"
    )
    nearest = found["feasibility"]["sets"][-1]["nearest"]
    assert {room["free"] for room in nearest} == {1}
    assert {holder["name"] for room in nearest for holder in room["holders"]} <= holders


def one_node(pool, rack):
    """Resources of a task that only one node of the pool can take."""
    others = [f"{pool}-r{r}-{n}" for r in (0, 1) for n in (0, 1) if (r, n) != (rack, 0)]
    return f"one: {{gpu: 4, nodesExcluded: [{', '.join(others)}]}}"


def test_quota(world, explained):
    pool = world.make_pool(resources={"gpu": {"guarantee": 4, "maximum": 4, "weight": 1}})
    runs(world, pool, ("g", ["a"]))
    name = world.submit(pool, workflow(("g", ["b"])))
    explained(name, "quota", by="a queue whose maximum of 4 GPUs is in use")


def test_labels(world, explained):
    pool = world.make_pool(racks=1)
    runs(world, pool, ("g", ["a"]))
    name = world.submit(pool, workflow(("g", ["a", "b"]), resources=ONE_RACK))
    world.wait_group(name, "g", "SCHEDULING")
    world.view.take_label(RACK, [f"{pool}-r0-{number}" for number in (0, 1)])
    found = explained(
        name,
        "labels",
        by="the rack's label taken off all nodes of the pool",
        evidence=lambda evidence: evidence["labels"][0]["without"] == 2,
    )
    assert RACK in found["sentence"]


def test_patience(world, explained):
    pool = world.make_pool()
    text = "one: {gpu: 4, topology: [{key: rack, requirementType: preferred, waitSeconds: 600}]}"
    name = world.submit(pool, workflow(("g", ["a", "b", "c"]), resources=text))
    by = "a preferred rack that is waited for, and three tasks for racks of two"
    found = explained(name, "patience", by=by, says="Under this requirement, it does not fit now")
    assert "held to one rack as required" in found["sentence"]


def test_a_node_that_a_former_compute_domain_holds(world, explained):
    """The pods of a cancelled workflow never end, as on a node that is lost: its ComputeDomain stays."""
    pool = world.make_pool(racks=1, nvlink=True)
    first = runs(world, pool, ("g", ["a", "b"]), resources="one: {gpu: 1}")
    path = f"/api/v1/namespaces/{world.namespace}/pods"
    pods = [f"{path}/{pod['metadata']['name']}" for pod in world.pods(first)]
    for pod in pods:
        world.api.patch(pod, {"metadata": {"finalizers": ["example.com/hold"]}})
    world.service.cancel(first)
    world.wait_group(first, "g", "FAILED_CANCELED")
    name = world.submit(pool, workflow(("g", ["a", "b"]), resources="one: {gpu: 1}"))
    try:
        by = "pods of a cancelled workflow that never end, and so keep its ComputeDomain"
        found = explained(name, "channel_held", by=by, says=first)
    finally:
        for pod in pods:
            world.api.patch(pod, {"metadata": {"finalizers": None}})
    held = found["evidence"]["nodes_held"]
    assert {(holder["node"], holder["workflow"]) for holder in held} == {
        (f"{pool}-r0-{n}", first) for n in (0, 1)
    }
    world.wait_group(name, "g", "RUNNING")


def test_a_node_whose_driver_offers_no_channel(world, explained):
    pool = world.make_pool(racks=1, nvlink=True)
    for number in (0, 1):
        path = f"/api/v1/nodes/{pool}-r0-{number}"
        world.api.patch(path, {"metadata": {"annotations": {"sim.osmo.local/compute-domain": "false"}}})
    name = world.submit(pool, workflow(("g", ["a", "b"])))
    by = "nodes on which NVIDIA's driver offers no channel"
    explained(name, "compute_domain_not_served", by=by, says="no ComputeDomain is known to hold one")


def test_claims_that_others_hold(world, explained):
    pool = world.make_pool(racks=1, nvlink=True)
    runs(world, pool, ("g", ["a", "b"]), resources="one: {gpu: 2}")
    name = world.submit(pool, workflow(("g", ["a", "b"]), resources="one: {gpu: 2}"))
    explained(name, "claim", by="GPUs are free, and each node's one channel is claimed by work that runs")


def test_an_image_that_cannot_be_had(world, explained):
    pool = world.make_pool(racks=1, common_pod_template=slow_start(world))
    name = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(name, "g", "INITIALIZING")
    (pod,) = world.pods(name)
    state = {"waiting": {"reason": "RegistryUnavailable", "message": "no registry answers"}}
    status = {
        "phase": "Pending",
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": state,
            }
            for container in pod["spec"]["containers"]
        ],
    }
    path = f"/api/v1/namespaces/{world.namespace}/pods/{pod['metadata']['name']}"
    world.api.patch(f"{path}/status", {"status": status})
    found = explained(name, "image", by="a registry that does not answer the node")
    assert "busybox" in found["sentence"]
    assert found["evidence"]["containers"][0]["task"] == "a"


def slow_start(world):
    """The name of a pod template with which containers take a while to start."""
    name = f"{world.prefix}slow"
    template = {"metadata": {"annotations": {"sim.osmo.local/start-after": "600s"}}}
    world.service.put(f"/api/configs/pod_template/{name}", {"configs": template})
    return [name]


def test_containers_that_start(world, explained):
    pool = world.make_pool(racks=1, common_pod_template=slow_start(world))
    name = world.submit(pool, workflow(("g", ["a"])))
    explained(name, "starting", by="a container that takes long to start")


def test_drift(world, explained):
    """A Topology object that is somebody else's loses a level that waiting work needs."""
    theirs = f"{world.prefix}theirs"
    make_topology(world, theirs, "zone.example.com", RACK)
    keys = [{"key": "zone", "label": "zone.example.com"}, {"key": "rack", "label": RACK}]
    pool = world.make_pool(topology_source="external", topology_name=theirs, topology_keys=keys)
    for rack in (0, 1):
        for number in (0, 1):
            path = f"/api/v1/nodes/{pool}-r{rack}-{number}"
            world.api.patch(path, {"metadata": {"labels": {"zone.example.com": "z"}}})
    runs(world, pool, ("g", list("abcd")))
    name = world.submit(pool, workflow(("g", ["a", "b"]), resources=ONE_RACK))
    world.wait_group(name, "g", "SCHEDULING")
    make_topology(world, theirs, "zone.example.com")
    found = explained(name, "drift", by="a level taken out of an external Topology")
    assert theirs in found["sentence"]


def make_topology(world, name, *labels):
    """Put a Topology there in place of another one of its name: levels are immutable."""
    path = "/apis/kai.scheduler/v1alpha1/topologies"
    if world.api.find(f"{path}/{name}"):
        world.api.delete(f"{path}/{name}")
    spec = {"levels": [{"nodeLabel": label} for label in labels]}
    body = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": spec,
    }
    world.api.create(path, body)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A cluster without KAI's scheduler and NVIDIA's controller, and the supervisor of its servers."""
    home = tmp_path_factory.mktemp("bare")
    with Supervisor(log_dir=home / "logs") as supervisor:
        plane = controlplane.start(supervisor, directory=home / "cluster", binaries=build.binaries())
        yield plane, supervisor


@pytest.fixture
def dark(bare, stack):
    """A world on that cluster: nothing there schedules, and nobody serves ComputeDomains."""
    plane, _ = bare
    api = Api(plane.access())
    name = f"d{secrets.token_hex(3)}"
    mine = World(
        service=stack.service,
        api=api,
        view=View(api),
        kubeconfig=plane.kubeconfig("admin"),
        namespace=f"osmo-{name}",
        backend=name,
        prefix=f"{name}-",
    )
    controlplane.create_namespace(api, mine.namespace)
    content = {
        "kubeconfig": str(mine.kubeconfig),
        "k8s_namespace": mine.namespace,
        "scheduler_settings": {"scheduler_type": "kai"},
        "queue_settings": {"parent_quota": "unlimited"},
    }
    mine.service.call("POST", f"/api/configs/backend/{name}-kai", {"configs": content})
    made = []
    submit = mine.submit
    mine.submit = lambda *args, **more: made.append(submit(*args, **more)) or made[-1]
    yield mine
    for workflow_name in made:
        mine.service.cancel(workflow_name)
        mine.wait_released(workflow_name)
    for pool in mine.service.get("/api/configs/pool")["pools"]:
        if pool.startswith(mine.prefix):
            mine.service.call("DELETE", f"/api/configs/pool/{pool}", {})
    mine.service.call("DELETE", f"/api/configs/backend/{name}-kai", {})
    api.close()


def test_a_scheduler_that_says_nothing(dark):
    name = dark.submit(dark.make_pool(racks=1), workflow(("g", ["a"])))
    explain(dark, name, "scheduler_silent", by="a cluster in which KAI's scheduler does not run")


def test_a_claim_template_that_nobody_makes(dark):
    name = dark.submit(dark.make_pool(racks=1, nvlink=True), workflow(("g", ["a"])))
    found = explain(dark, name, "claim_template", by="a cluster in which NVIDIA's controller does not run")
    assert found["evidence"]["claim_template"]["made"] is False


def test_a_cluster_without_compute_domains(dark):
    pool = dark.make_pool(racks=1, nvlink=True)
    definition = dark.api.get(COMPUTE_DOMAINS)
    dark.api.delete(COMPUTE_DOMAINS)
    name = dark.submit(pool, workflow(("g", ["a"])))
    explain(dark, name, "compute_domain_not_served", by="NVIDIA's kinds taken out of the cluster")
    kept = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
    dark.api.create(CRDS, kept | {"metadata": {"name": definition["metadata"]["name"]}})
    explain(dark, name, "claim_template", by="a cluster in which NVIDIA's controller does not run")


def test_a_cluster_that_does_not_answer(dark, bare):
    pool = dark.make_pool(racks=1)
    with hangs(bare[1], "kube-apiserver"):
        name = dark.submit(pool, workflow(("g", ["a"])))
        found = explain(dark, name, "cluster_unreachable", by="an API server that hangs")
    assert f"{dark.backend}-kai" in found["sentence"]


@contextmanager
def hangs(supervisor, name):
    """A process that answers nobody meanwhile."""
    pid = supervisor.find(name).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
