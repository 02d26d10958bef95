"""The workflow that a pool offers to copy: sound for every pool, and written with what the pool has."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from pages.pools.snippet import Asks, Offer, amounts_for, snippet
from scheduling.topology.levels import KEY, Level
from workflows.spec import SpecLimits, parse_workflow

ZONE, RACK, CLIQUE = (Level(key, f"example.com/{key}") for key in ("zone", "rack", "clique"))
HOST = Level("host", "kubernetes.io/hostname")


def offer(*levels, nvlink=False, can_require=True, can_prefer=True, platform=None):
    return Offer(
        levels=levels,
        nvlink=nvlink,
        can_require=can_require,
        can_prefer=can_prefer,
        platform=platform,
        asks=Asks(gpu=4, cpu=8, memory=64),
        tasks=2,
    )


def topology(of):
    shard = yaml.safe_load(snippet(of))["workflow"]["resources"]["shard"]
    return [(row["key"], row.get("requirementType", "required")) for row in shard.get("topology", [])]


def test_the_narrowest_key_is_required():
    assert topology(offer(ZONE, RACK)) == [("rack", "required")]


def test_with_keys_enough_the_narrowest_is_only_preferred():
    assert topology(offer(ZONE, RACK, CLIQUE)) == [("rack", "required"), ("clique", "preferred")]


def test_tasks_that_claim_nvlink_must_share_the_narrowest_key():
    assert topology(offer(ZONE, RACK, CLIQUE, nvlink=True)) == [("clique", "required")]


def test_nothing_is_preferred_where_the_scheduler_cannot():
    assert topology(offer(ZONE, RACK, CLIQUE, can_prefer=False)) == [("clique", "required")]


def test_a_key_of_single_nodes_holds_no_two_tasks_and_is_left_out():
    assert topology(offer(RACK, HOST)) == [("rack", "required")]
    assert topology(offer(HOST)) == []


def test_a_scheduler_without_topology_is_asked_for_none():
    assert topology(offer(ZONE, RACK, can_require=False)) == []


def test_amounts_are_those_of_the_most_common_node_with_gpus():
    nodes = [Asks(gpu=0, cpu=96, memory=900), *[Asks(gpu=4, cpu=64, memory=512)] * 3, Asks(gpu=8, cpu=8)]
    assert amounts_for(nodes) == Asks(gpu=4, cpu=32, memory=256)
    assert amounts_for([]) == Asks(gpu=1, cpu=1, memory=4)


@given(keys=st.lists(st.from_regex(KEY, fullmatch=True), max_size=4, unique=True))
def test_any_key_is_read_back_as_it_was_written(keys):
    levels = [Level(key, f"example.com/l{index}") for index, key in enumerate(keys)]
    assert {key for key, _ in topology(offer(*levels))} <= set(keys)
    assert parse_workflow(
        snippet(offer(*levels)), variables=(), string_variables=(), limits=SpecLimits(), allow_localpath=False
    )


def test_a_platform_whose_name_means_something_else_to_yaml_is_read_back_as_it_is():
    for name in ("gpu", "no", "null", "on", "True"):
        shard = yaml.safe_load(snippet(offer(platform=name)))["workflow"]["resources"]["shard"]
        assert shard["platform"] == name
