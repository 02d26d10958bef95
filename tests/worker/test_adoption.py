"""A group that a backup knows at an earlier moment lives once, however far it had come since."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, POD
from pools.clusters.kinds import pod_group_kind
from scheduling.backends.registry import installed
from tests.fakes import players
from tests.worker.world import World, fresh, statuses
from workflows.models import ObservedPod, Task, TaskGroup
from workflows.services.adoption import expect_other_forms

HELD = "example.com/held"


@pytest.fixture
def world(db):
    return World()


def a_later_attempt(world, *, node=None):
    """In the cluster are the pods of a later attempt, of which one does not end at once."""
    for number, pod in enumerate(world.cluster.all(POD)):
        metadata = pod["metadata"]
        world.cluster.remove(POD, metadata["name"], namespace=metadata["namespace"])
        metadata["name"] = metadata["name"].removesuffix("-0") + "-1"
        metadata["finalizers"] = [HELD] if number == 0 else []
        if node:
            pod["spec"]["nodeName"] = node
        world.cluster.put(POD, pod)


def its_other_objects(world, kind):
    """The pod groups and the ComputeDomain in the cluster are the later attempt's own."""
    for of_group in filter(None, (kind, COMPUTE_DOMAIN)):
        for obj in world.cluster.all(of_group):
            metadata = obj["metadata"]
            world.cluster.remove(of_group, metadata["name"], namespace=metadata["namespace"])
            name = metadata["name"]
            if of_group == kind and name.endswith("-0"):
                name = name.removesuffix("-0") + "-1"
            obj["metadata"] = {**metadata, "name": name, "uid": f"{metadata['uid']}-later"}
            world.cluster.put(of_group, obj)


def let_go(world):
    (held,) = world.cluster.all(POD)
    assert held["metadata"]["name"].endswith("-1")
    world.cluster.edit(
        POD,
        held["metadata"]["name"],
        lambda pod: pod["metadata"].update(finalizers=[]),
        namespace=held["metadata"]["namespace"],
    )


def back_to_before_its_first_create(world, group):
    """The rows are of a backup from before the first attempt."""
    a_later_attempt(world)
    ObservedPod.objects.all().delete()
    before = {"status": "PROCESSING", "scheduling_start_time": None, "start_time": None}
    Task.objects.filter(group=group).update(**before, node_name="")
    TaskGroup.objects.filter(pk=group.pk).update(**before, created_in_cluster_at=None, touched_cluster=False)


def pod_names(world):
    return {pod["metadata"]["name"] for pod in world.cluster.all(POD)}


def test_a_group_of_a_backup_makes_no_pod_beside_those_of_a_later_attempt(world):
    group = world.group(pods=2)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2
    first = pod_names(world)
    back_to_before_its_first_create(world, group)
    expect_other_forms(world.uid, "osmo")
    for _ in range(4):
        world.step(group)
    let_go(world)
    world.settle()
    assert (pod_names(world), statuses(group)) == (first, ["RUNNING"] * 2)
    assert not fresh(group).form_state


@pytest.mark.parametrize("scheduler", ["kai", "kubernetes", "default"])
@pytest.mark.parametrize("status", ["WAITING", "PROCESSING"])
def test_so_does_one_without_a_compute_domain_whatever_it_waited_for(world, scheduler, status):
    """Nothing holds up its first pods, so the cluster is read before them."""
    pool = world.pool(nvlink=False, backend={"scheduler_type": scheduler, "scheduler_version": "1.37"})
    group = world.group(pods=2, pool=pool)
    world.settle()
    back_to_before_its_first_create(world, group)
    TaskGroup.objects.filter(pk=group.pk).update(status=status, touched_at=None)
    Task.objects.filter(group=group).update(status=status)
    expect_other_forms(world.uid, "osmo")
    for _ in range(4):
        world.step(group)
    (held,) = world.cluster.all(POD)
    assert held["metadata"]["name"].endswith("-1")
    assert fresh(group).touched_at is not None


@pytest.mark.parametrize("node", [None, "node-of-the-later-attempt"])
@pytest.mark.parametrize(
    ("scheduler", "nvlink"), [("kai", False), ("kai", True), ("kubernetes", False), ("default", False)]
)
def test_one_that_waited_for_its_place_in_the_backup_lives_once_too(world, scheduler, nvlink, node):
    """Pods of its first attempt are missed there, and made again once those of the later one are gone."""
    world.cluster.players.remove(players.scheduler)
    backend = {"scheduler_type": scheduler, "scheduler_version": "1.37"}
    group = world.group(pods=2, pool=world.pool(nvlink=nvlink, backend=backend))
    world.settle()
    assert statuses(group) == ["SCHEDULING"] * 2
    TaskGroup.objects.update(created_in_cluster_at=timezone.now() - timedelta(minutes=5))
    first, kind = pod_names(world), pod_group_kind(installed()[scheduler])
    of_first = [obj["metadata"]["name"] for obj in world.cluster.all(kind)] if kind else []
    a_later_attempt(world, node=node)
    its_other_objects(world, kind)
    expect_other_forms(world.uid, "osmo")
    for _ in range(6):
        world.step(group)
        ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(seconds=30))
    let_go(world)
    world.settle()
    assert (pod_names(world), statuses(group)) == (first, ["SCHEDULING"] * 2)
    assert not kind or set(of_first) <= {obj["metadata"]["name"] for obj in world.cluster.all(kind)}
