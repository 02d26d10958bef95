"""Preferences that block a gang give way for a place that exists now, and return if it was lost."""

import pytest

from cluster.kinds import NODE, POD
from tests.builders.crashes import death_at
from tests.builders.gangs import preferred, retried, topology_gang
from tests.builders.losses import evict
from tests.builders.nodes import put_node
from tests.builders.patience import seek, wait_in_vain
from tests.builders.pod_groups import bind, patches, pod_group
from tests.factories import LEVELS, RACK, ZONE
from tests.fakes.kinds import KAI_POD_GROUP
from tests.worker.world import World, fresh, statuses
from workflows.models import Event

MARK = "osmo.nvidia.com/preference-levels"
AGAIN = retried("1-3,3000-3010")
SOON = {"free_preferences_after": 3600}


def blind(cluster):
    """A scheduler to which no gang fits that names a rack."""
    for group in cluster.all(KAI_POD_GROUP):
        if RACK.label not in str(group["spec"]):
            bind(cluster, group["metadata"]["name"])


@pytest.fixture
def world(db):
    return World(scheduled=False)


def blocked(world, *requirements, **frozen):
    """A gang of two that prefers, with its topology objects' names as they are at first."""
    return topology_gang(world, *(requirements or (preferred("rack"),)), frozen={**SOON, **frozen})


def preference(world):
    """The labels that the pod group prefers, and its mark."""
    found = pod_group(world)
    constraint = found["spec"].get("topologyConstraint") or {}
    return constraint.get("preferredTopologyLevel"), found["metadata"].get("annotations", {}).get(MARK)


def notes(group):
    rows = Event.objects.filter(group=group, reason__in=["PreferencesGaveWay", "PreferencesReturned"])
    return list(rows.order_by("id").values_list("reason", "message"))


def test_a_preference_gives_way_to_nodes_that_lack_its_label(world):
    put_node(world, "n1", zone="a", rack="r1")
    put_node(world, "n2", zone="a")
    group = blocked(world)
    world.settle()
    assert preference(world) == (RACK.label, None)
    assert fresh(group).unplaced_since is not None
    wait_in_vain(world, 1800)
    world.settle()
    assert (preference(world), notes(group)) == ((RACK.label, None), [])
    wait_in_vain(world, 1800)
    world.settle()
    assert preference(world) == (ZONE.label, "1")
    ((reason, message),) = notes(group)
    assert reason == "PreferencesGaveWay"
    assert 'From now on preferred: rack "default" as one zone.' in message
    (row,) = fresh(group).constraints
    assert (row["freed"], row["applied_key"], row["label"]) == (True, "zone", ZONE.label)
    assert fresh(group).form["preference_levels"] == 1


def test_it_is_dropped_where_the_nodes_carry_no_label_and_the_gang_runs(world):
    world.cluster.players.insert(0, blind)
    put_node(world, "node-0", gpus=2)
    group = blocked(world)
    world.settle()
    wait_in_vain(world)
    world.settle()
    assert preference(world) == (None, "0")
    assert statuses(group) == ["RUNNING", "RUNNING"]
    assert fresh(group).placement_result["outcome"] == "degraded"
    assert "Preferred no longer" in notes(group)[0][1]


@pytest.mark.parametrize(
    ("nodes", "frozen"),
    [
        pytest.param([("n1", "a", "r1")], {}, id="room nowhere"),
        pytest.param([("n1", "a", "r1"), ("n2", "a", "r2")], {}, id="room where it prefers"),
        pytest.param([("n1", None, None), ("n2", None, None)], {"free_preferences_after": 0}, id="never"),
    ],
)
def test_preferences_stay(world, nodes, frozen):
    for name, zone, rack in nodes:
        put_node(world, name, zone=zone, rack=rack)
    group = blocked(world, **frozen)
    world.settle()
    wait_in_vain(world, 7200)
    world.settle()
    assert (preference(world), notes(group), patches(world)) == ((RACK.label, None), [], 0)


def test_a_preference_that_is_held_as_required_does_not_give_way_before_its_time(world):
    put_node(world, "n1", gpus=2)
    group = blocked(world, preferred("rack", wait=7200.0))
    world.settle()
    wait_in_vain(world, 3600)
    world.settle()
    assert (notes(group), fresh(group).form["stage"]) == ([], 0)
    wait_in_vain(world, 3600)
    world.settle()
    seek(world)
    world.settle()
    assert (preference(world), fresh(group).form["stage"]) == ((None, "0"), 1)


def test_preferences_return_if_the_room_was_lost(world):
    put_node(world, "n1", zone="a", rack="r1")
    put_node(world, "n2")
    group = blocked(world)
    world.settle()
    wait_in_vain(world)
    world.settle()
    assert preference(world) == (None, "0")
    world.cluster.remove(NODE, "n2")
    world.settle()
    seek(world)
    world.settle()
    assert preference(world) == (None, "0"), "too soon for another change"
    wait_in_vain(world)
    world.settle()
    assert (preference(world), fresh(group).form["preference_levels"]) == ((RACK.label, None), None)
    assert [reason for reason, _ in notes(group)] == ["PreferencesGaveWay", "PreferencesReturned"]
    assert "freed" not in fresh(group).constraints[0]


def test_a_worker_that_dies_between_decision_and_edit_is_taken_over_from(world):
    put_node(world, "n1", gpus=2)
    group = blocked(world)
    world.settle()
    wait_in_vain(world)
    with death_at("after-relax-decision"):
        world.step()
    assert (fresh(group).form["preference_levels"], preference(world)) == (0, (RACK.label, None))
    world.settle()
    assert (preference(world), len(notes(group))) == ((None, "0"), 1)


def test_a_gang_that_got_a_node_just_before_keeps_its_preferences(world):
    put_node(world, "n1", gpus=2)
    group = blocked(world)
    world.settle()
    wait_in_vain(world)
    bind(world.cluster, group.uuid.hex, first=1)  # nobody has observed it
    world.reconcile(group)
    assert preference(world) == (RACK.label, None)
    assert (fresh(group).form["preference_levels"], "freed" in fresh(group).constraints[0]) == (None, False)
    assert Event.objects.filter(group=group, reason="RelaxationLeftOut").count() == 1


def test_a_gang_that_is_made_again_keeps_what_was_decided(world):
    world.cluster.players.insert(0, blind)
    put_node(world, "node-0", gpus=2)
    group = blocked(world, **AGAIN)
    world.settle()
    wait_in_vain(world)
    world.settle()
    assert statuses(group) == ["RUNNING", "RUNNING"]
    evict(world, group)
    world.settle()
    assert (preference(world), statuses(group)[-2:]) == ((None, "0"), ["RUNNING", "RUNNING"])


def test_the_topology_of_a_cut_preference_is_made_before_the_edit(world):
    put_node(world, "n1", zone="a", rack="r1")
    put_node(world, "n2", zone="a")
    blocked(world)
    world.settle()
    wait_in_vain(world)
    world.settle()
    named = pod_group(world)["spec"]["topologyConstraint"]["topology"]
    made = [o["metadata"]["name"] for o in world.cluster.objects.values() if o["kind"] == "Topology"]
    assert named in made
    assert world.cluster.names(POD)
    assert [level.label for level in LEVELS[:2]] == [ZONE.label, RACK.label]
