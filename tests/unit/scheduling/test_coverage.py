"""What nodes show of a pool's levels."""

import pytest

from scheduling.coverage import LevelCoverage, SharedValue, cover, levels_gone, levels_named
from tests.unit.scheduling.build import gang, levels
from tests.unit.scheduling.kai_reader import draw

POOL = levels("zone spine rack")
ZONE, SPINE, RACK = POOL


def nodes(picture):
    return {node.name: node.labels for node in draw(picture)}


LACKING = nodes("""
zone a
  spine s1
    rack r1 ..
    rack - ..
  spine -
    rack r2 .
zone -
  spine s2
    rack r3 .
""")


def test_nodes_are_counted_and_named_for_each_label_they_lack():
    got = cover(LACKING, POOL, named=1)
    assert got.nodes == 6
    assert got.levels == (
        LevelCoverage(ZONE, 1, 1, ("n05",)),
        LevelCoverage(SPINE, 1, 2, ("n04",)),
        LevelCoverage(RACK, 2, 4, ("n02",)),
    )
    assert not got.is_complete


def test_a_pool_whose_nodes_carry_everything_is_complete():
    got = cover(nodes("zone a\n  spine s\n    rack r .."), POOL, named=5)
    assert got.is_complete
    assert got.shared == ()
    assert cover({}, POOL, named=5).is_complete


SHARED = {
    "one rack name in two spines": (
        "zone a\n  spine s1\n    rack r .\n  spine s2\n    rack r .",
        [SharedValue(RACK, "r", SPINE, ("s1", "s2"))],
    ),
    "one rack name in two spines of two zones is told for the spines": (
        "zone a\n  spine s1\n    rack r .\nzone b\n  spine s2\n    rack r .",
        [SharedValue(RACK, "r", SPINE, ("s1", "s2"))],
    ),
    "one spine name in two zones, and its rack's": (
        "zone a\n  spine s\n    rack r .\nzone b\n  spine s\n    rack r .",
        [SharedValue(SPINE, "s", ZONE, ("a", "b")), SharedValue(RACK, "r", ZONE, ("a", "b"))],
    ),
    "a missing label is no parent": ("zone a\n  spine s\n    rack r .\nzone -\n  spine s\n    rack r .", []),
}


@pytest.mark.parametrize("phrase", SHARED)
def test_values_under_two_parents(phrase):
    picture, want = SHARED[phrase]
    assert list(cover(nodes(picture), POOL, named=5).shared) == want


def test_a_level_is_gone_when_no_node_carries_its_label():
    assert levels_gone(POOL, LACKING.values()) == ()
    assert levels_gone(POOL, nodes("zone a\n  spine -\n    rack - ..").values()) == (SPINE, RACK)
    assert levels_gone(POOL, []) == POOL


def test_a_gang_needs_the_levels_down_to_the_narrowest_it_names():
    assert levels_named(gang("a: spine? s", "b"), POOL) == (ZONE, SPINE)
    assert levels_named(gang("a b", topology="rack! r"), POOL) == POOL
    assert levels_named(gang("a b"), POOL) == ()
