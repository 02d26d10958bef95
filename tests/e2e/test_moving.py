"""A pool changes and moves while its work waits: what was accepted stays whole until it is released."""

from tests.e2e.conftest import RACK, workflow

TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
POOL_LABEL = "osmo.local/pool"
KEYS = [{"key": "floor", "label": POOL_LABEL}, {"key": "rack", "label": RACK}]
TOO_LARGE = "one: {gpu: 4, topology: [{key: rack}]}"


def topologies_of(world):
    """The Topology objects whose levels begin with this module's own first level, by name."""
    found, _ = world.api.list(TOPOLOGIES)
    return {
        item["metadata"]["name"]: [level["nodeLabel"] for level in item["spec"]["levels"]]
        for item in found
        if item["spec"]["levels"][0]["nodeLabel"] == POOL_LABEL
    }


def named_by(world, name):
    """The topologies that a waiting workflow's pod group names."""
    (group,) = world.service.workflow(name)["groups"]
    (pod_group,) = world.view.of_group(world.namespace, "PodGroup", group["uuid"])
    spec = pod_group["spec"]
    constraints = [
        spec.get("topologyConstraint"),
        *(s.get("topologyConstraint") for s in spec.get("subGroups", ())),
    ]
    return {constraint["topology"] for constraint in constraints if constraint}


def test_a_group_that_waits_keeps_its_topologies_while_its_pool_changes_and_moves(world):
    pool = world.make_pool(topology_keys=KEYS)
    waiting = world.submit(pool, workflow(("g", ["a", "b", "c"]), resources=TOO_LARGE))
    world.wait_group(waiting, "g", "SCHEDULING")
    world.wait(lambda: named_by(world, waiting) - set(topologies_of(world)), lambda missing: not missing)

    reply = world.service.call(
        "PATCH",
        f"/api/configs/pool/{pool}",
        {"configs_dict": {"backend": f"{world.backend}-kubernetes", "topology_keys": KEYS[1:]}},
    )
    assert any("1 workflow with 1 task group" in said for said in reply["warnings"])
    moved = world.submit(pool, workflow(("g", ["a", "b"]), resources=TOO_LARGE))
    world.wait_group(moved, "g", "RUNNING")
    assert {pod["spec"]["schedulerName"] for pod in world.pods(moved)} == {"default-scheduler"}
    assert {pod["spec"]["schedulerName"] for pod in world.pods(waiting)} == {"kai-scheduler"}
    assert named_by(world, waiting) <= set(topologies_of(world))

    world.service.cancel(waiting)
    world.wait_released(waiting)
    assert world.left(waiting) == []
    world.wait(lambda: topologies_of(world), lambda found: not found)
