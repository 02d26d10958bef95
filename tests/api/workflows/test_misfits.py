"""A verdict of never names what tasks ask for and nodes do not have, whatever it is."""

import pytest

from tests.api.workflows.specs import gang, text
from tests.factories import RACK, ZONE, NodeFactory, PoolFactory

pytestmark = pytest.mark.django_db
AMOUNTS = {
    "cpu": "64",
    "memory": "512Gi",
    "nvidia.com/gpu": "8",
    "pods": "110",
    "ephemeral-storage": "1Ti",
}
GPUS = "asks for 16 GPUs, and the largest node has 8 GPUs"
TOO_LARGE = {
    "cpu": ({"cpu": 120}, "asks for 120 cores, and the largest node has 64 cores."),
    "memory": ({"memory": "8Ti"}, "asks for 8192 GiB of memory, and the largest node has 512 GiB of memory."),
    "storage": (
        {"storage": "90Ti"},
        "asks for 92160 GiB of storage, and the largest node has 1024 GiB of storage.",
    ),
    "gpu": ({"gpu": 16}, f"{GPUS}."),
    "two": (
        {"gpu": 16, "cpu": 120},
        f"{GPUS}; it asks for 120 cores, and the largest node has 64 cores.",
    ),
}


@pytest.fixture
def pool():
    return PoolFactory(name="train", levels=[ZONE, RACK])


def nodes(pool, *names, zone="a", amounts=AMOUNTS, **fields):
    for name in names:
        labels = {ZONE.label: zone, RACK.label: f"r-{zone}"}
        NodeFactory(
            cluster=pool.backend.cluster, name=name, labels=labels, allocatable=dict(amounts), **fields
        )


def sentence(api, spec):
    answer = api.post("/api/pool/train/workflow?feasibility=only", {"file": text(spec)}, format="json")
    assert answer.status_code == 200, answer.json()
    (fit,) = answer.json()["feasibility"]
    assert (fit["verdict"], fit["proven"]) == ("never", True)
    return fit["sentence"].removeprefix("It can never be placed on the pool's nodes as they are: ")


@pytest.mark.parametrize("topology", [[], [{"key": "rack"}]], ids=["anywhere", "in a rack"])
@pytest.mark.parametrize(("asked", "cause"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_task_larger_than_every_node(api, pool, asked, cause, topology):
    nodes(pool, "n0", "n1", "n2")
    spec = gang(2, topology=topology)
    spec["resources"]["shard"] |= asked
    assert sentence(api, spec) == f"each of its tasks {cause}"


def test_a_task_of_several_amounts_that_no_node_has_together(api, pool):
    nodes(pool, "n0", amounts=AMOUNTS | {"cpu": "4"})
    nodes(pool, "n1", amounts=AMOUNTS | {"nvidia.com/gpu": "0"})
    spec = gang(1)
    spec["resources"]["shard"] |= {"cpu": 32}
    assert sentence(api, spec) == (
        "its task asks for 8 GPUs, 32 cores and 16 GiB of memory, and no node has all of that."
    )


def test_a_driver_that_has_no_place_beside_its_workers(api, pool):
    nodes(pool, "g0", "g1", amounts=AMOUNTS | {"cpu": "4"})
    nodes(pool, "c0", zone="b", amounts={"cpu": "64", "memory": "64Gi", "pods": "110"})
    spec = gang(3, topology=[{"key": "zone"}])
    spec["resources"]["driver"] = {"cpu": 32, "memory": "1Gi", "topology": [{"key": "zone"}]}
    spec["groups"][0]["tasks"][0]["resource"] = "driver"
    assert sentence(api, spec) == (
        'task "worker-0" asks for 32 cores and 1 GiB of memory and has room in zone "b", each of 2 tasks '
        '("worker-1" and "worker-2") in zone "a", and no zone has room for both; all of them must share one.'
    )


def test_nodes_whose_taints_no_task_tolerates(api, pool):
    nodes(pool, "n0", "n1", taints=[{"key": "example.com/team", "effect": "NoSchedule"}])
    assert sentence(api, gang(2)) == (
        "all 2 nodes that each of its tasks may use carry taints that it does not tolerate: "
        "example.com/team:NoSchedule (2)."
    )


def test_nodes_that_a_task_excludes_itself(api, pool):
    nodes(pool, "n0", "n1")
    spec = gang(1)
    spec["resources"]["shard"]["nodesExcluded"] = ["n0", "n1"]
    assert sentence(api, spec) == "its task excludes all nodes of its platform (2)."


def test_a_gang_of_too_many_tasks_has_no_misfit(api, pool):
    nodes(pool, "n0", "n1")
    assert sentence(api, gang(3)) == "it has 3 tasks, and the pool's nodes have room for 2 when empty."
