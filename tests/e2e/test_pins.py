"""A driver and smaller workers in one rack: KAI's own count passes over the rack that holds them."""

from localcluster import nodes
from tests.e2e.conftest import RACK, workflow

SPEC = workflow(
    ("g", ["driver", "w1", "w2", "w3"], {"resource": "large"}),
    resources="""large: {gpu: 4, topology: [{key: rack, group: r}]}
    one: {gpu: 2, topology: [{key: rack, group: r}]}""",
)


def add_node(world, pool, number, gpus, *, rack="r"):
    labels = {"osmo.local/pool": pool, RACK: f"{world.prefix}{rack}"}
    made = nodes.rack(f"{pool}-n{number}", count=1, gpus=gpus, labels=labels)
    nodes.create(world.api, made)
    nodes.wait_ready(world.api, made)


def test_a_waiting_gang_is_pinned_once_its_place_exists(world):
    pool = world.make_pool(racks=0)
    for number, gpus in enumerate((2, 4, 2)):
        add_node(world, pool, number, gpus)
    name = world.submit(pool, SPEC)
    world.wait(
        lambda: world.groups(name)["g"],
        lambda group: group["status"] == "SCHEDULING" and group["waiting_reason"],
    )
    before = world.wait(lambda: world.pods(name), lambda pods: len(pods) == 4)

    add_node(world, pool, 3, 4)
    placed = world.wait_group(name, "g", "RUNNING")

    (row,) = placed["constraints"]
    assert (row["requirementType"], row["domain"]) == ("required", [f"{world.prefix}r"])
    after = world.pods(name)
    assert {pod["metadata"]["name"] for pod in after} == {pod["metadata"]["name"] for pod in before}
    assert not {pod["metadata"]["uid"] for pod in after} & {pod["metadata"]["uid"] for pod in before}
    assert all(pod["spec"]["nodeSelector"][RACK] == f"{world.prefix}r" for pod in after)
    assert any(" SetsPinned: " in line for line in world.service.events(name))
    for pod in after:
        world.annotate(pod, run_for="0s")
    assert world.wait_released(name)["status"] == "COMPLETED"
    assert world.left(name) == []


def test_a_gang_whose_rack_is_lost_as_a_whole_runs_in_another_one(world):
    world.service.call("PATCH", "/api/configs/workflow", {"configs_dict": {"max_retry_per_task": 1}})
    pool = world.make_pool(racks=0, default_exit_actions={"RESCHEDULE": "3"})
    for number, gpus in enumerate((4, 2, 4, 2)):
        add_node(world, pool, number, gpus)
    name = world.submit(pool, SPEC)
    world.wait_group(name, "g", "RUNNING")
    assert all(pod["spec"]["nodeSelector"][RACK] == f"{world.prefix}r" for pod in world.pods(name))

    before = {pod["metadata"]["name"] for pod in world.pods(name)}
    for number in range(4):
        world.api.patch(f"/api/v1/nodes/{pool}-n{number}-0", {"spec": {"unschedulable": True}})
    for pod in world.pods(name):
        world.annotate(pod, exit_code="3", run_for="0s")

    def tried_again(pods):
        return len(pods) == 4 and not before & {pod["metadata"]["name"] for pod in pods}

    world.wait(lambda: world.pods(name), tried_again)
    for number in range(4, 8):
        add_node(world, pool, number, 4, rack="s")
    nodes_of_rack = {f"{pool}-n{number}-0" for number in range(4, 8)}
    world.wait(
        lambda: {pod["spec"].get("nodeName") for pod in world.pods(name)},
        lambda names: names and names <= nodes_of_rack,
    )
    world.service.cancel(name)
    world.wait_released(name)
