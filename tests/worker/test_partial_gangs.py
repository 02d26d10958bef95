"""Gangs of which the cluster refuses some pods hold nothing that other gangs could use."""

import pytest

from cluster.kinds import POD
from tests.builders.gangs import NATIVE
from tests.builders.quotas import gpu_quota, refuse_pods
from tests.worker.world import World, fresh, statuses
from workflows.models import Event


@pytest.fixture(params=["kai", "kubernetes"])
def world(request, db):
    world = World()
    world.group_pool = world.pool(backend=NATIVE if request.param == "kubernetes" else {})
    return world


def gang(world, *, pods=4, **changes):
    return world.group(pods=pods, pool=world.group_pool, **changes)


def pods_of(world, group):
    own = {task.pod_name for task in group.tasks.all()}
    return [pod["metadata"]["name"] for pod in world.cluster.all(POD) if pod["metadata"]["name"] in own]


def step(world, *, times):
    for _ in range(times):
        world.step()


def test_a_gang_that_cannot_be_completed_gives_back_its_pods_after_some_tries(world):
    gpu_quota(world, 3)
    group = gang(world)
    step(world, times=2)
    assert len(pods_of(world, group)) == 3
    step(world, times=4)
    assert pods_of(world, group) == []
    assert "exceeded quota: team" in fresh(group).waiting_reason
    assert "given back" in fresh(group).waiting_reason
    assert Event.objects.filter(group=group, reason="PodsGivenBack").count() == 1


def begin_together(world, gangs):
    """As if all were created at the same moment: two pods each, until the quota is used up."""
    parts = {task.pod_name: group.pk for group in gangs for task in group.tasks.all()}
    together = True

    def refusal(pod, pods):
        own = parts[pod["metadata"]["name"]]
        return together and sum(parts[each["metadata"]["name"]] == own for each in pods) == 2 and "busy"

    refuse_pods(world, refusal)
    for group in reversed(gangs):  # each comes first among those refused so far
        world.reconcile(group)
    together = False


def test_of_gangs_that_each_got_a_part_one_runs_and_the_others_hold_nothing(world):
    gpu_quota(world, 6)
    gangs = [gang(world) for _ in range(4)]
    begin_together(world, gangs)
    assert [len(pods_of(world, group)) for group in gangs] == [0, 2, 2, 2]
    step(world, times=3)
    assert sorted(len(pods_of(world, group)) for group in gangs) == [0, 0, 0, 4]
    (first,) = (group for group in gangs if statuses(group) == ["RUNNING"] * 4)
    world.finish(first, 0)
    step(world, times=4)
    assert sum(statuses(group) == ["RUNNING"] * 4 for group in gangs) == 1


def test_a_gang_of_higher_priority_is_completed_first(world):
    gpu_quota(world, 4)
    gangs = [gang(world, workflow__priority=priority) for priority in ("LOW", "HIGH")]
    begin_together(world, gangs)
    step(world, times=3)
    assert [len(pods_of(world, group)) for group in gangs] == [0, 4]


def test_pods_beside_one_that_a_policy_refuses_are_given_back(world):
    group = gang(world)
    refused = group.tasks.order_by("position")[2].pod_name
    refuse_pods(
        world, lambda pod, pods: "denied the request: no" if pod["metadata"]["name"] == refused else ""
    )
    step(world, times=6)
    assert pods_of(world, group) == []
    assert "no" in fresh(group).waiting_reason
