"""Kubernetes' own node controllers run: they taint nodes and evict pods as in a real cluster."""

import time

import pytest

from localcluster import nodes
from localcluster.api import MERGE_PATCH
from localcluster.controlplane import LEASES

SECONDS = 120


def eventually(condition, *, seen=lambda: ""):
    """Wait for a condition; fails with what is seen then."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, seen()
        time.sleep(0.1)


@pytest.fixture
def node(add_nodes):
    """A node beside a healthy one: with none ready, Kubernetes evicts from nowhere."""
    return add_nodes([nodes.Node(name="a"), nodes.Node(name="b")])[0].name


@pytest.fixture
def running_pod(cluster_api, namespace, node):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}
    cluster_api.create(pods, {"metadata": {"name": "worker"}, "spec": spec})
    path = f"{pods}/worker"
    eventually(lambda: cluster_api.get(path)["status"].get("phase") == "Running")
    return path


def taints(api, node):
    return {(t["key"], t["effect"]) for t in api.get(f"{nodes.PATH}/{node}")["spec"].get("taints") or ()}


def every_node(api):
    """Taints and Ready condition of each: Kubernetes evicts from nowhere while many are not ready."""
    ready = {
        node["metadata"]["name"]: [c for c in node["status"].get("conditions", ()) if c["type"] == "Ready"]
        for node in api.list(nodes.PATH)[0]
    }
    return {name: (taints(api, name), conditions) for name, conditions in ready.items()}


def test_a_node_is_made_with_all_labels_that_kubernetes_would_add(cluster_api, node):
    """A change of a node that is not ready yet would let kwok write its status a second time."""
    cordon(cluster_api, node)
    eventually(lambda: taints(cluster_api, node))  # the same controller adds labels, and did before
    want = nodes.manifest(nodes.Node(name=node))["metadata"]["labels"]
    assert cluster_api.get(f"{nodes.PATH}/{node}")["metadata"]["labels"] == want


def test_a_healthy_node_has_a_lease_and_no_taint(cluster_api, node):
    eventually(lambda: cluster_api.find(f"{LEASES}/{node}") is not None)
    assert taints(cluster_api, node) == set()


def cordon(api, node):
    body = {"spec": {"unschedulable": True}}
    api.call("PATCH", f"{nodes.PATH}/{node}", body=body, content_type=MERGE_PATCH)


def test_a_cordoned_node_gets_the_taint_of_cordons(cluster_api, node):
    cordon(cluster_api, node)
    eventually(lambda: taints(cluster_api, node) == {("node.kubernetes.io/unschedulable", "NoSchedule")})


def test_a_node_that_says_it_is_not_ready_gets_both_taints(cluster_api, node):
    nodes.report_not_ready(cluster_api, node)
    key = "node.kubernetes.io/not-ready"
    eventually(
        lambda: taints(cluster_api, node) == {(key, "NoSchedule"), (key, "NoExecute")},
        seen=lambda: every_node(cluster_api),
    )


def test_a_pod_stays_on_a_node_without_kubelet_until_the_kubelet_is_back(cluster_api, node, running_pod):
    nodes.stop_kubelet(cluster_api, node)
    key = "node.kubernetes.io/unreachable"
    eventually(
        lambda: taints(cluster_api, node) == {(key, "NoSchedule"), (key, "NoExecute")},
        seen=lambda: every_node(cluster_api),
    )
    cluster_api.delete(running_pod)
    assert "deletionTimestamp" in cluster_api.get(running_pod)["metadata"]

    nodes.start_kubelet(cluster_api, node)
    eventually(lambda: taints(cluster_api, node) == set())
    eventually(lambda: cluster_api.find(running_pod) is None)


def test_the_out_of_service_taint_removes_the_pods_of_a_dead_node(cluster_api, node, running_pod):
    nodes.stop_kubelet(cluster_api, node)
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    body = {"spec": {"taints": [taint]}}
    cluster_api.call("PATCH", f"{nodes.PATH}/{node}", body=body, content_type=MERGE_PATCH)
    eventually(lambda: cluster_api.find(running_pod) is None)
