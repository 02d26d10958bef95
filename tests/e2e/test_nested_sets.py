"""Sets inside sets by submission to the service, on Kubernetes' own scheduler, the real one."""

import pytest

from tests.e2e.conftest import RACK, workflow

ZONE = "osmo.local/pool"
KEYS = [{"key": "zone", "label": ZONE}, {"key": "rack", "label": RACK}]
PARENTS = {
    "Workload": "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/workloads",
    "CompositePodGroup": "/apis/scheduling.k8s.io/v1alpha3/namespaces/{}/compositepodgroups",
}
PREFERRED = (
    "left: {gpu: 4, topology: [{key: rack, group: left, requirementType: preferred}]}\n"
    "    right: {gpu: 4, topology: [{key: rack, group: right, requirementType: preferred}]}"
)
TWO_RACKS = (
    "left: {gpu: 4, topology: [{key: zone, group: all}, {key: rack, group: left}]}\n"
    "    right: {gpu: 4, topology: [{key: zone, group: all}, {key: rack, group: right}]}"
)


@pytest.fixture(scope="session")
def composites_backend(stack):
    """A backend whose administrator vouches for composites, once for all tests of a worker."""
    content = {
        "kubeconfig": str(stack.kubeconfig),
        "k8s_namespace": stack.namespace,
        "scheduler_settings": {"scheduler_type": "kubernetes"},
        "composite_pod_groups": True,
    }
    stack.service.call("POST", f"/api/configs/backend/{stack.backend}-composites", {"configs": content})


@pytest.fixture
def pool(world, composites_backend):
    return world.make_pool(scheduler="composites", topology_keys=KEYS)


def parents(world, name):
    """What stands above the workflow's pod groups: (kind, name, path)."""
    (group,) = world.service.workflow(name)["groups"]
    label = f"osmo.nvidia.com/task-group={group['uuid']}"
    return [
        (kind, obj["metadata"]["name"], f"{path.format(world.namespace)}/{obj['metadata']['name']}")
        for kind, path in PARENTS.items()
        for obj in world.api.list(path.format(world.namespace), query={"labelSelector": label})[0]
    ]


def submit(world, pool, *, right, resources=TWO_RACKS):
    """Two tasks in one rack and some in another, all in one zone unless the resources say otherwise."""
    lines = workflow(("g", ["a", "b", *right]), resources=resources).splitlines()
    placed = {"a": "left", "b": "left"} | dict.fromkeys(right, "right")
    for task, rack in placed.items():
        at = next(at for at, line in enumerate(lines) if f"name: {task}," in line)
        lines[at] = lines[at].replace("resource: one", f"resource: {rack}")
    return world.submit(pool, "\n".join(lines))


def racks(world, name):
    world.view.load_nodes()
    return {
        pod["metadata"]["labels"]["osmo.task_name"]: world.view.domain(pod["spec"]["nodeName"], RACK)
        for pod in world.bound_pods(name)
    }


def test_two_racks_of_one_zone_run_as_one_gang_and_leave_nothing_behind(world, pool):
    name = submit(world, pool, right=["c", "d"])
    world.wait_group(name, "g", "RUNNING")
    where = racks(world, name)
    assert where["a"] == where["b"] != where["c"] == where["d"]
    kinds = sorted(kind for kind, _, _ in parents(world, name))
    assert kinds == ["CompositePodGroup", "Workload"]
    world.service.cancel(name)
    world.wait_released(name)
    assert world.left(name) == []
    assert parents(world, name) == []


def test_a_set_that_fits_waits_for_one_that_does_not_and_its_parent_is_made_again(world, pool):
    name = submit(world, pool, right=["c", "d", "e"])
    world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "",
        lambda reason: "rack" in reason and "room" in reason,
    )
    assert all("nodeName" not in pod["spec"] for pod in world.pods(name))
    (path,) = [path for kind, _, path in parents(world, name) if kind == "CompositePodGroup"]
    world.api.delete(path)
    world.wait(lambda: sorted(kind for kind, _, _ in parents(world, name)), lambda kinds: len(kinds) == 2)
    world.service.cancel(name)
    world.wait_released(name)
    assert world.left(name) == []
    assert parents(world, name) == []


def test_preferred_racks_are_had_where_there_are_any_and_keep_nobody_waiting(world):
    pool = world.make_pool(scheduler="kubernetes", racks=3, topology_keys=KEYS)
    name = submit(world, pool, right=["c", "d"], resources=PREFERRED)
    where = racks(world, name)
    assert where["a"] == where["b"] != where["c"] == where["d"]
    world.service.cancel(name)
    world.wait_released(name)
    name = submit(world, pool, right=["c", "d", "e"], resources=PREFERRED)
    where = racks(world, name)
    assert where["a"] == where["b"]
    assert len({where[task] for task in "cde"}) == 2
    world.service.cancel(name)
    world.wait_released(name)
    assert world.left(name) == []


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
    world.service.cancel(name)
    world.wait_released(name)
    assert world.left(name) == []
    assert parents(world, name) == []


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
    world.service.cancel(name)
    world.wait_released(name)
    assert world.left(name) == []
    assert parents(world, name) == []
