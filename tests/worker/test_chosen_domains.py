"""Sets that Kueue does not hold around others are kept in a zone that the service chooses."""

from datetime import timedelta

import pytest
from django.db.models import F

from cluster.kinds import NODE
from pools.models import ForeignUsage
from tests.builders.forms import put_form
from tests.builders.gangs import required, topology_gang
from tests.builders.nodes import put_node
from tests.builders.workloads import HOSTNAME, KUEUE, binder, condition, workload, write_status
from tests.factories import RACK, ZONE, foreign_usage
from tests.fakes import players
from tests.fakes.kinds import WORKLOAD
from tests.worker.world import World, fresh, statuses
from workflows.models import Event, TaskGroup

IN_TWO_RACKS = (
    [required("rack", "x")],
    [required("rack", "x")],
    [required("rack", "y")],
)


@pytest.fixture
def world(db):
    """Zone a has racks of two nodes and of one, and so has zone b."""
    world = World(scheduled=False)
    world.cluster.players += [binder, players.kubelet]
    for zone in "ab":
        for number, rack in enumerate(("r1", "r1", "r2")):
            put_node(world, f"{zone}-{number}", zone=zone, rack=rack)
    world.observe()
    return world


def take(world, *nodes):
    for name in nodes:
        foreign_usage(world.group_pool.backend.cluster, name, gpu=1)


@pytest.fixture
def pool(world):
    world.group_pool = world.pool(backend=KUEUE, levels=[ZONE, RACK])
    return world.group_pool


@pytest.fixture
def group(world, pool):
    """Two tasks in a rack and one in another, in one zone; not yet reconciled."""
    frozen = {"queue": "train"}
    return topology_gang(world, required("zone", "z"), sets=IN_TWO_RACKS, pool=pool, frozen=frozen)


def zones(world):
    """The zones that the Workload's pod sets select."""
    pod_sets = workload(world)["spec"]["podSets"]
    return [pod_set["template"]["spec"]["nodeSelector"].get(ZONE.label) for pod_set in pod_sets]


def notes(group):
    return list(Event.objects.filter(group=group, reason="SetsPinned").order_by("id"))


def long_ago():
    Event.objects.update(time=F("time") - timedelta(minutes=6))


def admit(world, *nodes):
    """Kueue admits the gang, a node for each of its tasks."""
    nodes = iter(nodes)
    assigned = [
        {
            "name": pod_set["name"],
            "topologyAssignment": {
                "levels": [HOSTNAME],
                "slices": [
                    {
                        "domainCount": pod_set["count"],
                        "podCounts": {"universal": 1},
                        "valuesPerLevel": [
                            {"individual": {"roots": [next(nodes) for _ in range(pod_set["count"])]}}
                        ],
                    }
                ],
            },
        }
        for pod_set in workload(world)["spec"]["podSets"]
    ]
    conditions = [condition("QuotaReserved"), condition("Admitted")]
    write_status(world, {"conditions": conditions, "admission": {"podSetAssignments": assigned}})


def test_a_zone_with_room_is_chosen_before_room_is_asked_for(world, group):
    take(world, "a-0")
    world.settle()
    assert zones(world) == ["b", "b"]
    assert "active" not in workload(world)["spec"]
    (note,) = notes(group)
    assert 'zone "z" in b' in note.message
    (zone, *_) = fresh(group).constraints
    assert (zone["requirementType"], zone["domain"]) == ("required", ["b"])
    admit(world, "b-0", "b-1", "b-2")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3


def test_without_room_the_gang_stands_in_the_queue_of_a_zone_that_could_hold_it(world, group):
    take(world, "a-0", "a-1", "b-0", "b-1")
    world.settle()
    assert zones(world) in (["a", "a"], ["b", "b"])
    assert len(notes(group)) == 1


def test_nothing_is_asked_for_where_no_zone_could_ever_hold_it(world, group):
    for zone in "ab":
        world.cluster.remove(NODE, f"{zone}-2")
    world.observe()
    world.settle()
    assert (world.cluster.all(WORKLOAD), statuses(group)) == ([], ["SCHEDULING"] * 3)
    reason = fresh(group).waiting_reason
    assert 'No domain was found that would hold zone "z" with the sets inside' in reason
    put_node(world, "b-3", zone="b", rack="r2")
    world.observe()
    for _ in range(3):
        world.step(group)
    assert zones(world) == ["b", "b"]


def settle_each(world, groups, *, times=3):
    for _ in range(times):
        for each in groups:
            world.step(each)


def chosen_domain(group):
    (pin,) = fresh(group).form["pins"]
    return pin["domain"]


def test_a_zone_that_gets_room_takes_the_place_of_one_without_some(world, group):
    take(world, "a-0", "b-0")
    world.settle()
    first, (before, _) = workload(world), zones(world)
    other = "b" if before == "a" else "a"
    ForeignUsage.objects.filter(node=f"{other}-0").delete()
    settle_each(world, [group])
    assert zones(world) == [other] * 2  # of the only one
    assert workload(world)["metadata"]["name"] != first["metadata"]["name"]
    assert "another domain takes the place" in notes(group)[-1].message
    long_ago()
    settle_each(world, [group])
    assert (zones(world), len(notes(group))) == ([other] * 2, 2)


def test_a_place_that_changes_again_and_again_is_left_at_most_once_a_minute(world, group):
    world.settle()
    (before, _) = zones(world)
    take(world, f"{before}-0")
    settle_each(world, [group])
    (now, _) = zones(world)
    assert now != before
    ForeignUsage.objects.all().delete()
    take(world, f"{now}-0")
    settle_each(world, [group])
    assert zones(world) == [now] * 2
    Event.objects.update(time=F("time") - timedelta(seconds=61))
    settle_each(world, [group])
    assert zones(world) == [before] * 2


def another(world, pool):
    frozen = {"queue": "train"}
    return topology_gang(world, required("zone", "z"), sets=IN_TWO_RACKS, pool=pool, frozen=frozen)


def test_gangs_that_wait_at_the_same_time_get_zones_apart(world, group, pool):
    gangs = [group, another(world, pool)]
    settle_each(world, gangs)
    assert sorted(map(chosen_domain, gangs)) == [["a"], ["b"]]


def test_zones_chosen_alike_at_submission_are_parted_before_room_is_asked_for(world, group, pool):
    gangs = [group, another(world, pool)]
    same = [{"set": [{"key": "zone", "group": "z"}], "domain": ["a"]}]
    put_form(TaskGroup.objects.all(), pins=same)
    settle_each(world, gangs[::-1])
    assert list(map(chosen_domain, gangs)) == [["a"], ["b"]]
    assert [len(notes(each)) for each in gangs] == [0, 1]


def test_with_more_gangs_than_zones_the_last_stands_in_the_queue_of_one(world, group, pool):
    gangs = [group, another(world, pool), another(world, pool)]
    settle_each(world, gangs, times=6)
    assert sorted(map(chosen_domain, gangs))[::2] == [["a"], ["b"]]
    assert [len(notes(each)) for each in gangs] == [1, 1, 1]


def test_nodes_outside_of_the_zone_are_refused(world, group):
    take(world, "a-0")
    world.settle()
    admit(world, "a-0", "a-1", "b-2")
    world.step(group)
    assert (world.pods(), statuses(group)) == ([], ["SCHEDULING"] * 3)
    assert "outside of b: a-0" in fresh(group).waiting_reason


def test_a_stop_leaves_nothing(world, group):
    world.settle()
    TaskGroup.objects.filter(pk=group.pk).update(stop_status="FAILED_CANCELED", stop_message="stop")
    world.settle()
    assert {kind for kind in world.cluster.kinds() if kind != "Node"} == set()
