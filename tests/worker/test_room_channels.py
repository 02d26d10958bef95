"""NVLink channels, which a scheduler that assigns nodes before pods does not count (Kueue)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, NODE, POD
from pools.values.recovery import RecoveryPolicy, Response
from tests.builders.workloads import (
    HOSTNAME,
    admit,
    hosts,
    kueue_world,
    node_terms,
    queued_gang,
    workload,
)
from tests.fakes.kinds import WORKLOAD
from tests.worker.world import fresh, statuses
from workflows.models import Attempt, Task, TaskGroup

HELD = "resource.nvidia.com/computeDomain"
ALONE = RecoveryPolicy(node_lost=Response.TASK, backoff_first=0.001)


@pytest.fixture
def world(db):
    return kueue_world()


def asked(world):
    (pod_set,) = workload(world)["spec"]["podSets"]
    return node_terms(pod_set["template"]["spec"])


def hold(world, node, domain="uid-of-another"):
    """Another ComputeDomain has the channel of a node, by the label that NVIDIA's driver sets."""
    world.cluster.put(NODE, {"metadata": {"name": node, "labels": {HOSTNAME: node, HELD: domain}}})
    world.observe()


def test_room_is_asked_for_on_nodes_whose_channel_no_domain_holds(world):
    queued_gang(world)
    assert asked(world) == [[f"{HELD} DoesNotExist"]]


def room_asked(world):
    (pod_set,) = workload(world)["spec"]["podSets"]
    (container,) = pod_set["template"]["spec"]["containers"]
    return container["resources"]


def test_claims_that_could_share_a_node_ask_for_room_that_parts_them(world):
    queued_gang(world, claim_gpus={"gpu": 3})
    assert [amounts["nvidia.com/gpu"] for amounts in room_asked(world).values()] == ["3", "3"]
    admit(world, "n-1", "n-2")
    world.settle()
    requested = [pod["spec"]["containers"][0]["resources"] for pod in world.cluster.all(POD)]
    assert [amounts["requests"]["nvidia.com/gpu"] for amounts in requested] == ["1", "1"]


def test_pods_may_join_a_node_that_holds_the_channel_of_their_own_domain(world):
    """A task that is tried again finds its node with the label of its group's domain."""
    queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    assert [node_terms(pod["spec"]) for pod in world.cluster.all(POD)] == [[], []]


def test_a_group_that_claims_no_channel_may_stand_beside_one(world):
    group = queued_gang(world)
    request_none = {"claims_channel": False}
    for task in Task.objects.filter(group=group):
        Task.objects.filter(pk=task.pk).update(spec={**task.spec, **request_none})
    world.cluster.remove(WORKLOAD, workload(world)["metadata"]["name"], namespace="osmo")
    TaskGroup.objects.filter(pk=group.pk).update(next_reconcile_at=timezone.now())
    world.settle()
    assert asked(world) == []


def test_a_group_that_waits_names_the_nodes_whose_channel_another_domain_holds(world):
    group = queued_gang(world)
    hold(world, "n-2")
    world.reconcile(group)
    reason = fresh(group).waiting_reason
    assert "Node n-2 is still held by ComputeDomain uid-of-another" in reason


def test_work_that_runs_beside_it_is_counted_and_not_named(world):
    running = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    group = queued_gang(world)
    hold(world, "n-1", domain["metadata"]["uid"])
    world.reconcile(group)
    assert running.pk != group.pk
    assert "1 node is left out, because other work holds its NVLink channel." in fresh(group).waiting_reason


@pytest.fixture
def placed(world):
    """A gang that runs on n-1 and n-2, each in the group's domain."""
    group = queued_gang(world, policy=ALONE)
    admit(world, "n-1", "n-2")
    world.settle()
    for number, pod in enumerate(world.cluster.all(POD)):
        claims = [{"name": "channel", "resourceClaimName": f"claim-{number}"}]
        world.cluster.put(POD, {**pod, "status": {**pod["status"], "resourceClaimStatuses": claims}})
    report(world, group, "Ready", "Ready")
    assert (statuses(group), hosts()) == (["RUNNING"] * 2, ["n-1", "n-2"])
    return group


def report(world, group, *states):
    """Let the domain list n-1 and so on with these states, and a worker reconcile."""
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    nodes = [
        {"name": f"n-{number}", "cliqueID": "c.0", "status": state}
        for number, state in enumerate(states, start=1)
    ]
    world.cluster.put(COMPUTE_DOMAIN, {**domain, "status": {"status": "Ready", "nodes": nodes}})
    for _ in range(2):
        world.step(group)


def test_a_node_out_of_the_domain_is_left_by_the_whole_gang(world, placed):
    """Its scheduler keeps the node for the task, which must not go there again: only new room helps."""
    report(world, placed, "Ready", "NotReady")
    left = Task.objects.filter(nvlink_left_at__isnull=False)
    assert left.update(nvlink_left_at=timezone.now() - timedelta(seconds=301)) == 1
    world.settle()
    (attempt,) = Attempt.objects.filter(group=placed)
    assert (attempt.loss, attempt.evidence) == ("node_lost", "domain_lost_node")
    assert (fresh(placed).attempt_number, world.pods()) == (2, [])
    assert asked(world) == [[f"{HOSTNAME} NotIn n-2", f"{HELD} DoesNotExist"]]
