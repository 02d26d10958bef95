"""What nodes show of a pool's levels."""

from collections import Counter

import pytest

from scheduling.topology.coverage import LevelCoverage, SharedValue, count, cover, levels_named
from scheduling.topology.levels import domain_of
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
    got = cover(LACKING, POOL, named=1, paths=True)
    assert got.nodes == 6
    assert got.levels == (
        LevelCoverage(ZONE, 1, 1, ("n05",), ("n05",)),
        LevelCoverage(SPINE, 1, 2, ("n04",), ("n04",)),
        LevelCoverage(RACK, 2, 4, ("n02",), ("n02",)),
    )
    assert not got.is_complete
    assert got.unavailable == ()


def test_where_domains_are_no_paths_a_broader_label_hides_nothing():
    assert [level.hidden for level in cover(LACKING, POOL, named=1, paths=False).levels] == [1, 1, 2]


@pytest.mark.parametrize("paths", [True, False])
def test_nodes_that_were_only_counted_give_the_same_counts(paths):
    places = Counter(domain_of(labels, POOL) for labels in LACKING.values())
    assert count(places, POOL, paths=paths) == cover(LACKING, POOL, named=0, paths=paths)


def test_a_pool_whose_nodes_carry_everything_is_complete():
    got = cover(nodes("zone a\n  spine s\n    rack r .."), POOL, named=5, paths=True)
    assert got.is_complete
    assert got.shared == ()
    assert cover({}, POOL, named=5, paths=True).is_complete


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
    assert list(cover(nodes(picture), POOL, named=5, paths=True).shared) == want


def gone(picture, *, paths=True):
    return cover(nodes(picture) if picture else {}, POOL, named=0, paths=paths).unavailable


def test_a_level_is_gone_when_no_node_carries_its_label():
    assert gone("zone a\n  spine -\n    rack - ..") == (SPINE, RACK)
    assert gone("zone -\n  spine s\n    rack r ..") == (ZONE,)
    assert gone("") == POOL


def test_a_level_is_gone_when_each_node_that_carries_its_label_lacks_a_broader_one():
    picture = "zone a\n  spine s\n    rack - .\nzone -\n  spine s\n    rack r ."
    assert gone(picture) == (RACK,)
    assert gone(picture, paths=False) == ()


def test_a_gang_needs_the_levels_down_to_the_narrowest_it_names():
    assert levels_named(gang("a: spine? s", "b"), POOL) == (ZONE, SPINE)
    assert levels_named(gang("a b", topology="rack! r"), POOL) == POOL
    assert levels_named(gang("a b"), POOL) == ()
