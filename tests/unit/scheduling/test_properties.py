"""What holds for every gang, read back by a reader that knows KAI and not our renderer."""

import json
import re
import sys
from itertools import pairwise
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.backends.kai.render import SUBGROUP_LABEL, Kai
from scheduling.backends.kubernetes import Kubernetes
from scheduling.capabilities import Capability
from scheduling.errors import InvalidSpec, TopologyError
from scheduling.gang import soundness
from scheduling.gang.checks import check_gang
from scheduling.gang.gang_form import GangForm
from scheduling.gang.soundness import check_requirements
from scheduling.gang.stages import stage_begins
from scheduling.topology.levels import Level
from scheduling.topology.requirements import Gang, GangTask, effective
from tests.unit.scheduling import build
from tests.unit.scheduling.build import request
from tests.unit.scheduling.gangs import anything, paths, sets_of, sound
from tests.unit.scheduling.kai_reader import V013, V017, Node, place, read

KAI = Kai()
SIXTEEN = " ".join(f"k{rank}" for rank in range(16))


def rendered(pool, gang):
    return KAI.render(request(gang, pool))


def tree_of(pool, gang):
    got = rendered(pool, gang)
    return read(got.pod_groups[0], got.pods, got.topologies)


@given(sound())
def test_sound_gangs_have_no_fault(case):
    pool, gang = case
    assert check_requirements(gang, pool) == []


@given(st.one_of(sound(), anything()))
def test_the_short_look_at_requirements_lets_no_fault_pass(case):
    pool, gang = case
    with patch.object(soundness, "_is_sound", return_value=False):
        thorough = check_requirements(gang, pool)
    assert check_requirements(gang, pool) == thorough


@given(sound())
def test_kai_takes_every_pod_into_one_leaf_and_the_minimums_add_up(case):
    pool, gang = case
    root = tree_of(pool, gang)  # the reader raises for whatever KAI would never place
    assert sorted(root.all_pods()) == sorted(task.name for task in gang.tasks)
    for leaf in root.leaves():
        assert leaf.minimum == len(leaf.pods)
    assert sum(leaf.minimum for leaf in root.leaves()) == len(gang.tasks)


@given(sound())
def test_every_required_level_holds_and_nothing_else_is_required(case):
    pool, gang = case
    rank = {level.label: i for i, level in enumerate(pool)}
    label = {level.key: level.label for level in pool}
    sets = sets_of(pool, gang)
    held = [
        (set(g.all_pods()), rank[g.constraint.required])
        for g in tree_of(pool, gang).walk()
        if g.constraint and g.constraint.required
    ]

    for path, (tasks, required) in sets.items():
        if required:
            assert any(tasks <= pods and level >= rank[label[path[-1][0]]] for pods, level in held), path
    for pods, level in held:
        assert any(
            pods == tasks and required and rank[label[p[-1][0]]] == level
            for p, (tasks, required) in sets.items()
        )


@given(sound())
def test_every_preference_is_tried_unless_something_as_narrow_is_required(case):
    pool, gang = case
    rank = {level.label: i for i, level in enumerate(pool)}
    label = {level.key: level.label for level in pool}
    constraints = [(set(g.all_pods()), g.constraint) for g in tree_of(pool, gang).walk() if g.constraint]
    for path, (tasks, required) in sets_of(pool, gang).items():
        if not required:
            level = rank[label[path[-1][0]]]
            assert any(tasks <= pods and rank[c.preferred] >= level for pods, c in constraints), path


@given(sound())
def test_each_constraint_prefers_a_level_as_narrow_as_required_and_names_no_narrower_one(case):
    pool, gang = case
    labels = [level.label for level in pool]
    for group in tree_of(pool, gang).walk():
        if group.constraint:
            assert group.constraint.preferred is not None
            assert group.constraint.topology == labels[: labels.index(group.constraint.preferred) + 1]


@given(sound())
def test_subgroup_names_are_unique_short_labels_that_begin_with_their_place(case):
    pool, gang = case
    root = tree_of(pool, gang)
    names = [group.name for group in root.walk() if group is not root]
    assert len(names) == len(set(names))
    for name in names:
        assert len(name) <= 63
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
        assert name != "default"
    for group in root.walk():
        assert [int(child.name.split("-")[0]) for child in group.in_order(V017)] == list(
            range(len(group.groups))
        )


@given(sound(), st.randoms(use_true_random=False))
def test_order_of_tasks_and_of_keys_does_not_matter(case, random: Random):
    pool, gang = case
    tasks = [
        GangTask(t.name, t.gpus, tuple(random.sample(t.requirements, len(t.requirements))))
        for t in gang.tasks
    ]
    random.shuffle(tasks)
    first, second = rendered(pool, gang), rendered(pool, Gang("g", tuple(tasks)))
    assert first.pod_groups == second.pod_groups
    assert first.pods == second.pods
    assert first.topologies == second.topologies
    assert first.constraints == second.constraints


@given(sound())
def test_both_versions_place_siblings_in_the_same_order_hardest_first(case):
    """Inner groups come before leaves on v0.13 whatever their names; on v0.17 names alone decide."""
    pool, gang = case
    gpus = {task.name: task.gpus for task in gang.tasks}
    for group in tree_of(pool, gang).walk():
        order = group.in_order(V013)
        assert order == group.in_order(V017)
        ranked = [_hardness(child, gpus) for child in order]
        assert ranked == sorted(ranked)


def _hardness(group, gpus):
    constrained = any(g.constraint for g in group.walk())
    required = any(g.constraint and g.constraint.required for g in group.walk())
    pods = group.all_pods()
    return (not constrained, not required, -sum(gpus[pod] for pod in pods), -len(pods))


@given(sound())
def test_a_cluster_with_room_for_every_set_takes_the_gang_on_both_versions(case):
    """Each domain could hold the whole gang, so nothing but a wrong tree could keep it waiting."""
    pool, gang = case
    nodes = [
        Node(f"{path}-{i}", {level.label: "/".join(path[: r + 1]) for r, level in enumerate(pool)})
        for path in paths(len(pool))
        for i in range(len(gang.tasks))
    ]
    root = tree_of(pool, gang)
    for version in (V013, V017):
        got = place(root, nodes, version)
        assert got is not None
        for path, (tasks, required) in sets_of(pool, gang).items():
            label = next(level.label for level in pool if level.key == path[-1][0])
            if required:
                assert len({got[task].labels[label] for task in tasks}) == 1


@given(sound())
def test_applied_constraints_name_every_requirement_that_takes_effect(case):
    pool, gang = case
    got = {line.path: line for line in rendered(pool, gang).constraints}
    for path, (tasks, required) in sets_of(pool, gang).items():
        if required or path in got:
            assert got[path].tasks == len(tasks)
            assert got[path].requirement == ("required" if required else "preferred")


@given(anything())
def test_a_gang_is_either_faulted_or_rendered(case):
    pool, gang = case
    checked = KAI.check(gang, pool, capabilities=KAI.capabilities(None))
    if checked.faults:
        assert all(fault.message and fault.path for fault in checked.faults)
        with pytest.raises(InvalidSpec):
            rendered(pool, gang)
    else:
        tree_of(pool, gang)


@given(sound() | anything(), st.sampled_from(["refuse", "warn"]))
def test_kubernetes_renders_only_what_it_can_hold_and_all_that_is_required(case, unsupported_preferred):
    pool, gang = case
    backend = Kubernetes()
    asked = request(gang, pool, unsupported_preferred=unsupported_preferred)
    checked = backend.check(
        gang,
        pool,
        capabilities=backend.capabilities(None),
        unsupported_preferred=unsupported_preferred,
    )
    if checked.faults:
        with pytest.raises(TopologyError):
            backend.render(asked)
        return
    got = backend.render(asked)
    groups = {group["metadata"]["name"]: group["spec"] for group in got.pod_groups}
    of = {task: parts.spec["schedulingGroup"]["podGroupName"] for task, parts in got.pods.items()}
    for name, spec in groups.items():
        assert spec["schedulingPolicy"]["gang"]["minCount"] == list(of.values()).count(name)
    label = {level.key: level.label for level in pool}
    sets = sets_of(pool, effective(gang))
    constrained = {}
    for path, (tasks, required) in sets.items():
        if not required:  # the affinity of pods, which rendering does not choose
            continue
        (name,) = {of[task] for task in tasks}
        assert [task for task, group in of.items() if group == name] == sorted(tasks, key=list(of).index)
        constrained[name] = label[path[-1][0]]
    for name, spec in groups.items():
        entries = spec.get("schedulingConstraints", {}).get("topology", [])
        assert [entry["key"] for entry in entries] == ([constrained[name]] if name in constrained else [])


@given(sound(), st.sets(st.sampled_from(Capability)))
def test_each_fault_of_a_sound_gang_names_a_capability_that_is_missing(case, held):
    pool, gang = case
    capabilities = KAI.capabilities(None)
    capabilities = type(capabilities)("toy", frozenset(held), 16)
    faults, _, tree = check_gang(gang, pool, capabilities=capabilities, domains=None)
    assert tree is not None
    assert {fault.capability for fault in faults} <= {str(c) for c in Capability if c not in held}


@given(sound(patient=True), st.data())
def test_a_retried_pod_gets_the_same_parts_at_whatever_stage_and_attempt(case, data):
    pool, gang = case
    stage = data.draw(st.integers(0, len(stage_begins(gang)) - 1))
    first = KAI.render(request(gang, pool))
    again = KAI.render(request(gang, pool, generation=3, form=GangForm(stage=stage)))
    assert first.pods == again.pods
    assert first.pod_groups[0]["metadata"]["name"] == again.pod_groups[0]["metadata"]["name"]


def calls(work):
    """How many calls of Python functions some work takes; time says nothing on a shared machine."""
    count = 0

    def see(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


SHAPES = {
    "sets of eight in one zone, half of them patient": (
        (50, 500, 5_000),
        "zone rack",
        lambda n: build.gang(*(f"t{i}: zone! z, rack? r{i // 8} ~{30 + i // 8 % 2}" for i in range(n))),
    ),
    "bound by their group": (
        (50, 500, 5_000),
        "zone rack",
        lambda n: build.gang(*(f"t{i}: rack! r{i // 8}" for i in range(n)), topology="zone! z"),
    ),
    "sixteen levels, no two tasks alike": (
        (25, 100, 400),
        SIXTEEN,
        lambda n: build.gang(*(f"t{i}: {', '.join(f'{k}! {i}' for k in SIXTEEN.split())}" for i in range(n))),
    ),
}


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.deep)])
@pytest.mark.parametrize("phrase", SHAPES)
def test_work_and_objects_grow_with_the_number_of_tasks_and_no_faster(phrase, count):
    sizes, keys, make = SHAPES[phrase]
    pool = build.levels(keys)
    for measure in (_work, _bytes):
        prices = [measure(pool, make(n)) / n for n in sizes[:count]]
        assert all(larger <= 1.1 * smaller for smaller, larger in pairwise(prices))


def _work(pool, gang):
    def submit():
        assert not KAI.check(gang, pool, capabilities=KAI.capabilities(None)).faults
        KAI.render(request(gang, pool))

    return calls(submit)


def _bytes(pool, gang):
    return len(json.dumps([rendered(pool, gang).pod_groups, rendered(pool, gang).topologies]))


def test_ten_thousand_tasks_grow_no_faster_than_their_number():
    """Counted in objects, since time says nothing on a shared machine."""
    pool = (Level("zone", "zone"), Level("rack", "rack"))
    wide = build.gang(*(f"t{i}*8: zone! z, rack! r{i // 8}" for i in range(10_000)))
    got = KAI.render(request(wide, pool))
    assert len(got.pods) == 10_000
    assert len(got.pod_groups[0]["spec"]["subGroups"]) == 1_250
    assert len({id(parts) for parts in got.pods.values()}) == 1_250
    assert len({parts.labels[SUBGROUP_LABEL] for parts in got.pods.values()}) == 1_250
