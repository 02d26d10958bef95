"""A required level holds for a task that is tried again while its peers run, on every version of KAI.

KAI from v0.15 on does not look at the peers' subgroups, and put a replacement into another zone.
"""

from cluster.kinds import NODE, POD
from scheduling.topology.requirements import Requirement
from tests.builders.gangs import retried
from tests.factories import LEVELS, TaskFactory
from tests.worker.world import fresh, statuses
from workflows.values.observation import PINS_ANNOTATION

RETRY = retried("2", times=2)
ZONE, RACK = LEVELS[0].label, LEVELS[1].label
IN_ZONE = Requirement("zone", "z", required=True)
IN_RACK = Requirement("rack", "r", required=True)


def a_group(world, *tasks):
    """A group on KAI whose pods all run on one node of rack r1 in zone a."""
    world.cluster.put(NODE, {"metadata": {"name": "n1", "labels": {ZONE: "a", RACK: "r1"}}})
    group = world.group(pods=0, pool=world.pool(levels=LEVELS), frozen=RETRY, ignore_nonlead_status=False)
    for requirements in tasks:
        TaskFactory(group=group, placement__requirements=requirements)
    world.settle()
    return group


def another_domain(world):
    """A node of rack r2 in zone b."""
    world.cluster.put(NODE, {"metadata": {"name": "n2", "labels": {ZONE: "b", RACK: "r2"}}})


def place(world, group, name, node):
    """Let the scheduler bind a task's pod to a node."""
    pod_name = group.tasks.get(name=name, latest=True).pod_name
    world.cluster.edit(POD, pod_name, lambda obj: obj["spec"].update(nodeName=node), namespace="osmo")


def selector_of(world, group, name):
    """The node selector of a task's pod."""
    pod_name = group.tasks.get(name=name, latest=True).pod_name
    (pod,) = [pod for pod in world.cluster.all(POD) if pod["metadata"]["name"] == pod_name]
    return pod["spec"].get("nodeSelector", {})


def test_a_replacement_is_held_to_the_domain_of_each_required_set_it_shares_with_its_peers(world):
    group = a_group(world, (IN_ZONE, IN_RACK), (IN_ZONE, IN_RACK), (IN_ZONE,))
    assert selector_of(world, group, "task-0") == {}

    world.finish(group, 2, tasks=["task-0"])
    world.settle()
    world.finish(group, 2, tasks=["task-2"])
    world.settle()

    assert selector_of(world, group, "task-0") == {ZONE: "a", RACK: "r1"}
    assert selector_of(world, group, "task-2") == {ZONE: "a"}


def test_a_set_without_a_running_peer_is_held_to_the_broader_set_alone(world):
    group = a_group(world, (IN_ZONE, IN_RACK), (IN_ZONE,))

    world.finish(group, 2, tasks=["task-0"])
    world.settle()

    assert selector_of(world, group, "task-0") == {ZONE: "a"}


def test_sets_of_one_name_below_two_broader_ones_are_not_taken_for_one(world):
    """The zones are preferences, and still tell the racks apart."""
    here, there = (Requirement("zone", name, required=False) for name in "xy")
    group = a_group(world, (here, IN_RACK), (there, IN_RACK))

    world.finish(group, 2, tasks=["task-0"])
    world.settle()

    assert fresh(group).tasks.get(name="task-1", latest=True).node_name == "n1"
    assert selector_of(world, group, "task-0") == {}


def test_a_preference_and_a_gang_of_which_nothing_runs_pin_nobody(world):
    rather = Requirement("rack", "r", required=False)
    group = a_group(world, (rather,), (rather,))
    world.finish(group, 2, tasks=["task-0"])
    world.settle()
    assert selector_of(world, group, "task-0") == {}

    alone = a_group(world, (IN_RACK,))
    world.finish(alone, 2, tasks=["task-0"])
    world.settle()
    assert selector_of(world, alone, "task-0") == {}


def test_a_replacement_whose_peers_have_all_ended_is_free_again_at_no_cost_of_a_retry(world):
    """A rack that loses power: the first replacements wait for it until its last pod has ended."""
    group = a_group(world, (IN_RACK,), (IN_RACK,))
    world.cluster.players.pop(0)  # nothing is placed any more
    world.finish(group, 2, tasks=["task-0"])
    world.settle()
    assert selector_of(world, group, "task-0") == {ZONE: "a", RACK: "r1"}

    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    assert selector_of(world, group, "task-0") == selector_of(world, group, "task-1") == {}
    assert len(world.pods()) == 2

    another_domain(world)
    for name in ("task-0", "task-1"):
        place(world, group, name, "n2")
    world.settle()
    for _ in range(RETRY["max_retry_per_task"] - 1):
        assert fresh(group).status == "RUNNING"
        world.finish(group, 2, tasks=["task-0"])
        world.settle()
        place(world, group, "task-0", "n2")
        world.settle()
    assert statuses(group) == ["RUNNING", "RUNNING"]
    world.finish(group, 2, tasks=["task-0"])
    world.settle()
    assert statuses(group)[0] == "FAILED"


def test_a_replacement_follows_a_peer_that_gets_a_node_first(world):
    group = a_group(world, (IN_ZONE, IN_RACK), (IN_ZONE, IN_RACK), (IN_ZONE,))
    world.cluster.players.pop(0)
    world.finish(group, 2, tasks=["task-0", "task-1"])
    world.settle()
    assert selector_of(world, group, "task-0") == selector_of(world, group, "task-1") == {ZONE: "a"}

    world.cluster.put(NODE, {"metadata": {"name": "n3", "labels": {ZONE: "a", RACK: "r3"}}})
    place(world, group, "task-1", "n3")
    world.settle()

    assert selector_of(world, group, "task-0") == {ZONE: "a", RACK: "r3"}
    assert group.tasks.get(name="task-1", latest=True).retry_id == 1


def test_a_peer_on_a_node_of_unknown_labels_changes_no_pin(world):
    group = a_group(world, (IN_RACK,), (IN_RACK,))
    world.cluster.players.pop(0)
    world.finish(group, 2, tasks=["task-0"])
    world.settle()
    world.cluster.remove(NODE, "n1")
    world.settle()

    assert selector_of(world, group, "task-0") == {ZONE: "a", RACK: "r1"}


def test_a_replacement_that_does_not_say_what_it_is_held_to_is_left_alone(world):
    group = a_group(world, (IN_RACK,), (IN_RACK,))
    world.cluster.players.pop(0)
    world.finish(group, 2, tasks=["task-0"])
    world.settle()
    pod_name = group.tasks.get(name="task-0", latest=True).pod_name
    world.cluster.edit(
        POD, pod_name, lambda obj: obj["metadata"]["annotations"].pop(PINS_ANNOTATION), namespace="osmo"
    )
    world.finish(group, 2, tasks=["task-1"])
    world.settle()

    assert group.tasks.get(name="task-0", latest=True).pod_name == pod_name
