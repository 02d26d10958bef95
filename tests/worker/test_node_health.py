"""Nodes that fail under a group: shown at once, lost after the pool's time."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import NODE, POD
from pools import conditions
from pools.models import Backend, Cluster, Pool
from tests.builders.nodes import node
from tests.fakes import players
from tests.worker.world import fresh, statuses, workflow_of
from workflows.models import Event, TaskGroup
from workflows.nodes.health import unhealthy_nodes_of

NAMES = ("node-0", "node-1")


@pytest.fixture
def group(world):
    """A running group of two tasks on two nodes, the lead on the second."""
    for name in NAMES:
        world.cluster.put(NODE, node(name))
    group = world.group(pods=2)
    world.settle()
    pods = {pod["metadata"]["name"]: pod for pod in world.cluster.all(POD)}
    lead_last = group.tasks.order_by("lead").values_list("pod_name", flat=True)
    for name, pod in zip(NAMES, lead_last, strict=True):
        pods[pod]["spec"]["nodeName"] = name
        world.cluster.put(POD, pods[pod])
    world.step(group)
    assert fresh(group).status == "RUNNING"
    return group


@pytest.fixture
def change(world, group):
    """Change the second node, then let the observer and a worker look."""

    def put(**state):
        world.cluster.put(NODE, node(NAMES[1], **state))
        world.observe()
        assert TaskGroup.objects.get(pk=group.pk).next_reconcile_at <= timezone.now()  # it was notified
        world.step(group)

    return put


def condition_of(group):
    return conditions.find(fresh(group).conditions, "NodesHealthy")


def events(group):
    rows = Event.objects.filter(group=group, reason__contains="Node").order_by("time", "id")
    return list(rows.values_list("reason", "warning"))


def test_what_nobody_observes_any_more_stays_as_it_was(world, group, change):
    """The node may be as it was: without an observer there is no report that it is healthy again."""
    change(ready="False")
    before, noted = condition_of(group), events(group)
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    world.reconcile(group)
    assert (condition_of(group), events(group)) == (before, noted)


def test_a_group_on_healthy_nodes_has_no_such_condition(group):
    assert condition_of(group) is None
    assert fresh(group).waiting_reason == ""


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"ready": "Unknown"}, "NodeUnreachable"),
        ({"ready": "False"}, "NodeNotReady"),
        ({"cordoned": True}, "NodeCordoned"),
    ],
)
def test_a_node_that_fails_is_a_condition_and_an_event_until_it_is_back(change, group, state, reason):
    change(**state)
    condition = condition_of(group)
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert "node-1" in condition["message"]
    assert fresh(group).status == "RUNNING"
    assert events(group) == [(reason, True)]

    change()
    assert condition_of(group)["status"] == "True"
    assert events(group) == [(reason, True), ("AllNodesHealthy", False)]
    assert fresh(group).waiting_reason == ""


def test_a_group_says_which_node_is_away_and_when_it_is_lost(change, group):
    change(ready="Unknown")
    row = fresh(group)
    assert row.waiting_why == "node_away"
    assert "Node node-1 is unreachable since" in row.waiting_reason
    assert "it is lost at" in row.waiting_reason


def test_a_cordoned_node_is_nothing_to_wait_for(change, group):
    change(cordoned=True)
    assert fresh(group).waiting_reason == ""


def test_the_tasks_of_a_node_that_is_away_longer_than_the_pool_allows_are_lost(change, group):
    change(ready="Unknown", ago=301)
    row = fresh(group)
    assert row.status == "FAILED_BACKEND_ERROR"
    assert "Its node is lost: it is away for longer than 300 seconds." in row.failure_message
    assert "Node node-1 is unreachable since" in row.failure_message


def test_a_pool_says_how_long_a_node_may_be_away(change, group):
    Pool.objects.update(node_lost_after=600)
    change(ready="Unknown", ago=301)
    assert statuses(group) == ["RUNNING", "RUNNING"]


def test_a_pool_may_never_lose_nodes(change, group):
    Pool.objects.update(node_lost_after=0)
    change(ready="Unknown", ago=100_000)
    assert statuses(group) == ["RUNNING", "RUNNING"]
    assert "it is lost at" not in fresh(group).waiting_reason


def test_a_group_is_reconciled_again_when_its_node_will_be_lost(change, group):
    change(ready="Unknown", ago=290)
    assert fresh(group).status == "RUNNING"
    wait = fresh(group).next_reconcile_at - timezone.now()
    assert wait <= timedelta(seconds=11)


def test_a_cordoned_node_is_never_lost(change, group):
    change(cordoned=True, ago=100_000)
    assert statuses(group) == ["RUNNING", "RUNNING"]


def test_a_task_that_ended_on_a_lost_node_keeps_its_own_end(world, group):
    world.finish(group, 0, tasks=[group.tasks.get(lead=True).name])
    put_away(world, ago=301)
    world.step(group)
    assert group.tasks.get(lead=True).status == "COMPLETED"


def test_a_condition_that_the_backends_rules_forbid_is_shown(change, group):
    disk = {"type": "DiskPressure", "status": "True", "lastTransitionTime": "2026-11-22T12:03:00Z"}
    Backend.objects.update(node_conditions={"rules": {".*Pressure": "False"}})
    change(others=[disk])
    assert condition_of(group)["reason"] == "NodeUnhealthy"
    (seen,) = unhealthy_nodes_of(workflow_of(group), NAMES).by_name.values()
    assert (seen.state, seen.reason) == ("unhealthy", "DiskPressure")


def test_a_removed_node_is_shown_until_its_tasks_end(world, group):
    world.cluster.remove(NODE, NAMES[1])
    world.observe()
    seen = unhealthy_nodes_of(workflow_of(group), NAMES).by_name
    assert {name: str(health.state) for name, health in seen.items()} == {"node-1": "removed"}


@pytest.fixture
def dead(world, group):
    """A running group whose second node has no kubelet: a pod there is never let go."""
    world.cluster.players[:] = [player for player in world.cluster.players if player is not players.kubelet]
    return group


def kubelet_of(name):
    """A player that lets go of the pods of one node."""

    def play(cluster):
        for pod in cluster.all(POD):
            if pod["spec"].get("nodeName") == name and "deletionTimestamp" in pod["metadata"]:
                cluster.remove(POD, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])

    return play


def end(world, group):
    request_stop(group)
    for _ in range(6):
        world.step(group)


def put_away(world, *, ago):
    world.cluster.put(NODE, node(NAMES[1], ready="Unknown", ago=ago))


def request_stop(group):
    TaskGroup.objects.filter(pk=group.pk).update(stop_status="FAILED_CANCELED", stop_message="by a user")


def test_a_pod_that_nobody_ends_keeps_the_group_and_the_group_says_what_to_do(world, dead):
    put_away(world, ago=301)
    end(world, dead)
    assert fresh(dead).released_at is None
    condition = conditions.find(fresh(dead).conditions, "ReleaseStuck")
    assert (condition["status"], condition["reason"]) == ("True", "NodeLost")
    for text in (
        "Remove node-1 from the cluster",
        "node.kubernetes.io/out-of-service",
        "set force_lost_pods",
    ):
        assert text in condition["message"]


def test_a_pool_may_say_that_pods_of_lost_nodes_are_deleted(world, dead):
    Pool.objects.update(force_lost_pods=True)
    world.cluster.players.append(kubelet_of(NAMES[0]))
    put_away(world, ago=301)
    end(world, dead)
    assert fresh(dead).released_at is not None
    assert world.cluster.all(POD) == []


def test_no_pod_is_forced_before_its_node_is_lost(world, dead):
    Pool.objects.update(force_lost_pods=True)
    put_away(world, ago=100)
    end(world, dead)
    assert fresh(dead).released_at is None
    assert len(world.pods()) >= 1


def test_no_pod_is_forced_while_nobody_observes_the_nodes(world, dead):
    Pool.objects.update(force_lost_pods=True)
    put_away(world, ago=301)
    world.observe()
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    request_stop(dead)
    for _ in range(4):
        world.reconcile(dead)
    assert fresh(dead).released_at is None
