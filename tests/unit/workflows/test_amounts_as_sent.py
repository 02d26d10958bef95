"""What a verdict counts of a task is what Kubernetes counts of its pod as it is sent."""

import random
from dataclasses import replace
from uuid import UUID

import pytest

from pools.clusters.capabilities import capabilities_at
from scheduling.fit.snapshot import RESOURCES
from tests.builders.placements import GROUP
from workflows.feasibility.capacity.node_snapshot import demand_of
from workflows.manifests.group import Renderer
from workflows.values.placement import FrozenTemplate, GroupValues, StartBarrier, TaskPlacement, TaskTry
from workflows.values.pod_usage import usage_of

NIC = "example.com/nic"
BARRIER = StartBarrier(image="example.com/osmo:1", command=("wait",), limit=60.0)


def amounts(dice):
    some = {
        "cpu": dice.choice(["1500m", "7", "0.0001", "250m"]),
        "memory": dice.choice(["3Gi", "1500M", "64Ki"]),
        "ephemeral-storage": "1Gi",
        NIC: str(dice.randint(1, 3)),
    }
    return {name: amount for name, amount in some.items() if dice.random() < 0.6}


def resources(dice):
    kinds = dice.choice([("requests",), ("limits",), ("requests", "limits")])
    own = amounts(dice)
    return {"resources": dict.fromkeys(kinds, own)}


def container(dice, name, **fields):
    return {"name": name, "image": "x", **resources(dice), **fields}


def template(dice):
    inits = [
        container(dice, f"init-{i}", **({"restartPolicy": "Always"} if dice.random() < 0.5 else {}))
        for i in range(dice.randint(0, 3))
    ]
    beside = [container(dice, f"beside-{i}") for i in range(dice.randint(0, 2))]
    own = {"name": "{{USER_CONTAINER_NAME}}", **(resources(dice) if dice.random() < 0.3 else {})}
    overhead = {"overhead": {"cpu": "250m", "memory": "120Mi"}} if dice.random() < 0.3 else {}
    return FrozenTemplate(pod={"spec": {"initContainers": inits, "containers": [own, *beside], **overhead}})


def group(dice):
    size = {
        "cpu": dice.choice([None, 1, 4]),
        "gpu": dice.choice([0, 4]),
        "memory": dice.choice([None, "16Mi", "8Gi"]),
    }
    placement = TaskPlacement(image="ubuntu", command=("sleep",), **size)
    names = ("a", "b")[: dice.randint(1, 2)]
    tasks = tuple(
        TaskTry(task_uuid=UUID(int=number), name=name, retry_id=0, placement=placement)
        for number, name in enumerate(names)
    )
    frozen = replace(
        GROUP,
        nvlink=False,
        templates={"": template(dice)} if dice.random() < 0.9 else {},
        start_barrier=BARRIER if dice.random() < 0.5 else None,
    )
    return GroupValues(uuid=UUID(int=9), name="g", generation=0, placement=frozen, tasks=tasks)


def as_defaulted(spec):
    """As the API server has it: a container without a request asks for its limit."""
    for kind in ("initContainers", "containers"):
        for each in spec.get(kind, ()):
            own = each.get("resources", {})
            own["requests"] = {**own.get("limits", {}), **own.get("requests", {})}
            each["resources"] = own
    return spec


def others_of(spec):
    """Kubernetes' rule for one resource of whole numbers."""

    def of(each):
        return int(each["resources"]["requests"].get(NIC, 0))

    sidecars, peak = 0, 0
    for each in spec.get("initContainers", ()):
        if each.get("restartPolicy") == "Always":
            sidecars += of(each)
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + of(each))
    return max(peak, sidecars + sum(map(of, spec["containers"])))


@pytest.mark.parametrize("seed", range(200))
def test_a_random_pod_is_counted_by_kubernetes_rule(seed):
    values = group(random.Random(seed))
    spec = as_defaulted(Renderer(values).pod(values.tasks[0])["spec"])
    demand = demand_of(values, capabilities=capabilities_at("kai", "0.13")).demands["a"]
    counted = dict(zip(RESOURCES, demand.amounts, strict=True))
    gpu, cpu, memory, storage, pods = usage_of(spec)
    want = {"gpu": gpu, "cpu": cpu, "memory": memory, "storage": storage, "pods": pods, "channels": 0}
    assert counted == want
    assert dict(demand.others).get(NIC, 0) == others_of(spec)
