"""From a gang to a Workload, to Kueue's answer, to the node of each task; and answers that are no answers."""

import contextlib
import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.kueue import GROUP
from scheduling.backends.kueue import Kueue
from scheduling.backends.kueue.pod_sets import pod_sets
from scheduling.errors import InvalidSpec
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import judge
from scheduling.topology.levels import HOSTNAME_LABEL, Level
from tests.unit.scheduling.build import gang, request
from tests.unit.scheduling.crds import KUEUE, definition, served
from tests.unit.scheduling.fit.worlds import demands, node
from tests.unit.scheduling.gangs import sound

GPU = "nvidia.com/gpu"
KUEUE_BACKEND = Kueue()
LEVELS = tuple(Level(key, f"topology/{key}") for key in ("zone", "spine", "rack"))
NODES_OF_A_RACK, GPUS = 3, 8


def _gang(case):
    """The gang with the shape of each task by what it asks for, as the service gives it."""
    tasks = tuple(replace(task, shape=f"{task.gpus}") for task in case[1].tasks)
    return replace(case[1], tasks=tasks)


def _request(of, **changes):
    shapes = {task.shape: task.gpus for task in of.tasks}
    specs = {
        shape: {
            "restartPolicy": "Never",
            "containers": [{"name": "task", "resources": {"requests": {GPU: str(gpus)}}}],
        }
        for shape, gpus in shapes.items()
    }
    return request(of, LEVELS, queue="lq", pod_specs=specs, **changes)


def _nodes():
    """Two zones of two spines of two racks; names in an order that is not that of their places."""
    number = 0
    for zone in "ba":
        for spine in "21":
            for rack in "21":
                for _ in range(NODES_OF_A_RACK):
                    number += 1
                    values = (zone, f"{zone}{spine}", f"{zone}{spine}{rack}")
                    labels = dict(zip((level.label for level in LEVELS), values, strict=True))
                    yield node(f"n-{number}", labels, gpus=GPUS)


NODES = tuple(_nodes())
DOMAINS = {entry.name: tuple(entry.labels[level.label] for level in LEVELS) for entry in NODES}


def _kept(manifest):
    """The Workload as an API server gives it back."""
    metadata = {"uid": "uid-1", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


def _assert_served(body):
    """Every API server keeps it as it is; each one refuses what its definition does not allow."""
    for source in KUEUE:
        assert served(definition(source, "workloads", GROUP), body) == body, source


def _admission(gang, asked):
    """An admission as Kueue writes it, to the nodes of our own verdict; None where there is no room."""
    tree = KUEUE_BACKEND.tree(asked)
    demand = GangDemand(tree, demands(gang), counts_largest=False, cut=len(LEVELS) - 1, is_best_fit=True)
    places = judge(Snapshot.of(NODES, LEVELS, paths=True), demand).places
    if not places:
        return None
    answers = [
        {
            "name": pod_set.name,
            "count": len(pod_set.tasks),
            "flavors": {"pods": "flavor"},
            "topologyAssignment": _assignment([places[task.name] for task in pod_set.tasks]),
        }
        for pod_set in pod_sets(tree)
    ]
    return {"clusterQueue": "cq", "podSetAssignments": answers}


def _assignment(nodes):
    """Nodes in the order of their domains, each with its number of pods."""
    names = sorted(set(nodes), key=lambda name: (DOMAINS[name], name))
    counts = [nodes.count(name) for name in names]
    pods = {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts}
    prefix = "n-" if len(names) > 1 else ""
    roots = [name.removeprefix(prefix) for name in names]
    values = {"individual": {"prefix": prefix, "roots": roots}} if prefix else {"universal": names[0]}
    part = {"domainCount": len(names), "podCounts": pods, "valuesPerLevel": [values]}
    return {"levels": [HOSTNAME_LABEL], "slices": [part]}


def _answered(workload, admission):
    time = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    met = [
        {"type": kind, "status": "True", "reason": kind, "message": ""} | time
        for kind in ("QuotaReserved", "Admitted")
    ]
    return {**workload, "status": {"conditions": met, "admission": admission}}


def _rendered(case):
    """The gang, its request and its Workload; None for a gang that Kueue cannot hold."""
    gang = _gang(case)
    checked = KUEUE_BACKEND.check(gang, LEVELS, capabilities=KUEUE_BACKEND.capabilities(None))
    if checked.faults:
        return None
    asked = _request(gang)
    (manifest,) = KUEUE_BACKEND.render(asked).pod_groups
    return gang, asked, _kept(manifest)


def _assert_holds(gang, asked, nodes):
    """Each task has one node, no node is overfull, sets are in one domain, ranks are in order of places."""
    assert set(nodes) == {task.name for task in gang.tasks}
    used = {}
    for task in gang.tasks:
        used[nodes[task.name]] = used.get(nodes[task.name], 0) + task.gpus
    assert max(used.values()) <= GPUS
    for pod_set in pod_sets(KUEUE_BACKEND.tree(asked)):
        _assert_in_domains(pod_set, nodes)


def _assert_in_domains(pod_set, nodes):
    places = [DOMAINS[nodes[task.name]] for task in pod_set.tasks]
    if (required := pod_set.constraint.required) is not None:
        assert len({place[: required + 1] for place in places}) == 1
    if pod_set.slice_level is not None:
        for at in range(0, len(places), pod_set.slice_size):
            part = places[at : at + pod_set.slice_size]
            assert len({place[: pod_set.slice_level + 1] for place in part}) == 1


@st.composite
def equal_sets(draw):
    """Equal sets inside a set, in any order of writing: what becomes slices."""
    outer, inner = draw(st.sampled_from([("zone", "spine"), ("zone", "rack"), ("spine", "rack")]))
    sets, size, gpus = draw(st.integers(2, 3)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 8]))
    sign = draw(st.sampled_from("!?"))
    places = draw(st.permutations([(number, task) for number in range(sets) for task in range(size)]))
    lines = (f"t{i}-{task}*{gpus}: {outer}{sign} o, {inner}! i{i}" for i, task in places)
    return LEVELS, gang(*lines)


CASES = sound(pool=LEVELS, most=8) | equal_sets()


@given(CASES)
def test_a_request_to_kueue_is_admitted_and_read_back_whole(case):
    if (rendered := _rendered(case)) is None:
        return
    gang, asked, workload = rendered
    _assert_served(workload)
    if (admission := _admission(gang, asked)) is None:
        return
    answered = _answered(workload, admission)
    _assert_served(answered)
    nodes = KUEUE_BACKEND.nodes(asked, answered, domains=DOMAINS)
    _assert_holds(gang, asked, nodes)
    for pod_set in pod_sets(KUEUE_BACKEND.tree(asked)):
        places = [DOMAINS[nodes[task.name]] for task in pod_set.tasks]
        assert places == sorted(places)


@given(CASES, st.data())
def test_tasks_that_have_pods_stay_and_the_others_keep_their_sets_whole(case, data):
    """Kueue replaces nodes one after another, so several tasks of several sets may move at once."""
    if (rendered := _rendered(case)) is None or (admission := _admission(*rendered[:2])) is None:
        return
    gang, asked, workload = rendered
    answered = _answered(workload, admission)
    before = KUEUE_BACKEND.nodes(asked, answered, domains=DOMAINS)
    stays = data.draw(st.sets(st.sampled_from(sorted(before))))
    present = {name: node for name, node in before.items() if name in stays}
    after = KUEUE_BACKEND.nodes(replace(asked, nodes=present), answered, domains=DOMAINS)
    assert {name: after[name] for name in stays} == present
    _assert_holds(gang, asked, after)


def _leaves(value, path=()):
    """The places in a document at which something can be changed."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _leaves(inner, (*path, key))


HOSTILE = st.one_of(
    st.none(),
    st.integers(-2, 3),
    st.just(2**31 - 1),
    st.just(10**30),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.one_of(st.none(), st.integers(-2, 9), st.text(max_size=3)), max_size=3),
    st.just({}),
    st.just({"individual": {"roots": ["n-1", "n-1", "nowhere"]}}),
    st.just({"universal": 2**31 - 1}),
)


@given(CASES, st.data())
def test_an_answer_that_is_changed_anywhere_holds_the_gang_or_is_refused_with_a_reason(case, data):
    if (rendered := _rendered(case)) is None or (admission := _admission(*rendered[:2])) is None:
        return
    gang, asked, workload = rendered
    changed = copy.deepcopy({"admission": admission})
    *above, last = data.draw(st.sampled_from(list(_leaves(changed))))
    place = changed
    for key in above:
        place = place[key]
    match data.draw(st.sampled_from(["gone", "twice", "other"])):
        case "gone":
            del place[last]
        case "twice" if isinstance(place, list):
            place.append(copy.deepcopy(place[last]))
        case _:
            place[last] = data.draw(HOSTILE)
    with contextlib.suppress(InvalidSpec):
        nodes = KUEUE_BACKEND.nodes(asked, {**workload, "status": changed}, domains=DOMAINS)
        assert set(nodes) == {task.name for task in gang.tasks}
        _assert_constrained(asked, nodes)


def _assert_constrained(asked, nodes):
    """Nodes that nobody knows may stand for tasks without requirements: no pod is made for those yet."""
    for pod_set in pod_sets(KUEUE_BACKEND.tree(asked)):
        if pod_set.constraint.required is not None or pod_set.slice_level is not None:
            _assert_in_domains(pod_set, nodes)


@pytest.mark.parametrize("status", [{}, {"admission": None}, {"admission": {}}, {"admission": "text"}])
def test_a_workload_without_an_answer_names_no_nodes(status):
    with pytest.raises(InvalidSpec):
        KUEUE_BACKEND.nodes(_request(_gang((LEVELS, gang("a b")))), {"status": status}, domains=DOMAINS)


def test_tasks_that_request_nothing_need_quota_for_pods():
    """Without it Kueue admits them by no flavor, and names no nodes."""
    of, asked, workload = _rendered((LEVELS, gang("a b")))
    admission = _admission(of, asked)
    for answer in admission["podSetAssignments"]:
        del answer["topologyAssignment"], answer["flavors"]
    with pytest.raises(InvalidSpec, match='Quota for "pods" is for every task'):
        KUEUE_BACKEND.nodes(asked, _answered(workload, admission), domains=DOMAINS)
