"""What the service writes for a gang of its own, read as if others had written it: the same verdict.

The demand on the other side is made of the task group alone, so these tests compare two ways that share no
code but the constraint tree and the search.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduling.backends.kai import Kai
from scheduling.backends.kubernetes.gang import WITH_COMPOSITES, Kubernetes
from scheduling.backends.kubernetes.group_kinds import COMPOSITE
from scheduling.backends.kueue import Kueue
from scheduling.errors import UnsupportedCapability
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import judge
from scheduling.gang.tree import grow
from scheduling.kubernetes_syntax import GPU
from scheduling.topology.levels import HOSTNAME_LABEL
from tests.builders.others_gangs import codes, gang_kept, pod_kept, read
from tests.fakes.kueue_objects import cluster_queue, flavor, local_queue, readings
from tests.unit.scheduling import build
from tests.unit.scheduling.build import request
from tests.unit.scheduling.fit.worlds import POOL, clusters, demands, gang_demand
from tests.unit.scheduling.gangs import sound

EXTERNAL = "theirs"
QUEUES = readings(local_queue("osmo/lq", "cq"), cluster_queue("cq", ("f", 64)), flavor("f", {}, "t"))


def summary(verdict):
    """What a verdict says, without the names of sets and tasks, and without how many sets are alike."""
    sets = {
        (v.label, v.tasks, v.domains, v.fit_now, v.fit_empty, v.unlabelled, str(v.nearest))
        for v in verdict.sets
    }
    numbers = (verdict.most_placed, verdict.tasks, verdict.room, verdict.room_empty)
    return verdict.answer, verdict.proven, verdict.another_order, numbers, sets


def assert_alike(read_back, own, nodes, *, paths=True):
    """The same verdict on the levels that the gang names, which are the first of the pool."""
    snapshot = Snapshot.of(nodes, read_back.levels, paths=paths)
    assert summary(judge(snapshot, read_back.demand)) == summary(judge(snapshot, own))


def pod_of(parts):
    return {
        "metadata": {"labels": dict(parts.labels), "annotations": dict(parts.annotations)},
        "spec": parts.spec,
    }


def pods_of(rendered, gang):
    return [
        (
            pod_of(rendered.pods[task.name]),
            pod_kept(gpus=task.gpus, selector=dict(rendered.pods[task.name].node_labels)),
        )
        for task in gang.tasks
    ]


def topologies_of(rendered):
    named = {
        t["metadata"]["name"]: tuple(lv["nodeLabel"] for lv in t["spec"]["levels"])
        for t in rendered.topologies
    }
    return {**named, EXTERNAL: tuple(level.label for level in POOL)}


@given(sound(pool=POOL), clusters(gpus=8), st.sampled_from(["", EXTERNAL]), st.sampled_from(["0.13", "0.17"]))
def test_a_gang_for_kai_gets_the_verdict_of_its_task_group(case, nodes, external, version):
    _, gang = case
    rendered = Kai().render(request(gang, POOL, external_topology=external))
    (pod_group,) = rendered.pod_groups
    read_back = read(
        "kai",
        gang_kept("kai", pod_group, pods_of(rendered, gang)),
        topologies=topologies_of(rendered),
        version=version,
    )
    assert (read_back.unread, read_back.faults) == ((), ())

    own = gang_demand(gang)
    own = replace(own, cut=len(POOL) - 1) if external else own
    assert_alike(read_back, own, nodes)


@given(sound(pool=POOL, preferred=False), clusters(gpus=8))
def test_a_gang_for_kubernetes_gets_the_verdict_of_its_task_group(case, nodes):
    _, gang = case
    asked = request(gang, POOL, version=WITH_COMPOSITES, scheduler_type="kubernetes")
    try:
        rendered = Kubernetes().render(asked)
    except UnsupportedCapability:
        return  # sets that Kubernetes does not hold
    groups = kept_groups(rendered, gang)
    for group in groups:
        read_back = read("kubernetes", group, version=str(WITH_COMPOSITES), beside=groups)
        if read_back.unread:
            assert codes(read_back) == {"topology"}  # keys that are not below each other
            continue
        if read_back.levels == POOL[: len(read_back.levels)]:
            own = GangDemand(grow(gang, POOL), demands(gang), counts_largest=False)
            assert_alike(read_back, own, nodes)


def kept_groups(rendered, gang):
    """Each pod group as an observer keeps it, with the composites above it."""
    composites = {
        each["metadata"]["name"]: each for each in rendered.parents if each["kind"] == COMPOSITE.kind
    }
    kept = []
    for group in rendered.pod_groups:
        above, parent = [], group["spec"].get("parentCompositePodGroupName")
        while parent:
            above.append(composites[parent])
            parent = above[-1]["spec"].get("parentCompositePodGroupName")
        kept.append(gang_kept("kubernetes", group, pods_of(rendered, gang), above=above))
    return kept


@st.composite
def slices(draw):
    """Equal racks inside a zone, in any order of writing."""
    sets, size, sign = draw(st.integers(2, 3)), draw(st.integers(1, 3)), draw(st.sampled_from("!?"))
    places = draw(st.permutations([(number, task) for number in range(sets) for task in range(size)]))
    return POOL, build.gang(*(f"t{i}-{task}*8: zone{sign} o, rack! i{i}" for i, task in places))


@given(sound(pool=POOL, most=8) | slices(), clusters(gpus=8))
def test_a_gang_for_kueue_gets_the_verdict_of_its_task_group(case, nodes):
    tasks = tuple(replace(task, shape=str(task.gpus)) for task in case[1].tasks)
    gang = replace(case[1], tasks=tasks)
    specs = {task.shape: pod_spec(task) for task in tasks}
    asked = request(gang, POOL, queue="lq", pod_specs=specs, scheduler_type="kueue")
    try:
        (workload,) = Kueue().render(asked).pod_groups
    except UnsupportedCapability:
        return  # sets that Kueue does not hold
    if workload["spec"].get("active") is False:
        return  # a domain of it has to be chosen first
    topologies = {"t": (*(level.label for level in POOL), HOSTNAME_LABEL)}
    read_back = read("kueue", gang_kept("kueue", workload), topologies=topologies, queues=QUEUES)
    assert (read_back.unread, read_back.faults) == ((), ())

    tree, cut = Kueue().tree(asked), len(POOL) - 1
    demand = GangDemand(tree, demands(gang), counts_largest=False, cut=cut, is_best_fit=True)
    assert_alike(read_back, demand, nodes)


def pod_spec(task):
    return {"containers": [{"name": "task", "resources": {"requests": {GPU: str(task.gpus)}}}]}
