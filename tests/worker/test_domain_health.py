"""The health of a group's ComputeDomain, from what its controller reports of the pods' nodes."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, EVENT, POD
from pools import conditions
from pools.models import Cluster
from tests.fakes import players
from tests.worker.world import fresh
from workflows.models import Event
from workflows.services.timeline import MOST_ALIKE


@pytest.fixture
def group(world):
    """A running group whose pods hold a claim, each on a node of its own."""
    group = world.group(pods=3)
    world.settle()
    for number, pod in enumerate(world.cluster.all(POD)):
        pod["spec"]["nodeName"] = f"node-{number}"
        pod["status"]["resourceClaimStatuses"] = [{"name": "channel", "resourceClaimName": f"claim-{number}"}]
        world.cluster.put(POD, pod)
    return group


@pytest.fixture
def report(world, group):
    """Let the controller report nodes by name, then the observer report and a worker reconcile."""

    def write(**nodes):
        (domain,) = world.cluster.all(COMPUTE_DOMAIN)
        domain["status"] = {
            "status": "Ready",
            "nodes": [
                {"name": name.replace("_", "-"), "cliqueID": "c.0", "status": status}
                for name, status in nodes.items()
            ],
        }
        world.cluster.put(COMPUTE_DOMAIN, domain)
        world.step(group)
        world.step(group)
        return conditions.find(fresh(group).conditions, "NVLinkReady")

    return write


def events(group):
    rows = Event.objects.filter(group=group, reason__startswith="NVLink").order_by("time", "id")
    return list(rows.values_list("reason", "warning"))


def test_a_domain_whose_nodes_join_becomes_ready(report, group):
    condition = report(node_0="Ready", node_1="NotReady")
    assert (condition["status"], condition["reason"]) == ("False", "NodesNotReady")
    assert "1 of 3 nodes" in condition["message"]
    assert "node-1 and node-2" in condition["message"]
    assert events(group) == []
    condition = report(node_0="Ready", node_1="Ready", node_2="Ready")
    assert (condition["status"], condition["reason"]) == ("True", "AllNodesReady")
    assert events(group) == [("NVLinkReady", False)]


def test_a_domain_is_ready_only_once_every_task_with_a_claim_has_a_node(world, report, group):
    """A scheduler binds a gang pod by pod; a domain of its first node is not yet the gang's."""
    world.cluster.players.remove(players.scheduler)
    later = world.cluster.all(POD)[1:]
    for pod in later:
        unbound = {**pod["spec"], "nodeName": ""}
        world.cluster.put(POD, pod | {"spec": unbound, "status": {**pod["status"], "phase": "Pending"}})
    assert report(node_0="NotReady") is None
    assert report(node_0="Ready") is None
    for pod in later:
        world.cluster.put(POD, pod)
    assert "3 of 3 nodes" in report(node_0="Ready", node_1="Ready", node_2="Ready")["message"]
    assert events(group) == [("NVLinkReady", False)]


def test_a_report_from_before_nobody_observed_the_cluster_says_nothing_of_pods_on_other_nodes(
    world, report, group
):
    before = report(node_0="Ready", node_1="Ready", node_2="Ready")
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    pod = world.cluster.all(POD)[0]
    pod["spec"]["nodeName"] = "node-9"
    world.cluster.put(POD, pod)
    world.reconcile(group)
    assert conditions.find(fresh(group).conditions, "NVLinkReady") == before


def test_a_node_that_a_running_group_loses_is_a_warning(report, group):
    report(node_0="Ready", node_1="Ready", node_2="Ready")
    condition = report(node_0="Ready", node_1="NotReady", node_2="Ready")
    assert condition["status"] == "False"
    assert "node-1" in condition["message"]
    assert events(group) == [("NVLinkReady", False), ("NVLinkNodesNotReady", True)]
    assert fresh(group).status == "RUNNING"


def test_a_daemon_that_comes_and_goes_for_ever_writes_a_bounded_timeline(report, group):
    for turn in range(MOST_ALIKE + 3):
        report(node_0="Ready", node_1="Ready", node_2="Ready")
        report(node_0="Ready", node_1=f"NotReady{turn}", node_2="Ready")
    rows = Event.objects.filter(group=group, reason="NVLinkNodesNotReady").order_by("time", "id")
    assert (len(rows), len(events(group))) == (MOST_ALIKE, 2 * MOST_ALIKE)
    last = rows[MOST_ALIKE - 1]
    assert last.repeats == 3
    assert "4 events" in last.message
    assert last.time > rows[MOST_ALIKE - 2].time
    assert events(group)[-1] == ("NVLinkNodesNotReady", True)


def test_a_domain_that_is_as_before_is_not_written_again(report, group):
    report(node_0="Ready", node_1="Ready", node_2="Ready")
    before = fresh(group).conditions
    report(node_0="Ready", node_1="Ready", node_2="Ready")
    assert fresh(group).conditions == before
    assert len(events(group)) == 1


def test_a_pod_that_a_kubelet_cannot_start_has_its_words(world):
    world.cluster.players.remove(players.kubelet)
    group = world.group(pods=2)
    world.settle()
    for number, pod in enumerate(world.cluster.all(POD)):
        pod["spec"]["nodeName"] = f"node-{number}"
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
        world.cluster.put(POD, pod)
    task = group.tasks.order_by("position").first()
    refused = {
        "metadata": {"name": "refused.1", "namespace": "osmo", "uid": "event-1"},
        "involvedObject": {"kind": "Pod", "namespace": "osmo", "name": task.pod_name},
        "type": "Warning",
        "reason": "FailedPrepareDynamicResources",
        "message": "Failed to prepare dynamic resources: label already exists for a different ComputeDomain",
        "lastTimestamp": timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    world.cluster.put(EVENT, refused)
    world.settle()
    row = fresh(group)
    assert (row.status, row.waiting_why) == ("INITIALIZING", "nvlink_domain")
    assert f"cannot prepare the claims of task {task.name}: label already exists" in row.waiting_reason


def test_a_group_without_claims_has_no_such_condition(world):
    group = world.group(pods=2)
    world.settle()
    assert conditions.find(fresh(group).conditions, "NVLinkReady") is None
