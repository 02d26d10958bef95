"""Pods with containers that the cluster put into them: a task is its own containers."""

import copy
from datetime import timedelta

import pytest

from tests.builders.pods import NOW, ago, ended, pod, read_gone, read_pod
from workflows.lifecycle.pod_status import read_pod as read
from workflows.values.observation import see_pod
from workflows.values.pod_changes import SENT_ANNOTATION, sent_text

SENT = {
    "schedulerName": "s",
    "initContainers": [{"name": "ours", "image": "i"}],
    "containers": [{"name": "train", "image": "t"}],
}
RUNNING = {"running": {"startedAt": ago(5)}}
DONE = ended(0, "Completed")
PULLING = {"waiting": {"reason": "ImagePullBackOff", "message": "back-off"}}
INITIALIZING = {"waiting": {"reason": "PodInitializing"}}


def meshed(phase, train, proxy=None, *, init=None, sidecar=None, ours=None, **status):
    """A pod with the states of its own container, of an injected one, and of an injected one before it."""
    spec = copy.deepcopy(SENT) | {"nodeName": "n1"}
    states = [("train", train)]
    inits = [("ours", ours)] if ours else []
    if proxy:
        spec["containers"].append({"name": "istio-proxy", "image": "p"})
        states.append(("istio-proxy", proxy))
    if init:
        spec["initContainers"].insert(0, {"name": "istio-init", "image": "p"})
        inits.insert(0, ("istio-init", init))
    if sidecar:
        spec["initContainers"].append({"name": "vault", "image": "v", "restartPolicy": "Always"})
        inits.append(("vault", sidecar))
    return see_pod(
        {
            "metadata": {
                "name": "p",
                "namespace": "osmo",
                "uid": "u",
                "labels": {"osmo.nvidia.com/task-group": "00000000000000000000000000000007"},
                "annotations": {SENT_ANNOTATION: sent_text(SENT)},
                "creationTimestamp": ago(60),
            },
            "spec": spec,
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": name, "state": state} for name, state in states],
                "initContainerStatuses": [{"name": name, "state": state} for name, state in inits],
                **status,
            },
        }
    )


ENDS = {
    "its program ended well, and the proxy runs on": (meshed("Running", DONE, RUNNING), "COMPLETED", 0),
    "its program failed, and the proxy runs on": (meshed("Running", ended(3), RUNNING), "FAILED", 3),
    "it was out of memory, and the proxy runs on": (
        meshed("Running", ended(137, "OOMKilled"), RUNNING),
        "FAILED_EVICTED",
        3004,
    ),
    "it ended before the proxy could be pulled": (meshed("Pending", DONE, PULLING), "COMPLETED", 0),
    "it ended well, then the proxy failed": (meshed("Failed", DONE, ended(1)), "COMPLETED", 0),
    "it failed, and the proxy ended well": (meshed("Failed", ended(3), DONE), "FAILED", 3),
    "it ended, and a sidecar is being stopped": (meshed("Running", DONE, sidecar=RUNNING), "COMPLETED", 0),
    "the proxy died and it runs on": (meshed("Running", RUNNING, ended(1)), "RUNNING", None),
    "the proxy cannot be pulled and it runs": (meshed("Pending", RUNNING, PULLING), "RUNNING", None),
    "a sidecar crashes again and again and it runs": (
        meshed("Running", RUNNING, sidecar={"waiting": {"reason": "CrashLoopBackOff"}}),
        "RUNNING",
        None,
    ),
    "its kubelet ended the pod": (
        meshed("Failed", DONE, ended(1), reason="Evicted", message="disk"),
        "FAILED_EVICTED",
        3004,
    ),
    "what was put before it failed": (
        meshed("Failed", INITIALIZING, init=ended(2), ours=DONE),
        "FAILED_START_ERROR",
        3003,
    ),
    "the image of what was put before it cannot be pulled": (
        meshed("Pending", INITIALIZING, init=PULLING),
        "FAILED_IMAGE_PULL",
        301,
    ),
    "its template's container before it failed": (
        meshed("Failed", INITIALIZING, RUNNING, ours=ended(9)),
        "FAILED",
        9,
    ),
}


@pytest.mark.parametrize("phrase", ENDS)
def test_a_task_ends_with_its_own_containers(phrase):
    pod, status, code = ENDS[phrase]
    reading = read_pod(pod, now=NOW)
    assert (reading.status, reading.code) == (status, code)
    if code is not None:
        assert read_gone(pod, eviction=None, now=NOW).status == status


def test_a_failure_names_the_container_that_was_put_before_it():
    for init in (ended(2), PULLING):
        phase = "Failed" if init != PULLING else "Pending"
        message = read_pod(meshed(phase, INITIALIZING, init=init), now=NOW).message
        assert "Init container istio-init, which the cluster put into its pod" in message


def test_a_start_that_takes_too_long_names_what_hangs():
    pod = meshed("Pending", INITIALIZING, init=RUNNING, sidecar=PULLING)
    late = read(pod, now=NOW, start_timeout=timedelta(seconds=1))
    assert late.status == "FAILED_START_TIMEOUT"
    assert "Init container istio-init, which the cluster put into its pod, has not ended yet." in late.message
    assert (
        "Container vault, which the cluster put into its pod, waits (ImagePullBackOff: back-off)."
        in late.message
    )


KEPT = {
    "a proxy that runs": (meshed("Running", DONE, RUNNING), ["istio-proxy"]),
    "a proxy that cannot start": (meshed("Pending", ended(3), PULLING), ["istio-proxy"]),
    "nothing: the proxy has ended, too": (meshed("Failed", DONE, ended(1)), None),
    "nothing: its kubelet stops sidecars": (meshed("Running", DONE, sidecar=RUNNING), None),
    "nothing: it runs": (meshed("Running", RUNNING, ended(1)), None),
    "nothing: nothing was put into it": (pod("Succeeded", state=DONE), None),
}


@pytest.mark.parametrize("phrase", KEPT)
def test_a_pod_whose_own_containers_have_ended_is_kept_by(phrase):
    observed, want = KEPT[phrase]
    assert observed.digest.get("kept_by") == want
