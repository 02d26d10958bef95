"""A running group whose NVLink domain loses a node recovers, once that is no restart of a daemon."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, POD
from pools.models import Cluster, NodeFailure, Pool
from pools.values.recovery import RecoveryPolicy, Response
from tests.worker.test_attempts import REQUEUE, gang
from tests.worker.world import fresh, statuses
from workflows.models import Attempt, Task

ALONE = RecoveryPolicy(node_lost=Response.TASK)
FAIL = RecoveryPolicy(preempted=Response.REQUEUE, node_lost=Response.FAIL)


@pytest.fixture
def run(world):
    """Start a gang of three whose pods hold claims, each on a node of its own, in a domain that is ready."""

    def start(policy=REQUEUE):
        group = gang(world, policy=policy)
        for number, pod in enumerate(world.cluster.all(POD)):
            pod["spec"]["nodeName"] = f"node-{number}"
            claim = {"name": "channel", "resourceClaimName": f"claim-{number}"}
            pod["status"]["resourceClaimStatuses"] = [claim]
            world.cluster.put(POD, pod)
        report(world, group, "Ready", "Ready", "Ready")
        return group

    return start


def report(world, group, *states):
    """Let the domain list node-0 and so on with these states, and a worker look until nothing is due."""
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    nodes = [
        {"name": f"node-{number}", "cliqueID": "c.0", "status": state}
        for number, state in enumerate(states)
        if state
    ]
    domain["status"] = {"status": "Ready", "nodes": nodes}
    world.cluster.put(COMPUTE_DOMAIN, domain)
    for _ in range(2):
        world.step(group)


def pass_time(seconds=301):
    """Let the nodes that are out of their domain be so for longer."""
    left = Task.objects.filter(nvlink_left_at__isnull=False)
    assert left.update(nvlink_left_at=timezone.now() - timedelta(seconds=seconds)) == 1


@pytest.mark.parametrize("state", ["NotReady", ""], ids=["not ready", "not listed"])
def test_a_node_out_of_its_domain_for_long_is_lost(world, run, state):
    group = run()
    report(world, group, "Ready", state, "Ready")
    assert statuses(group) == ["RUNNING"] * 3
    pass_time()
    world.step(group)
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.loss, attempt.evidence) == ("node_lost", "domain_lost_node")
    assert "Its node node-1 has left its NVLink domain" in attempt.message
    assert fresh(group).avoided_nodes == ["node-1"]
    assert list(NodeFailure.objects.values_list("node", "fault")) == [("node-1", "nvlink_fault")]


def test_the_next_attempt_begins_in_a_domain_of_its_own(world, run):
    group = run()
    report(world, group, "Ready", "NotReady", "Ready")
    before = world.cluster.all(COMPUTE_DOMAIN)[0]["metadata"]["uid"]
    pass_time()
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    assert domain["metadata"]["uid"] != before
    live = group.tasks.filter(latest=True)
    assert set(live.values_list("nvlink_joined_at", "nvlink_left_at")) == {(None, None)}


def test_a_daemon_that_restarts_ends_nothing(world, run):
    group = run()
    report(world, group, "Ready", "NotReady", "Ready")
    wait = fresh(group).next_reconcile_at - timezone.now()
    pass_time(290)
    report(world, group, "Ready", "Ready", "Ready")
    assert statuses(group) == ["RUNNING"] * 3
    assert not group.tasks.filter(nvlink_left_at__isnull=False).exists()
    assert wait <= timedelta(seconds=300)


def test_a_node_that_is_back_when_its_time_is_over_is_not_lost(world, run):
    group = run()
    report(world, group, "Ready", "NotReady", "Ready")
    pass_time()
    report(world, group, "Ready", "Ready", "Ready")
    assert not Attempt.objects.filter(group=group).exists()
    assert statuses(group) == ["RUNNING"] * 3


def test_a_domain_that_reports_no_node_any_more_ends_nothing(world, run):
    group = run()
    report(world, group, "", "", "")
    assert not group.tasks.filter(nvlink_left_at__isnull=False).exists()


def test_a_pool_that_never_loses_nodes_does_not_lose_these(world, run):
    group = run()
    Pool.objects.update(node_lost_after=0)
    report(world, group, "Ready", "NotReady", "Ready")
    pass_time(100_000)
    world.step(group)
    assert statuses(group) == ["RUNNING"] * 3


def test_one_task_is_replaced_on_another_node_where_the_policy_says_so(world, run):
    group = run(ALONE)
    report(world, group, "Ready", "NotReady", "Ready")
    lost = group.tasks.get(latest=True, nvlink_left_at__isnull=False)
    pass_time()
    world.settle()
    assert not Attempt.objects.filter(group=group).exists()
    replacement = group.tasks.get(latest=True, name=lost.name)
    assert (replacement.retry_id, replacement.status) == (1, "RUNNING")
    (pod,) = [p for p in world.cluster.all(POD) if p["metadata"]["name"] == replacement.pod_name]
    assert "node-1" in str(pod["spec"]["affinity"])


def test_a_policy_that_fails_lost_nodes_ends_the_group(world, run):
    group = run(FAIL)
    lead = group.tasks.get(latest=True, lead=True).node_name
    states = ["NotReady" if f"node-{number}" == lead else "Ready" for number in range(3)]
    report(world, group, *states)
    pass_time()
    world.step(group)
    row = fresh(group)
    assert row.status == "FAILED_BACKEND_ERROR"
    assert "has left its NVLink domain" in row.failure_message


def test_a_peer_that_fails_beside_a_lost_node_is_a_loss_of_that_node(world, run):
    group = run()
    report(world, group, "Ready", "NotReady", "Ready")
    left = group.tasks.get(latest=True, nvlink_left_at__isnull=False)
    peer = group.tasks.filter(latest=True).exclude(pk=left.pk).first()
    world.finish(group, 134, tasks=[peer.name])
    world.step(group)
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.loss, attempt.evidence) == ("node_lost", "domain_lost_node")


def test_a_failure_in_a_whole_domain_is_the_tasks_own(world, run):
    group = run()
    world.finish(group, 134, tasks=[group.tasks.filter(latest=True, lead=True).get().name])
    world.step(group)
    assert not Attempt.objects.filter(group=group).exists()
    assert fresh(group).status == "FAILED"


def test_what_was_not_ready_before_an_observer_was_away_counts_from_its_return(world, run):
    group = run()
    report(world, group, "Ready", "NotReady", "Ready")
    pass_time()
    now = timezone.now()
    Cluster.objects.update(unobserved_from=now - timedelta(minutes=4), unobserved_until=now)
    world.step(group)
    assert statuses(group) == ["RUNNING"] * 3
    Cluster.objects.update(unobserved_until=timezone.now() - timedelta(seconds=301))
    world.step(group)
    assert Attempt.objects.get(group=group).evidence == "domain_lost_node"
