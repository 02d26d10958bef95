"""Sets inside sets on Kubernetes' own scheduler, the real one: placed whole, where they must, or not at all.

Each case is a group that the service renders, on nodes of its own: two zones of two racks of four nodes, with
four GPUs each, unless the case names others. All cases stand in one cluster at once.
"""

import time
from collections import defaultdict
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from localcluster import nodes
from scheduling.backends.kubernetes import KUBERNETES
from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Level
from scheduling.topology.requirements import Requirement
from workflows.manifests.group import render_group
from workflows.values.placement import GroupPlacement, GroupValues, TaskPlacement, TaskTry

SECONDS = 90.0
SETTLED = 4.0  # seconds in which a group that fits is placed, and a misfit is not
LEVELS = (Level("zone", "nested.test/zone"), Level("rack", "nested.test/rack"))
CASE = "nested.test/case"
GPUS = 4


def sets(*lines):
    """Tasks by their requirements: ``"4 zone z, rack r"`` is four tasks of one rack in one zone."""
    tasks = []
    for line in lines:
        count, _, asked = line.partition(" ")
        requirements = tuple(
            Requirement(*words.split()) for words in (word.strip() for word in asked.split(",")) if words
        )
        tasks += [requirements] * int(count)
    return tasks


WHOLE = {"a1": 4, "a2": 4, "b1": 4, "b2": 4}
CASES = {
    "use case 1": (WHOLE, sets("4 rack r"), True),
    "use case 1, too large": (WHOLE, sets("5 rack r"), False),
    "use case 2": (WHOLE, sets("4 rack r", "4 rack s"), True),
    "use case 2, one set too large": (WHOLE, sets("4 rack r", "5 rack s"), False),
    "use case 3": ({"a1": 4, "b1": 4, "b2": 4}, sets("4 zone z, rack r", "4 zone z, rack s"), True),
    "use case 3, each zone too small": (
        {"a1": 4, "b1": 4},
        sets("4 zone z, rack r", "4 zone z, rack s"),
        False,
    ),
    "unequal sets": ({"a1": 4, "a2": 2}, sets("2 rack small", "4 rack large"), True),
    "sets of one": (WHOLE, sets("1 zone z, rack r", "1 zone z, rack s"), True),
    "free tasks beside sets": ({"a1": 4, "a2": 2}, sets("2", "4 rack r"), True),
    "free tasks beside sets, one too many": ({"a1": 4, "a2": 2}, sets("3", "4 rack r"), False),
    "two required keys on the same tasks": (WHOLE, sets("4 zone z, rack r"), True),
    "tasks that stop at the zone": ({"a1": 4, "a2": 2, "b1": 4}, sets("4 zone z, rack r", "2 zone z"), True),
}
"""By phrase: nodes by rack, the requirements of each task, whether the group fits."""


def group(name, requirements, *, namespace):
    placement = GroupPlacement(
        terms=SchedulingTerms(
            installation=UUID(int=1),
            pool="nested",
            pool_revision=1,
            backend="nested",
            namespace=namespace,
            scheduler_type="kubernetes",
            scheduler_name="default-scheduler",
            scheduler_version="1.37 (CompositePodGroup)",
            levels=LEVELS,
        ),
        exec_timeout=3600,
        queue_timeout=3600,
        workflow_name=name,
        workflow_uuid=uuid4(),
        submitted_by="ann",
    )
    spec = TaskPlacement(
        image="none", command=("none",), cpu=1, gpu=GPUS, memory="1Gi", node_selector={CASE: name}
    )
    tasks = tuple(
        TaskTry(task_uuid=uuid4(), name=f"t{at}", retry_id=0, placement=replace(spec, requirements=asked))
        for at, asked in enumerate(requirements)
    )
    return GroupValues(uuid=uuid4(), name="g", generation=0, placement=placement, tasks=tasks)


def path_of(obj, namespace):
    """Where the API server has objects of this kind."""
    if obj["kind"] == "Pod":
        return f"/api/v1/namespaces/{namespace}/pods"
    kinds = (*KUBERNETES.parents, KUBERNETES.pod_group)
    plural = next(kind.plural for kind in kinds if kind.kind == obj["kind"])
    return f"/apis/{obj['apiVersion']}/namespaces/{namespace}/{plural}"


def machines(name, racks):
    return [
        nodes.Node(
            name=f"{name}-{rack}-{at}",
            labels={CASE: name, LEVELS[0].label: rack[0], LEVELS[1].label: rack},
            gpus=GPUS,
        )
        for rack, count in racks.items()
        for at in range(count)
    ]


def bound(api, namespace):
    """The nodes of each pod group's pods, and how many pods there are, by the case that selects the nodes."""
    items, _ = api.list(f"/api/v1/namespaces/{namespace}/pods")
    where = defaultdict(list)
    for pod in items:
        case = pod["spec"].get("nodeSelector", {}).get(CASE)
        where[case].append((pod["metadata"]["labels"].get("osmo.task_name"), pod["spec"].get("nodeName")))
    return where


@pytest.fixture
def placed(cluster_api, namespace, add_nodes):
    """Each case's group, and the node of each of its tasks."""
    names = {phrase: f"case-{at}" for at, phrase in enumerate(CASES)}
    made = add_nodes(
        [node for phrase, (racks, _, _) in CASES.items() for node in machines(names[phrase], racks)]
    )
    labels = {node.name: node.labels for node in made}
    groups = {
        phrase: group(names[phrase], asked, namespace=namespace) for phrase, (_, asked, _) in CASES.items()
    }
    for values in groups.values():
        objects = render_group(values)
        for obj in (*objects.parents, *objects.pod_groups, *objects.pods.values()):
            cluster_api.create(path_of(obj, namespace), obj)
    wanted = {names[phrase] for phrase, (_, _, fits) in CASES.items() if fits}
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        where = bound(cluster_api, namespace)
        if all(node for case in wanted for _, node in where[case]):
            break
        time.sleep(0.2)
    time.sleep(SETTLED)  # in which no other should get a place
    where = bound(cluster_api, namespace)
    yield {
        phrase: (groups[phrase], {task: labels.get(node) for task, node in where[names[phrase]]})
        for phrase in CASES
    }
    _remove(cluster_api, groups.values(), namespace)


def _remove(api, groups, namespace):
    """Delete everything in the service's order; nothing may be left."""
    collections = set()
    for values in groups:
        objects = render_group(values)
        for obj in (*objects.pods.values(), *objects.pod_groups, *reversed(objects.parents)):
            path = path_of(obj, namespace)
            collections.add(path)
            body = {"gracePeriodSeconds": 0} if obj["kind"] == "Pod" else None
            api.delete(f"{path}/{obj['metadata']['name']}", body=body)
    until = time.monotonic() + SECONDS
    while left := [obj["metadata"]["name"] for path in collections for obj in api.list(path)[0]]:
        assert time.monotonic() < until, f"still there: {left}"
        time.sleep(0.2)


def test_the_real_scheduler_places_each_group_as_it_must_or_not_at_all(placed):
    wrong = []
    for phrase, (_, asked, fits) in CASES.items():
        values, where = placed[phrase]
        domains = defaultdict(set)
        for task in values.tasks:
            carried, path = where[task.name], ()
            for requirement in sorted(task.placement.requirements, key=lambda r: r.key != "zone"):
                path = (*path, (requirement.key, requirement.group))
                label = next(level.label for level in LEVELS if level.key == requirement.key)
                domains[path].add(carried and carried[label])
        count = sum(carried is not None for carried in where.values())
        if count != (len(asked) if fits else 0) or any(len(found) > 1 for found in domains.values()):
            wrong.append((phrase, count, dict(domains)))
    assert wrong == []
