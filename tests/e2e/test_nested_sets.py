"""Sets inside sets by submission to the service, on Kubernetes' own scheduler, the real one."""

import pytest

from tests.e2e.conftest import RACK, workflow
from tests.e2e.nested_sets import KEYS, PREFERRED, end, parents, racks, submit


@pytest.fixture
def pool(world, composites_backend):
    return world.make_pool(scheduler="composites", topology_keys=KEYS)


def test_two_racks_of_one_zone_run_as_one_gang_and_leave_nothing_behind(world, pool):
    name = submit(world, pool, right=["c", "d"])
    world.wait_group(name, "g", "RUNNING")
    where = racks(world, name)
    assert where["a"] == where["b"] != where["c"] == where["d"]
    kinds = sorted(kind for kind, _, _ in parents(world, name))
    assert kinds == ["CompositePodGroup", "Workload"]
    end(world, name)


def test_a_set_that_fits_waits_for_one_that_does_not_and_its_parent_is_made_again(world, pool):
    name = submit(world, pool, right=["c", "d", "e"])
    world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "",
        lambda reason: "no place for all sets" in reason,
    )
    assert all("nodeName" not in pod["spec"] for pod in world.pods(name))
    (path,) = [path for kind, _, path in parents(world, name) if kind == "CompositePodGroup"]
    world.api.delete(path)
    world.wait(lambda: sorted(kind for kind, _, _ in parents(world, name)), lambda kinds: len(kinds) == 2)
    end(world, name)


def test_preferred_racks_are_had_where_there_are_any_and_keep_nobody_waiting(world):
    pool = world.make_pool(scheduler="kubernetes", racks=3, topology_keys=KEYS)
    known = lambda: world.service.get(f"/api/pool/{pool}/topology")["nodes"]  # noqa: E731
    world.wait(known, lambda nodes: nodes == 6)  # pods are led by the nodes as last observed
    name = submit(world, pool, right=["c", "d"], resources=PREFERRED)
    where = racks(world, name)
    assert where["a"] == where["b"] != where["c"] == where["d"]
    end(world, name)
    name = submit(world, pool, right=["c", "d", "e"], resources=PREFERRED)
    where = racks(world, name)
    assert where["a"] == where["b"]
    assert len({where[task] for task in "cde"}) == 2
    end(world, name)


def test_a_task_tried_again_after_a_whole_set_has_finished_runs_in_its_own_rack(world, composites_backend):
    world.service.call("PATCH", "/api/configs/workflow", {"configs_dict": {"max_retry_per_task": 1}})
    exits = {"RESCHEDULE": "3"}
    pool = world.make_pool(scheduler="composites", racks=3, topology_keys=KEYS, default_exit_actions=exits)
    name = submit(world, pool, right=["c", "d"])
    world.wait_group(name, "g", "RUNNING")
    before, where = world.bound_pods(name), racks(world, name)
    of = {pod["metadata"]["labels"]["osmo.task_name"]: pod for pod in before}
    for task in "cd":
        world.annotate(of[task], exit_code="0", run_for="0s")
    tasks = lambda: {row["name"]: row["status"] for row in world.groups(name)["g"]["tasks"]}  # noqa: E731
    world.wait(tasks, lambda found: found["c"] == found["d"] == "COMPLETED")
    world.annotate(of["b"], exit_code="3", run_for="0s")
    old = {pod["metadata"]["name"] for pod in before}

    def again():
        pods = [pod for pod in world.pods(name) if pod["metadata"]["name"] not in old]
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    (pod,) = world.wait(again, lambda pods: len(pods) == 1)
    world.view.load_nodes()
    assert world.view.domain(pod["spec"]["nodeName"], RACK) == where["a"]
    end(world, name)


def test_sets_whose_place_a_greedy_order_may_miss_get_it(world, composites_backend):
    """4, 3, 2 and 2 whole nodes on racks of 6 and 5: only 4 + 2 and 3 + 2 fit. Chance or pins lead there."""
    pool = world.make_pool(scheduler="composites", racks=2, size=6, topology_keys=KEYS)
    world.api.patch(f"/api/v1/nodes/{pool}-r1-0", {"spec": {"unschedulable": True}})
    sizes = {"p": 4, "q": 3, "r": 2, "s": 2}
    tasks = [(f"{name}{at}", name) for name, size in sizes.items() for at in range(size)]
    resources = "\n    ".join(
        f"{name}: {{gpu: 4, cpu: 16, memory: 128Gi, topology: [{{key: rack, group: {name}}}]}}"
        for name in sizes
    )
    lines = workflow(("g", [task for task, _ in tasks]), resources=resources).splitlines()
    for task, rack in tasks:
        at = next(at for at, line in enumerate(lines) if f"name: {task}," in line)
        lines[at] = lines[at].replace("resource: one", f"resource: {rack}")
    name = world.submit(pool, "\n".join(lines))
    where = world.wait(
        lambda: [pod["spec"].get("nodeName") for pod in world.pods(name)],
        lambda found: len(found) == len(tasks) and all(found),
    )
    assert len(set(where)) == len(tasks)
    by_rack = racks(world, name)
    for task, group in tasks:
        assert by_rack[task] == by_rack[f"{group}0"]
    end(world, name)
