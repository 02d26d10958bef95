"""A gang at its start barrier, in the whole service: it waits with a reason, begins, or ends with one."""

import pytest

import barrier
from tests.e2e.conftest import workflow
from tests.e2e.explanations import explain

IMAGE = "registry.example.com/osmo-topology:1"
FOR_EVER = "  labels: {sim.osmo.local/init-for: 1h}\n"


@pytest.fixture
def waiting(world):
    """A gang of three, on a backend with a start barrier, whose barriers are at work."""
    path = f"/api/configs/backend/{world.backend}-kai"
    world.service.call("POST", path, {"configs": {"start_barrier": {"image": IMAGE}}})
    try:
        name = world.submit(world.make_pool(), workflow(("g", ["a", "b", "c"]), extra=FOR_EVER))
    finally:
        world.service.call("POST", path, {"configs": {"start_barrier": {"image": ""}}})
    world.wait_group(name, "g", "INITIALIZING")
    return name


def test_a_gang_waits_with_a_reason_and_begins_when_its_barriers_have_ended(world, waiting):
    says = "3 of 3 tasks wait at the start barrier for the addresses of their peers: a, b and c."
    explain(world, waiting, "start_barrier", by="init containers that go on for ever", says=says)
    for pod in world.pods(waiting):
        assert pod["spec"]["initContainers"][-1]["image"] == IMAGE
        world.annotate(pod, init_for="0s")
    world.wait_group(waiting, "g", "RUNNING")
    for pod in world.pods(waiting):
        world.annotate(pod, run_for="0s")
    world.wait_group(waiting, "g", "COMPLETED")
    world.wait_released(waiting)
    assert world.left(waiting) == []


def test_a_barrier_that_fails_ends_its_gang_and_names_who_was_missing(world, waiting):
    message = "After 24 min 1 of 2 peers had no address: c."
    pod = next(pod for pod in world.pods(waiting) if pod["spec"]["containers"][0]["name"] == "a")
    world.annotate(pod, init_for="0s", init_exit_code=str(barrier.NO_ADDRESS), init_message=message)
    group = world.wait_group(waiting, "g", "FAILED_START_TIMEOUT")
    assert message in group["failure_message"]
    (lead,) = [task for task in group["tasks"] if task["name"] == "a"]
    assert (lead["status"], lead["exit_code"]) == ("FAILED_START_TIMEOUT", 3005)
    world.wait_released(waiting)
    assert world.left(waiting) == []
