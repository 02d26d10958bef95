"""A group that a backup knows at an earlier moment lives once, however far it had come since."""

import pytest

from cluster.kinds import POD
from tests.worker.world import World, fresh, statuses
from workflows.models import ObservedPod, Task, TaskGroup
from workflows.services.adoption import expect_other_forms

HELD = "example.com/held"


@pytest.fixture
def world(db):
    return World()


def back_to_before_its_first_create(world, group):
    """The rows are of a backup; in the cluster is a later attempt, of which a pod does not end at once."""
    for number, pod in enumerate(world.cluster.all(POD)):
        metadata = pod["metadata"]
        world.cluster.remove(POD, metadata["name"], namespace=metadata["namespace"])
        metadata["name"] = metadata["name"].removesuffix("-0") + "-1"
        metadata["finalizers"] = [HELD] if number == 0 else []
        world.cluster.put(POD, pod)
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
    (held,) = world.cluster.all(POD)
    assert held["metadata"]["name"].endswith("-1")
    world.cluster.edit(
        POD,
        held["metadata"]["name"],
        lambda pod: pod["metadata"].update(finalizers=[]),
        namespace=held["metadata"]["namespace"],
    )
    world.settle()
    assert (pod_names(world), statuses(group)) == (first, ["RUNNING"] * 2)
    assert not fresh(group).reordering


@pytest.mark.parametrize("scheduler", ["kai", "kubernetes", "default"])
@pytest.mark.parametrize("status", ["WAITING", "PROCESSING"])
def test_so_does_one_without_a_compute_domain_whatever_it_waited_for(world, scheduler, status):
    """Nothing holds up its first pods, so the cluster is read before them."""
    pool = world.pool(nvlink=False, backend={"scheduler_type": scheduler, "scheduler_version": "1.36"})
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
