"""Nodes that fail under running groups, on a real control plane with Kubernetes' own node controllers."""

import pytest

from localcluster import nodes
from localcluster.api import MERGE_PATCH
from tests.e2e.conftest import ENDS_WHEN_LOST, workflow

PAIR = workflow(("g", ["a", "b"]), resources="one: {gpu: 4, topology: [{key: rack}]}")


@pytest.fixture
def run(world):
    """Run a pair in a pool with these values; returns the workflow's name and the lead's node."""

    def start(*, recovery=ENDS_WHEN_LOST, size=2, **values):
        pool = world.make_pool(racks=1, size=size, recovery=recovery, **values)
        name = world.submit(pool, PAIR)
        world.wait_group(name, "g", "RUNNING")
        world.bound_pods(name)
        return name, lead(world, name)["node_name"]

    return start


def lead(world, name):
    return next(task for task in world.groups(name)["g"]["tasks"] if task["lead"])


def condition(world, name, kind):
    found = [c for c in world.groups(name)["g"]["conditions"] if c["type"] == kind]
    return found[0] if found else {"status": "", "reason": ""}


def wait_state(world, name, state):
    def state_of(task):
        return (task["node_condition"] or {}).get("state")

    return world.wait(lambda: lead(world, name), lambda task: state_of(task) == state)["node_condition"]


def test_a_node_without_kubelet_is_shown_lost_and_waited_for_until_it_is_removed(world, run):
    name, node = run(node_lost_after=6, nvlink=True)
    nodes.stop_kubelet(world.api, node)

    shown = wait_state(world, name, "unreachable")
    assert shown["reason"] == "NodeStatusUnknown"
    assert shown["lost_at"] > shown["since"]
    group = world.wait_group(name, "g", "FAILED_BACKEND_ERROR")
    assert f"Node {node} is unreachable since" in group["failure_message"]
    stuck = world.wait(
        lambda: condition(world, name, "ReleaseStuck"), lambda found: found["reason"] == "NodeLost"
    )
    assert f"Remove {node} from the cluster" in stuck["message"]
    assert any(entry.startswith("ComputeDomain") for entry in world.left(name))

    world.api.delete(f"{nodes.PATH}/{node}")
    world.wait_released(name)
    assert world.left(name) == []


def test_pods_of_a_lost_node_are_forced_where_the_pool_says_so(world, run):
    name, node = run(node_lost_after=6, force_lost_pods=True, nvlink=True)
    nodes.stop_kubelet(world.api, node)
    world.wait_group(name, "g", "FAILED_BACKEND_ERROR")
    world.wait_released(name)
    assert world.left(name) == []


def test_a_node_that_comes_back_in_time_ends_nothing(world, run):
    name, node = run(node_lost_after=3600)
    nodes.report_not_ready(world.api, node)
    wait_state(world, name, "not_ready")
    world.wait(lambda: world.groups(name)["g"]["waiting_reason"] or "", lambda text: "is not ready" in text)

    nodes.start_kubelet(world.api, node)
    wait_state(world, name, None)
    world.wait(
        lambda: condition(world, name, "NodesHealthy"), lambda found: found["reason"] == "AllNodesHealthy"
    )
    assert world.groups(name)["g"]["status"] == "RUNNING"


def test_a_cordoned_node_is_shown_and_its_work_goes_on(world, run):
    name, node = run(node_lost_after=1)
    body = {"spec": {"unschedulable": True}}
    world.api.call("PATCH", f"{nodes.PATH}/{node}", body=body, content_type=MERGE_PATCH)
    wait_state(world, name, "cordoned")
    world.wait(
        lambda: condition(world, name, "NodesHealthy"), lambda found: found["reason"] == "NodeCordoned"
    )
    assert world.groups(name)["g"]["status"] == "RUNNING"
    for pod in world.pods(name):
        world.annotate(pod, run_for="0s")
    assert world.wait_released(name)["status"] == "COMPLETED"


def test_a_drained_node_ends_its_tasks_with_the_reason(world, run):
    name, node = run()
    pod = next(pod for pod in world.pods(name) if pod["spec"]["nodeName"] == node)["metadata"]
    path = f"/api/v1/namespaces/{world.namespace}/pods/{pod['name']}/eviction"
    metadata = {"name": pod["name"], "namespace": world.namespace}
    world.api.create(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
    group = world.wait_group(name, "g", "FAILED_BACKEND_ERROR")
    assert "Its pod was disrupted: EvictionByEvictionAPI" in group["failure_message"]
    world.wait_released(name)


@pytest.mark.deep  # Kubernetes looks for pods of nodes that are gone no more often than every 40 seconds
def test_a_removed_node_ends_its_tasks_with_the_reason(world, run):
    name, node = run()
    world.api.delete(f"{nodes.PATH}/{node}")
    group = world.wait_group(name, "g", "FAILED_BACKEND_ERROR")
    assert "node no longer exists" in group["failure_message"]
    world.wait_released(name)
