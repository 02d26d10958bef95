"""The verdict against Kubernetes' own scheduler, the real one, on small clusters drawn at random.

Each world is a handful of nodes with a label of its own, some held, cordoned, tainted or without a label, and
one task group that the service renders as it always does: a gang with at most one required level.
All worlds stand in one cluster at once. ``OSMO_FIT_WORLDS`` draws more of them, ``OSMO_FIT_SEED`` others.
"""

import os
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import pytest

from localcluster import nodes
from pools.clusters.capabilities import capabilities_at
from scheduling.fit.snapshot import Holding, Snapshot, amounts
from scheduling.fit.verdict import Answer, judge
from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Level
from scheduling.topology.requirements import Requirement
from workflows.feasibility.capacity.known_nodes import fit_node
from workflows.feasibility.capacity.node_snapshot import demand_of
from workflows.manifests.group import render_group
from workflows.values.placement import GroupPlacement, GroupValues, TaskPlacement, TaskTry

WORLDS = int(os.environ.get("OSMO_FIT_WORLDS", "18"))
SEED = int(os.environ.get("OSMO_FIT_SEED", "7"))
SECONDS = 150.0
LEVELS = (Level("zone", "fit.test/zone"), Level("rack", "fit.test/rack"))
MINE = "fit.test/world"
POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
GPUS = 4


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A node of a world; ``held`` GPUs are somebody's."""

    node: nodes.Node
    held: int
    cordoned: bool


@dataclass(frozen=True, kw_only=True)
class World:
    name: str
    machines: list
    group: GroupValues

    def verdict(self):
        seen = [_fit_node(machine) for machine in self.machines]
        held = capabilities_at("kubernetes", "1.37")
        return judge(Snapshot.of(seen, LEVELS, paths=False), demand_of(self.group, capabilities=held))

    def picture(self):
        lines = [
            f"{machine.node.name} {list(machine.node.labels.values())[1:]} held={machine.held}"
            f"{' cordoned' if machine.cordoned else ''}{' tainted' if machine.node.taints else ''}"
            for machine in self.machines
        ]
        asks = [task.placement.gpu for task in self.group.tasks]
        return "\n  ".join([f"{self.name}: {asks} {self.group.tasks[0].placement.requirements}", *lines])


def _fit_node(machine):
    manifest = nodes.manifest(machine.node)
    made = fit_node(
        machine.node.name,
        manifest["metadata"]["labels"],
        manifest["status"]["allocatable"],
        manifest["spec"].get("taints", []),
    )
    holding = Holding("somebody", amounts(gpu=machine.held, cpu=1000, memory=2**30, pods=1))
    return replace(
        made, holdings=(holding,) * bool(machine.held), closed="cordoned" if machine.cordoned else ""
    )


def draw(chance, *, name, namespace):
    """Four to eight nodes in two zones of two racks, and two to five tasks for them."""
    machines = []
    for number in range(chance.randint(4, 8)):
        zone, rack = chance.choice("aab"), chance.choice(["r1", "r1", "r2"])
        labels = {MINE: name, LEVELS[0].label: zone, LEVELS[1].label: f"{zone}-{rack}"}
        if chance.random() < 0.12:
            del labels[chance.choice(LEVELS).label]
        taints = (nodes.Taint("fit.test/closed"),) if chance.random() < 0.1 else ()
        machines.append(
            Machine(
                node=nodes.Node(name=f"{name}-{number}", labels=labels, gpus=GPUS, taints=taints),
                held=chance.choice([0, 0, 0, 0, 2, GPUS]),
                cordoned=chance.random() < 0.1,
            )
        )
    size = chance.choice([1, 2, 3, GPUS])
    mixed = chance.random() < 0.3
    asks = [chance.choice([1, 2, GPUS]) if mixed else size for _ in range(chance.randint(2, 5))]
    key = chance.choice([None, "zone", "rack", "rack"])
    return World(name=name, machines=machines, group=group(name, asks, key, namespace=namespace))


def group(name, asks, key, *, namespace):
    """A task for each of ``asks``; all share a domain of the key."""
    placement = GroupPlacement(
        terms=SchedulingTerms(
            installation=UUID(int=1),
            pool="fit",
            pool_revision=1,
            backend="fit",
            namespace=namespace,
            scheduler_type="kubernetes",
            scheduler_name="default-scheduler",
            scheduler_version="1.37",
            levels=LEVELS,
        ),
        exec_timeout=3600,
        queue_timeout=3600,
        workflow_name=name,
        workflow_uuid=uuid4(),
        submitted_by="ann",
    )
    tasks = tuple(
        TaskTry(
            task_uuid=uuid4(),
            name=f"t{number}",
            retry_id=0,
            placement=TaskPlacement(
                image="none",
                command=("none",),
                cpu=1,
                gpu=gpus,
                memory="1Gi",
                node_selector={MINE: name},
                requirements=(Requirement(key, "g"),) if key else (),
            ),
        )
        for number, gpus in enumerate(asks)
    )
    return GroupValues(uuid=uuid4(), name="g", generation=0, placement=placement, tasks=tasks)


def _holder(namespace, machine):
    """A pod that somebody bound to a node himself."""
    asked = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(machine.held)}
    container = {"name": "main", "image": "none", "resources": {"requests": asked, "limits": asked}}
    tolerations = [{"operator": "Exists"}]
    return {
        "metadata": {"name": f"held-{machine.node.name}", "namespace": namespace},
        "spec": {"nodeName": machine.node.name, "containers": [container], "tolerations": tolerations},
    }


@pytest.fixture
def build(add_nodes):
    """Makes the nodes of all worlds."""

    def make(worlds):
        made = iter(add_nodes([machine.node for world in worlds for machine in world.machines]))
        return [
            replace(world, machines=[replace(machine, node=next(made)) for machine in world.machines])
            for world in worlds
        ]

    return make


def create(api, worlds, namespace, add_nodes):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with ThreadPoolExecutor(max_workers=8) as threads:
        machines = [machine for world in worlds for machine in world.machines]
        holders = [_holder(namespace, machine) for machine in machines if machine.held]
        list(threads.map(lambda body: api.create(pods, body), holders))
        shut = [machine.node.name for machine in machines if machine.cordoned]
        list(
            threads.map(
                lambda name: api.patch(f"{nodes.PATH}/{name}", {"spec": {"unschedulable": True}}), shut
            )
        )
        wait_for_scheduler(api, namespace, add_nodes)
        for world in worlds:
            objects = render_group(world.group)
            for made in objects.pod_groups:
                api.create(POD_GROUPS.format(namespace), made)
        list(threads.map(lambda body: api.create(pods, body), _pods(worlds)))


def wait_for_scheduler(api, namespace, add_nodes):
    """Wait until the scheduler knows nodes and pods as they are: it binds the newest pod to the newest node.

    It watches nodes and pods by streams of their own, each in the order of the writes.
    """
    (node,) = add_nodes([nodes.Node(name="last", labels={MINE: namespace}, gpus=0)])
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"nodeSelector": dict(node.labels), "containers": [{"name": "main", "image": "none"}]}
    api.create(pods, {"metadata": {"name": "last"}, "spec": spec})
    until = time.monotonic() + SECONDS
    while not api.get(f"{pods}/last")["spec"].get("nodeName"):
        assert time.monotonic() < until, "the scheduler binds nothing"
        time.sleep(0.05)


def _pod_groups(world):
    return [made["metadata"]["name"] for made in render_group(world.group).pod_groups]


def _pods(worlds):
    return [pod for world in worlds for pod in render_group(world.group).pods.values()]


def settled(api, worlds, namespace):
    """How many pods of each world have a node, once the scheduler has said something of every group."""
    until = time.monotonic() + SECONDS
    while True:
        items, _ = api.list(f"/api/v1/namespaces/{namespace}/pods")
        bound = Counter(
            pod["spec"]["schedulingGroup"]["podGroupName"]
            for pod in items
            if pod["spec"].get("schedulingGroup") and pod["spec"].get("nodeName")
        )
        said = {
            pod_group["metadata"]["name"]: conditions(pod_group)
            for pod_group in api.list(POD_GROUPS.format(namespace))[0]
        }
        if all("PodGroupInitiallyScheduled" in found for found in said.values()):
            names = {world.name: _pod_groups(world) for world in worlds}
            return {world: sum(bound[name] for name in of) for world, of in names.items()}
        assert time.monotonic() < until, f"nothing was said of some groups: {said}"
        time.sleep(0.2)


def placed_at_last(api, worlds, namespace, verdicts):
    """How many pods of each world have a node, once those do that are sure to get one, or in vain."""
    until = time.monotonic() + SECONDS
    while True:
        bound = settled(api, worlds, namespace)
        sure = [world for world in worlds if is_sure(verdicts[world.name])]
        if all(bound[world.name] == len(world.group.tasks) for world in sure) or time.monotonic() > until:
            return bound
        time.sleep(0.2)


def is_sure(verdict):
    return verdict.answer is Answer.NOW and not hangs_on_order(verdict)


def conditions(pod_group):
    found = pod_group.get("status", {}).get("conditions") or []
    return {condition["type"]: (condition["status"], condition.get("message", "")) for condition in found}


def hangs_on_order(verdict):
    """Whether the verdict itself says that another order would end otherwise."""
    return verdict.another_order or (verdict.answer is Answer.NOW and not verdict.proven)


def test_the_verdict_is_what_the_real_scheduler_does(
    cluster_api, namespace, build, add_nodes, record_property
):
    chance = random.Random(SEED)
    worlds = build([draw(chance, name=f"w{number}", namespace=namespace) for number in range(WORLDS)])
    create(cluster_api, worlds, namespace, add_nodes)
    verdicts = {world.name: world.verdict() for world in worlds}
    placed_at_last(cluster_api, worlds, namespace, verdicts)
    time.sleep(1.0)  # in which no other should get a place
    bound = settled(cluster_api, worlds, namespace)

    agreed, either, wrong = Counter(), Counter(), []
    for world in worlds:
        verdict = verdicts[world.name]
        placed = bound[world.name] == len(world.group.tasks)
        if hangs_on_order(verdict):
            either["placed" if placed else "not placed"] += 1
        elif placed == (verdict.answer is Answer.NOW):
            agreed[verdict.answer.value] += 1
        else:
            wrong.append(f"{verdict.answer} but {bound[world.name]} placed\n{world.picture()}")
    certain = len(worlds) - either.total()
    told = f"agreed {agreed.total()} of {certain}: {dict(agreed)}; hangs on order: {dict(either)}"
    record_property("agreement", told)
    sys.stdout.write(f"{told}\n")
    assert wrong == [], "\n".join(wrong)
    assert set(agreed) == {"now", "not_now", "never"}
