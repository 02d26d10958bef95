"""Room that a real Kueue does not see, or sees twice: what the service does about it."""

from localcluster import nodes
from tests.e2e.conftest import RACK, workflow
from tests.e2e.kueue_queues import complete, workloads

SAME_RACK = "one: {gpu: 4, topology: [{key: rack}]}"


def met(workloads):
    """The conditions that hold of the only Workload."""
    (workload,) = workloads
    return {c["type"] for c in workload["status"]["conditions"] if c["status"] == "True"}


def test_a_gang_that_waited_for_a_pod_that_is_not_kueues_is_woken_once_it_is_gone(world, queues):
    """Kueue 0.17 never looks again by itself: on a quiet cluster the gang would wait for ever."""
    pool = world.make_pool(scheduler="kueue", racks=1, size=2)
    queues.make(pool, RACK)
    world.view.block(f"{pool}-r0-1")
    name = world.submit(pool, workflow(("g", list("ab")), resources=SAME_RACK))
    world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "", lambda text: "No domain has room" in text
    )
    world.view.unblock(f"{pool}-r0-1")
    world.wait_group(name, "g", "RUNNING")
    is_woken = any(" SchedulerWoken: " in line for line in world.service.events(name))
    (workload,) = workloads(world, name)
    seconds = workload["spec"].get("maximumExecutionTimeSeconds", 0)
    assert (seconds > 60 * 365 * 86400) is is_woken  # what other tests do may wake it, too
    conditions = world.wait(lambda: met(workloads(world, name)), lambda met: "PodsReady" in met)
    assert {"Admitted", "PodsReady", "QuotaReserved"} <= conditions
    complete(world, name)


def test_a_gang_whose_nodes_kueue_knows_by_other_names_is_not_tried_again_in_silence(world, queues):
    """Kueue 0.17 takes a node for failed whose name is not its label kubernetes.io/hostname."""
    backoff = {"first": "1s", "limit": "2s"}
    recovery = {"preempted": "requeue", "node_lost": "requeue", "max": 10, "backoff": backoff}
    pool = world.make_pool(scheduler="kueue", racks=1, size=2, recovery=recovery)
    for number in range(2):
        path = f"{nodes.PATH}/{pool}-r0-{number}"
        world.api.patch(path, {"metadata": {"labels": {"kubernetes.io/hostname": f"host-{pool}-{number}"}}})
    queues.make(pool, RACK)
    name = world.submit(pool, workflow(("g", list("ab")), resources=SAME_RACK))
    (condition,) = world.wait(
        lambda: [c for c in world.groups(name)["g"]["conditions"] if c["type"] == "NoProgress"],
        len,
        seconds=120,
    )
    assert condition["status"] == "True"
    assert "NodeFailures" in condition["message"]
    world.service.cancel(name)
