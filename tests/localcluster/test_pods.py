"""Pods and nodes behave as the tests and the demo need them to, on the real API server."""

import time

import pytest

from localcluster.nodes import rack
from tests.localcluster.pods import pod

LIMIT_SECONDS = 120


@pytest.fixture
def pods(namespace, add_nodes):
    """The path of a namespace's pods, with one node for them; ``corner`` keeps other tests' pods off."""
    add_nodes(rack("a", count=1, labels={"corner": namespace}))
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def run(cluster_api, pods, namespace):
    def run(body):
        body["spec"]["nodeSelector"] = {"corner": namespace}
        cluster_api.create(pods, body)
        until(cluster_api, f"{pods}/p", lambda status: status.get("phase") != "Pending")
        return f"{pods}/p"

    return run


def until(api, path, holds):
    deadline = time.monotonic() + LIMIT_SECONDS
    while not holds((api.find(path) or {"status": {}})["status"]):
        assert time.monotonic() < deadline, api.find(path)
        time.sleep(0.02)
    return api.find(path)


def test_a_pod_runs_until_it_is_told_otherwise_and_then_ends_with_the_code_it_was_told(run, cluster_api):
    path = run(pod())
    assert cluster_api.get(path)["status"]["phase"] == "Running"
    orders = {"sim.osmo.local/run-for": "0s", "sim.osmo.local/exit-code": "9"}
    cluster_api.patch(path, {"metadata": {"annotations": orders}})
    ended = until(cluster_api, path, lambda status: status["phase"] == "Failed")
    (container,) = ended["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 9


@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_a_pod_that_was_given_a_time_succeeds_after_it(run, cluster_api, place):
    path = run(pod(**{place: {"sim.osmo.local/run-for": "200ms"}}))
    until(cluster_api, path, lambda status: status["phase"] == "Succeeded")


INIT = [{"name": name, "image": "any"} for name in ("first", "last")]


def states(body):
    return [next(iter(status["state"])) for status in body["status"]["initContainerStatuses"]]


def test_a_pod_runs_when_its_last_init_container_has_ended(cluster_api, pods, namespace):
    path = f"{pods}/p"
    body = pod(labels={"sim.osmo.local/init-for": "1h"}, initContainers=INIT)
    cluster_api.create(pods, {**body, "spec": {**body["spec"], "nodeSelector": {"corner": namespace}}})
    held = until(cluster_api, path, lambda status: "initContainerStatuses" in status)
    assert (held["status"]["phase"], states(held)) == ("Pending", ["terminated", "running"])
    assert held["status"]["podIP"]
    assert held["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    cluster_api.patch(path, {"metadata": {"annotations": {"sim.osmo.local/init-for": "0s"}}})
    started = until(cluster_api, path, lambda status: status["phase"] == "Running")
    assert states(started) == ["terminated", "terminated"]


def test_a_pod_whose_init_container_fails_never_begins(run, cluster_api):
    orders = {"sim.osmo.local/init-exit-code": "75", "sim.osmo.local/init-message": "no address: b"}
    failed = cluster_api.get(run(pod(annotations=orders, initContainers=INIT)))["status"]
    assert failed["phase"] == "Failed"
    ended = failed["initContainerStatuses"][-1]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (75, "no address: b")
    assert failed["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_a_deleted_pod_with_a_foreign_finalizer_waits_for_it(run, cluster_api):
    body = pod()
    body["metadata"]["finalizers"] = ["example.com/held"]
    path = run(body)
    cluster_api.delete(path)
    assert "deletionTimestamp" in cluster_api.get(path)["metadata"]
    cluster_api.patch(path, {"metadata": {"finalizers": None}})
    until(cluster_api, path, lambda status: status == {})


def test_the_log_of_a_pod_can_be_read(run, cluster_api):
    assert "a pod of the local cluster" in cluster_api.text(f"{run(pod())}/log")


def test_a_privileged_pod_is_accepted(run, cluster_api):
    body = pod()
    body["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    run(body)
