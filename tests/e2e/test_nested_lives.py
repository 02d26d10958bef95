"""Running gangs of sets inside sets on Kubernetes' own scheduler: what they lose, and get back."""

import pytest

from localcluster import nodes
from tests.e2e.conftest import CLIQUE, ENDS_WHEN_LOST, RACK, SECONDS, workflow
from tests.e2e.nested_sets import (
    KEYS,
    TWO_CLIQUES,
    assert_gone,
    by_task,
    end,
    parents,
    racks,
    submit,
)

BACKOFF = {"first": "1s", "limit": "2s"}
AGAIN = {"default_exit_actions": {"RESCHEDULE": "3"}}
PAIR_IN_A_RACK = workflow(("g", ["a", "b"]), name="high", resources="one: {gpu: 4, topology: [{key: rack}]}")


@pytest.fixture
def make_pool(world, composites_backend):
    def make(**values):
        return world.make_pool(scheduler="composites", **{"topology_keys": KEYS, **values})

    return make


@pytest.fixture
def one_retry(world):
    world.service.call("PATCH", "/api/configs/workflow", {"configs_dict": {"max_retry_per_task": 1}})


def start(world, pool, **more):
    """Run two pairs, each in a rack of its own; returns the workflow and its pods by task."""
    name = submit(world, pool, right=["c", "d"], **more)
    world.wait_group(name, "g", "RUNNING")
    return name, by_task(world.bound_pods(name))


def uids(pods):
    return {pod["metadata"]["uid"] for pod in pods}


def wait_running_again(world, name, old, *, tasks):
    """The running pods of these tasks that came after others of theirs."""

    def new():
        pods = by_task(pod for pod in world.pods(name) if pod["metadata"]["uid"] not in uids(old.values()))
        return {task: pod for task, pod in pods.items() if pod["status"].get("phase") == "Running"}

    return world.wait(new, lambda pods: pods.keys() == set(tasks))


def domain_of(world, pod, label):
    world.view.load_nodes()
    return world.view.domain(pod["spec"]["nodeName"], label)


def statuses(world, name):
    """The status of each task's latest try."""
    return {task["name"]: task["status"] for task in world.groups(name)["g"]["tasks"]}


def test_a_tree_of_higher_priority_takes_the_place_of_a_whole_tree(world, make_pool):
    pool = make_pool(recovery=ENDS_WHEN_LOST)
    low, _ = start(world, pool, priority="LOW")
    high, _ = start(world, pool, priority="HIGH")
    assert_gone(world, low)
    assert world.service.workflow(low)["status"].startswith("FAILED")
    where = racks(world, high)
    assert where["a"] == where["b"] != where["c"] == where["d"]
    end(world, high)


def test_a_gang_that_needs_one_rack_evicts_both_sets_of_a_tree_which_comes_back_whole(world, make_pool):
    pool = make_pool(recovery={"preempted": "requeue", "backoff": BACKOFF})
    low, old = start(world, pool, priority="LOW")
    high = world.submit(pool, PAIR_IN_A_RACK, priority="HIGH")
    world.wait_group(high, "g", "RUNNING")
    pods = world.wait(
        lambda: world.pods(low), lambda pods: len(pods) == 4 and not uids(pods) & uids(old.values())
    )
    assert all("nodeName" not in pod["spec"] for pod in pods)
    end(world, high)
    wait_running_again(world, low, old, tasks="abcd")
    where = racks(world, low)
    assert where["a"] == where["b"] != where["c"] == where["d"]
    assert sorted(kind for kind, _, _ in parents(world, low)) == ["CompositePodGroup", "Workload"]
    end(world, low)


@pytest.mark.parametrize("loss", [pytest.param("removed", marks=pytest.mark.deep), "silent"])
def test_tasks_of_a_lost_node_are_replaced_in_their_rack_while_their_peers_run_on(world, make_pool, loss):
    recovery = {"node_lost": "task", "backoff": BACKOFF}
    pool = make_pool(size=3, recovery=recovery, node_lost_after=6, force_lost_pods=True)
    name, old = start(world, pool)
    where = racks(world, name)
    node = old["a"]["spec"]["nodeName"]
    if loss == "removed":
        world.api.delete(f"{nodes.PATH}/{node}")
    else:
        nodes.stop_kubelet(world.api, node)
    new = wait_running_again(world, name, old, tasks="a")
    assert racks(world, name) == where
    assert uids(world.pods(name)) == uids({**old, **new}.values())
    end(world, name)


@pytest.mark.usefixtures("one_retry")
def test_a_task_that_failed_is_tried_again_in_its_rack(world, make_pool):
    pool = make_pool(size=3, **AGAIN)
    name, old = start(world, pool)
    where = racks(world, name)
    world.annotate(old["d"], exit_code="3", run_for="0s")
    new = wait_running_again(world, name, old, tasks="d")
    assert domain_of(world, new["d"], RACK) == where["d"]
    end(world, name)


@pytest.mark.deep  # nobody is notified of it
@pytest.mark.usefixtures("one_retry")
def test_a_composite_that_somebody_deletes_is_made_again_for_a_task_that_waits(world, make_pool):
    pool = make_pool(**AGAIN)
    name, old = start(world, pool)
    node = f"{nodes.PATH}/{old['d']['spec']['nodeName']}"
    world.api.patch(node, {"spec": {"unschedulable": True}})
    world.annotate(old["d"], exit_code="3", run_for="0s")
    world.wait(lambda: statuses(world, name)["d"], lambda status: status == "SCHEDULING")
    for _, _, path in parents(world, name):
        world.api.delete(path)
    world.wait(
        lambda: sorted(kind for kind, _, _ in parents(world, name)),
        lambda kinds: len(kinds) == 2,
        2 * SECONDS,
    )
    world.api.patch(node, {"spec": {"unschedulable": False}})
    new = wait_running_again(world, name, old, tasks="d")
    assert new["d"]["spec"]["nodeName"] == old["d"]["spec"]["nodeName"]
    end(world, name)


@pytest.mark.usefixtures("one_retry")
def test_a_task_tried_again_after_its_own_peer_has_finished_may_run_in_another_rack(world, make_pool):
    """Nothing runs in its rack that it would have to stand beside, and no level counts as broken."""
    pool = make_pool(racks=3, **AGAIN)
    name, old = start(world, pool)
    where = racks(world, name)
    world.annotate(old["d"], exit_code="0", run_for="0s")
    world.wait(lambda: statuses(world, name)["d"], lambda status: status == "COMPLETED")
    for task in "cd":
        world.api.patch(f"{nodes.PATH}/{old[task]['spec']['nodeName']}", {"spec": {"unschedulable": True}})
    world.annotate(old["c"], exit_code="3", run_for="0s")
    new = wait_running_again(world, name, old, tasks="c")
    assert domain_of(world, new["c"], RACK) not in where.values()
    world.wait(lambda: statuses(world, name)["c"], lambda status: status == "RUNNING")
    assert world.groups(name)["g"]["got"]["outcome"] == "match"
    backend = world.service.get(f"/api/configs/backend/{world.backend}-composites")
    (held,) = [entry for entry in backend["conditions"] if entry["type"] == "CompositesHeld"]
    assert held["status"] == "True"
    end(world, name)


def test_two_cliques_of_one_zone_claim_channels_and_leave_no_claim(world, make_pool):
    keys = [*KEYS, {"key": "clique", "label": CLIQUE}]
    pool = make_pool(nvlink=True, topology_keys=keys)
    name, pods = start(world, pool, resources=TWO_CLIQUES)
    where = racks(world, name, CLIQUE)
    assert where["a"] == where["b"] != where["c"] == where["d"]
    assert all(pod["status"]["resourceClaimStatuses"] for pod in pods.values())
    assert any(entry.startswith("ComputeDomain") for entry in world.left(name))
    too_large = submit(world, pool, right=["c", "d", "e"], resources=TWO_CLIQUES)
    end(world, name)  # all channels are free now, and one clique has too few
    world.wait(lambda: world.groups(too_large)["g"]["waiting_reason"] or "", lambda text: "all sets" in text)
    assert all("nodeName" not in pod["spec"] for pod in world.pods(too_large))
    end(world, too_large)
