"""The service makes a pool's queue of Kueue and what it leads to; Kueue keeps what is in use."""

from localcluster.kueue_queues import KUEUE
from scheduling import names
from tests.e2e.conftest import CLIQUE, RACK, workflow
from tests.e2e.kueue_queues import bound, complete, places

KEYS = [{"key": "rack", "label": RACK}, {"key": "clique", "label": CLIQUE}]
ON_ONE_RACK = "one: {gpu: 4, cpu: 1, memory: 1Gi, topology: [{key: rack}]}"


def queues_of(world, pool):
    """The names of the pool's ClusterQueues, and of its LocalQueues."""
    query = {"labelSelector": f"{names.POOL_LABEL}={pool}"}
    paths = (f"{KUEUE}/clusterqueues", f"{KUEUE}/namespaces/{world.namespace}/localqueues")
    listings = [world.api.list(path, query=query)[0] for path in paths]
    return [sorted(item["metadata"]["name"] for item in items) for items in listings]


def edit(world, pool, **changes):
    world.service.call("PATCH", f"/api/configs/pool/{pool}", {"configs_dict": changes})


def flavor_of(world, queue):
    spec = world.api.get(f"{KUEUE}/clusterqueues/{queue}")["spec"]
    return spec["resourceGroups"][0]["flavors"][0]["name"]


def test_a_pool_without_a_queue_gets_one_that_leaves_nothing(world, own_queues):
    pool = world.make_pool(scheduler="owned", nvlink=True)
    (queue,), (local,) = world.wait(lambda: queues_of(world, pool), all)
    assert queue == local
    flavor = flavor_of(world, queue)
    first = world.submit(pool, workflow(("g", ["a", "b"]), resources=ON_ONE_RACK))
    world.wait_group(first, "g", "RUNNING")
    assert len(set(places(world, bound(world, first), RACK))) == 1

    edit(world, pool, topology_keys=KEYS[:1])
    both, _ = world.wait(lambda: queues_of(world, pool), lambda found: len(found[0]) == len(found[1]) == 2)
    (fresh,) = set(both) - {queue}
    second = world.submit(pool, workflow(("g", ["a", "b"]), resources=ON_ONE_RACK))
    world.wait_group(second, "g", "RUNNING")
    racks = [{*places(world, bound(world, name), RACK)} for name in (first, second)]
    assert (len(racks[0]), len(racks[1]), racks[0] & racks[1]) == (1, 1, set())

    complete(world, first)
    world.wait(lambda: queues_of(world, pool), lambda found: found == [[fresh], [fresh]])
    gone = f"{KUEUE}/resourceflavors/{flavor}"
    world.wait(lambda: world.api.find(gone), lambda found: found is None)
    last = flavor_of(world, fresh)
    complete(world, second)
    world.service.call("DELETE", f"/api/configs/pool/{pool}", {})
    world.wait(lambda: queues_of(world, pool), lambda found: found == [[], []])
    world.wait(lambda: world.api.find(f"{KUEUE}/resourceflavors/{last}"), lambda found: found is None)


def test_edits_by_hand_are_put_back(world, own_queues):
    pool = world.make_pool(scheduler="owned")
    (queue,), _ = world.wait(lambda: queues_of(world, pool), all)
    world.api.patch(
        f"{KUEUE}/clusterqueues/{queue}", {"spec": {"preemption": {"withinClusterQueue": "Never"}}}
    )
    edit(world, pool, description="sync now")
    world.wait(
        lambda: world.api.get(f"{KUEUE}/clusterqueues/{queue}")["spec"]["preemption"]["withinClusterQueue"],
        lambda policy: policy == "LowerPriority",
    )


def test_a_pools_maximum_bounds_what_is_admitted(world, own_queues):
    pool = world.make_pool(scheduler="owned", racks=1, resources={"gpu": {"maximum": 4}})
    first = world.submit(pool, workflow(("g", ["a"]), resources=ON_ONE_RACK))
    world.wait_group(first, "g", "RUNNING")
    second = world.submit(pool, workflow(("g", ["a"]), resources=ON_ONE_RACK))
    reason = world.wait(
        lambda: world.groups(second)["g"]["waiting_reason"] or "", lambda text: "quota" in text
    )
    assert "nvidia.com/gpu" in reason or "GPU" in reason
    complete(world, first)
    world.wait_group(second, "g", "RUNNING")
    complete(world, second)


def test_work_of_new_keys_leaves_out_the_nodes_of_work_of_the_old_ones(world, own_queues):
    """Up to 0.17 Kueue counts use by flavor: it would hand the first rack out once more, as the best fit."""
    pool = world.make_pool(scheduler="owned", size=3)
    world.wait(lambda: queues_of(world, pool), all)
    world.view.block(f"{pool}-r0-2")
    text = workflow(("g", ["a", "b"]), resources=ON_ONE_RACK)
    first = world.submit(pool, text)
    world.wait_group(first, "g", "RUNNING")
    edit(world, pool, topology_keys=[{"key": "hall", "label": "osmo.local/pool"}, *KEYS[:1]])
    world.wait(lambda: queues_of(world, pool), lambda found: len(found[0]) == len(found[1]) == 2)
    second = world.submit(pool, text)
    world.wait_group(second, "g", "RUNNING")
    racks = [{*places(world, bound(world, name), RACK)} for name in (first, second)]
    assert racks == [{"r0"}, {"r1"}]
    third = world.submit(pool, text)
    world.wait(
        lambda: world.groups(third)["g"]["waiting_reason"] or "",
        lambda reason: "No domain has room" in reason,
    )
    complete(world, first)  # its nodes are left out no more
    world.wait_group(third, "g", "RUNNING")
    for name in (second, third):
        assert len(world.groups(name)["g"]["attempts"]) == 1
        complete(world, name)
