"""The reasons of sixty workflows that wait on a full pool of 306 nodes, each checked against what would help.

17 racks of 18 nodes with 4 GPUs, each rack one NVLink clique, as in real racks. Some empty nodes are
cordoned, some lack their labels, some are tainted; of the rest all but a few are in use. The texts are KAI's,
which counts closed nodes beside all others. What is said to help is applied to the nodes: the group has to
fit then.
"""

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from django.utils import timezone

from pools.clusters.capabilities import capabilities_at
from pools.models import Cluster, Node
from scheduling.backends.base import Waiting
from scheduling.backends.registry import scheduler_backend
from scheduling.fit.remedies import RemedyKind, without_work
from scheduling.fit.verdict import Answer, judge
from scheduling.topology.coverage import cover
from scheduling.topology.levels import Level
from tests.factories import NodeFactory, PoolFactory, TaskFactory, TaskGroupFactory, WorkflowFactory
from tests.unit.scheduling.kai_texts import GANG, NODES
from workflows.explain.finders import waiting_reason
from workflows.explain.observed_group import ObservedGroup
from workflows.explain.reasons import HELP, Why
from workflows.explain.report import HELP_CONTRADICTED, explain_waits
from workflows.feasibility.capacity.node_snapshot import observed_nodes, selectors_of
from workflows.feasibility.verdict.remedy_sentences import HELP_NEVER
from workflows.feasibility.verdict.report import demands_of
from workflows.models import Task, TaskGroup
from workflows.selectors import group_values
from workflows.values.placement import GroupPlacement

pytestmark = pytest.mark.django_db
KAI = scheduler_backend("kai")
ZONE, RACK = Level("zone", "topology.kubernetes.io/zone"), Level("rack", "example.com/rack")
CLIQUE = Level("clique", "nvidia.com/gpu.clique")
LEVELS = (ZONE, RACK, CLIQUE)
RACKS, NODES_OF_RACK, GPUS = 17, 18, 4
CORDONED = {f"r03n{at:02}" for at in range(6)}
UNLABELLED = {"r05n00", "r05n01"}
TAINTED = {f"r07n{at:02}" for at in range(4)}
FREE = {"r03n06", "r05n02", "r05n03", "r07n04", "r09n00", "r09n01", "r16n00"}
EMPTY = CORDONED | UNLABELLED | TAINTED | FREE
CLOSED_TOO = f"{GANG}{NODES}6 node(s) were unschedulable. 300 node(s) didn't have enough resources: GPUs."
CLOSED_ALONE = f"{GANG}{NODES}1 node is unschedulable."
LABEL_OF = {level.key: level.label for level in LEVELS}


def labels_of(rack, name):
    labels = {ZONE.label: "a" if rack < 9 else "b"}
    if name not in UNLABELLED:
        labels |= {
            RACK.label: f"rack-{rack:02}",
            CLIQUE.label: f"7c0bb8e5-4a1d-4c5e-9a7e-2f6d0f4b8e0{rack:x}.{rack}",
        }
    return labels


@pytest.fixture
def pool():
    pool = PoolFactory(name="racks", levels=LEVELS)
    taint = [{"key": "example.com/maintenance", "effect": "NoSchedule"}]
    amounts = {"cpu": "144", "memory": "960Gi", "nvidia.com/gpu": str(GPUS), "ephemeral-storage": "1Ti"}
    rows = [
        NodeFactory.build(
            cluster=pool.backend.cluster,
            name=(name := f"r{rack:02}n{at:02}"),
            labels=labels_of(rack, name),
            allocatable=amounts,
            unschedulable=name in CORDONED,
            taints=taint if name in TAINTED else [],
        )
        for rack in range(RACKS)
        for at in range(NODES_OF_RACK)
    ]
    Node.objects.bulk_create(rows)
    for rack in range(RACKS):
        group = TaskGroupFactory(
            pool=pool,
            workflow=WorkflowFactory(pool=pool, base_name=f"night-{rack}"),
            pods=0,
            status="RUNNING",
        )
        names = sorted(
            row.name for row in rows if row.name.startswith(f"r{rack:02}") and row.name not in EMPTY
        )
        Task.objects.bulk_create(
            TaskFactory.build(group=group, position=at, name=f"t{at}", node_name=name, placement__gpu=GPUS)
            for at, name in enumerate(names)
        )
    return pool


def required(key, group="r"):
    return [{"key": key, "group": group, "required": True}]


def preferred(key):
    return [{"key": key, "group": "r", "required": False}]


def alike(tasks, gpu=GPUS, requirements=()):
    return [(gpu, list(requirements))] * tasks


def of_two_sets(tasks, key, around=()):
    return [(GPUS, [*around, *required(key, name)]) for name in ("r", "s") for _ in range(tasks)]


def beside_a_driver(tasks, key):
    return [(0, required(key)), *alike(tasks, requirements=required(key))]


def unmet(key):
    return f"topology t, requirement {LABEL_OF[key]} couldn't be satisfied for job <ns/g>"


SIZES = (3, 4, 5, 6, 8, 10, 12, 18)
GROUPS = [
    *((alike(tasks, requirements=required("clique")), unmet("clique")) for tasks in SIZES),
    *((alike(tasks, requirements=required("rack")), unmet("rack")) for tasks in SIZES),
    *((alike(tasks, requirements=required("zone")), unmet("zone")) for tasks in SIZES),
    *((alike(tasks, requirements=preferred("rack")), CLOSED_TOO) for tasks in (8, 9, 12, 14, 18)),
    *((alike(tasks), CLOSED_TOO) for tasks in (8, 10, 12, 14, 18)),
    *((alike(tasks), CLOSED_ALONE) for tasks in (8, 16, 18)),
    *((beside_a_driver(tasks, "rack"), unmet("rack")) for tasks in (3, 4, 6, 8, 17, 18)),
    *((of_two_sets(tasks, "clique"), unmet("clique")) for tasks in (2, 3, 4, 6, 9)),
    *((of_two_sets(tasks, "rack", required("zone", "z")), unmet("zone")) for tasks in (2, 3, 4, 6, 9)),
    (alike(20, requirements=required("rack")), unmet("rack")),
    (alike(19, requirements=required("clique")), unmet("clique")),
    (alike(36, gpu=1, requirements=required("clique")), unmet("clique")),
    (alike(72, gpu=1, requirements=required("clique")), unmet("clique")),
    (alike(40, gpu=1), CLOSED_ALONE),
    (alike(1, gpu=8), CLOSED_TOO),
    (alike(2, gpu=8, requirements=required("clique")), CLOSED_ALONE),
]


def group_that_waits(pool, at, tasks, text):
    workflow = WorkflowFactory(pool=pool, base_name=f"wait-{at}")
    group = TaskGroupFactory(pool=pool, workflow=workflow, pods=0, status="SCHEDULING", name="workers")
    rows = [
        TaskFactory.build(group=group, position=number, name=f"t{number}", placement__gpu=gpu)
        for number, (gpu, _) in enumerate(tasks)
    ]
    for row, (_, requirements) in zip(rows, tasks, strict=True):
        row.spec = {**row.spec, "requirements": requirements}
    Task.objects.bulk_create(rows)
    nodes = dict(Node.objects.values_list("name", "labels"))
    pod_group = {
        "metadata": {"name": "g"},
        "status": {"schedulingConditions": [{"reasons": [{"message": text}]}]},
    }
    waiting = Waiting(
        placed=False,
        expected=("g",),
        pod_groups=(pod_group,),
        pods=len(tasks),
        pods_expected=len(tasks),
        levels=LEVELS,
        sets={},
        any_closed=True,
    )
    reason = waiting_reason(
        ObservedGroup(
            status="SCHEDULING",
            backend="east",
            scheduler=KAI,
            waiting=waiting,
            coverage=cover(nodes, LEVELS, named=3, paths=True),
        )
    )
    TaskGroup.objects.filter(pk=group.pk).update(
        waiting_why=reason.why,
        waiting_reason=reason.sentence,
        waiting_evidence=reason.columns[2],
        waiting_since=timezone.now(),
    )
    return TaskGroup.objects.select_related("backend").get(pk=group.pk)


def nodes_and_demand(group):
    placement = GroupPlacement.from_json(group.placement)
    values, terms = group_values(group, placement), placement.terms
    capabilities = capabilities_at(terms.scheduler_type, terms.scheduler_version)
    observed = observed_nodes(
        group.backend.cluster_id,
        selectors=selectors_of([values]),
        levels=terms.levels,
        capabilities=capabilities,
        without=[group.pk],
    )
    (demand,) = demands_of([values], capabilities=capabilities)
    return observed.snapshot, demand


def fits(snapshot, demand):
    return judge(snapshot, demand).answer is Answer.NOW


KINDS = {
    RemedyKind.OPEN: CORDONED,
    RemedyKind.LABEL: UNLABELLED,
    RemedyKind.TOLERATE: TAINTED,
}
WORDS = {
    RemedyKind.OPEN: ("cordon", "no new pods", "unschedulable"),
    RemedyKind.LABEL: ("lack label", "lacks label", "label is missing", "without a label"),
    RemedyKind.TOLERATE: ("taint",),
}


def changed(node, remedies):
    for remedy in remedies:
        if node.name in KINDS[remedy.kind]:
            node = remedy.applied(node)
    return node


def opened(snapshot, remedies):
    return snapshot.edited(partial(changed, remedies=remedies))


def check(group, wait):
    """Fail where what is said to help does not; returns what was said, in few words."""
    snapshot, demand = nodes_and_demand(group)
    report = wait.report
    remedies, help_text = report.remedies, wait.help
    if not report.lacks_place:
        assert help_text == HELP_CONTRADICTED
        assert "That is what its scheduler says. The nodes as observed at " in wait.sentence
        assert fits(snapshot, demand)
        return f"{wait.why}: the scheduler says no, the nodes have room"
    for kind, words in WORDS.items():
        named = any(word in wait.sentence for word in words)
        assert named <= any(remedy.kind is kind for remedy in remedies), wait.sentence
    if remedies:
        base = without_work(snapshot) if remedies[0].after_work else snapshot
        assert not fits(base, demand)
        for chosen in [remedies] if remedies[0].together else [[remedy] for remedy in remedies]:
            assert fits(opened(base, chosen), demand), (wait.sentence, help_text)
        kinds = ("+" if remedies[0].together else "/").join(remedy.kind for remedy in remedies)
        return f"{wait.why}: {kinds}{' after work' if remedies[0].after_work else ''}"
    if help_text == HELP_NEVER:
        everything = without_work(snapshot).edited(
            lambda node: replace(
                node, closed="", taints=(), labels=labels_of(int(node.name[1:3]), "") | node.labels
            )
        )
        assert not fits(everything, demand), (wait.sentence, help_text)
        return f"{wait.why}: never"
    assert help_text in {HELP[Why.TOPOLOGY], HELP[Why.CAPACITY]}, help_text
    assert fits(without_work(snapshot), demand), (wait.sentence, help_text)
    return f"{wait.why}: wait"


WANT = {
    "capacity: wait": 12,
    "nodes_closed: open/tolerate/label": 9,
    "nodes_closed: open": 8,
    "nodes_closed: open/tolerate": 7,
    "nodes_closed: open+tolerate+label": 6,
    "topology: the scheduler says no, the nodes have room": 5,
    "topology: wait": 4,
    "nodes_closed: open+tolerate": 3,
    "capacity: label after work": 2,
    "capacity: never": 2,
    "capacity: the scheduler says no, the nodes have room": 1,
    "nodes_closed: the scheduler says no, the nodes have room": 1,
}
"""How many of the groups are told what."""


def test_what_is_said_to_help_helps_each_of_sixty_workflows_on_a_full_pool(pool, ann):
    ann.is_superuser = True
    ann.save()
    assert len(GROUPS) == 60
    told, wrong = Counter(), []
    for at, (tasks, text) in enumerate(GROUPS):
        group = group_that_waits(pool, at, tasks, text)
        Cluster.objects.update(heartbeat_at=timezone.now())
        (wait,) = explain_waits([group], user=ann, now=timezone.now())
        try:
            told[check(group, wait)] += 1
        except AssertionError as error:
            wrong.append(f"{at}: {len(tasks)} tasks, {text}: {wait.sentence} {wait.help} {error}")
    assert wrong == []
    assert told == WANT
