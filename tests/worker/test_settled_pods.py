"""Running pods whose tasks' rows say all that there is of them are not read again."""

import pytest

from cluster.kinds import NODE, POD
from tests.worker.world import World, fresh, statuses
from workflows.models import ObservedPod, Task
from workflows.reconcile.observe import observations
from workflows.reconcile.view.group_view import load
from workflows.services.lease import take_lease

PLAIN = {
    "conditions": [{"type": "Ready", "status": "True"}],
    "containers": [{"name": "main", "state": "running"}],
}
DIFFERING = {
    "another phase": {"phase": "Succeeded"},
    "gone": {"absent": True},
    "being deleted": {"deleting": True},
    "on another node": {"node_name": "elsewhere"},
    "at another address": {"pod_ip": "10.9.9.9"},
    "a container waits": {"digest": PLAIN | {"containers": [{"state": "running"}, {"state": "waiting"}]}},
    "a disruption": {"digest": PLAIN | {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}},
    "preempted": {
        "digest": PLAIN | {"conditions": [{"type": "X", "status": "True", "reason": "PreemptionByScheduler"}]}
    },
}


@pytest.fixture
def running(world):
    group = world.group(pods=3)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    return group


def observed(group):
    lease = take_lease(group.pk) or pytest.fail("the group has a lease")
    return observations.observed_pods(load(lease))


def due(group):
    type(group).objects.filter(pk=group.pk).update(next_reconcile_at=fresh(group).created_in_cluster_at)
    return group


def test_all_pods_of_a_gang_that_runs_are_settled(running):
    pods = observed(due(running))
    assert set(pods.settled) == set(pods.pods) == set(running.tasks.values_list("pod_name", flat=True))


@pytest.mark.parametrize("change", DIFFERING.values(), ids=DIFFERING)
def test_a_pod_that_says_more_than_its_task_s_row_is_read(running, change):
    name = running.tasks.order_by("position").values_list("pod_name", flat=True)[1]
    ObservedPod.objects.filter(name=name).update(**change)
    pods = observed(due(running))
    assert set(pods.pods) - set(pods.settled) == {name}
    assert {field: getattr(pods.pods[name], field) for field in change} == change


def test_a_pod_that_nobody_has_observed_is_not_settled(running):
    name = running.tasks.order_by("position").values_list("pod_name", flat=True)[0]
    ObservedPod.objects.filter(name=name).delete()
    pods = observed(due(running))
    assert name not in pods.pods
    assert name not in pods.settled


def test_a_pod_of_the_same_name_elsewhere_settles_nothing(running):
    ObservedPod.objects.filter(name__in=running.tasks.values("pod_name")).update(namespace="elsewhere")
    pods = observed(due(running))
    assert (pods.pods, set(pods.settled)) == ({}, set())


def test_pods_on_a_node_that_is_not_healthy_are_read(running, world):
    node = running.tasks.order_by("position")[0].node_name
    for name in set(running.tasks.values_list("node_name", flat=True)):
        world.cluster.put(
            NODE,
            {
                "metadata": {"name": name},
                "status": {"conditions": [{"type": "Ready", "status": "False" if name == node else "True"}]},
            },
        )
    world.observe()
    on_node = set(running.tasks.filter(node_name=node).values_list("pod_name", flat=True))
    pods = observed(due(running))
    assert set(pods.pods) - set(pods.settled) == on_node
    assert all(pods.pods[name].digest.get("containers") is not None for name in on_node)


def test_settled_pods_keep_their_claims_where_nvlink_reads_them(running):
    digests = dict(ObservedPod.objects.values_list("name", "digest"))
    pods = observed(due(running))
    assert {name: pod.digest.get("claims") for name, pod in pods.pods.items()} == {
        name: digest.get("claims") for name, digest in digests.items()
    }


@pytest.mark.parametrize("code", [0, 3])
def test_a_gang_ends_the_same_whether_settled_pods_are_read_or_not(db, code, monkeypatch):
    def ended():
        world = World()
        group = world.group(pods=3)
        world.settle()
        world.finish(group, code, tasks=[group.tasks.order_by("position")[1].name])
        world.settle()
        rows = Task.objects.filter(group=group).order_by("position")
        return fresh(group).status, list(rows.values_list("status", "exit_code")), len(world.cluster.all(POD))

    with_settled = ended()
    monkeypatch.setattr(observations, "_settled_pods", lambda view: {})
    assert ended() == with_settled
