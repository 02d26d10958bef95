"""The cookbook, each recipe submitted as it stands to a pool of its own.

::

    zone z1, spine s1: rack a [2] b [2]      zone z2, spine s2: rack c [2]      NVLink

[2]: two nodes of 4 GPUs. Where a recipe must share a place, the place is made scarce, so that tasks put
anywhere would be found out.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from localcluster import nodes, scenario
from localcluster.demo.run import EXAMPLES, Placed
from localcluster.demo.site import LABELS
from localcluster.directories import CHECKOUT

COOKBOOK = CHECKOUT / "docs" / "how-to" / "cookbook.md"
KEYS = ("zone", "spine", "rack")
RACKS = {"a": ("z1", "s1"), "b": ("z1", "s1"), "c": ("z2", "s2")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What holds of a gang that runs: sets that share a domain, as key and first letters of their tasks."""

    pods: int
    gpu_pods: int
    together: tuple[tuple[str, str], ...]
    busy: tuple[str, ...] = ()  # nodes that somebody else's pods hold
    variables: tuple[str, ...] = ()


SETS = (("rack", "left"), ("rack", "right"))
GANGS = {
    "single-rack": Want(pods=2, gpu_pods=2, together=(("rack", "worker"),), busy=("a-0", "b-0")),
    "auto": Want(pods=2, gpu_pods=2, together=(("rack", "worker"),), busy=("a-0", "b-0")),
    "two-racks": Want(pods=4, gpu_pods=4, together=SETS, busy=("a-0",)),
    "two-racks-one-zone": Want(pods=4, gpu_pods=4, together=(("zone", ""), *SETS)),
    "preferred": Want(pods=4, gpu_pods=4, together=(("spine", ""), *SETS)),
    "mixed": Want(pods=4, gpu_pods=3, together=(("rack", "worker"),), busy=("a-0", "b-0")),
    "inherited": Want(pods=5, gpu_pods=4, together=(("zone", "left"), *SETS)),
    "torchrun": Want(pods=2, gpu_pods=2, together=(("rack", "worker"),), busy=("a-0", "b-0")),
    "mpirun": Want(pods=2, gpu_pods=2, together=(("rack", "worker"),), busy=("a-0", "b-0")),
    "nccl": Want(pods=2, gpu_pods=2, together=(("rack", "worker"),), busy=("a-0", "b-0")),
    "saving": Want(pods=2, gpu_pods=2, together=(("rack", "worker"),), busy=("a-0", "b-0")),
    "templated": Want(
        pods=4, gpu_pods=4, together=(("spine", ""),), variables=("workers=4", "key=spine"), busy=("c-0",)
    ),
}
OTHERS = {"dependencies", "retrying", "patience"}


def text_of(example):
    return (EXAMPLES / f"{example}.yaml").read_text()


@pytest.fixture
def pool(world):
    name = f"{world.prefix}pool"
    labels = {scenario.POOL_LABEL: name}
    made = [
        node
        for rack, (zone, spine) in RACKS.items()
        for place in [{LABELS["zone"]: zone, LABELS["spine"]: spine}]
        for node in nodes.rack(
            f"{world.prefix}{rack}",
            count=2,
            gpus=4,
            labels=labels | place | {LABELS["rack"]: rack, LABELS["clique"]: f"{name}.{rack}"},
        )
    ]
    nodes.create(world.api, made)
    nodes.wait_ready(world.api, made)
    content = {
        "backend": f"{world.backend}-kai",
        "nvlink": True,
        "node_selector": labels,
        "topology_keys": [{"key": key, "label": LABELS[key]} for key in KEYS],
        "platforms": {"gpu": {}},
        "default_platform": "gpu",
    }
    world.service.call("PUT", f"/api/configs/pool/{name}", {"configs": content})
    world.view.load_nodes()
    return name


def submit(world, pool, example, *, variables=()):
    body = {"file": text_of(example), "set_variables": list(variables)}
    return world.service.call("POST", f"/api/pool/{pool}/workflow", body)["name"]


def placed(world, workflow, group):
    """Where the pods of a group stand, once it runs."""
    found = world.wait_group(workflow, group, "RUNNING")
    pods = world.wait(
        lambda: world.view.of_group(world.namespace, "Pod", found["uuid"]),
        lambda pods: all(pod["spec"].get("nodeName") for pod in pods),
    )
    where = {pod["metadata"]["labels"]["osmo.task_name"]: pod["spec"]["nodeName"] for pod in pods}
    return Placed(nodes=where, view=world.view)


def share(where, key, tasks):
    """Whether the tasks whose names begin so are in one domain of the key."""
    found = where.domains(LABELS[key], [name for name in where.nodes if name.startswith(tasks)])
    return len(found) == 1 and "" not in found


def compute_domains(world, workflow, group):
    found = world.view.of_group(world.namespace, "ComputeDomain", world.groups(workflow)[group]["uuid"])
    return [obj["metadata"]["uid"] for obj in found]


def finish(world, workflow):
    for pod in world.pods(workflow):
        if not pod["metadata"].get("deletionTimestamp"):
            world.annotate(pod, run_for="0s")


@pytest.fixture
def busy(world):
    taken = []

    def block(*names):
        for name in names:
            world.view.block(f"{world.prefix}{name}")
            taken.append(f"{world.prefix}{name}")

    yield block
    for name in taken:
        world.view.unblock(name)


@pytest.mark.parametrize("example", GANGS)
def test_a_gang_of_the_cookbook_is_placed_as_it_says_and_leaves_nothing(world, pool, busy, example):
    want = GANGS[example]
    busy(*want.busy)
    name = submit(world, pool, example, variables=want.variables)
    where = placed(world, name, "training")
    pods = world.pods(name)
    assert len(where.nodes) == want.pods
    for key, tasks in want.together:
        assert share(where, key, tasks), (key, tasks, where.nodes)
    assert len(compute_domains(world, name, "training")) == 1
    assert len([pod for pod in pods if pod["status"].get("resourceClaimStatuses")]) == want.gpu_pods
    assert not [pod for pod in pods if "{{" in str(pod["spec"])]
    finish(world, name)
    assert world.wait_released(name)["status"] == "COMPLETED"
    assert world.left(name) == []


def test_groups_with_dependencies_run_one_after_another(world, pool):
    name = submit(world, pool, "dependencies")
    world.wait_group(name, "preparation", "RUNNING")
    statuses = {group: found["status"] for group, found in world.groups(name).items()}
    assert statuses == {
        "preparation": "RUNNING", "training": "WAITING", "evaluation": "WAITING", "publication": "WAITING"
    }  # fmt: skip
    assert len(world.pods(name)) == 1
    assert compute_domains(world, name, "training") == []
    finish(world, name)
    assert share(placed(world, name, "training"), "rack", "train")
    assert {world.groups(name)[group]["status"] for group in ("evaluation", "publication")} == {"WAITING"}
    finish(world, name)
    for group in ("evaluation", "publication"):
        world.wait_group(name, group, "RUNNING")
    finish(world, name)
    assert world.wait_released(name)["status"] == "COMPLETED"
    assert world.left(name) == []


def test_a_task_that_is_retried_comes_back_with_its_peers_and_one_that_stops_early_has_succeeded(world, pool):
    world.service.call("PATCH", "/api/configs/workflow", {"configs_dict": {"max_retry_per_task": 1}})
    name = submit(world, pool, "retrying")
    placed(world, name, "training")

    def pod_of(task):
        found = [p for p in world.pods(name) if p["metadata"]["labels"]["osmo.task_name"] == task]
        return next((p for p in found if not p["metadata"].get("deletionTimestamp")), None)

    first, domains = pod_of("worker-1"), compute_domains(world, name, "training")
    world.annotate(first, exit_code="75", run_for="0s")
    world.wait(
        lambda: pod_of("worker-1"),
        lambda pod: bool(
            pod
            and pod["metadata"]["uid"] != first["metadata"]["uid"]
            and pod["status"].get("phase") == "Running"
        ),
    )
    assert share(placed(world, name, "training"), "rack", "worker")
    assert pod_of("worker-1")["spec"]["hostname"] == first["spec"]["hostname"]
    again = compute_domains(world, name, "training")
    assert (len(again), set(again) & set(domains)) == (1, set())
    for task in ("worker-1", "worker-0"):
        world.annotate(pod_of(task), exit_code="3", run_for="0s")
    answer = world.wait_released(name)
    assert answer["status"] == "COMPLETED"
    assert world.left(name) == []


def test_patience_is_kept_for_a_spine_and_then_given_up(world, pool):
    text = re.sub(r"waitSeconds: \d+", "waitSeconds: 20", text_of("patience"))
    name = world.submit(pool, text)
    world.wait(
        lambda: world.groups(name)["training"]["patience"] or {},
        lambda patience: patience.get("next_relaxation_at") is not None,
    )
    assert not any(pod["spec"].get("nodeName") for pod in world.pods(name))
    assert placed(world, name, "training").domains(LABELS["spine"]) == {"s1", "s2"}
    finish(world, name)
    assert world.wait_released(name)["status"] == "COMPLETED"


NAMED = dict(re.findall(r"^\| \[([\w-]+)\.yaml\]\([^)]*\) \| `(\w+)`", COOKBOOK.read_text(), re.MULTILINE))
WAITING = {"patience"}


@pytest.mark.parametrize("example", sorted(NAMED))
def test_a_recipe_does_in_the_pool_of_make_up_what_the_cookbook_says(world, example):
    """The pool has the nodes, labels and keys of the pool that the cookbook names."""
    place = scenario.ALL_PLACES[NAMED[example]]
    pool = f"{world.prefix}{NAMED[example]}"
    labels = {scenario.POOL_LABEL: pool}
    made = [
        replace(
            node,
            name=f"{world.prefix}{node.name}",
            labels=labels | {label: f"{world.prefix}{value}" for label, value in node.labels.items()},
        )
        for node in place.machines({})
    ]
    nodes.create(world.api, made)
    nodes.wait_ready(world.api, made)
    content = scenario.pool(pool, place) | {"backend": f"{world.backend}-{place.backend}"}
    world.service.call("PUT", f"/api/configs/pool/{pool}", {"configs": content})
    name = submit(world, pool, example)
    first = next(
        group for group, state in world.groups(name).items() if not state["remaining_upstream_groups"]
    )
    world.wait_group(name, first, "SCHEDULING" if example in WAITING else "RUNNING")


def test_every_recipe_is_tried_here():
    recipes = {path.stem for path in Path(EXAMPLES).glob("*.yaml") if not path.stem.startswith("use-case-")}
    assert recipes == {*GANGS, *OTHERS}
