"""Patience: what each stage holds, what a patch says, and that a relaxed preference never blocks."""

import copy
from textwrap import dedent

import pytest
from hypothesis import given

from scheduling.backends.kai import Kai
from scheduling.backends.registry import BUILT_IN
from scheduling.capabilities import Capabilities, Capability
from scheduling.errors import format_path
from scheduling.gang.checks import check_gang
from scheduling.gang.gang_form import GangForm
from scheduling.gang.soundness import check_requirements
from scheduling.gang.stages import stage_begins
from scheduling.gang.tree import build_tree, dropped_preferences
from scheduling.topology.requirements import Gang, GangTask, Requirement
from tests.unit.scheduling.build import gang, levels, request
from tests.unit.scheduling.gangs import paths, sets_of, sound
from tests.unit.scheduling.kai_reader import V013, V017, Node, draw, place, read
from tests.unit.scheduling.picture import picture

KAI = Kai()
POOL = levels("zone spine rack")
TWO_WAITS = gang("a b*8: zone! z, rack? r1 ~60", "c d*8: zone! z, rack? r2 ~30", "e: zone! z")


def rendered(asked, pool=POOL, stage=0):
    return KAI.render(request(asked, pool, form=GangForm(stage=stage)))


def merge(target, patch):
    """JSON merge patch, RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        merged.pop(key, None) if value is None else merged.update({key: merge(merged.get(key), value)})
    return merged


PICTURES = [
    """
    gang | required zone preferred zone on [zone]
      00 | required rack preferred rack on [zone spine rack] | min 2: a b
      01 | required rack preferred rack on [zone spine rack] | min 2: c d
      02 free | min 1: e
    """,
    """
    gang | required zone preferred zone on [zone]
      00 | required rack preferred rack on [zone spine rack] | min 2: a b
      01 | preferred rack on [zone spine rack] | min 2: c d
      02 free | min 1: e
    """,
    """
    gang | required zone preferred zone on [zone]
      00 | preferred rack on [zone spine rack] | min 2: a b
      01 | preferred rack on [zone spine rack] | min 2: c d
      02 free | min 1: e
    """,
]


@pytest.mark.parametrize("stage", range(3))
def test_each_stage_is_held_as(stage):
    assert picture(rendered(TWO_WAITS, stage=stage)) == dedent(PICTURES[stage]).strip()


def test_stages_begin_when_a_wait_ends():
    assert stage_begins(TWO_WAITS) == (0, 30, 60)
    assert stage_begins(gang("a b: rack? r", "c: zone! z")) == (0,)


def test_a_stage_that_does_not_exist_is_never_rendered():
    with pytest.raises(ValueError, match="has 3 stages"):
        rendered(TWO_WAITS, stage=3)


def test_the_report_tells_the_wait_and_when_it_is_over():
    lines = [
        [line.as_json() for line in rendered(gang("a b: zone? z, rack? r ~60"), stage=stage).constraints]
        for stage in (0, 1)
    ]
    assert [[line["requirementType"] for line in stage] for stage in lines] == [["preferred"] * 2] * 2
    assert [[line["held_by"] for line in stage] for stage in lines] == [["rack", None]] * 2
    assert [(stage[1]["waitSeconds"], stage[1]["relaxed"]) for stage in lines] == [(60, False), (60, True)]
    assert all("waitSeconds" not in stage[0] for stage in lines)


def test_a_preference_that_speaks_only_once_another_is_relaxed_is_not_called_useless():
    assert dropped_preferences(build_tree(gang("a b: zone? z, rack? r ~60"), POOL)) == []
    (notice,) = dropped_preferences(build_tree(gang("a b: zone? z ~60, rack! r"), POOL))
    assert notice.path == ("tasks", "a", "topology", 0)


# The patch ---------------------------------------------------------------------------------------


def test_the_patch_names_what_goes_and_holds_the_whole_list_of_subgroups():
    asked = gang("a b: zone? z ~60, rack? r ~30", "c: zone? z ~60")
    first, second, third = (rendered(asked, stage=stage) for stage in range(3))
    assert list(KAI.relaxed(first, second)["spec"]) == ["subGroups"]
    assert KAI.relaxed(first, second)["spec"]["subGroups"] == second.pod_groups[0]["spec"]["subGroups"]
    patch = KAI.relaxed(second, third)
    assert patch["spec"] == {
        "topologyConstraint": {
            "topology": third.topologies[0]["metadata"]["name"],
            "requiredTopologyLevel": None,
            "preferredTopologyLevel": "topology/zone",
        }
    }


def test_a_stage_that_changes_nothing_needs_no_patch():
    asked = gang("a b: zone? z ~30, rack? r ~60")
    assert KAI.relaxed(rendered(asked), rendered(asked, stage=1)) == {}


def test_a_gang_is_never_patched_into_another():
    with pytest.raises(ValueError, match="one gang"):
        KAI.relaxed(rendered(gang("a b: rack! r")), rendered(gang("a: rack! r", "b")))


def test_other_schedulers_cannot_relax():
    assert [scheduler.name for scheduler in BUILT_IN if scheduler.edits] == ["kai"]


# What is refused ---------------------------------------------------------------------------------

FAULTY = {
    "a wait on a requirement": (
        gang("a: rack! r ~60"),
        ["tasks.a.topology[0].waitSeconds wait_on_required"],
        "requirementType: preferred",
    ),
    "two waits in one set": (
        gang("a: rack? r ~60", "b c: rack? r ~30"),
        ["tasks.b.topology[0].waitSeconds two_waits"],
        'for 30 seconds by tasks "b" and "c" but for 60 seconds by task "a"',
    ),
    "a wait and none in one set": (
        gang("a: rack? r ~60", "b: rack? r"),
        ["tasks.b.topology[0].waitSeconds two_waits"],
        'not at all by task "b"',
    ),
    "no time at all": (gang("a: rack? r ~0"), ["tasks.a.topology[0].waitSeconds invalid_wait"], "above 0"),
    "no number": (gang("a: rack? r ~nan"), ["tasks.a.topology[0].waitSeconds invalid_wait"], "not nan"),
    "for ever": (gang("a: rack? r ~inf"), ["tasks.a.topology[0].waitSeconds invalid_wait"], "not inf"),
    "required by some, waited for by others": (
        gang("a: rack! r", "b: rack? r ~30", "c: rack? r ~60"),
        ["tasks.b.topology[0].requirementType required_and_preferred"],
        'preferred by tasks "b" and "c"',
    ),
}


@pytest.mark.parametrize("phrase", FAULTY)
def test_refused(phrase):
    faulty, want, words = FAULTY[phrase]
    faults = check_requirements(faulty, POOL)
    assert [f"{format_path(fault.path)} {fault.code}" for fault in faults] == want
    assert words in faults[0].message


def test_two_sets_may_wait_differently():
    assert check_requirements(TWO_WAITS, POOL) == []


def check(asked, *missing, queue_timeout=None, unsupported_preferred="refuse"):
    return check_gang(
        asked,
        POOL,
        capabilities=Capabilities("toy", frozenset(Capability) - set(missing), 16),
        domains=[("a", "s", "r")],
        unsupported_preferred=unsupported_preferred,
        queue_timeout=queue_timeout,
    )


@pytest.mark.parametrize(("seconds", "refused"), [(59.9, True), (60, True), (60.1, False), (None, False)])
def test_a_wait_ends_before_the_queue_timeout(seconds, refused):
    faults = check(gang("a: rack? r ~60"), queue_timeout=seconds)[0]
    assert [f"{format_path(fault.path)} {fault.code}" for fault in faults] == (
        ["tasks.a.topology[0].waitSeconds wait_beyond_queue_timeout"] if refused else []
    )


def test_where_pending_groups_cannot_be_edited_patience_is_refused_even_if_preferences_are_ignored():
    asked = gang("a: rack? r ~60")
    (fault,) = check(asked, "topology.relax_pending")[0]
    assert fault.capability == "topology.relax_pending"
    assert fault.path == ("tasks", "a", "topology", 0, "waitSeconds")
    missing = ("topology.preferred", "topology.relax_pending")
    (fault,) = check(asked, *missing, unsupported_preferred="warn")[0]
    assert fault.capability == "topology.relax_pending"
    assert {fault.capability for fault in check(asked, *missing)[0]} == set(missing)


# What holds for every gang -----------------------------------------------------------------------


def every_stage(pool, asked):
    return [rendered(asked, pool, stage) for stage in range(len(stage_begins(asked)))]


def bare(pod_group):
    """A pod group without its constraints."""
    without = copy.deepcopy(pod_group)
    without["spec"].pop("topologyConstraint", None)
    for entry in without["spec"].get("subGroups", []):
        entry.pop("topologyConstraint", None)
    return without


@given(sound(patient=True))
def test_stages_differ_in_constraints_alone(case):
    pool, asked = case
    first, *later = every_stage(pool, asked)
    for stage in later:
        assert bare(stage.pod_groups[0]) == bare(first.pod_groups[0])
        assert stage.pods == first.pods
        assert stage.topologies == first.topologies
        assert stage.sets == first.sets


@given(sound(patient=True))
def test_in_every_stage_kai_can_place_every_pod_in_one_leaf_and_holds_what_is_required_then(case):
    pool, asked = case
    rank = {level.label: i for i, level in enumerate(pool)}
    level_of = {level.key: i for i, level in enumerate(pool)}
    for begins, stage in zip(stage_begins(asked), every_stage(pool, asked), strict=True):
        root = read(stage.pod_groups[0], stage.pods, stage.topologies)  # raises if KAI never places it
        assert sorted(root.all_pods()) == sorted(task.name for task in asked.tasks)
        assert sum(leaf.minimum for leaf in root.leaves()) == len(asked.tasks)
        sets = sets_of(pool, asked, waited=begins)
        held = [
            (set(g.all_pods()), rank[g.constraint.required])
            for g in root.walk()
            if g.constraint and g.constraint.required
        ]
        for path, (tasks, required) in sets.items():
            if required:
                assert any(tasks <= pods and at >= level_of[path[-1][0]] for pods, at in held), path
        for pods, at in held:
            assert any(
                pods == tasks and required and level_of[path[-1][0]] == at
                for path, (tasks, required) in sets.items()
            )


@given(sound(patient=True))
def test_in_every_stage_what_is_required_is_placed_before_what_is_not(case):
    pool, asked = case
    for stage in every_stage(pool, asked):
        for group in read(stage.pod_groups[0], stage.pods, stage.topologies).walk():
            order = group.in_order(V013)
            assert order == group.in_order(V017)
            waiting = [
                not any(g.constraint and g.constraint.required for g in child.walk()) for child in order
            ]
            assert waiting == sorted(waiting)


@given(sound(patient=True))
def test_the_first_stage_requires_every_wait_and_the_last_prefers_them(case):
    pool, asked = case

    def constraints(tasks, stage):
        objects = rendered(Gang("g", tasks), pool, stage)
        root = read(objects.pod_groups[0], objects.pods, objects.topologies)
        return {(frozenset(g.all_pods()), repr(g.constraint)) for g in root.walk() if g.constraint}

    def rewritten(change):
        return tuple(GangTask(t.name, t.gpus, tuple(change(r) for r in t.requirements)) for t in asked.tasks)

    every = rewritten(lambda r: Requirement(r.key, r.group, r.required_for > 0))
    none = rewritten(lambda r: Requirement(r.key, r.group, r.required))
    assert constraints(asked.tasks, 0) == constraints(every, 0)
    assert constraints(asked.tasks, len(stage_begins(asked)) - 1) == constraints(none, 0)


@given(sound(patient=True))
def test_patches_lead_from_stage_to_stage(case):
    pool, asked = case
    before, *later = every_stage(pool, asked)
    living = before.pod_groups[0]
    for after in later:
        living = merge(living, KAI.relaxed(before, after))
        assert living == after.pod_groups[0]
        before = after


@given(sound(patient=True))
def test_a_cluster_with_room_for_every_set_takes_every_stage_on_both_versions(case):
    pool, asked = case
    nodes = [
        Node(f"{path}-{i}", {level.label: "/".join(path[: r + 1]) for r, level in enumerate(pool)})
        for path in paths(len(pool))
        for i in range(len(asked.tasks))
    ]
    for stage in every_stage(pool, asked):
        root = read(stage.pod_groups[0], stage.pods, stage.topologies)
        assert place(root, nodes, V013)
        assert place(root, nodes, V017)


BLOCKED = """
zone a
  spine s
    rack r1 ....
    rack r2 .
    rack r3 .
    rack r4 .
"""


@pytest.mark.parametrize("version", [V013, V017])
def test_a_relaxed_preference_does_not_take_the_only_rack_that_another_set_requires(version):
    """The four would rather have the rack of four, but the three need it, whatever their number."""
    asked = gang("a b c d*8: rack? big ~60", "e f g*8: rack! small")
    first, last = every_stage(POOL, asked)
    assert place(read(first.pod_groups[0], first.pods, first.topologies), draw(BLOCKED), version) is None
    got = place(read(last.pod_groups[0], last.pods, last.topologies), draw(BLOCKED), version)
    assert got
    assert {got[task].labels["topology/rack"] for task in "efg"} == {"r1"}
