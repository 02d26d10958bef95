"""A pod says what became of its task, with OSMO's statuses and codes."""

from datetime import timedelta

import pytest

from pools.values.recovery import Loss
from scheduling.backends.base import Eviction, EvictionCause
from scheduling.nodes.suspects import NodeFault
from tests.builders.pods import NOW, PREEMPTED, ago, ended, placed, pod, read_gone, read_pod
from workflows.lifecycle.kubelet_reasons import SOURCES, NodeEnd


def waits(reason):
    return {"waiting": {"reason": reason}}


DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}

CASES = {
    "without a node": (pod("Pending", node=""), "SCHEDULING", None),
    "on a node, not begun": (pod("Pending", conditions=[placed(1)]), "INITIALIZING", None),
    "making its container": (
        pod("Pending", state=waits("ContainerCreating"), conditions=[placed(1)]),
        "INITIALIZING",
        None,
    ),
    "on a node for too long": (pod("Pending", conditions=[placed(31)]), "FAILED_START_TIMEOUT", 3005),
    "running": (pod("Running"), "RUNNING", None),
    "succeeded": (pod("Succeeded"), "COMPLETED", 0),
    "the user's exit code": (pod("Failed", state=ended(7)), "FAILED", 7),
    "no word from any container": (pod("Failed"), "FAILED", 4000),
    "out of memory": (pod("Failed", state=ended(137, "OOMKilled")), "FAILED_EVICTED", 3004),
    "no image": (pod("Pending", state=waits("ErrImagePull")), "FAILED_IMAGE_PULL", 302),
    "still no image": (pod("Pending", state=waits("ImagePullBackOff")), "FAILED_IMAGE_PULL", 301),
    "an image that has no name": (
        pod("Pending", state=waits("InvalidImageName"), conditions=[placed(29)]),
        "INITIALIZING",
        None,
    ),
    "an image that has no name, for too long": (
        pod("Pending", state=waits("InvalidImageName"), conditions=[placed(31)]),
        "FAILED_START_TIMEOUT",
        3005,
    ),
    "a crash loop": (pod("Running", state=waits("CrashLoopBackOff")), "FAILED", 304),
    "a container that cannot be made": (pod("Pending", state=waits("CreateContainerError")), "FAILED", 999),
    "a missing Secret that may come": (
        pod("Pending", state=waits("CreateContainerConfigError"), conditions=[placed(5)]),
        "SCHEDULING",
        None,
    ),
    "a missing Secret that does not come": (
        pod("Pending", state=waits("CreateContainerConfigError"), conditions=[placed(11)]),
        "FAILED_BACKEND_ERROR",
        3001,
    ),
    "a container lost a while ago": (
        pod("Failed", state=ended(137, "ContainerStatusUnknown", finishedAt=ago(5))),
        "RUNNING",
        None,
    ),
    "a container lost long ago": (
        pod("Failed", state=ended(137, "ContainerStatusUnknown", finishedAt=ago(31))),
        "FAILED_BACKEND_ERROR",
        3001,
    ),
    "evicted by its node": (pod("Failed", reason="Evicted"), "FAILED_EVICTED", 3004),
    "refused by its node": (pod("Failed", reason="UnexpectedAdmissionError"), "FAILED_BACKEND_ERROR", 3001),
    "a start error": (pod("Failed", reason="StartError"), "FAILED_START_ERROR", 3003),
    "preempted, whatever else": (
        pod("Running", conditions=[PREEMPTED]),
        "FAILED_PREEMPTED",
        3006,
    ),
    "disrupted instead of an ordinary failure": (
        pod("Failed", conditions=[DISRUPTED], state=ended(143)),
        "FAILED_BACKEND_ERROR",
        3001,
    ),
    "to be disrupted, and running": (pod("Running", conditions=[DISRUPTED]), "RUNNING", None),
}


REFUSALS = {
    **{reason: "" for reason, (end, _) in SOURCES.items() if end == NodeEnd.REFUSED},
    "OutOfnvidia.com/gpu": "Node didn't have enough resource: nvidia.com/gpu, requested: 4",
    "OutOfpods": "Node didn't have enough resource: pods",
    "OutOfhugepages-1Gi": "Node didn't have enough resource: hugepages-1Gi",
    "Evicted": "The node had condition: [DiskPressure]. ",
    "AReasonOfALaterKubelet": "Pod was rejected: it is not known here",
}


@pytest.mark.parametrize(("reason", "message"), REFUSALS.items(), ids=REFUSALS)
def test_a_pod_that_its_node_refused_is_a_lost_one_and_the_nodes_fault(reason, message):
    reading = read_pod(pod("Failed", node="n7", reason=reason, message=message), now=NOW)
    assert (reading.status, reading.code, reading.loss) == ("FAILED_BACKEND_ERROR", 3001, Loss.NODE_LOST)
    assert (reading.evidence, reading.fault) == ("refused_by_node", NodeFault.START)
    assert reading.message.startswith(f"Its node n7 refused its pod before anything of it ran. {reason}")


@pytest.mark.parametrize("reason", [reason for reason, (end, _) in SOURCES.items() if end == NodeEnd.ENDED])
def test_a_pod_that_its_node_ended_is_a_lost_one(reason):
    seen = pod("Failed", node="n7", reason=reason, state=ended(143))
    reading = read_pod(seen, now=NOW)
    assert (reading.status, reading.code, reading.loss) == ("FAILED_BACKEND_ERROR", 3001, Loss.NODE_LOST)
    assert reading.message == f"Its node n7 ended its pod. {reason}"


@pytest.mark.parametrize(
    ("reason", "message"),
    [("Evicted", "Pod ephemeral local storage usage exceeds the total limit"), ("DeadlineExceeded", "")],
)
def test_a_pod_that_used_more_than_it_may_failed_by_itself(reason, message):
    reading = read_pod(pod("Failed", reason=reason, message=message, state=ended(137)), now=NOW)
    assert (reading.loss, reading.fault) == (Loss.FAILED, None)


@pytest.mark.parametrize(("seen", "status", "code"), CASES.values(), ids=CASES)
def test_a_pod_reads_as_osmo_reads_it(seen, status, code):
    reading = read_pod(seen, now=NOW)
    assert (reading.status, reading.code) == (status, code)


def test_a_pod_of_unknown_phase_says_nothing():
    assert read_pod(pod("Unknown"), now=NOW) is None


@pytest.mark.parametrize(
    "seen",
    [
        pod("Pending", conditions=[placed(1)]),
        pod("Pending", state=waits("CreateContainerConfigError"), conditions=[placed(5)]),
        pod("Failed", state=ended(137, "ContainerStatusUnknown", finishedAt=ago(5))),
    ],
)
def test_a_status_that_time_alone_would_change_says_when(seen):
    first = read_pod(seen, now=NOW)
    later = read_pod(seen, now=first.recheck + timedelta(seconds=1))
    assert first.code is None
    assert later.code is not None


def test_a_pod_that_vanished_has_ended_as_it_was_last_seen():
    assert read_gone(pod("Succeeded"), eviction=None, now=NOW).status == "COMPLETED"
    assert (
        read_gone(pod("Failed", state=ended(9)), eviction=Eviction(EvictionCause.UNKNOWN, "x"), now=NOW).code
        == 9
    )


@pytest.mark.parametrize(
    ("cause", "status", "code"),
    [
        *((cause, "FAILED_PREEMPTED", 3006) for cause in EvictionCause if cause != "stale_gang"),
        (EvictionCause.STALE_GANG, "FAILED_EVICTED", 3004),
    ],
)
def test_a_pod_that_vanished_while_running_was_evicted_if_its_scheduler_said_so(cause, status, code):
    reading = read_gone(pod("Running"), eviction=Eviction(cause, "It had to go."), now=NOW)
    assert (reading.status, reading.code, reading.message) == (status, code, "It had to go.")


def test_a_pod_that_vanished_without_a_word_is_the_clusters_fault():
    for last in (pod("Running"), None):
        reading = read_gone(last, eviction=None, now=NOW)
        assert (reading.status, reading.code) == ("FAILED_BACKEND_ERROR", 3001)


def test_a_pod_that_vanished_with_its_node_or_was_disrupted_says_so():
    removed = read_gone(pod("Running", node="n7"), eviction=None, now=NOW, node_gone=True)
    assert (removed.status, "Its node n7 was removed" in removed.message) == ("FAILED_BACKEND_ERROR", True)
    disrupted = read_gone(pod("Running", conditions=[DISRUPTED]), eviction=None, now=NOW)
    assert (disrupted.status, disrupted.code) == ("FAILED_BACKEND_ERROR", 3001)
    assert disrupted.message.startswith("Its pod was disrupted: ")


def test_a_start_timeout_names_what_the_containers_wait_for():
    waiting = {"waiting": {"reason": "InvalidImageName", "message": 'couldn\'t parse image name "a/B"'}}
    reading = read_pod(pod("Pending", state=waiting, conditions=[placed(31)]), now=NOW)
    assert reading.message == (
        "Its pod did not start within 1800 seconds on n1. "
        'Container main waits (InvalidImageName: couldn\'t parse image name "a/B").'
    )
