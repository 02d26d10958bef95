"""Trees of pod groups that their scheduler, or somebody else, loses."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import POD
from tests.builders.gangs import NATIVE, required, retried, topology_gang
from tests.factories import LEVELS, NodeFactory
from tests.fakes.kinds import COMPOSITE, GROUP_WORKLOAD, POD_GROUP
from tests.worker.world import World, fresh, statuses
from workflows.metrics import WAKES
from workflows.models import Event, Task

ZONE, RACK = LEVELS[0], LEVELS[1]
PREEMPTING = "0/2 placements are available, pod group preemption: found a placement, preempting 4 victims"


@pytest.fixture
def world(db):
    return World(scheduled=False)


@pytest.fixture
def group(world):
    """Two tasks of one rack and two of another, all in one zone, which is empty."""
    backend = NATIVE | {"scheduler_version": "1.37 (CompositePodGroup)"}
    sets = [(required("rack", name),) for name in "ppqq"]
    group = topology_gang(
        world,
        required("zone"),
        sets=sets,
        pool=world.pool(levels=LEVELS, backend=backend),
        frozen=retried("2"),
        ignore_nonlead_status=False,
    )
    world.settle(group)
    for name in ("r1-0", "r1-1", "r2-0", "r2-1"):
        labels = {ZONE.label: "z", RACK.label: name[:2]}
        NodeFactory(cluster=group.backend.cluster, name=name, labels=labels)
    return group


def place(world, group):
    """The scheduler's doing: each pod gets the node of its task's place."""
    pods = {pod["metadata"]["name"]: pod for pod in world.cluster.all(POD)}
    tasks = group.tasks.filter(latest=True).order_by("position")
    for task, node in zip(tasks, ("r1-0", "r1-1", "r2-0", "r2-1"), strict=True):
        pod = pods[task.pod_name]
        pod["spec"]["nodeName"] = node
        world.cluster.put(POD, pod)
    world.settle(group)


def parents(world):
    return world.cluster.names(COMPOSITE), world.cluster.names(GROUP_WORKLOAD)


def test_what_stands_above_pod_groups_is_made_again_for_a_task_that_waits_beside_running_peers(world, group):
    place(world, group)
    before = parents(world)
    world.finish(group, 2, tasks=["task-3"])
    world.settle(group)
    assert statuses(group)[3] == "SCHEDULING"
    for kind, names in zip((COMPOSITE, GROUP_WORKLOAD), before, strict=True):
        world.cluster.remove(kind, names[0], namespace="osmo")
    world.settle(group)
    assert parents(world) == ([], [])  # they might only not be observed yet

    since = timezone.now() - timedelta(minutes=1)
    Task.objects.filter(group=group, latest=True).update(scheduling_start_time=since)
    world.settle(group)
    assert parents(world) == before
    assert Event.objects.filter(reason="PodGroupMadeAgain", message__contains="task-3").count() == 1
    assert statuses(group)[:3] == ["RUNNING"] * 3


def test_parents_of_a_gang_that_runs_whole_are_let_be(world, group):
    place(world, group)
    world.cluster.remove(COMPOSITE, parents(world)[0][0], namespace="osmo")
    world.settle(group)
    assert parents(world)[0] == []


def report(world, group, *, seconds, message=PREEMPTING):
    """The scheduler has evicted others, and the gang exists for so long."""
    made = timezone.now() - timedelta(seconds=seconds)
    for pod in world.cluster.all(POD):
        pod["metadata"]["creationTimestamp"] = made.strftime("%Y-%m-%dT%H:%M:%SZ")
        world.cluster.put(POD, pod)
    type(group).objects.filter(pk=group.pk).update(created_in_cluster_at=made)
    for obj in world.cluster.all(POD_GROUP):
        entry = {"type": "PodGroupInitiallyScheduled", "status": "False", "message": message}
        world.cluster.put(POD_GROUP, obj | {"status": {"conditions": [entry]}})
    world.settle(group)


def uids(world):
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.cluster.all(POD)}


def test_a_pod_is_made_again_of_a_gang_that_its_scheduler_lost_after_it_evicted_others(world, group):
    backend = fresh(group).placement["backend"]
    before, count = uids(world), WAKES.labels(backend)._value.get()
    report(world, group, seconds=60)
    after = uids(world)
    assert after.keys() == before.keys()
    assert sum(after[name] != before[name] for name in before) == 1
    (event,) = Event.objects.filter(reason="SchedulerWoken")
    assert "does not look again" in event.message
    assert WAKES.labels(backend)._value.get() == count + 1
    world.settle(group)  # the next time needs another minute
    assert uids(world) == after
    assert statuses(group) == ["SCHEDULING"] * 4


@pytest.mark.parametrize("case", ["others were evicted just now", "nobody was evicted", "there is no room"])
def test_its_pods_are_let_be_where(world, group, case):
    if case == "there is no room":
        group.backend.cluster.nodes.update(unschedulable=True)
    before = uids(world)
    message = "0/2 placements are available" if case == "nobody was evicted" else PREEMPTING
    report(world, group, seconds=5 if case == "others were evicted just now" else 60, message=message)
    assert uids(world) == before
