"""The placement of a gang is judged when it is placed, kept with it, told in its timeline and counted."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import POD
from pools.conditions import find
from pools.documents.backend import COMPOSITES_HELD
from pools.models import Backend
from tests.builders.gangs import NESTING, preferred, required, retried, topology_gang
from tests.factories import LEVELS, NodeFactory
from tests.worker.world import World, fresh
from workflows.metrics import PLACED
from workflows.models import Event

ZONE, RACK = LEVELS[0], LEVELS[1]
NODES = {"a": ("z1", "r1"), "b": ("z1", "r1"), "c": ("z1", "r2"), "d": ("z2", "r3"), "bare": ("z1", None)}


@pytest.fixture
def world(db):
    """
    ::

        zone z1: rack r1 [a b], rack r2 [c], no rack [bare]      zone z2: rack r3 [d]
    """
    return World(scheduled=False)


def nodes(group):
    for name, (zone, rack) in NODES.items():
        labels = {ZONE.label: zone} | ({RACK.label: rack} if rack else {})
        NodeFactory(cluster=group.backend.cluster, name=name, labels=labels)


def place(world, group, *names):
    """The scheduler's doing: each pod of the group, in order of its tasks, gets the node of that name."""
    pods = {pod["metadata"]["name"]: pod for pod in world.cluster.all(POD)}
    tasks = group.tasks.filter(latest=True).order_by("position")
    for task, name in zip(tasks, names, strict=False):
        pod = pods[task.pod_name]
        if name and not pod["spec"].get("nodeName"):
            pod["spec"]["nodeName"] = name
            world.cluster.put(POD, pod)
    world.settle(group)


def counted(group, asked, outcome):
    return PLACED.labels(group.workflow.pool_name, asked, outcome)._value.get()


CASES = {
    "one rack, as required": ([required("rack")], ("a", "b"), "match", []),
    "one rack, as preferred": ([preferred("rack")], ("a", "b"), "match", []),
    "a preferred rack was missed": (
        [preferred("rack")],
        ("a", "c"),
        "degraded",
        ['2 tasks that should share one rack stand in "z1/r1" (1) and "z1/r2" (1).'],
    ),
    "the zone was had and the rack was not": (
        [required("zone"), preferred("rack")],
        ("a", "c"),
        "degraded",
        ['2 tasks that should share one rack stand in "z1/r1" (1) and "z1/r2" (1).'],
    ),
    "somebody bound a pod by hand": (
        [required("zone")],
        ("a", "d"),
        "violation",
        ['2 tasks that must share one zone stand in "z1" (1) and "z2" (1).'],
    ),
    "a node without the label": (
        [preferred("rack")],
        ("a", "bare"),
        "degraded",
        ['2 tasks that should share one rack stand in nodes without the label (1) and "z1/r1" (1).'],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_placement_of_a_gang_is_kept_told_and_counted(world, case):
    requirements, where, outcome, told = CASES[case]
    group = topology_gang(world, *requirements)
    world.settle(group)
    nodes(group)
    asked = "required" if all(requirement["required"] for requirement in requirements) else "preferred"
    before = counted(group, asked, outcome)
    place(world, group, *where)
    got = fresh(group).placement_result
    assert got["outcome"] == outcome
    assert [row["key"] for row in got["sets"]] == [requirement["key"] for requirement in requirements]
    events = Event.objects.filter(group=group, reason__startswith="Placement")
    assert list(events.values_list("message", flat=True)) == told
    assert counted(group, asked, outcome) == before + 1


def test_nothing_is_judged_before_the_last_task_has_a_node(world):
    group = topology_gang(world, required("rack"))
    world.settle(group)
    nodes(group)
    place(world, group, "a", None)
    assert fresh(group).placement_result is None
    place(world, group, None, "b")
    assert fresh(group).placement_result["outcome"] == "match"


def test_nothing_is_judged_by_labels_that_are_not_known_yet(world):
    group = topology_gang(world, required("rack"))
    world.settle(group)
    place(world, group, "a", "b")
    assert fresh(group).placement_result is None
    nodes(group)
    world.reconcile(group)
    assert fresh(group).placement_result["outcome"] == "match"


def test_a_gang_that_asked_for_nothing_got_nothing(world):
    group = topology_gang(world)
    world.settle(group)
    nodes(group)
    place(world, group, "a", "d")
    assert fresh(group).placement_result is None


def relabel(group, name, zone, rack):
    labels = {ZONE.label: zone, RACK.label: rack}
    group.backend.cluster.nodes.filter(name=name).update(labels=labels)


def test_labels_that_change_under_a_gang_are_told_and_do_not_count_as_a_placing(world):
    group = topology_gang(world, required("rack"))
    world.settle(group)
    nodes(group)
    place(world, group, "a", "b")
    at = fresh(group).placement_result["at"]
    relabel(group, "b", "z9", "r9")
    world.reconcile(group)
    row = fresh(group)
    condition = find(row.conditions, "PlacementKept")
    assert (row.placement_result["outcome"], row.placement_result["at"]) == ("violation", at)
    assert (condition["status"], condition["reason"]) == ("False", "NodesRelabelled")
    assert "z1/r1" in condition["message"]
    assert "z9/r9" in condition["message"]
    assert [counted(group, "required", outcome) for outcome in ("match", "violation")] == [1, 0]
    world.reconcile(group)
    relabel(group, "b", "z1", "r1")
    world.reconcile(group)
    row = fresh(group)
    condition = find(row.conditions, "PlacementKept")
    assert (row.placement_result["outcome"], condition["status"]) == ("match", "True")
    assert Event.objects.filter(group=group, reason="NodesRelabelled").count() == 2


def composites_held(group):
    return find(Backend.objects.get(pk=group.backend_id).conditions, COMPOSITES_HELD)


def nested(world, **more):
    return topology_gang(
        world, required("zone"), required("rack"), pool=world.pool(levels=LEVELS, backend=NESTING), **more
    )


@pytest.mark.parametrize(("where", "status"), [(("a", "b"), "True"), (("a", "c"), "False")])
def test_a_scheduler_that_breaks_a_level_of_sets_inside_sets_gets_no_more_of_them(world, where, status):
    group = nested(world)
    world.settle(group)
    nodes(group)
    place(world, group, *where)
    entry = composites_held(group)
    assert entry["status"] == status
    if status == "False":
        assert entry["reason"] == "Breach"
        assert group.name in entry["message"]


@pytest.mark.parametrize(("code", "status"), [(0, "True"), (None, "False")])
def test_a_replacement_is_compared_with_its_peers_that_had_not_ended_before_it(world, code, status):
    """A peer that has finished does not hold a replacement to its rack, and one that runs on does."""
    group = nested(world, frozen=retried("2"), ignore_nonlead_status=False)
    world.settle(group)
    nodes(group)
    place(world, group, "a", "b")
    if code is not None:
        world.finish(group, code, tasks=["task-1"])
        world.settle(group)
    world.finish(group, 2, tasks=["task-0"])
    world.settle(group)
    place(world, group, "c")
    assert composites_held(group)["status"] == status
    outcome = "match" if status == "True" else "violation"
    assert fresh(group).placement_result["outcome"] == outcome
    world.finish(group, 0)
    world.settle(group)
    assert fresh(group).placement_result["outcome"] == outcome


def test_a_peer_on_a_node_with_other_labels_than_before_is_no_breach_of_the_scheduler(world):
    group = nested(world, frozen=retried("2"), ignore_nonlead_status=False)
    world.settle(group)
    nodes(group)
    place(world, group, "a", "b")
    group.backend.cluster.nodes.filter(name="b").update(labels={ZONE.label: "z1", RACK.label: "r9"})
    world.finish(group, 2, tasks=["task-0"])
    world.settle(group)
    place(world, group, "c")
    assert fresh(group).placement_result["outcome"] == "violation"
    assert composites_held(group)["status"] == "True"


@pytest.mark.parametrize(("minutes", "status"), [(0, "False"), (30, "True")])
def test_only_a_fresh_placement_is_held_against_the_scheduler(world, minutes, status):
    """Nodes may have had other labels when pods were bound that are observed late."""
    group = nested(world)
    world.settle(group)
    nodes(group)
    bound = timezone.now() - timedelta(minutes=minutes)
    for pod in world.cluster.all(POD):
        pod["metadata"]["creationTimestamp"] = bound.isoformat()
        world.cluster.put(POD, pod)
    place(world, group, "a", "c")
    assert fresh(group).placement_result["outcome"] == "violation"
    assert composites_held(group)["status"] == status
