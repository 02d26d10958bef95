"""Trees of pod groups that their scheduler, or somebody else, loses."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import POD
from pools.conditions import Condition
from pools.documents.backend import COMPOSITES_HELD
from pools.services import composites
from tests.builders.gangs import NESTING, REQUEUE, required, retried, set_frozen, topology_gang
from tests.builders.losses import lose_nodes
from tests.factories import LEVELS, NodeFactory
from tests.fakes.kinds import COMPOSITE, GROUP_WORKLOAD, POD_GROUP
from tests.worker.world import World, fresh, statuses
from workflows.metrics import WAKES
from workflows.models import Event, TaskGroup

ZONE, RACK = LEVELS[0], LEVELS[1]
PREEMPTING = "0/2 placements are available, pod group preemption: found a placement, preempting 4 victims"


@pytest.fixture
def world(db):
    return World(scheduled=False)


def nested(world, **frozen):
    """Two tasks of one rack and two of another, all in one zone."""
    sets = [(required("rack", name),) for name in "ppqq"]
    return topology_gang(
        world,
        required("zone"),
        sets=sets,
        pool=world.pool(levels=LEVELS, backend=NESTING),
        frozen=retried("2") | frozen,
        ignore_nonlead_status=False,
    )


@pytest.fixture
def group(world):
    """The same, made in an empty zone."""
    group = nested(world)
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

    long_ago(group)
    world.settle(group)
    assert parents(world) == before
    assert Event.objects.filter(reason="PodGroupMadeAgain").count() == 1
    assert statuses(group)[:3] == ["RUNNING"] * 3


def long_ago(group):
    since = timezone.now() - timedelta(minutes=1)
    type(group).objects.filter(pk=group.pk).update(created_in_cluster_at=since)


def objects(world):
    """The tree by name."""
    return {kind.name: world.cluster.names(kind) for kind in (COMPOSITE, GROUP_WORKLOAD, POD_GROUP)}


def remove_tree(world):
    for kind in (COMPOSITE, GROUP_WORKLOAD, POD_GROUP):
        for name in world.cluster.names(kind):
            world.cluster.remove(kind, name, namespace="osmo")


def named_in_events(before):
    message = Event.objects.get(reason="PodGroupMadeAgain").message
    return [name for names in before.values() for name in names if name not in message]


def test_a_tree_that_somebody_deletes_of_a_gang_that_waits_is_made_again(world, group):
    before, pods = objects(world), uids(world)
    remove_tree(world)
    world.settle(group)
    row = fresh(group)
    assert row.next_reconcile_at - row.created_in_cluster_at < timedelta(seconds=11)
    long_ago(group)
    world.settle(group)
    assert (objects(world), uids(world), named_in_events(before)) == (before, pods, [])


def test_a_tree_that_somebody_deletes_of_a_gang_that_runs_is_made_again(world, group):
    """By it the scheduler evicts the gang as a whole, or not at all."""
    place(world, group)
    before = objects(world)
    remove_tree(world)
    long_ago(group)
    world.settle(group)
    assert (objects(world), named_in_events(before)) == (before, [])
    assert statuses(group) == ["RUNNING"] * 4


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


def hold(group, status, reason="Ignored", message="It ignores composite pod groups."):
    """A trial, or a placement, has shown of the group's backend whether its scheduler holds composites."""
    condition = Condition(type=COMPOSITES_HELD, status=status, reason=reason, message=message)
    composites.record_condition(group.backend_id, condition)


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_sets_inside_sets_are_not_made_for_a_scheduler_that_is_not_known_to_hold_them_any_more(world, status):
    group = nested(world)
    hold(group, status)
    world.settle(group)
    assert world.cluster.all(POD) == []
    assert parents(world) == ([], [])
    reason = fresh(group).waiting_reason
    for words in (
        "CompositesHeld",
        f"is {status}",
        "It ignores composite pod groups.",
        "composite_pod_groups",
    ):
        assert words in reason

    hold(group, "True")
    world.settle(group)
    assert len(world.cluster.all(POD)) == 4


def test_a_tree_that_is_not_made_in_its_queue_timeout_ends_with_the_cause(world):
    group = nested(world, queue_timeout=600.0)
    hold(group, "False")
    world.settle(group)
    TaskGroup.objects.filter(pk=group.pk).update(touched_at=timezone.now() - timedelta(seconds=601))
    world.settle(group)
    assert fresh(group).status == "FAILED_QUEUE_TIMEOUT"
    assert "CompositesHeld" in fresh(group).failure_message
    assert world.cluster.objects == {}


def test_a_further_attempt_of_sets_inside_sets_is_not_made_either(world, group):
    set_frozen(group, attempts=True, recovery=REQUEUE.to_json())
    place(world, group)
    hold(group, "False")
    lose_nodes(world, group, 0, 1, 2, 3)
    world.settle(group)
    assert fresh(group).attempt_number == 2
    assert world.cluster.all(POD) == []
    assert "CompositesHeld" in fresh(group).waiting_reason


def test_a_tree_that_runs_needs_no_composites_for_a_replacement(world, group):
    place(world, group)
    hold(group, "False")
    world.finish(group, 2, tasks=["task-3"])
    world.settle(group)
    assert len(world.cluster.all(POD)) == 4  # node labels keep a replacement beside its peers


def test_a_group_of_one_set_needs_no_composites(world):
    group = topology_gang(world, required("rack"), pool=world.pool(levels=LEVELS, backend=NESTING))
    hold(group, "False")
    world.settle(group)
    assert statuses(group) == ["SCHEDULING"] * 2
