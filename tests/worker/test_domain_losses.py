"""A running group whose NVLink domain loses a node recovers, once that is no restart of a daemon."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, POD
from pools import conditions
from pools.models import Cluster, NodeFailure, Pool
from pools.values.recovery import RecoveryPolicy, Response
from tests.builders.gangs import REQUEUE, recovering_gang, set_frozen
from tests.builders.losses import delete_pod
from tests.fakes.kinds import KAI_POD_GROUP
from tests.worker.world import fresh, statuses
from workflows.models import Attempt, ObservedObject, Task

ALONE = RecoveryPolicy(node_lost=Response.TASK)
FAIL = RecoveryPolicy(preempted=Response.REQUEUE, node_lost=Response.FAIL)


@pytest.fixture
def run(world):
    """Start a gang of three whose pods hold claims, each on a node of its own, in a domain that is ready."""

    def start(policy=REQUEUE):
        group = recovering_gang(world, policy=policy)
        for number, pod in enumerate(world.cluster.all(POD)):
            pod["spec"]["nodeName"] = f"node-{number}"
            claim = {"name": "channel", "resourceClaimName": f"claim-{number}"}
            pod["status"]["resourceClaimStatuses"] = [claim]
            world.cluster.put(POD, pod)
        report(world, group, "Ready", "Ready", "Ready")
        return group

    return start


def report(world, group, *states):
    """Let the domain list node-0 and so on with these states, and a worker reconcile until nothing is due."""
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


def delete_domain(world, *, held=False):
    """Somebody deletes the group's ComputeDomain; ``held``: a finalizer keeps it there."""
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    metadata = domain["metadata"]
    if held:
        metadata["finalizers"] = ["example.com/held"]
        world.cluster.put(COMPUTE_DOMAIN, domain)
    world.cluster.delete(COMPUTE_DOMAIN, metadata["name"], uid=None, namespace=metadata["namespace"])


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


def fail(world, group, *names, ago=0):
    """Let tasks fail that ended so many seconds ago, and a worker reconcile."""
    world.finish(group, 134, tasks=names)
    ended = (timezone.now() - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for pod in world.cluster.all(POD):
        for status in pod["status"].get("containerStatuses", ()):
            if "terminated" in status["state"]:
                status["state"]["terminated"]["finishedAt"] = ended
        world.cluster.put(POD, pod)
    world.step(group)


def peer_of(group, node):
    """The name of a task that is on another node."""
    return group.tasks.filter(latest=True).exclude(node_name=node).order_by("position").first().name


def test_a_failure_in_a_whole_domain_is_the_tasks_own(world, run):
    group = run()
    lead = group.tasks.get(latest=True, lead=True)
    fail(world, group, lead.name)
    row = fresh(group)
    assert (row.status, row.waiting_why) == ("RUNNING", "loss_unexplained")
    assert f'Task "{lead.name}" failed. What follows is decided when its NVLink domain' in row.waiting_reason
    assert row.next_reconcile_at - timezone.now() <= timedelta(seconds=11)
    fail(world, group, ago=30)
    assert not Attempt.objects.filter(group=group).exists()
    assert fresh(group).status == "FAILED"


@pytest.mark.parametrize("deleted", [False, True], ids=["node lost", "domain deleted"])
def test_a_failure_just_before_the_news_of_its_domain_is_its_loss(world, run, deleted):
    group = run()
    fail(world, group, peer_of(group, "node-1"))
    if deleted:
        delete_domain(world)
        for _ in range(2):
            world.step(group)
    else:
        report(world, group, "Ready", "NotReady", "Ready")
    (attempt,) = Attempt.objects.filter(group=group)
    want = "domain_deleted" if deleted else "domain_lost_node"
    assert (attempt.loss, attempt.evidence) == ("node_lost", want)
    assert fresh(group).avoided_nodes == ([] if deleted else ["node-1"])


def test_a_failure_on_the_node_that_had_left_the_domain_is_the_loss_of_that_node(world, run):
    group = run()
    report(world, group, "Ready", "NotReady", "Ready")
    left = group.tasks.get(latest=True, nvlink_left_at__isnull=False)
    world.finish(group, 134, tasks=[left.name])
    world.step(group)
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.evidence, fresh(group).avoided_nodes) == ("domain_lost_node", ["node-1"])


def test_all_tasks_that_fail_with_their_domain_are_its_loss(world, run):
    group = run()
    delete_domain(world)
    fail(world, group, *group.tasks.values_list("name", flat=True))
    world.step(group)
    assert Attempt.objects.get(group=group).evidence == "domain_deleted"


def test_a_failure_whose_loss_would_end_the_group_as_well_counts_at_once(world, run):
    group = run(FAIL)
    fail(world, group, group.tasks.get(latest=True, lead=True).name)
    assert fresh(group).status == "FAILED"


@pytest.mark.parametrize("reported", [True, False], ids=["by its domain", "by the failure of a peer"])
def test_a_node_that_left_its_domain_is_avoided_until_it_is_back(world, run, reported):
    group = run()
    if reported:
        report(world, group, "Ready", "NotReady", "Ready")
        pass_time()
        world.step(group)
    else:
        fail(world, group, peer_of(group, "node-1"))
        report(world, group, "Ready", "NotReady", "Ready")
    assert fresh(group).avoided_nodes == ["node-1"]
    world.settle()
    delete_pod(world, group)
    world.settle()
    assert fresh(group).attempt_number == 3
    assert fresh(group).avoided_nodes == ["node-1"]
    lead = group.tasks.filter(latest=True, lead=True)
    lead.update(node_name="node-1", nvlink_joined_at=timezone.now())
    delete_pod(world, group, number=1)
    world.settle()
    assert fresh(group).attempt_number == 4
    assert fresh(group).avoided_nodes == []


def test_a_running_group_says_since_when_a_node_is_out_of_its_domain(world, run):
    group = run()
    report(world, group, "Ready", "NotReady", "Ready")
    since = group.tasks.get(nvlink_left_at__isnull=False).nvlink_left_at
    row = fresh(group)
    message = f"Not ready: node-1 since {since:%Y-%m-%d %H:%M} UTC."
    assert message in conditions.find(row.conditions, "NVLinkReady")["message"]
    assert (row.waiting_why, message in row.waiting_reason) == ("nvlink_domain", True)
    assert row.waiting_evidence["nvlink_domain"]["since"].keys() == {"node-1"}
    report(world, group, "Ready", "Ready", "Ready")
    assert fresh(group).waiting_why == ""


def test_a_node_that_was_not_ready_before_an_observer_was_away_counts_from_its_return(world, run):
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


@pytest.mark.parametrize("held", [False, True], ids=["gone", "being deleted"])
def test_a_domain_that_somebody_deletes_under_a_running_group_is_a_loss(world, run, held):
    group = run()
    delete_domain(world, held=held)
    world.step(group)
    world.step(group)
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.loss, attempt.evidence, attempt.counted) == ("node_lost", "domain_deleted", True)
    assert "Its group's ComputeDomain was deleted" in attempt.message
    assert fresh(group).avoided_nodes == []
    assert not NodeFailure.objects.exists()


@pytest.mark.parametrize("with_pod_group", [False, True], ids=["alone", "with its pod group"])
def test_after_its_domain_was_deleted_a_group_runs_again_in_another(world, run, with_pod_group):
    group = run()
    before = {pod["metadata"]["uid"] for pod in world.cluster.all(POD)}
    delete_domain(world)
    if with_pod_group:
        (pod_group,) = world.cluster.all(KAI_POD_GROUP)
        world.cluster.remove(KAI_POD_GROUP, pod_group["metadata"]["name"], namespace="osmo")
    world.settle()
    assert len(world.cluster.all(KAI_POD_GROUP)) == 1
    assert statuses(group) == ["RUNNING"] * 3
    assert len(world.cluster.all(COMPUTE_DOMAIN)) == 1
    assert not before & {pod["metadata"]["uid"] for pod in world.cluster.all(POD)}


def test_no_task_alone_joins_the_peers_of_a_domain_that_was_deleted(world, run):
    group = run(ALONE)
    delete_domain(world)
    world.step(group)
    world.step(group)
    assert Attempt.objects.get(group=group).evidence == "domain_deleted"


def test_a_group_that_fails_with_its_nodes_ends_without_its_domain(world, run):
    group = run(FAIL)
    delete_domain(world)
    world.settle()
    row = fresh(group)
    assert (row.status, row.released_at is not None) == ("FAILED_BACKEND_ERROR", True)
    assert "ComputeDomain was deleted" in row.failure_message
    assert not world.cluster.names(POD)


def test_nothing_is_concluded_from_rows_that_lack_a_domain_which_exists(world, run):
    group = run()
    ObservedObject.objects.filter(kind="ComputeDomain").delete()
    world.reconcile(group)
    world.reconcile(group)
    assert statuses(group) == ["RUNNING"] * 3
    assert conditions.find(fresh(group).conditions, "NVLinkReady")["reason"] == "AllNodesReady"


def test_a_deleted_domain_is_not_judged_while_no_observer_is_at_work(world, run):
    group = run()
    delete_domain(world)
    world.observe()
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=2))
    world.reconcile(group)
    world.reconcile(group)
    assert not Attempt.objects.filter(group=group).exists()
    world.step(group)
    world.step(group)
    assert Attempt.objects.get(group=group).evidence == "domain_deleted"


def test_a_group_without_attempts_says_that_its_domain_was_deleted(world, run):
    group = run()
    set_frozen(group, attempts=False, recovery={})
    delete_domain(world)
    world.step(group)
    world.step(group)
    assert statuses(group) == ["RUNNING"] * 3
    condition = conditions.find(fresh(group).conditions, "NVLinkReady")
    assert (condition["status"], condition["reason"]) == ("False", "DomainDeleted")
