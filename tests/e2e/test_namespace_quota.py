"""Gangs under a ResourceQuota of their namespace, which the API server counts pod by pod."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.e2e import rights
from tests.e2e.conftest import RACK, workflow
from tests.e2e.kueue_queues import Queues

GPUS = "requests.nvidia.com/gpu"
FOUR = workflow(("g", list("abcd")))


@pytest.fixture(params=["kai", "kubernetes", "kueue"])
def bounded(world, kueue, request):
    """A backend with a namespace of its own, and the quota of 24 GPUs there."""
    scheduler, namespace = request.param, f"{world.namespace}-{world.prefix}q"
    rights.grant(world.api, namespace)
    content = {
        "kubeconfig": str(world.kubeconfig),
        "k8s_namespace": namespace,
        "scheduler_settings": {"scheduler_type": scheduler},
    }
    path = f"/api/configs/backend/{world.backend}-{world.prefix}q"
    world.service.call("POST", path, {"configs": content})
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {GPUS: "24"}}}
    world.api.create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    world.wait(
        lambda: world.api.get(f"/api/v1/namespaces/{namespace}/resourcequotas/team").get("status") or {},
        lambda status: status.get("hard"),
    )
    return replace(world, namespace=namespace)


@pytest.fixture
def pool(bounded, request):
    """16 nodes of four GPUs."""
    pool = bounded.make_pool(scheduler=f"{bounded.prefix}q", racks=4, size=4)
    queues = Queues(bounded)
    if "kueue" in request.node.callspec.id:
        queues.make(pool, RACK)
    yield pool
    bounded.clear()
    queues.clear()


def first_to_run(world, names):
    """The one of these workflows that runs, while the others hold nothing and say why."""
    (first,) = world.wait(
        lambda: [name for name in names if world.groups(name)["g"]["status"] == "RUNNING"], len
    )
    waiting = [name for name in names if name != first]
    world.wait(lambda: [name for name in waiting if world.pods(name)], lambda holders: not holders)
    world.wait(
        lambda: [world.groups(name)["g"]["waiting_reason"] or "" for name in waiting],
        lambda reasons: all('quota "team" has room for 8 of 16 GPUs' in text for text in reasons),
    )
    return first


def test_gangs_that_come_at_once_run_one_after_the_other(bounded, pool):
    world = bounded
    with ThreadPoolExecutor(4) as threads:
        names = list(threads.map(lambda _: world.submit(pool, FOUR), range(4)))
    while names:
        name = first_to_run(world, names)
        world.service.cancel(name)
        world.wait_released(name)
        assert world.left(name) == []
        names.remove(name)


def test_a_gang_that_the_quota_never_allows_is_refused_or_told_so(bounded, pool):
    world = bounded
    path = f"/api/configs/backend/{world.backend}-{world.prefix}q"
    world.wait(lambda: world.service.call("GET", path)["card"].get("quotas"), bool)
    reply = world.service.submit(pool, workflow(("g", list("abcdefh"))))
    (fit,) = reply["feasibility"]
    assert fit["verdict"] == "never"
    assert 'quota "team" never allows more than 24 GPUs and the group asks for 28 GPUs' in fit["sentence"]
