"""Sets of unlike tasks are kept in a domain by node labels, whatever dies in between."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from cluster.errors import RequestForbidden
from cluster.kinds import NODE, POD
from pools.models import Cluster
from tests.builders.crashes import at_crash_point, death_at
from tests.builders.gangs import NESTING, preferred, required, retried, topology_gang
from tests.builders.nodes import put_node
from tests.builders.patience import seek, wait_in_vain
from tests.builders.pod_groups import bind, pod_group
from tests.factories import LEVELS, RACK, ZONE
from tests.fakes.kinds import COMPOSITE, KAI_BIND_REQUEST, KAI_POD_GROUP, POD_GROUP
from tests.worker.world import World, fresh, statuses
from workflows.models import Event, ObservedPod, Task, TaskGroup
from workflows.reconcile.form import bringing
from workflows.reconcile.view.outcomes import Retry
from workflows.services.adoption import expect_other_forms

MARK = "osmo.nvidia.com/pinned-sets"
RETRY = retried("2", times=2)
TOGETHER = required("rack", "r")


def counting(cluster):
    """A scheduler that places only gangs without constraints, on nodes that pods' labels select."""
    for group in cluster.all(KAI_POD_GROUP):
        if "topologyConstraint" not in group["spec"] or group["spec"]["topologyConstraint"] is None:
            bind(cluster, group["metadata"]["name"])


@pytest.fixture
def world(db):
    return World(scheduled=False, further=(KAI_BIND_REQUEST,))


@pytest.fixture
def group(world):
    """A driver with four GPUs and three workers with two, in one rack that holds them."""
    return mixed(world)


def mixed(world, **changes):
    for number, gpus in enumerate((4, 2, 4, 2)):
        put_node(world, f"n{number}", zone="a", rack="r1", gpus=gpus)
    group = topology_gang(world, TOGETHER, sets=((), (), (), ()), **changes)
    _sizes(group)
    world.settle()
    return group


def _sizes(group):
    for task, gpus in zip(group.tasks.order_by("position"), (4, 2, 2, 2), strict=True):
        Task.objects.filter(pk=task.pk).update(spec={**task.spec, "gpu": gpus})


def selectors(world):
    return [pod["spec"].get("nodeSelector", {}) for pod in world.cluster.all(POD)]


def is_pinned(world, rack="r1"):
    pinned = selectors(world)
    labels = {ZONE.label: "a", RACK.label: rack}
    return len(pinned) == 4 and all(labels.items() <= selector.items() for selector in pinned)


def notes(group):
    rows = Event.objects.filter(
        group=group, reason__in=["SetsPinned", "SetsUnpinned", "PinsLeftOut", "PinsForgotten"]
    ).order_by("id")
    return list(rows.values_list("reason", flat=True))


def long_ago():
    Event.objects.update(time=F("time") - timedelta(minutes=6))


def test_its_pods_are_made_again_with_the_labels_of_the_place(world, group):
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.cluster.all(POD)}
    world.cluster.players.insert(0, counting)
    seek(world)
    world.settle()
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.cluster.all(POD)}
    assert is_pinned(world)
    assert (after.keys(), set(after.values()) & set(before.values())) == (before.keys(), set())
    assert pod_group(world)["spec"].get("topologyConstraint") is None
    assert pod_group(world)["metadata"]["annotations"][MARK]
    assert statuses(group) == ["RUNNING"] * 4
    assert [task.retry_id for task in group.tasks.all()] == [0] * 4
    assert notes(group) == ["SetsPinned"]
    (row,) = fresh(group).constraints
    assert (row["requirementType"], row["domain"]) == ("required", ["a", "r1"])


def test_its_preferences_give_way_and_then_it_is_pinned(world):
    """No node carries the rack that it prefers, and KAI passes over its zone by the largest task."""
    for number, gpus in enumerate((4, 2, 4, 2)):
        put_node(world, f"n{number}", zone="a", gpus=gpus)
    world.cluster.players.insert(0, counting)
    group = topology_gang(
        world,
        required("zone", "z"),
        preferred("rack"),
        sets=((), (), (), ()),
        frozen={"free_preferences_after": 3600},
    )
    _sizes(group)
    world.settle()
    wait_in_vain(world)
    world.settle()
    assert (fresh(group).form["preference_levels"], fresh(group).form["pins"]) == (1, [])
    assert statuses(group) == ["SCHEDULING"] * 4
    seek(world)
    world.settle()
    assert [pod["spec"]["nodeSelector"][ZONE.label] for pod in world.cluster.all(POD)] == ["a"] * 4
    assert (statuses(group), notes(group)) == (["RUNNING"] * 4, ["SetsPinned"])


def test_nothing_is_made_again_while_there_is_no_such_place(world, group):
    world.cluster.remove(NODE, "n0")
    world.observe()
    seek(world)
    world.settle()
    assert (selectors(world), notes(group)) == ([{}] * 4, [])


def test_a_gang_that_is_bound_meanwhile_keeps_its_pins(world, group):
    seek(world)
    bind(world.cluster, group.uuid.hex, first=1)  # nobody has observed it
    world.reconcile(group)
    assert (selectors(world), notes(group)) == ([{}] * 4, [])
    assert (fresh(group).repinning, fresh(group).other_form, fresh(group).form["pins"]) == (False, None, [])


def test_a_gang_that_is_bound_after_the_decision_keeps_its_pins(world, group):
    seek(world)
    with at_crash_point("after-pin-decision", lambda: bind(world.cluster, group.uuid.hex)):
        world.reconcile(group)
    assert (selectors(world), notes(group)) == ([{}] * 4, ["SetsPinned", "PinsLeftOut"])
    assert (fresh(group).repinning, fresh(group).form["pins"]) == (False, [])
    assert "domain" not in fresh(group).constraints[0]


@pytest.mark.parametrize("point", ["after-pin-decision", "deleted-pods-to-pin"])
def test_a_worker_that_dies_on_the_way_is_taken_over_from(world, group, point):
    world.cluster.players.insert(0, counting)
    seek(world)
    with death_at(point):
        world.reconcile(group)
    world.settle()
    assert is_pinned(world)
    assert statuses(group) == ["RUNNING"] * 4
    assert not fresh(group).repinning


@pytest.fixture
def spared(world, group, monkeypatch):
    """The last pod of the group: its node came after the decision, and the others are deleted."""
    seek(world)
    last = group.tasks.order_by("position").last().pod_name
    binding = bringing.bound_pods

    def read_and_bind(view, cluster, pods):
        bound = binding(view, cluster, pods)
        if view.row.repinning and len(pods) == 4:
            world.cluster.edit(POD, last, lambda pod: pod["spec"].update(nodeName="n1"), namespace="osmo")
        return bound

    monkeypatch.setattr(bringing, "bound_pods", read_and_bind)
    world.reconcile(group)
    assert world.pods() == [last]
    return last


def test_a_pod_that_is_bound_while_others_are_deleted_is_spared_and_pins_stay(world, group, spared):
    uid = world.cluster.get(POD, spared, namespace="osmo")["metadata"]["uid"]
    world.settle()
    assert world.cluster.get(POD, spared, namespace="osmo")["metadata"]["uid"] == uid
    assert (selectors(world), fresh(group).repinning, fresh(group).form["pins"]) == ([{}] * 4, False, [])
    assert notes(group) == ["SetsPinned", "PinsLeftOut"]
    assert {task.retry_id for task in group.tasks.all()} == {0}


def test_a_task_that_ends_while_others_are_made_again_does_not_hold_them_up(world, group, spared):
    world.ends[spared] = 0
    world.cluster._play()
    world.settle()
    assert statuses(group) == ["SCHEDULING"] * 3 + ["COMPLETED"]
    assert (fresh(group).form_state, len(world.pods())) == ("", 4)


def test_a_task_that_has_ended_is_not_made_again_with_the_others(world, group, spared):
    times = {"start_time": timezone.now(), "end_time": timezone.now()}
    group.tasks.filter(pod_name=spared).update(status="COMPLETED", node_name="n1", **times)
    world.cluster.delete(POD, spared, namespace="osmo", uid=None)
    world.settle()
    assert statuses(group) == ["SCHEDULING"] * 3 + ["COMPLETED"]
    assert (spared in world.pods(), len(world.pods())) == (False, 3)


def test_pods_that_cannot_be_made_are_tried_again_more_slowly_each_time(world, group):
    seek(world)
    refusal = RequestForbidden("exceeded quota", status=403)
    world.cluster.fail(refusal, verb="create", kind=POD, times=100)
    world.reconcile(group)
    outcomes = [world.reconcile(group) for _ in range(3)]
    assert [type(outcome) for outcome in outcomes] == [Retry] * 3
    assert fresh(group).failures >= 3
    assert "exceeded quota" in fresh(group).waiting_reason


def test_pods_that_are_made_again_have_not_vanished_while_no_observer_is_at_work(world, group):
    seek(world)
    Cluster.objects.update(heartbeat_at=None)
    for _ in range(8):
        world.reconcile(group)
    assert is_pinned(world)
    assert (statuses(group), fresh(group).repinning) == (["SCHEDULING"] * 4, False)
    assert [task.retry_id for task in group.tasks.all()] == [0] * 4


def test_pins_whose_domain_is_lost_follow_the_room_at_most_once_a_minute(world, group):
    seek(world)
    world.settle()
    for number, gpus in enumerate((4, 2, 4, 2)):
        put_node(world, f"m{number}", zone="a", rack="r2", gpus=gpus)
    for name in ("n0", "n2"):
        world.cluster.remove(NODE, name)
    world.observe()
    seek(world)
    world.settle()
    assert is_pinned(world, "r2")
    for name in ("n0", "n2"):
        put_node(world, name, zone="a", rack="r1", gpus=4)
    for name in ("m0", "m2"):
        world.cluster.remove(NODE, name)
    world.observe()
    seek(world)
    world.settle()
    assert is_pinned(world, "r2")
    Event.objects.update(time=F("time") - timedelta(seconds=61))
    seek(world)
    world.settle()
    assert is_pinned(world, "r1")
    assert notes(group) == ["SetsPinned"] * 3


def again(world, group):
    """End every pod with a code that its tasks are tried again for."""
    world.finish(group, 2)
    world.settle()
    assert statuses(group) == ["SCHEDULING"] * 4


@pytest.fixture
def begun(world):
    """The same gang, pinned and running in rack r1; its tasks may be tried again."""
    group = mixed(world, frozen=RETRY, ignore_nonlead_status=False)
    world.cluster.players.insert(0, counting)
    seek(world)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 4
    world.cluster.players.pop(0)
    return group


def lose_rack(world):
    for number in range(4):
        world.cluster.remove(NODE, f"n{number}")
    world.observe()


def second_rack(world):
    for number, gpus in enumerate((4, 2, 4, 2)):
        put_node(world, f"m{number}", zone="a", rack="r2", gpus=gpus)
    world.observe()


def test_a_gang_whose_rack_is_lost_as_a_whole_is_pinned_elsewhere(world, begun):
    again(world, begun)
    lose_rack(world)
    second_rack(world)
    seek(world)
    world.settle()
    world.cluster.players.insert(0, counting)
    world.cluster._play()
    world.settle()
    assert is_pinned(world, "r2")
    assert (statuses(begun), fresh(begun).repinning) == (["RUNNING"] * 4, False)
    assert [task.retry_id for task in begun.tasks.filter(latest=True)] == [1] * 4


def test_a_gang_whose_rack_is_lost_while_there_is_room_nowhere_is_pinned_no_more(world, begun):
    """It waits for what its scheduler can do, and is pinned again once that takes pins."""
    again(world, begun)
    lose_rack(world)
    seek(world)
    world.settle()
    assert (selectors(world), fresh(begun).form["pins"]) == ([{}] * 4, [])
    assert pod_group(world)["spec"]["topologyConstraint"]["requiredTopologyLevel"] == RACK.label
    assert notes(begun) == ["SetsPinned", "SetsUnpinned"]
    assert "too few usable nodes" in Event.objects.get(group=begun, reason="SetsUnpinned").message
    second_rack(world)
    long_ago()
    seek(world)
    world.cluster.players.insert(0, counting)
    world.settle()
    assert is_pinned(world, "r2")
    assert statuses(begun) == ["RUNNING"] * 4


def test_a_gang_that_never_ran_is_pinned_no_more_once_its_rack_is_lost(world, group):
    seek(world)
    world.settle()
    assert is_pinned(world)
    for number in range(4):
        world.cluster.edit(NODE, f"n{number}", lambda node: node.update(spec={"unschedulable": True}))
    world.observe()
    seek(world)
    world.settle()
    assert (selectors(world), fresh(group).form["pins"]) == ([{}] * 4, [])


def test_a_gang_of_which_a_task_runs_keeps_its_pins(world, begun):
    world.finish(begun, 2, tasks=["task-0", "task-1", "task-2"])
    world.settle()
    lose_rack(world)
    seek(world)
    world.settle()
    assert fresh(begun).form["pins"]
    assert notes(begun) == ["SetsPinned"]


def test_new_pods_of_a_gang_that_ran_are_not_lost_while_nobody_has_observed_them(world, begun):
    again(world, begun)
    lose_rack(world)
    seek(world)
    for _ in range(6):  # the observer sees the old pods go, and is slow to see the new ones
        world.reconcile(begun)
        if not world.pods():
            world.observe()
            ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(minutes=1))
    assert len(world.pods()) == 4
    assert statuses(begun) == ["SCHEDULING"] * 4
    world.settle()
    assert [task.retry_id for task in begun.tasks.filter(latest=True)] == [1] * 4
    assert (selectors(world), fresh(begun).repinning) == ([{}] * 4, False)


def pinned_before(group, *, times):
    """It was pinned so often, the last time an hour ago."""
    Event.objects.bulk_create(
        Event(
            workflow_id=group.workflow_id,
            group=group,
            time=timezone.now() - timedelta(hours=1),
            source="s",
            reason="SetsPinned",
            message="",
            dedupe=f"earlier:{number}",
        )
        for number in range(times)
    )


def test_the_loss_of_a_rack_does_not_count_against_the_three_times(world, begun):
    pinned_before(begun, times=2)
    again(world, begun)
    lose_rack(world)
    second_rack(world)
    long_ago()
    seek(world)
    world.settle()
    assert is_pinned(world, "r2")


def test_after_three_times_pins_stay(world, group):
    pinned_before(group, times=3)
    seek(world)
    world.settle()
    assert selectors(world) == [{}] * 4
    assert TaskGroup.objects.get(pk=group.pk).other_form is None


def test_pods_with_pins_that_a_backup_does_not_know_are_made_again_without_them(world, group):
    columns = ("form", "constraints")
    before = TaskGroup.objects.filter(pk=group.pk).values(*columns).get()
    seek(world)
    world.settle()
    assert is_pinned(world)
    TaskGroup.objects.filter(pk=group.pk).update(**before)
    expect_other_forms(world.uid, "osmo")
    world.settle()
    row = fresh(group)
    assert (row.form["pins"], row.form_state) == ([], "")
    assert (selectors(world), notes(group)[-1]) == ([{}] * 4, "PinsForgotten")
    assert MARK not in pod_group(world)["metadata"]["annotations"]
    assert pod_group(world)["spec"]["topologyConstraint"]
    assert [task.retry_id for task in group.tasks.all()] == [0] * 4


def test_a_gang_that_runs_keeps_pins_that_a_backup_does_not_know(world, group):
    before = TaskGroup.objects.filter(pk=group.pk).values("form", "constraints").get()
    seek(world)
    world.settle()
    bind(world.cluster, group.uuid.hex)
    world.settle()
    TaskGroup.objects.filter(pk=group.pk).update(**before)
    expect_other_forms(world.uid, "osmo")
    world.settle()
    assert is_pinned(world)
    assert (statuses(group), fresh(group).repinning) == (["RUNNING"] * 4, False)


def test_a_group_of_an_earlier_release_with_two_pod_groups_is_taken_over(world, group):
    last = group.tasks.order_by("position").last()
    Task.objects.filter(pk=last.pk).update(generation=last.generation + 1)
    expect_other_forms(world.uid, "osmo")
    world.settle()
    row = fresh(group)
    assert (row.form_state, row.failures) == ("", 0)


def led(cluster):
    """Kubernetes' own scheduler, whose order misses the gang's place: it binds pods that select a rack."""
    pods = cluster.all(POD)
    if all(RACK.label in pod["spec"].get("nodeSelector", {}) for pod in pods):
        for pod in pods:
            if not pod["spec"].get("nodeName"):
                pod["spec"]["nodeName"] = f"{pod['spec']['nodeSelector'][RACK.label]}-0"
                cluster.put(POD, pod)


def test_sets_inside_sets_are_pinned_beside_their_groups_where_the_greedy_order_misses_them(world):
    """4, 3, 2 and 2 tasks on racks of 6 and 5: only 4 + 2 beside 3 + 2 fit."""
    for rack, size in (("r1", 6), ("r2", 5)):
        for number in range(size):
            put_node(world, f"{rack}-{number}", zone="a", rack=rack, gpus=1)
    sizes = {"p": 4, "q": 3, "r": 2, "s": 2}
    sets = [(required("rack", name),) for name, size in sizes.items() for _ in range(size)]
    group = topology_gang(world, sets=sets, pool=world.pool(levels=LEVELS, backend=NESTING))
    for task in group.tasks.all():
        Task.objects.filter(pk=task.pk).update(spec={**task.spec, "gpu": 1})
    world.cluster.players.insert(0, led)
    world.settle()
    groups = {obj["metadata"]["uid"] for kind in (POD_GROUP, COMPOSITE) for obj in world.cluster.all(kind)}
    assert not any(RACK.label in selector for selector in selectors(world))
    seek(world)
    world.settle()
    racks = Counter(selector[RACK.label] for selector in selectors(world))
    assert racks == {"r1": 6, "r2": 5}
    assert {
        obj["metadata"]["uid"] for kind in (POD_GROUP, COMPOSITE) for obj in world.cluster.all(kind)
    } == groups
    assert notes(group) == ["SetsPinned"]
    assert [task.retry_id for task in group.tasks.all()] == [0] * 11
