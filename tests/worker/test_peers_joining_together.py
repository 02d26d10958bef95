"""Tries that must sit together and have no nodes join one pod group: node labels hold them to nobody yet."""

import pytest

from cluster.kinds import NODE, POD
from scheduling.topology.requirements import Requirement
from tests.builders.gangs import native_gang, pod_of, retried, set_finalizers
from tests.factories import LEVELS, TaskFactory
from tests.fakes import players
from tests.fakes.kinds import POD_GROUP
from tests.worker.world import World, statuses
from workflows.models import Task

ZONE, RACK = LEVELS[0].label, LEVELS[1].label
HELD = "example.com/held"
RETRIED = retried("2", times=3)
RACKS = {"n1": "r1", "n2": "r2"}


@pytest.fixture
def world(db):
    world = World()
    for node, rack in RACKS.items():
        world.cluster.put(NODE, {"metadata": {"name": node, "labels": {ZONE: "a", RACK: rack}}})
    return world


def running_gang(world, *sets):
    """A gang that runs, a task for each of these required sets; from now on there is no room."""
    group = native_gang(world, pods=0, frozen=RETRIED)
    for name in sets:
        TaskFactory(group=group, placement__requirements=(Requirement("rack", name, required=True),))
    Task.objects.filter(group=group).update(lead=False)
    world.settle()
    assert statuses(group) == ["RUNNING"] * len(sets)
    world.cluster.players.remove(players.scheduler)
    return group


def fail(world, group, *tasks):
    world.finish(group, 2, tasks=list(tasks))


def end_the_first_and_fail_two_in_turn(world, group):
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    for task in ("task-1", "task-2"):
        fail(world, group, task)
        world.settle()


def pod_group_of(world, group, task):
    (pod,) = [pod for pod in world.cluster.all(POD) if pod["metadata"]["name"] == pod_of(group, task)]
    return pod["spec"]["schedulingGroup"]["podGroupName"]


def minimum_of(world, name):
    (pod_group,) = [obj for obj in world.cluster.all(POD_GROUP) if obj["metadata"]["name"] == name]
    return pod_group["spec"]["schedulingPolicy"]["gang"]["minCount"]


def assert_one_pod_group_of_two(world, group):
    first, other = (pod_group_of(world, group, task) for task in ("task-1", "task-2"))
    assert first == other
    assert minimum_of(world, first) == 2


def test_one_that_fails_as_a_peer_ends_takes_along_the_one_that_waits(world):
    group = running_gang(world, "r", "r", "r")
    fail(world, group, "task-1")
    world.settle()
    world.ends[pod_of(group, "task-0")] = 0
    fail(world, group, "task-2")
    world.settle()
    assert_one_pod_group_of_two(world, group)


def test_one_that_fails_after_a_peer_ended_takes_along_the_one_that_waits(world):
    group = running_gang(world, "r", "r", "r")
    end_the_first_and_fail_two_in_turn(world, group)
    assert_one_pod_group_of_two(world, group)


@pytest.mark.parametrize("waits_for_old_pod", ["task-1", "task-2"])
def test_one_that_waits_for_its_old_pod_is_taken_along(world, waits_for_old_pod):
    group = running_gang(world, "r", "r", "r")
    old = pod_of(group, waits_for_old_pod)
    set_finalizers(world, old, [HELD])
    for task in ("task-1", "task-2"):
        fail(world, group, task)
        world.settle()
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    assert waits_for_old_pod == "task-1" or pod_of(group, "task-2") not in world.pods()
    set_finalizers(world, old, [])
    world.cluster._play()
    world.settle()
    assert_one_pod_group_of_two(world, group)


def test_a_peer_that_waits_alone_in_its_pod_group_for_its_old_pod_is_taken_along(world):
    """Its pod group could place it: it leaves for the sake of the other alone."""
    group = running_gang(world, "r", "r", "r")
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    old = pod_of(group, "task-1")
    set_finalizers(world, old, [HELD])
    fail(world, group, "task-1")
    world.settle()
    fail(world, group, "task-2")
    world.settle()
    set_finalizers(world, old, [])
    world.cluster._play()
    world.settle()
    assert_one_pod_group_of_two(world, group)


def test_being_taken_along_does_not_count_as_a_retry(world):
    group = running_gang(world, "r", "r", "r")
    end_the_first_and_fail_two_in_turn(world, group)
    left = Task.objects.get(group=group, name="task-1", retry_id=1)
    assert (left.status, left.exit_code) == ("RESCHEDULED", None)
    assert left.failure_message.startswith("A peer that it must sit beside joins a new pod group")


@pytest.mark.parametrize("sets", [["r"] * 3, ["r"] * 4], ids=["no peer runs", "a peer runs"])
def test_one_that_got_its_node_a_moment_ago_is_not_taken_along(world, sets):
    """Its end is not observed yet either."""
    group = running_gang(world, *sets)
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    fail(world, group, "task-1")
    world.settle()
    retry = pod_of(group, "task-1")
    fail(world, group, "task-2")
    world.observe()
    world.cluster.players.insert(0, players.scheduler)
    world.ends[retry] = 0
    for _ in range(2):
        world.cluster._play()
    world.reconcile(group)
    world.settle()
    assert pod_of(group, "task-1") == retry
    assert statuses(group)[1] == "COMPLETED"
