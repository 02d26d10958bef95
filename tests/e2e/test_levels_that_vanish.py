"""A level disappears from a running cluster: said at once, nothing evicted, and over when it is back."""

from localcluster.api import ApiError
from tests.e2e.conftest import RACK, workflow

PAIR = ("g", ["a", "b"])
SAME_RACK = "one: {gpu: 4, topology: [{key: rack}]}"
UNAVAILABLE = "TopologyLevelsUnavailable"


def condition(holder, kind):
    return next((condition for condition in holder["conditions"] if condition["type"] == kind), {})


def test_a_level_lost_while_one_gang_runs_and_another_waits(world):
    """Both racks' labels go: told on pool and groups; they come back: the waiting gang is placed."""
    pool = world.make_pool()
    running = world.submit(pool, workflow(PAIR, resources=SAME_RACK))
    world.wait_group(running, "g", "RUNNING")
    bound = world.bound_pods(running)
    pods = {pod["metadata"]["uid"] for pod in bound}
    nodes = [f"{pool}-r{rack}-{number}" for rack in (0, 1) for number in (0, 1)]
    free = next(name for name in nodes if name not in {pod["spec"]["nodeName"] for pod in bound})
    world.view.block(free)
    waiting = world.submit(pool, workflow(PAIR, resources=SAME_RACK, name="w2"))
    world.wait(lambda: world.groups(waiting)["g"]["waiting_reason"] or "", lambda said: "rack" in said)

    label(world, dict.fromkeys(nodes))
    for name in (waiting, running):
        told = world.wait(lambda n=name: condition(world.groups(n)["g"], UNAVAILABLE), is_("True"))
        assert (told["reason"], RACK in told["message"]) == ("NoNodeCarriesLabel", True)
    said = world.wait(
        lambda: world.groups(waiting)["g"]["waiting_reason"], lambda said: "submit it again" in said
    )
    assert said.startswith(told["message"])
    lacking = world.wait(
        lambda: condition(pool_of(world, pool), "TopologyLabelsIncomplete"),
        lambda found: "4 of the pool's 4 nodes" in found.get("message", ""),
    )
    assert (lacking["status"], lacking["reason"]) == ("True", "NodesLackLabels")
    assert world.groups(running)["g"]["status"] == "RUNNING"
    assert {pod["metadata"]["uid"] for pod in world.pods(running)} == pods
    (begin,) = events(world, waiting)
    assert UNAVAILABLE in begin

    world.view.unblock(free)
    label(world, {name: f"r{name.split('-r')[-1][0]}" for name in nodes})
    for name in (waiting, running):
        world.wait(lambda n=name: condition(world.groups(n)["g"], UNAVAILABLE), is_("False"))
    world.wait_group(waiting, "g", "RUNNING")
    begin, end = events(world, waiting)
    assert (UNAVAILABLE in begin, "TopologyLevelsAvailable" in end) == (True, True)
    assert (
        world.wait(lambda: condition(pool_of(world, pool), "TopologyLabelsIncomplete"), is_("False"))[
            "reason"
        ]
        == "Complete"
    )


def test_an_external_topology_that_is_edited_and_deleted(world):
    """It is compared and never written: the admin reads what was expected and what is there."""
    name = f"{world.prefix}theirs"
    make_topology(world, name, "zone.example.com", RACK)
    keys = [{"key": "zone", "label": "zone.example.com"}, {"key": "rack", "label": RACK}]
    pool = world.make_pool(topology_source="external", topology_name=name, topology_keys=keys)

    def drift():
        return condition(pool_of(world, pool), "TopologyDrift")

    world.wait(drift, is_("False"))
    make_topology(world, name, RACK)  # levels are immutable: an edit is another object of the name
    told = world.wait(drift, is_("True"))
    assert f"lists {RACK} where zone.example.com, {RACK} is expected" in told["message"]
    assert "never writes it" in told["message"]
    world.api.delete(f"{TOPOLOGIES}/{name}")
    assert world.wait(drift, is_("Unknown"))["reason"] == "TopologyNotFound"
    assert world.api.find(f"{TOPOLOGIES}/{name}") is None


def test_a_topology_of_ours_that_a_hand_replaced_is_made_anew(world):
    pool = world.make_pool(
        topology_keys=[{"key": "rack", "label": RACK}, {"key": "own", "label": world.prefix + "x"}]
    )
    ours = world.wait(lambda: with_level(world, world.prefix + "x"), bool)
    make_topology(world, ours["metadata"]["name"], RACK, labels=ours["metadata"]["labels"])
    world.wait(lambda: with_level(world, world.prefix + "x"), bool)
    world.wait(lambda: condition(pool_of(world, pool), "TopologyDrift"), is_("False"))


TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"


def is_(status):
    return lambda found: found.get("status") == status


def pool_of(world, pool):
    return world.service.get(f"/api/configs/pool/{pool}")


def label(world, racks):
    for node, rack in racks.items():
        world.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {RACK: rack}}})


def make_topology(world, name, *levels, labels=None):
    """Put a Topology there in place of another one of its name: levels are immutable."""
    kind = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology"}
    metadata = {"name": name, "labels": labels or {}}
    spec = {"levels": [{"nodeLabel": level} for level in levels]}

    def replaced():
        if world.api.find(f"{TOPOLOGIES}/{name}"):
            world.api.delete(f"{TOPOLOGIES}/{name}")
        try:
            return world.api.create(TOPOLOGIES, {**kind, "metadata": metadata, "spec": spec})
        except ApiError as error:
            if error.code == 409:  # the service has been faster
                return None
            raise

    world.wait(replaced, bool)


def with_level(world, level):
    found = world.api.list(TOPOLOGIES)[0]
    return next((topology for topology in found if {"nodeLabel": level} in topology["spec"]["levels"]), None)


def events(world, workflow):
    """Of the timeline, the lines about levels."""
    lines = world.service.call("GET", f"/api/workflow/{workflow}/events").splitlines()
    return [line for line in lines if "TopologyLevels" in line]
