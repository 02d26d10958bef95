"""A task group's life from submission to its end, on every way it can end."""

import re
import socket
from pathlib import Path

import pytest

from tests.e2e.conftest import ENDS_WHEN_LOST, RACK, workflow

PAIR = ("g", ["a", "b"])
SAME_RACK = "one: {gpu: 4, topology: [{key: rack}]}"


def test_a_gang_runs_in_one_rack_and_leaves_nothing(world):
    pool = world.make_pool(nvlink=True)
    name = world.submit(pool, workflow(PAIR, resources=SAME_RACK))
    world.wait_group(name, "g", "RUNNING")
    world.view.load_nodes()
    pods = world.bound_pods(name)
    assert len({world.view.domain(pod["spec"]["nodeName"], RACK) for pod in pods}) == 1
    assert all(pod["status"]["resourceClaimStatuses"] for pod in pods)
    for pod in pods:
        world.annotate(pod, run_for="0s")
    assert world.wait_released(name)["status"] == "COMPLETED"
    assert world.left(name) == []


@pytest.mark.parametrize("force", [False, True])
def test_a_cancelled_gang_leaves_nothing(world, force):
    pool = world.make_pool(nvlink=True)
    name = world.submit(pool, workflow(PAIR))
    world.wait_group(name, "g", "RUNNING")
    world.service.cancel(name, force=force, message="enough")
    answer = world.wait_released(name)
    assert answer["status"] == "FAILED_CANCELED"
    assert world.left(name) == []


def test_a_gang_cancelled_at_once_leaves_nothing(world):
    pool = world.make_pool(nvlink=True)
    name = world.submit(pool, workflow(PAIR))
    world.service.cancel(name)
    assert world.wait_released(name)["status"] == "FAILED_CANCELED"
    assert world.left(name) == []


def test_a_failed_lead_fails_its_group_with_its_exit_code(world):
    pool = world.make_pool(nvlink=True)
    name = world.submit(pool, workflow(PAIR))
    world.wait_group(name, "g", "RUNNING")
    lead = next(pod for pod in world.pods(name) if pod["metadata"]["labels"]["osmo.task_name"] == "a")
    world.annotate(lead, exit_code="7", run_for="0s")
    answer = world.wait_released(name)
    tasks = {task["name"]: task for task in answer["groups"][0]["tasks"]}
    assert answer["status"] == "FAILED"
    assert tasks["a"]["exit_code"] == 7
    assert world.left(name) == []


def test_a_group_starts_when_its_upstream_group_has_completed(world):
    pool = world.make_pool()
    first, second = ("first", ["a"]), ("second", ["b"], {"inputs": "[{task: a}]"})
    name = world.submit(pool, workflow(first, second))
    world.wait_group(name, "first", "RUNNING")
    assert world.groups(name)["second"]["status"] == "WAITING"
    (pod,) = world.pods(name)
    world.annotate(pod, run_for="0s")
    world.wait_group(name, "second", "RUNNING")


def test_a_group_whose_upstream_group_failed_is_never_made(world):
    pool = world.make_pool()
    first, second = ("first", ["a"]), ("second", ["b"], {"inputs": "[{task: a}]"})
    name = world.submit(pool, workflow(first, second))
    world.wait_group(name, "first", "RUNNING")
    (pod,) = world.pods(name)
    world.annotate(pod, exit_code="1", run_for="0s")
    answer = world.wait_released(name)
    statuses = {group["name"]: group["status"] for group in answer["groups"]}
    assert statuses == {"first": "FAILED", "second": "FAILED_UPSTREAM"}
    assert answer["status"] == "FAILED"


def test_a_gang_that_never_fits_ends_at_its_queue_timeout(world):
    pool = world.make_pool(racks=1)
    big = ("g", ["a", "b", "c"])
    name = world.submit(pool, workflow(big, extra="  timeout: {queue_timeout: 5s}\n"))
    answer = world.wait_released(name)
    assert answer["status"] == "FAILED_QUEUE_TIMEOUT"
    assert world.left(name) == []


def test_a_gang_that_runs_too_long_ends_at_its_execution_timeout(world):
    pool = world.make_pool()
    name = world.submit(pool, workflow(PAIR, extra="  timeout: {exec_timeout: 3s}\n"))
    assert world.wait_released(name)["status"] == "FAILED_EXEC_TIMEOUT"
    assert world.left(name) == []


def test_a_pod_that_vanishes_is_a_fault_of_the_backend(world):
    pool = world.make_pool(recovery=ENDS_WHEN_LOST)
    name = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(name, "g", "RUNNING")
    (pod,) = world.pods(name)
    world.api.delete(f"/api/v1/namespaces/{world.namespace}/pods/{pod['metadata']['name']}")
    answer = world.wait_released(name)
    assert answer["status"] == "FAILED_BACKEND_ERROR"
    assert answer["groups"][0]["tasks"][0]["exit_code"] == 3001


def test_a_waiting_gang_says_why_and_starts_when_there_is_room(world):
    pool = world.make_pool(racks=1)
    world.view.block(f"{pool}-r0-0")
    name = world.submit(pool, workflow(PAIR, resources=SAME_RACK))
    found = world.wait(lambda: world.groups(name)["g"], lambda group: bool(group["waiting_reason"]))
    assert found["status"] in {"PROCESSING", "SCHEDULING"}
    world.view.unblock(f"{pool}-r0-0")
    world.wait_group(name, "g", "RUNNING")


def test_a_lead_that_asks_to_be_rescheduled_runs_again_with_its_peers(world):
    world.service.call("PATCH", "/api/configs/workflow", {"configs_dict": {"max_retry_per_task": 1}})
    pool = world.make_pool(recovery={"backoff": {"first": "1s"}})
    lead = ("g", ["a", "b"], {"exitActions": '{RESCHEDULE: "3"}'})
    name = world.submit(pool, workflow(lead, resources=SAME_RACK))
    world.wait_group(name, "g", "RUNNING")
    before = {pod["metadata"]["name"]: pod for pod in world.pods(name)}
    pod = next(pod for pod in before.values() if pod["metadata"]["labels"]["osmo.task_name"] == "a")
    world.annotate(pod, exit_code="3", run_for="0s")

    def new_pods():
        return [
            p
            for p in world.pods(name)
            if p["metadata"]["name"] not in before and p["status"].get("phase") == "Running"
        ]

    pods = world.wait(new_pods, lambda pods: len(pods) == 2)
    again = next(new for new in pods if new["metadata"]["labels"]["osmo.task_name"] == "a")
    subgroup = "kai.scheduler/subgroup-name"
    assert again["metadata"]["labels"].get(subgroup) == pod["metadata"]["labels"].get(subgroup)
    world.wait_group(name, "g", "RUNNING")


def test_work_for_a_cluster_that_is_away_is_accepted_and_carried_out_when_it_is_back(world, tmp_path):
    pool = world.make_pool()
    real = Path(world.kubeconfig).read_text()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(real.replace("https://127.0.0.1:", "https://127.0.0.1:1"))
    backend = f"{world.prefix}away"
    content = {
        "kubeconfig": str(kubeconfig),
        "k8s_namespace": world.namespace,
        "scheduler_settings": {"scheduler_type": "kai"},
    }
    world.service.call("POST", f"/api/configs/backend/{backend}", {"configs": content})
    away = {"configs_dict": {"backend": backend}}
    world.service.call("PATCH", f"/api/configs/pool/{pool}", away)
    reply = world.service.submit(pool, workflow(PAIR))
    assert any("does not answer" in warning or "reach" in warning for warning in reply["warnings"])
    kubeconfig.write_text(real)
    world.wait_group(reply["name"], "g", "RUNNING")


def test_a_cluster_that_takes_calls_and_never_answers_keeps_no_other_from_its_work(world, tmp_path):
    """Its groups would hold every thread of the worker for minutes.

    Without TLS: a reply is waited for longer than a greeting.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=512) as silent:
        port = silent.getsockname()[1]
        kubeconfig = tmp_path / "kubeconfig"
        text = Path(world.kubeconfig).read_text()
        kubeconfig.write_text(re.sub(r"https://127\.0\.0\.1:\d+", f"http://127.0.0.1:{port}", text))
        backend = f"{world.prefix}silent"
        content = {"kubeconfig": str(kubeconfig), "k8s_namespace": world.namespace}
        settings = {"scheduler_settings": {"scheduler_type": "kai"}}
        world.service.call("POST", f"/api/configs/backend/{backend}", {"configs": content | settings})
        pool, other = world.make_pool("silent"), world.make_pool("other")
        away = {"configs_dict": {"backend": backend}}
        world.service.call("PATCH", f"/api/configs/pool/{pool}", away)
        many = [(f"g{n}", [f"t{n}"]) for n in range(60)]
        waiting = world.submit(pool, workflow(*many))
        name = world.submit(other, workflow(PAIR))
        world.wait_group(name, "g", "RUNNING")
        assert {group["status"] for group in world.groups(waiting).values()} <= {"PROCESSING", "SUBMITTING"}
        world.service.cancel(waiting)
