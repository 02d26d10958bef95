"""Verdicts by Kueue's rules, against drawn clusters and against the stand-in for Kueue."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduling.backends.kueue.pod_sets import pod_sets
from scheduling.errors import UnsupportedCapability
from scheduling.fit.snapshot import Holding, Snapshot, amounts
from scheduling.fit.verdict import Answer, judge
from scheduling.gang.tree import build_tree
from tests.unit.scheduling.build import gang
from tests.unit.scheduling.fit.admitted import admitted, gang_demand
from tests.unit.scheduling.fit.worlds import POOL, clusters, draw, node
from tests.unit.scheduling.gangs import sound, with_gpus


def verdict(picture, *lines, **changes):
    return judge(draw(picture), gang_demand(gang(*lines), **changes))


def racks(places):
    return sorted({name.partition("-")[0] for name in places.values()})


def test_a_required_set_goes_into_the_smallest_rack_that_holds_it():
    fits = verdict("a/r1: r1-0 r1-1 r1-2\na/r2: r2-0 r2-1", "a b*8: rack! x")
    assert (fits.answer, fits.proven, racks(fits.places)) == (Answer.NOW, True, ["r2"])


def test_a_preference_goes_up_level_by_level_and_spreads_at_last():
    picture = "a/r1: r1-0 r1-1\na/r2: r2-0\nb/r3: r3-0 r3-1"
    assert racks(verdict(picture, "a b c*8: rack? x").places) == ["r1", "r2"]
    assert racks(verdict(picture, "a b c d*8: rack? x").places) == ["r1", "r3"]


def test_sets_inside_a_zone_are_slices_that_no_rack_shares_with_a_part_of_another():
    asked = ("a b*8: zone! z, rack! x", "c d*8: zone! z, rack! y")
    fits = verdict("a/r1: r1-0 r1-1 r1-2\na/r2: r2-0\nb/r3: r3-0 r3-1\nb/r4: r4-0 r4-1", *asked)
    assert (fits.answer, racks(fits.places)) == (Answer.NOW, ["r3", "r4"])
    assert verdict("a/r1: r1-0 r1-1 r1-2\na/r2: r2-0", *asked).answer is Answer.NEVER


def test_a_node_without_a_label_is_out_of_sight_for_free_tasks_too():
    fits = verdict("a/r1: r1-0 r1-1x\na/-: n-0", "a b*8")
    assert (fits.answer, fits.most_placed) == (Answer.NOT_NOW, 0)


def test_free_tasks_take_the_smallest_remainders_first():
    nodes = [node("full", {"topology/zone": "a", "topology/rack": "r"}, gpus=8)]
    nodes.append(node("rest", {"topology/zone": "a", "topology/rack": "r"}, gpus=8, held=6))
    fits = judge(Snapshot.of(nodes, POOL, paths=True), gang_demand(gang("a b c*1")))
    assert sorted(fits.places.values()) == ["full", "full", "full"]
    split = judge(Snapshot.of(nodes, POOL, paths=True), gang_demand(gang("a b c d e f g h i*1")))
    assert sorted(split.places.values()).count("rest") == 2


def test_two_tasks_that_claim_a_channel_are_not_promised_one_node():
    """Kueue counts no channels: it puts both on the node, and the second one could not start."""
    tasks, nodes = "a b*4: rack! x", "a/r1: r1-0 r1-1"
    assert racks(verdict(nodes, tasks).places) == ["r1"]
    claiming = verdict(nodes, tasks, channel=True)
    assert (claiming.answer, claiming.most_placed) == (Answer.NOT_NOW, 1)


def with_claims(picture, *held):
    """The nodes of a picture, where work on these holds the channel and one GPU."""
    holding = Holding("beside", amounts(gpu=1, pods=1, channels=1))
    nodes = [replace(n, holdings=(holding,)) if n.name in held else n for n in draw(picture).nodes]
    return Snapshot.of(nodes, POOL, paths=True)


def test_a_node_whose_channel_is_held_is_left_out_before_the_least_room_is_chosen():
    """By GPUs alone r1 would be the smaller rack, and its nodes would have room."""
    cluster = with_claims("a/r1: r1-0 r1-1\na/r2: r2-0 r2-1 r2-2", "r1-0")
    claiming = judge(cluster, gang_demand(gang("a b*5: rack! x"), channel=True))
    assert (claiming.answer, racks(claiming.places)) == (Answer.NOW, ["r2"])
    assert racks(judge(cluster, gang_demand(gang("a b*5: rack! x"))).places) == ["r1"]


def test_claims_wait_where_every_rack_has_too_few_free_channels():
    cluster = with_claims("a/r1: r1-0 r1-1\na/r2: r2-0 r2-1", "r1-0", "r2-1")
    claiming = judge(cluster, gang_demand(gang("a b*5: rack! x"), channel=True))
    assert (claiming.answer, claiming.most_placed) == (Answer.NOT_NOW, 0)


def test_tasks_alike_of_which_one_claims_are_one_list_of_pods():
    """Kueue reads one template for all of them, so the others leave held nodes out too."""
    cluster = with_claims("a/r1: r1-0 r1-1\na/r2: r2-0 r2-1", "r1-0")
    written = gang("a b*5: rack! x")
    demand = gang_demand(written, channel=True)
    silent = replace(demand.demands["b"], amounts=(*demand.demands["b"].amounts[:-1], 0))
    mixed = replace(demand, demands={**demand.demands, "b": silent})
    assert racks(judge(cluster, mixed).places) == ["r2"]


@st.composite
def renderable(draw):
    """A gang that Kueue holds, with tasks alike."""
    pool, written = draw(sound(pool=POOL))
    written = with_gpus(written, draw(st.sampled_from([1, 2])))
    assume(all(not r.auto and r.wait_seconds is None for t in written.tasks for r in t.requirements))
    try:
        sets = pod_sets(build_tree(written, pool))
    except UnsupportedCapability:
        assume(False)
    assume(all(s.constraint.required is None or s.constraint.preferred is None for s in sets))
    return written


@given(renderable(), clusters(gpus=4))
def test_now_is_said_exactly_where_the_stand_in_admits_the_gang_to_those_nodes(written, nodes):
    (counts,) = admitted([written], nodes)
    fits = judge(Snapshot.of(nodes, POOL, paths=True), gang_demand(written))
    assert (fits.answer is Answer.NOW) == (counts is not None)
    if counts is not None:
        named = list(fits.places.values())
        assert {name: named.count(name) for name in set(named)} == counts


@given(renderable(), clusters(gpus=4))
def test_never_is_said_only_where_empty_open_nodes_admit_nothing(written, nodes):
    if judge(Snapshot.of(nodes, POOL, paths=True), gang_demand(written)).answer is Answer.NEVER:
        empty = [node(n.name, n.labels, gpus=n.allocatable[0]) for n in nodes]
        assert admitted([written], empty) == [None]


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_certain_now_holds_beside_a_gang_before_it(first):
    """A gang that the stand-in admits first takes the nodes that the verdict says it takes."""
    nodes = list(draw("a/r1: r1-0 r1-1 r1-2\na/r2: r2-0 r2-1\nb/r3: r3-0 r3-1 r3-2 r3-3").nodes)
    before = gang(f"{' '.join(f't{i}' for i in range(first))}*8: rack! x")
    own = gang("a b*8: rack! x", "c d*8: rack! y")
    counts, mine = admitted([before, own], nodes)
    taken = judge(Snapshot.of(nodes, POOL, paths=True), gang_demand(before)).places
    left = [node(n.name, n.labels, gpus=8, held=8 if n.name in taken.values() else 0) for n in nodes]
    assert set(counts) == set(taken.values())
    fits = judge(Snapshot.of(left, POOL, paths=True), gang_demand(own))
    assert (fits.answer is Answer.NOW) == (mine is not None)
    assert set(fits.places.values()) == set(mine or ())


def test_sets_inside_a_set_that_are_not_equal_have_no_place():
    """Kueue has no words for them; submission refuses them by capability."""
    fits = verdict(
        "a/r1: r1-0 r1-1 r1-2\na/r2: r2-0 r2-1", "a b*8: zone! z, rack! x", "c*8: zone! z, rack! y"
    )
    assert (fits.answer, fits.places) == (Answer.NOT_NOW, {})
