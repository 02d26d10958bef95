"""The reader that judges our trees says of known gangs what running KAI did with them.

Pod groups are written by hand here, as they were on the schedulers, so a reader that shared a mistake with
the renderer would be found out.
"""

from types import SimpleNamespace

import pytest

from tests.unit.scheduling.kai_reader import V013, V017, NeverPlaced, draw, place, read

VERSIONS = (V013, V017)
CUTS = {"z": ["zone"], "zr": ["zone", "rack"]}
TOPOLOGIES = [
    {
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": f"topology/{key}"} for key in keys]},
    }
    for name, keys in CUTS.items()
]

MIXED = """
zone a
  rack r1 ....
  rack -  ...
"""
"""A rack of four, and three nodes of its zone that carry no rack."""


def bound(topology, required=None, preferred=None):
    """A constraint; a level by its key."""
    levels = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {"topology": topology} | {name: f"topology/{key}" for name, key in levels.items() if key}


def leaf(name, pods, constraint=None, parent=None):
    return inner(name, constraint, parent) | {"minMember": pods}


def inner(name, constraint=None, parent=None):
    entry = {"name": name}
    if constraint:
        entry["topologyConstraint"] = constraint
    return entry | ({"parent": parent} if parent else {})


def outcome(picture, *subgroups, top=None, minimum=None, version=V017, labels=None):
    """How many pods are placed; None while all wait."""
    spec = {"subGroups": list(subgroups)} if subgroups else {"minMember": minimum}
    if top:
        spec["topologyConstraint"] = top
    pods = {}
    for subgroup in subgroups or [{"name": None, "minMember": minimum}]:
        for number in range(subgroup.get("minMember", 0)):
            mine = {"kai.scheduler/subgroup-name": subgroup["name"]} if subgroup["name"] else {}
            annotations = {"pod-group-name": "g"}
            parts = SimpleNamespace(labels=mine if labels is None else labels, annotations=annotations)
            pods[f"{subgroup['name']}-{number}"] = parts
    root = read({"metadata": {"name": "g"}, "spec": spec}, pods, TOPOLOGIES)
    found = place(root, draw(picture), version)
    return None if found is None else len(found)


RACK = bound("zr", "rack", "rack")
ZONE = bound("z", "zone", "zone")


@pytest.mark.parametrize("version", VERSIONS)
def test_required_alone_can_fail_for_ever_and_a_preferred_level_cures_it(version):
    one_rack = "zone a\n  rack r1 ....\n"
    alone, cured = bound("zr", "zone"), bound("zr", "zone", "rack")
    assert outcome(one_rack, top=alone, minimum=3, version=version) is None
    assert outcome(one_rack, top=cured, minimum=3, version=version) == 3


@pytest.mark.parametrize(
    "constraint", [bound("zr", "rack", "zone"), bound("z", "rack", "rack"), bound("nope", "zone", "zone")]
)
def test_a_constraint_kai_cannot_read_is_never_placed(constraint):
    with pytest.raises(NeverPlaced):
        outcome(MIXED, top=constraint, minimum=1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_child_broader_than_its_parent_is_placed_in_its_parents_domain(version):
    """Tried on running KAI: root on one rack, child on one zone, required and preferred in both."""
    assert outcome(MIXED, leaf("00", 1, ZONE), leaf("01", 3), top=RACK, version=version) == 4
    assert outcome(MIXED, leaf("00", 2, ZONE), leaf("01", 3), top=RACK, version=version) is None


@pytest.mark.parametrize("labels", [{}, {"kai.scheduler/subgroup-name": "other"}])
def test_a_pod_without_a_leaf_is_never_placed(labels):
    with pytest.raises(NeverPlaced):
        outcome(MIXED, leaf("00", 1), labels=labels)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_label_hides_a_node_from_a_topology_that_lists_it(version):
    whole = [leaf("00", 4, RACK), leaf("01-free", 3)]
    assert outcome(MIXED, *whole, top=bound("zr", "zone", "zone"), version=version) is None
    assert outcome(MIXED, *whole, top=ZONE, version=version) == 7


@pytest.mark.parametrize("version", VERSIONS)
def test_free_pods_named_first_take_the_only_rack(version):
    first = [leaf("00-free", 3), leaf("01", 4, RACK)]
    last = [leaf("00", 4, RACK), leaf("01-free", 3)]
    assert outcome(MIXED, *last, top=ZONE, version=version) == 7
    assert outcome(MIXED, *first, top=ZONE, version=version) is None


def nested(*, inside, outside):
    """A set of four in a rack with two beside it in its zone, and two that are free of it."""
    return [
        inner("01-zone", ZONE),
        leaf("00-rack" if inside == "last" else "05-rack", 4, RACK, parent="01-zone"),
        leaf("01-free", 2, parent="01-zone"),
        leaf("02-free" if outside == "last" else "00-free", 2),
    ]


TWO_ZONES = """
zone a
  rack r1 ....
  rack -  ..
zone b
  rack r2 ..
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_nested_shape_places_right_with_free_leaves_last(version):
    assert outcome(TWO_ZONES, *nested(inside="last", outside="last"), version=version) == 8
    assert outcome(TWO_ZONES, *nested(inside="first", outside="last"), version=version) is None


def test_a_free_leaf_at_the_root_named_first_hurts_v017_alone():
    shape = nested(inside="last", outside="first")
    assert outcome(TWO_ZONES, *shape, version=V013) == 8
    assert outcome(TWO_ZONES, *shape, version=V017) is None


ONE_RACK = """
zone a
  rack r1 ....
  rack -  ....
"""


def test_wrapping_makes_names_alone_decide_on_both_versions():
    beside = [inner("01-inner", ZONE), leaf("02", 2, parent="01-inner"), leaf("03", 2, parent="01-inner")]
    bare = [leaf("00-set", 4, RACK), *beside]
    wrapped = [inner("00-set", RACK), leaf("00-all", 4, parent="00-set"), *beside]
    assert outcome(ONE_RACK, *bare, version=V013) is None
    assert outcome(ONE_RACK, *bare, version=V017) == 8
    assert [outcome(ONE_RACK, *wrapped, version=version) for version in VERSIONS] == [8, 8]
