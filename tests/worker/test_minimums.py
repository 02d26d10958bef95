"""A gang that loses tasks and lives on is held to what is left, before its scheduler evicts the rest.

KAI deletes a gang that is below its minimum for longer than its grace period.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import EVENT, POD
from pools.models import Cluster
from tests.builders.crashes import death_at
from tests.builders.gangs import pod_of, required, retried, topology_gang
from tests.builders.losses import eviction
from tests.builders.pod_groups import pod_group
from tests.factories import LEVELS
from tests.fakes.kinds import KAI_POD_GROUP
from tests.worker.world import World, fresh, statuses
from workflows.models import Event

AGAIN = retried("1-3,3001-3006")


def minimum(world):
    spec = pod_group(world)["spec"]
    if "subGroups" not in spec:
        return spec["minMember"]
    return {
        subgroup["name"]: subgroup["minMember"] for subgroup in spec["subGroups"] if "minMember" in subgroup
    }


def edit_pod(world, name, change):
    world.cluster.edit(POD, name, change, namespace="osmo")


@pytest.fixture
def running(db):
    world = World()
    group = world.group(pods=4, frozen=AGAIN)
    world.settle()
    return world, group


def test_one_reconcile_lowers_the_minimum_for_a_task_that_failed_for_good(running):
    world, group = running
    world.finish(group, 9, tasks=["task-2"])
    world.observe()
    world.reconcile(group)
    assert statuses(group) == ["RUNNING", "RUNNING", "FAILED", "RUNNING"]
    assert minimum(world) == 3
    (told,) = Event.objects.filter(reason="MinimumLowered")
    assert told.message.startswith('The gang goes on without "task-2"')


def test_it_is_lowered_before_the_next_try_is_made_and_raised_when_that_has_a_node(running):
    world, group = running
    world.cluster.players.pop(0)  # nothing is placed any more
    world.finish(group, 2, tasks=["task-1"])
    world.observe()
    world.reconcile(group)
    assert (minimum(world), group.tasks.get(name="task-1", latest=True).retry_id) == (3, 1)
    world.settle()
    assert minimum(world) == 3
    assert fresh(group).status == "RUNNING"
    assert fresh(group).waiting_reason.startswith('Task "task-1" is tried again and waits for a place.')
    edit_pod(world, pod_of(group, "task-1"), lambda obj: obj["spec"].update(nodeName="node-0"))
    world.settle()
    assert (statuses(group), minimum(world)) == (["RUNNING"] * 4, 4)
    assert fresh(group).waiting_reason == ""


def test_a_pod_that_is_going_no_longer_counts(running):
    """KAI counts it as gone from the moment of its deletion, and a lost node may hold it for ever."""
    world, group = running
    world.cluster.players.clear()
    edit_pod(
        world, pod_of(group, "task-3"), lambda obj: obj["metadata"].update(deletionTimestamp="2026-01-01")
    )
    world.settle()
    assert (statuses(group), minimum(world)) == (["RUNNING"] * 4, 3)


def test_a_gang_of_which_every_pod_is_evicted_comes_back_whole(running):
    world, group = running
    names = [task.pod_name for task in group.tasks.order_by("position")]
    world.cluster.players.pop(0)
    for name in names:
        message = f"Pod osmo/{name} was preempted by higher priority workload osmo/x"
        annotations = {"evictor-action-type": "preempt"}
        world.cluster.put(EVENT, eviction(group, message, name=f"e-{name}", **annotations))
    for name in names:  # one after the other, each seen on its own
        world.cluster.remove(POD, name, namespace="osmo")
        world.observe()
        world.reconcile(group)
    world.settle()
    first = group.tasks.filter(retry_id=0).values_list("status", "exit_code")
    assert set(first) == {("RESCHEDULED", 3006)}
    assert (minimum(world), len(world.pods())) == (4, 4)
    assert fresh(group).status in ("RUNNING", "SCHEDULING", "PROCESSING")


def test_a_set_that_lost_a_task_is_lowered_and_the_other_is_not(db):
    world = World()
    left, right = [required("rack", "left")], [required("rack", "right")]
    group = topology_gang(world, sets=(left, left, right, right))
    world.settle()
    assert sorted(minimum(world).values()) == [2, 2]
    world.finish(group, 9, tasks=["task-3"])
    world.observe()
    world.reconcile(group)
    assert sorted(minimum(world).values()) == [1, 2]


STALE = "kai.scheduler/stale-podgroup-timestamp"


def mark_stale(world, group, *, seconds):
    """KAI has marked the gang so long ago; None takes the mark back."""

    def mark(obj):
        notes = obj["metadata"].setdefault("annotations", {})
        notes.pop(STALE, None)
        if seconds is not None:
            notes[STALE] = (timezone.now() - timedelta(seconds=seconds)).isoformat()

    world.cluster.edit(KAI_POD_GROUP, group.uuid.hex, mark, namespace="osmo")
    world.observe()


def test_a_set_that_is_lost_whole_steps_aside_before_the_grace_period_is_over_and_comes_back(db):
    """Its minimum cannot be lower than one, so the set is left out for a moment and the grace begins anew."""
    world = World()
    group = world.group(pods=3, pool=world.pool(levels=LEVELS), frozen=AGAIN)
    for task, name in zip(group.tasks.order_by("position"), ("left", "left", "right"), strict=True):
        task.spec = {**task.spec, "requirements": [{"key": "rack", "group": name, "required": True}]}
        task.save()
    world.settle()
    world.cluster.players.pop(0)  # there is no place for the next try
    world.finish(group, 2, tasks=["task-2"])
    world.settle()
    assert sorted(minimum(world).values()) == [1, 2]
    mark_stale(world, group, seconds=5)
    assert 0 < world.reconcile(group).seconds <= 20
    assert sorted(minimum(world).values()) == [1, 2]
    mark_stale(world, group, seconds=30)
    assert world.reconcile(group).seconds <= 1
    assert list(minimum(world).values()) == [2]
    mark_stale(world, group, seconds=None)
    world.reconcile(group)
    assert sorted(minimum(world).values()) == [1, 2]
    edit_pod(world, pod_of(group, "task-2"), lambda obj: obj["spec"].update(nodeName="node-0"))
    world.settle()
    assert (statuses(group), sorted(minimum(world).values())) == (["RUNNING"] * 3, [1, 2])


def test_a_worker_that_dies_just_before_is_taken_over_from(running):
    world, group = running
    world.finish(group, 9, tasks=["task-2"])
    world.observe()
    with death_at("before-minimum-set"):
        world.reconcile(group)
    assert (minimum(world), statuses(group)[2]) == (4, "FAILED")
    world.reconcile(group)
    assert minimum(world) == 3
    version = world.cluster.all(KAI_POD_GROUP)[0]["metadata"]["resourceVersion"]
    world.reconcile(group)
    world.settle()
    assert world.cluster.all(KAI_POD_GROUP)[0]["metadata"]["resourceVersion"] == version


def test_it_is_lowered_without_an_observer_too(running):
    """Its row of the pod group may be old then, or missing."""
    world, group = running
    Cluster.objects.update(heartbeat_at=None)
    world.finish(group, 9, tasks=["task-2"])
    world.reconcile(group)
    assert (statuses(group)[2], minimum(world)) == ("FAILED", 3)


@pytest.mark.parametrize(("version", "number"), [("0.13", 1), ("0.17", 0)])
def test_a_task_tried_again_says_that_groups_of_the_pool_are_served_before_it(db, version, number):
    """Not where the gang keeps its minimum: then it goes first."""
    world = World()
    pool = world.pool(nvlink=True)
    group = world.group(pods=4, pool=pool, frozen={**AGAIN, "scheduler_version": version})
    world.settle()
    world.cluster.players.pop(0)  # nothing is placed any more
    world.group(pods=2, pool=pool)
    world.group(pods=2)
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    assert fresh(group).waiting_evidence.get("queued_behind", 0) == number
    assert ("queued behind 1 group of the pool" in fresh(group).waiting_reason) == bool(number)


@pytest.fixture
def never_stale(db):
    """A gang on KAI 0.17, whose pod groups can switch staleness off."""
    world = World()
    group = world.group(pods=4, frozen={**AGAIN, "scheduler_version": "0.17"})
    world.settle()
    return world, group


def test_where_staleness_is_off_a_task_tried_again_keeps_its_place_in_the_minimum(never_stale):
    world, group = never_stale
    (pod_group,) = world.cluster.all(KAI_POD_GROUP)
    assert pod_group["spec"]["stalenessGracePeriod"] == "-1s"
    world.cluster.players.pop(0)  # nothing is placed any more
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    assert (minimum(world), group.tasks.get(name="task-1", latest=True).retry_id) == (4, 1)
    assert not Event.objects.filter(reason="MinimumLowered").exists()


def test_where_staleness_is_off_the_minimum_is_lowered_for_a_task_that_has_ended(never_stale):
    world, group = never_stale
    world.finish(group, 9, tasks=["task-2"])
    world.settle()
    assert minimum(world) == 3


def test_where_staleness_is_off_a_pod_that_is_ending_holds_up_no_other_retry(never_stale):
    world, group = never_stale
    world.cluster.players.clear()
    edit_pod(
        world, pod_of(group, "task-3"), lambda obj: obj["metadata"].update(deletionTimestamp="2026-01-01")
    )
    world.settle()
    assert minimum(world) == 3
