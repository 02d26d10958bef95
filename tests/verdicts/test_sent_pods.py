"""Single pods as they are finally sent, drawn at random, against Kubernetes' own scheduler.

Templates add what users and administrators add: init containers, sidecars, devices and huge pages of several
kinds, tolerations, labels. Nodes offer them unevenly. Each pod stands before the scheduler alone.
``FIT_SEED`` draws others.
"""

import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from localcluster import nodes
from scheduling.fit.verdict import Answer
from tests.verdicts.schedulers import PODS, NativeScheduler
from tests.verdicts.standing import SEED, stand_up
from tests.verdicts.worlds import GPUS, LEVELS, MINE, Machine, World, group_of, rendered
from workflows.values.placement import FrozenTemplate

SECONDS = 60.0
TAINTS = ("fit.test/closed", "fit.test/other")
FURTHER = {
    "fit.test/nic": ["0", "1", "2"],
    "nvidia.com/mig-1g.10gb": ["0", "2", "7"],
    "hugepages-2Mi": ["0", "64Mi", "256Mi"],
}
"""The further resources that nodes publish, and how much of each."""

UNPUBLISHED = "fit.test/absent"
MAIN = "{{USER_CONTAINER_NAME}}"


def draw_nodes(chance, *, name):
    made = []
    for number in range(chance.randint(3, 6)):
        zone = chance.choice("ab")
        published = {resource: chance.choice(amounts) for resource, amounts in FURTHER.items()}
        node = nodes.Node(
            name=f"{name}-{number}",
            labels={MINE: name, LEVELS[0].label: zone, LEVELS[1].label: f"{zone}-r1", "fit.test/kind": zone},
            gpus=chance.choice([0, 2, GPUS]),
            cpus=chance.choice([4, 8, 16]),
            memory_gib=chance.choice([8, 32]),
            further=published,
            taints=tuple(nodes.Taint(key) for key in TAINTS if chance.random() < 0.3),
        )
        made.append(Machine(node=node, held=0, cordoned=chance.random() < 0.1))
    return made


def draw_resources(chance):
    """Requests of one container, which may ask for anything; devices stand in the limits, as they must."""
    requests = {"cpu": str(chance.choice([1, 1, 3])), "memory": f"{chance.choice([1, 1, 4])}Gi"}
    devices = {}
    for resource, amounts in FURTHER.items():
        if chance.random() < 0.12:
            devices[resource] = chance.choice(amounts[1:])
    if chance.random() < 0.2:
        devices["nvidia.com/gpu"] = str(chance.choice([1, 2]))
    if chance.random() < 0.04:
        devices[UNPUBLISHED] = "1"
    return {"requests": {**requests, **devices}, "limits": {**requests, **devices}}


def draw_template(chance):
    """Part of a pod that an administrator lays over it."""
    spec = {}
    if chance.random() < 0.7:
        spec["containers"] = [{"name": MAIN, "resources": draw_resources(chance)}]
    if chance.random() < 0.3:
        spec.setdefault("containers", [{"name": MAIN}]).append(
            {"name": "beside", "image": "none", "resources": draw_resources(chance)}
        )
    inits = []
    if chance.random() < 0.4:
        inits.append({"name": "first", "image": "none", "resources": draw_resources(chance)})
    if chance.random() < 0.4:
        resources = draw_resources(chance)
        inits.insert(
            chance.randint(0, len(inits)),
            {"name": "sidecar", "image": "none", "restartPolicy": "Always", "resources": resources},
        )
    if inits:
        spec["initContainers"] = inits
    return FrozenTemplate(pod={"spec": spec})


def draw_pod(chance, world):
    """A group of one task."""
    group = group_of(world, [(chance.choice([0, 0, 1, 2]), ())])
    (task,) = group.tasks
    selector = {**task.placement.node_selector}
    if chance.random() < 0.2:
        selector["fit.test/kind"] = chance.choice("abc")
    names = [machine.node.name for machine in world.machines]
    placement = replace(
        task.placement,
        platform="gpu",
        cpu=chance.choice([1, 2]),
        node_selector=selector,
        tolerations=[
            {"key": key, "operator": "Exists", "effect": "NoSchedule"}
            for key in TAINTS
            if chance.random() < 0.5
        ],
        nodes_excluded=tuple(name for name in names if chance.random() < 0.1),
    )
    frozen = replace(group.placement, templates={"gpu": draw_template(chance)})
    return replace(group, placement=frozen, tasks=(replace(task, placement=placement),))


class Pods:
    """Pods one after the other on the nodes of one world."""

    def __init__(self, api, world):
        self.api, self.world = api, world
        self.scheduler = NativeScheduler(api, world.namespace)

    def place(self, group):
        """Whether the scheduler binds the pod, and what it says otherwise."""
        self.scheduler.create(self.world, group)
        (pod,) = rendered(group).pods.values()
        path = f"{PODS.format(self.world.namespace)}/{pod['metadata']['name']}"
        until = time.monotonic() + SECONDS
        while (answer := self._answer(path)) is None:
            assert time.monotonic() < until, f"the scheduler says nothing of {path}"
            time.sleep(0.05)
        self.scheduler.remove(group)
        while self.api.find(path):
            assert time.monotonic() < until, f"{path} stays"
            time.sleep(0.05)
        return answer

    def _answer(self, path):
        pod = self.api.get(path)
        conditions = {c["type"]: c for c in pod.get("status", {}).get("conditions") or ()}
        scheduled = conditions.get("PodScheduled")
        if pod["spec"].get("nodeName"):
            return True, ""
        if scheduled and scheduled["status"] == "False" and scheduled.get("reason") == "Unschedulable":
            return False, scheduled.get("message", "")
        return None


def compare(api, namespace, add_nodes, *, worlds, pods):
    chance = random.Random(SEED)
    where = {"scheduler": "kubernetes", "version": NativeScheduler.version, "namespace": namespace}
    drawn = []
    for number in range(worlds):
        name = f"{namespace[-6:]}-{number}"
        drawn.append(World(name=name, machines=draw_nodes(chance, name=name), **where))
    stand_up(drawn, namespace, add_nodes, NativeScheduler(api, namespace))
    groups = [(world, [draw_pod(chance, world) for _ in range(pods)]) for world in drawn]

    def run(entry):
        world, mine = entry
        by_one = Pods(api, world)
        return [(world, group, world.verdict(group), *by_one.place(group)) for group in mine]

    with ThreadPoolExecutor(max_workers=worlds) as threads:
        return [answer for answers in threads.map(run, groups) for answer in answers]


@pytest.mark.parametrize(
    "size", [pytest.param((4, 5), id="few"), pytest.param((10, 20), id="many", marks=pytest.mark.deep)]
)
def test_what_is_proven_of_a_pod_holds_on_the_real_scheduler(cluster_api, namespace, add_nodes, size):
    worlds, pods = size
    answers = compare(cluster_api, namespace, add_nodes, worlds=worlds, pods=pods)
    counts, wrong = Counter(), []
    for world, group, verdict, bound, words in answers:
        says = verdict.answer is Answer.NOW
        kind = "proven" if verdict.proven else "not proven"
        counts[f"{verdict.answer.value}, {kind}, {'bound' if bound else 'not bound'}"] += 1
        if verdict.proven and says != bound:
            (pod,) = rendered(group).pods.values()
            wrong.append(f"{verdict.answer} but bound={bound} {words}\n{world.picture(group)}\n{pod['spec']}")
    sys.stdout.write(f"seed {SEED}, {len(answers)} pods: {dict(sorted(counts.items()))}\n")
    assert wrong == [], "\n".join(wrong)
    assert {verdict.answer for _, _, verdict, *_ in answers} >= {Answer.NOW, Answer.NEVER}
