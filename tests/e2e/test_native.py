"""Kubernetes' own scheduler, the real one: what it places, what it keeps waiting, and a retry on it."""

from tests.e2e.conftest import CLIQUE, RACK, workflow

RACK_OF = "one: {gpu: 4, topology: [{key: rack}]}"


def native_groups(world, name):
    (group,) = world.service.workflow(name)["groups"]
    return {
        pod_group["metadata"]["name"].removeprefix(group["uuid"].replace("-", "")): pod_group["spec"]
        for pod_group in world.view.of_group(world.namespace, "PodGroup (Kubernetes)", group["uuid"])
    }


def domains(world, pods, label):
    world.view.load_nodes()
    return {world.view.domain(pod["spec"]["nodeName"], label) for pod in pods}


def end(world, name):
    world.service.cancel(name)
    world.wait_released(name)
    assert world.left(name) == []


def test_four_tasks_share_a_clique_and_a_compute_domain(world):
    pool = world.make_pool(scheduler="kubernetes", nvlink=True, size=4)
    resources = "one: {gpu: 4, topology: [{key: clique}]}"
    name = world.submit(pool, workflow(("g", list("abcd")), resources=resources))
    world.wait_group(name, "g", "RUNNING")
    pods = world.bound_pods(name)
    assert len(domains(world, pods, CLIQUE)) == 1
    assert all(pod["status"]["resourceClaimStatuses"] for pod in pods)
    (spec,) = native_groups(world, name).values()
    assert spec["schedulingPolicy"] == {"gang": {"minCount": 4}}
    assert spec["schedulingConstraints"] == {"topology": [{"key": CLIQUE}]}
    end(world, name)


def test_a_gang_that_no_rack_can_hold_waits_whole_and_says_so(world):
    """Three whole nodes fit into the pool, but not into one of its racks of two."""
    pool = world.make_pool(scheduler="kubernetes")
    name = world.submit(pool, workflow(("g", list("abc")), resources=RACK_OF))
    said = world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "", lambda reason: "No rack" in reason
    )
    assert "No rack has room for the 3 tasks of" in said
    assert [pod["spec"].get("nodeName") for pod in world.pods(name)] == [None] * 3
    end(world, name)


def test_a_task_tried_again_after_a_peer_has_finished_runs_beside_the_one_that_is_left(world):
    world.service.call("PATCH", "/api/configs/workflow", {"configs_dict": {"max_retry_per_task": 1}})
    pool = world.make_pool(scheduler="kubernetes", racks=3, default_exit_actions={"RESCHEDULE": "3"})
    resources = "one: {gpu: 2, topology: [{key: rack}]}"
    name = world.submit(pool, workflow(("g", list("abc")), resources=resources))
    world.wait_group(name, "g", "RUNNING")
    of = {pod["metadata"]["labels"]["osmo.task_name"]: pod for pod in world.bound_pods(name)}
    (rack,) = domains(world, of.values(), RACK)
    world.annotate(of["b"], exit_code="0", run_for="0s")

    def status(task):
        tasks = world.groups(name)["g"]["tasks"]
        return [row["status"] for row in tasks if row["name"] == task]

    world.wait(lambda: status("b"), lambda found: found[-1] == "COMPLETED")
    world.annotate(of["c"], exit_code="3", run_for="0s")

    def again():
        old = {pod["metadata"]["name"] for pod in of.values()}
        return [
            pod
            for pod in world.pods(name)
            if pod["metadata"]["name"] not in old and pod["status"].get("phase") == "Running"
        ]

    (pod,) = world.wait(again, lambda pods: len(pods) == 1)
    assert domains(world, [pod], RACK) == {rack}
    assert pod["spec"]["nodeSelector"][RACK] == rack
    assert native_groups(world, name)["-1"]["schedulingPolicy"] == {"gang": {"minCount": 1}}
    end(world, name)
