"""Schedulers that take places back: what is lost to them, what is kept from them, and what is said of it."""

from tests.e2e.conftest import ENDS_WHEN_LOST, workflow

PAIR = ("g", ["a", "b"])


def outcome(world, name):
    """How a workflow ended, and the statuses and exit codes of its tasks."""
    answer = world.wait_released(name)
    (group,) = answer["groups"]
    return answer["status"], {(task["status"], task["exit_code"]) for task in group["tasks"]}, group


def end(world, *names):
    for name in names:
        world.service.cancel(name)
        world.wait_released(name)


def fill(world, *, scheduler):
    """A pool of two nodes, and a LOW gang on both."""
    pool = world.make_pool(racks=1, scheduler=scheduler, topology_keys=[], recovery=ENDS_WHEN_LOST)
    low = world.submit(pool, workflow(PAIR, name="low"), priority="LOW")
    world.wait_group(low, "g", "RUNNING")
    return pool, low


def test_higher_priority_takes_the_places_of_a_low_gang_on_kai(world):
    pool, low = fill(world, scheduler="kai")
    high = world.submit(pool, workflow(PAIR, name="high"), priority="HIGH")
    world.wait_group(high, "g", "RUNNING")
    status, tasks, group = outcome(world, low)
    assert (status, ("FAILED_PREEMPTED", 3006) in tasks) == ("FAILED_PREEMPTED", True)
    assert "evicted it to make room for work of higher priority" in group["failure_message"]
    end(world, high)


def test_a_low_gang_that_is_rescheduled_comes_back_whole_when_there_is_room(world):
    world.service.call("PATCH", "/api/configs/workflow", {"configs_dict": {"max_retry_per_task": 1}})
    again = {"default_exit_actions": {"RESCHEDULE": "3006"}}
    pool = world.make_pool(racks=1, topology_keys=[], **again)
    low = world.submit(pool, workflow(PAIR, name="low"), priority="LOW")
    world.wait_group(low, "g", "RUNNING")
    high = world.submit(pool, workflow(PAIR, name="high"), priority="HIGH")
    world.wait_group(high, "g", "RUNNING")

    def second_tries():
        tasks = world.groups(low)["g"]["tasks"]
        return [(task["retry_id"], task["status"]) for task in tasks]

    world.wait(second_tries, lambda tries: tries == [(1, "SCHEDULING")] * 2)
    end(world, high)
    world.wait(second_tries, lambda tries: tries == [(1, "RUNNING")] * 2)
    end(world, low)


def test_a_gang_that_loses_a_task_and_lives_on_is_not_evicted_for_it(world):
    pool = world.make_pool(racks=1, size=3)
    name = world.submit(pool, workflow(("g", ["a", "b", "c"])))
    world.wait_group(name, "g", "RUNNING")
    lost = next(p for p in world.pods(name) if p["metadata"]["labels"]["osmo.task_name"] == "c")
    world.annotate(lost, exit_code="3", run_for="0s")

    def pod_group():
        uuid = world.groups(name)["g"]["uuid"]
        (found,) = world.view.of_group(world.namespace, "PodGroup", uuid)
        stale = "kai.scheduler/stale-podgroup-timestamp" in found["metadata"].get("annotations", {})
        return found["spec"]["minMember"], stale

    world.wait(pod_group, lambda found: found == (2, False))
    statuses = {task["name"]: task["status"] for task in world.groups(name)["g"]["tasks"]}
    assert statuses == {"a": "RUNNING", "b": "RUNNING", "c": "FAILED"}
    assert any('goes on without "c"' in line for line in world.service.events(name))
    end(world, name)


def test_a_pod_of_a_waiting_gang_that_somebody_deletes_is_made_again(world):
    pool = world.make_pool(racks=1)
    world.view.block(f"{pool}-r0-0")
    name = world.submit(pool, workflow(PAIR))
    world.wait(lambda: world.groups(name)["g"]["waiting_reason"], bool)
    doomed = world.pods(name)[1]["metadata"]
    world.api.delete(f"/api/v1/namespaces/{world.namespace}/pods/{doomed['name']}")
    world.wait(
        lambda: {pod["metadata"]["uid"] for pod in world.pods(name)},
        lambda uids: len(uids) == 2 and doomed["uid"] not in uids,
    )
    world.view.unblock(f"{pool}-r0-0")
    world.wait_group(name, "g", "RUNNING")
    assert [task["retry_id"] for task in world.groups(name)["g"]["tasks"]] == [0, 0]
    end(world, name)


def test_kubernetes_own_scheduler_preempts_a_low_workflow_and_that_is_told(world):
    pool, low = fill(world, scheduler="kubernetes")
    high = world.submit(pool, workflow(PAIR, name="high"), priority="HIGH")
    world.wait_group(high, "g", "RUNNING")
    status, tasks, _ = outcome(world, low)
    assert (status, ("FAILED_PREEMPTED", 3006) in tasks) == ("FAILED_PREEMPTED", True)
    end(world, high)


def test_kubernetes_own_scheduler_takes_nothing_from_a_normal_workflow(world, default_backend):
    pool = world.make_pool(racks=1, scheduler="default", topology_keys=[])
    normal = world.submit(pool, workflow(PAIR, name="normal"))
    world.wait_group(normal, "g", "RUNNING")
    reply = world.service.submit(pool, workflow(("g", ["a"]), name="high"), priority="HIGH")
    assert any("treats priority HIGH as NORMAL" in warning for warning in reply["warnings"])
    world.wait(lambda: world.groups(reply["name"])["g"]["waiting_reason"], bool)
    assert world.groups(normal)["g"]["status"] == "RUNNING"
    end(world, normal, reply["name"])
