"""A kubelet that refuses a pod, as it does after a restart of its node."""

import pytest

from localcluster.api import MERGE_PATCH
from tests.e2e.conftest import RACK, workflow

REFUSED = {
    "phase": "Failed",
    "reason": "OutOfnvidia.com/gpu",
    "message": "Node didn't have enough resource: nvidia.com/gpu, requested: 4, used: 0, capacity: 0",
    "containerStatuses": None,
}
QUEUED = "kueue"


@pytest.fixture(params=["kai", "kubernetes", QUEUED])
def pool(world, queues, request):
    name = world.make_pool(scheduler=request.param, racks=2, size=2, recovery={"backoff": {"first": "1s"}})
    if request.param == QUEUED:
        queues.make(name, RACK)
    return name


@pytest.mark.parametrize("task", ["a", "b"], ids=["the lead", "another task"])
def test_a_gang_comes_back_beside_the_node_that_refused_its_pod(world, pool, task):
    name = world.submit(pool, workflow(("g", ["a", "b"]), resources="one: {gpu: 4, topology: [{key: rack}]}"))
    world.wait_group(name, "g", "RUNNING")
    (pod,) = (p for p in world.bound_pods(name) if p["metadata"]["labels"]["osmo.task_name"] == task)
    path = f"/api/v1/namespaces/{world.namespace}/pods/{pod['metadata']['name']}/status"
    world.api.call("PATCH", path, body={"status": REFUSED}, content_type=MERGE_PATCH)
    first, _ = world.wait(
        lambda: world.groups(name)["g"]["attempts"],
        lambda attempts: len(attempts) == 2 and attempts[-1]["status"] == "RUNNING",
    )
    assert (first["cause"], first["evidence"]) == ("node_lost", "refused_by_node")
    assert pod["spec"]["nodeName"] not in {p["spec"]["nodeName"] for p in world.bound_pods(name)}
    world.service.cancel(name)
    world.wait_released(name)
    assert world.left(name) == []
