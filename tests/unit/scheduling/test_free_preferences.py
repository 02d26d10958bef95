"""Preferences that give way: which levels they may still name, and what a scheduler is given then."""

import pytest
from hypothesis import given

from scheduling.backends.kai import Kai
from scheduling.gang.free_preferences import at_preference_levels, narrowest_preference
from scheduling.gang.gang_form import GangForm
from scheduling.gang.stages import at_stage
from scheduling.gang.tree import Constraint, build_tree
from scheduling.names import topology
from tests.unit.scheduling import build, gangs

POOL = build.levels("zone spine rack")
USE_CASE_4 = build.gang("a1 a2*8: spine? all, rack? r1", "b1 b2*8: spine? all, rack? r2")


def constraints(gang, depth, *, stage=0):
    tree = at_preference_levels(at_stage(build_tree(gang, POOL), stage), depth)
    return [node.constraint for node in tree.root.walk()]


@pytest.mark.parametrize(
    ("depth", "want"),
    [
        (None, [Constraint(None, 1), Constraint(None, 2), Constraint(None, 2)]),
        (2, [Constraint(None, 1), Constraint(None, 1), Constraint(None, 1)]),
        (1, [Constraint(None, 0), Constraint(None, 0), Constraint(None, 0)]),
        (0, [Constraint(), Constraint(), Constraint()]),
    ],
)
def test_preferences_are_cut_to_the_levels_that_they_may_still_name(depth, want):
    assert constraints(USE_CASE_4, depth) == want


def test_a_required_level_stays_whatever_gives_way():
    gang = build.gang("a b*8: zone! z, rack? r")
    assert constraints(gang, 2) == [Constraint(required=0, preferred=1)]
    assert constraints(gang, 1) == [Constraint(required=0)]
    assert constraints(gang, 0) == [Constraint(required=0)]


def test_a_preference_that_is_still_held_as_required_does_not_give_way_before_its_time():
    gang = build.gang("a b*8: rack? r ~90")
    assert constraints(gang, 0) == [Constraint(required=2)]
    assert constraints(gang, 0, stage=1) == [Constraint()]


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        (["a b: rack! r"], False),
        (["a b"], False),
        (["a b: rack? r"], True),
        (["a b: zone! z, rack? r"], True),
        (["a b: rack? r ~90"], False),
        (["a b: rack? r ~90", "c: zone? z"], True),
    ],
)
def test_only_a_preference_that_applies_as_one_can_give_way(lines, want):
    assert (narrowest_preference(build_tree(build.gang(*lines), POOL)) is not None) is want


def rendered(gang, depth):
    return Kai().render(build.request(gang, POOL, form=GangForm(preference_levels=depth)))


def test_kai_gets_shorter_topologies_and_the_same_pods():
    before, after = rendered(USE_CASE_4, None), rendered(USE_CASE_4, 1)
    zone = topology(build.INSTALLATION, [POOL[0].label])
    spec = after.pod_groups[0]["spec"]
    every = [spec["topologyConstraint"], *(sub["topologyConstraint"] for sub in spec["subGroups"])]
    assert every == [{"topology": zone, "preferredTopologyLevel": "topology/zone"}] * 3
    assert [t["metadata"]["name"] for t in after.topologies] == [zone]
    assert before.pods == after.pods


def test_without_a_preference_a_requirement_prefers_its_own_level():
    spec = rendered(build.gang("a b: zone! z, rack? r"), 0).pod_groups[0]["spec"]
    assert spec["topologyConstraint"]["requiredTopologyLevel"] == "topology/zone"
    assert spec["topologyConstraint"]["preferredTopologyLevel"] == "topology/zone"


def test_the_patch_removes_constraints_that_are_left_without_a_level():
    body = Kai().relaxed(rendered(USE_CASE_4, None), rendered(USE_CASE_4, 0))
    assert body["spec"]["topologyConstraint"] is None
    assert all("topologyConstraint" not in sub for sub in body["spec"]["subGroups"])


def test_the_report_says_what_each_preference_applies_as():
    rows = [line.as_json() for line in rendered(build.gang("a b: zone! z, rack? r"), 2).constraints]
    assert [(row["key"], row.get("freed"), row.get("applied_key")) for row in rows] == [
        ("zone", None, None),
        ("rack", True, "spine"),
    ]
    rows = [line.as_json() for line in rendered(USE_CASE_4, 0).constraints]
    assert [(row["key"], row["freed"], row["applied_key"]) for row in rows] == [
        ("spine", True, None),
        ("rack", True, None),
        ("rack", True, None),
    ]


@given(gangs.sound(patient=True))
def test_no_requirement_and_no_name_changes_whatever_preference_gives_way(case):
    pool, gang = case
    whole = Kai().render(build.request(gang, pool))
    for depth in range(len(pool) + 1):
        freed = Kai().render(build.request(gang, pool, form=GangForm(preference_levels=depth)))
        assert freed.pods == whole.pods
        required = [row for row in whole.constraints if row.requirement == "required"]
        assert [(row.path, row.key, row.subgroup) for row in required] == [
            (row.path, row.key, row.subgroup) for row in freed.constraints if row.requirement == "required"
        ]
        assert [(row.path, row.key) for row in freed.constraints] == [
            (row.path, row.key) for row in whole.constraints
        ]
