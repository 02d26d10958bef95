"""Gangs of which the cluster refuses some pods hold nothing that other gangs could use."""

from datetime import timedelta
from random import Random

import pytest
from django.utils import timezone

from cluster.kinds import POD
from tests.builders.gangs import NATIVE
from tests.builders.quotas import gpu_quota, refuse_pods
from tests.builders.workloads import admit, kueue_world, queued_gang, workload
from tests.worker.world import World, fresh, statuses
from workflows.models import Event, TaskGroup


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
    event = Event.objects.get(group=group, reason="PodsGivenBack")
    assert "exceeded quota: team" in event.message


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


def waits(group):
    return fresh(group).waiting_why


def test_a_gang_is_made_only_once_a_readable_quota_has_room_for_all_of_it(world):
    gpu_quota(world, 6, readable=True)
    first, second = gang(world), gang(world)
    world.reconcile(first)
    world.reconcile(second)
    step(world, times=6)
    assert (statuses(first), pods_of(world, second)) == (["RUNNING"] * 4, [])
    assert waits(second) == "namespace_quota"
    assert 'quota "team" has room for 2 of 4 GPUs' in fresh(second).waiting_reason
    world.finish(first, 0)
    world.settle()
    assert statuses(second) == ["RUNNING"] * 4


def wait_for_quota(world, gangs):
    """Have all of these wait, the last of them first, while a pod that is not theirs uses the quota."""
    blocker = gang(world, pods=6)
    world.step(blocker)
    for _ in range(6):
        for group in reversed(gangs):
            world.step(group)
    assert [waits(group) for group in gangs] == ["namespace_quota"] * len(gangs)
    return blocker


def test_those_that_wait_for_a_readable_quota_go_by_priority_then_by_age(world):
    gpu_quota(world, 6, readable=True)
    gangs = [gang(world), gang(world), gang(world, workflow__priority="HIGH")]
    blocker = wait_for_quota(world, gangs)
    world.finish(blocker, 0)
    world.settle(blocker)
    for _ in range(3):
        for group in gangs[::-1][1:] + gangs[-1:]:  # the one of high priority last
            world.step(group)
    assert [len(pods_of(world, group)) for group in gangs] == [0, 0, 4]
    world.finish(gangs[2], 0)
    world.settle(gangs[2])
    for _ in range(3):
        world.step(gangs[1])
        world.step(gangs[0])
    assert [len(pods_of(world, group)) for group in gangs[:2]] == [4, 0]


def test_a_gang_that_could_never_begin_keeps_no_other_from_beginning(world):
    gpu_quota(world, 6, readable=True)
    gangs = [gang(world, pods=8), gang(world)]
    blocker = wait_for_quota(world, gangs)
    world.finish(blocker, 0)
    world.settle()
    assert [len(pods_of(world, group)) for group in gangs] == [0, 4]
    assert "never allows more than 6 GPUs and the group asks for 8 GPUs" in fresh(gangs[0]).waiting_reason


def test_room_is_kept_for_a_gang_that_was_passed_over_for_minutes(world):
    gpu_quota(world, 6, readable=True)
    running = [gang(world, pods=3), gang(world, pods=3)]
    for group in running:
        world.step(group)
    step(world, times=3)
    large, small = gang(world, pods=6), gang(world, pods=3)
    step(world, times=5)
    assert [waits(group) for group in (large, small)] == ["namespace_quota"] * 2
    TaskGroup.objects.filter(pk=large.pk).update(waiting_since=timezone.now() - timedelta(minutes=6))
    world.finish(running[0], 0)
    step(world, times=6)
    assert (pods_of(world, large), pods_of(world, small)) == ([], [])
    assert "Gangs that go first are counted." in fresh(small).waiting_reason
    world.finish(running[1], 0)
    step(world, times=6)
    assert statuses(large) == ["RUNNING"] * 6


def test_what_runs_of_an_incomplete_gang_on_kueue_is_given_back_with_its_room_and_may_run_again(db):
    """Kueue's pods are bound one by one. Each try begins anew, so its log is still to be kept."""
    world = kueue_world()
    group = queued_gang(world)
    unbounded = world.cluster.create
    gpu_quota(world, 1)
    admit(world, "n-1", "n-2")
    world.step()
    assert [pod["status"]["phase"] for pod in world.cluster.all(POD)] == ["Running"]
    step(world, times=4)
    assert (world.pods(), workload(world).get("status")) == ([], None)  # it stands in the queue anew
    assert {task.log_state for task in group.tasks.all()} == {""}
    world.cluster.create = unbounded
    step(world, times=2)
    admit(world, "n-1", "n-2")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.deep) for n in range(2, 100))])
def test_somebody_runs_whenever_somebody_could(world, seed):
    """Random gangs under a random quota, reconciled in random order."""
    random = Random(seed)
    quota = random.randint(3, 8)
    gpu_quota(world, quota, readable=random.random() < 0.5)
    gangs = [
        gang(world, pods=random.randint(1, 6), workflow__priority=random.choice(["LOW", "NORMAL", "HIGH"]))
        for _ in range(random.randint(2, 5))
    ]
    begin_together(world, gangs)
    for _ in range(12):
        random.shuffle(gangs)
        for group in gangs:
            world.step(group)
    running = [group for group in gangs if statuses(group)[0] == "RUNNING"]
    left = quota - sum(len(pods_of(world, group)) for group in running)
    assert not [group for group in gangs if group not in running and group.tasks.count() <= left]
    assert all(len(pods_of(world, group)) in (0, group.tasks.count()) for group in gangs)
