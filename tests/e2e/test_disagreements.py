"""A scheduler that leaves gangs waiting although they fit is found on the whole service, and no other is."""

import pytest

from tests.e2e.conftest import workflow
from tests.e2e.left_gangs import condition_of

IN_A_RACK = "one: {gpu: 4, topology: [{key: rack}]}"


@pytest.fixture(scope="session")
def frozen_backend(stack):
    """A backend whose scheduler is nobody: its pods are as they would be beside one that hangs."""
    content = {
        "kubeconfig": str(stack.kubeconfig),
        "k8s_namespace": stack.namespace,
        "scheduler_settings": {"scheduler_type": "kubernetes", "scheduler_name": "nobody"},
    }
    path = f"/api/configs/backend/{stack.backend}-frozen"
    stack.service.call("POST", path, {"configs": content})
    return path


def test_gangs_that_a_frozen_scheduler_leaves_waiting_say_so_until_they_are_cancelled(world, frozen_backend):
    pool = world.make_pool(scheduler="frozen")
    name = world.submit(pool, workflow(("g", ["a", "b"]), resources=IN_A_RACK))
    told = world.wait(lambda: condition_of(world, name), lambda condition: condition["status"] == "True")
    assert "nothing goes before it, but its scheduler has not placed it" in told["message"]
    (wait,) = world.wait(
        lambda: world.service.get(f"/api/workflow/{name}/explain")["groups"],
        lambda groups: groups[0]["why"] == "scheduler_disagrees",
    )
    assert "An administrator looks at the scheduler" in wait["help"]
    backend = world.service.get(frozen_backend)
    assert ("SchedulerDisagrees", "True") in {
        (entry["type"], entry["status"]) for entry in backend["conditions"]
    }
    world.service.call("POST", f"/api/workflow/{name}/cancel")
    world.wait_released(name)
    world.wait(
        lambda: world.service.get(frozen_backend)["conditions"],
        lambda found: (
            ("SchedulerDisagrees", "False") in {(entry["type"], entry["status"]) for entry in found}
        ),
    )


@pytest.mark.parametrize("scheduler", ["kai", "kubernetes"])
def test_a_gang_without_room_says_nothing_of_its_scheduler(world, scheduler):
    pool = world.make_pool(racks=1, scheduler=scheduler)
    first = world.submit(pool, workflow(("g", ["a", "b"]), resources=IN_A_RACK))
    world.wait_group(first, "g", "RUNNING")
    waits = world.submit(pool, workflow(("g", ["a", "b"]), resources=IN_A_RACK))
    world.wait(
        lambda: world.service.get(f"/api/workflow/{waits}/explain")["groups"],
        lambda groups: groups and groups[0]["why"] in ("topology", "capacity"),
    )
    assert condition_of(world, waits)["status"] in (None, "False")
