"""When preferences give way: only for a place that exists now and that they do not see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.fit.board import Board
from scheduling.fit.freeing import freed_levels
from scheduling.fit.pin_choice import pins_for
from scheduling.fit.snapshot import Snapshot
from scheduling.gang.free_preferences import at_preference_levels
from tests.unit.scheduling import build, gangs
from tests.unit.scheduling.fit.played import played
from tests.unit.scheduling.fit.worlds import POOL, RACK, ZONE, clusters, draw, gang_demand, node
from tests.unit.scheduling.gangs import with_gpus

SIX = build.gang("a1 a2 a3*8: zone? z, rack? r1", "b1 b2 b3*8: zone? z, rack? r2")
FOUR = build.gang("a b c d*8: rack? r")


@pytest.mark.parametrize(
    ("gang", "picture", "want"),
    [
        pytest.param(SIX, "a/r1: n1 n2\n-/-: n3 n4 n5 n6", 0, id="needs nodes without any label"),
        pytest.param(SIX, "a/r1: n1 n2\na/-: n3 n4 n5 n6", 1, id="needs nodes that have the broader label"),
        pytest.param(SIX, "a/r1: n1 n2 n3\na/r2: n4 n5 n6\n-/-: n7", None, id="has room where it prefers"),
        pytest.param(SIX, "a/r1: n1 n2 n3\nb/r2: n4 n5 n6\n-/-: n7", None, id="has room on labelled nodes"),
        pytest.param(SIX, "a/r1: n1 n2\n-/-: n3 n4x n5x n6x", None, id="has room nowhere"),
        pytest.param(FOUR, "a/r1: n1 n2 n3 n4x\n-/-: n5x", None, id="waits on a busy cluster"),
        pytest.param(
            build.gang("a b*8: zone! z, rack? r"),
            "a/-: n1 n2\nb/r1: n3",
            1,
            id="below a requirement",
        ),
        pytest.param(
            build.gang("a b*8: zone! z, rack? r"), "-/-: n1 n2\nb/r1: n3", None, id="never a requirement"
        ),
        pytest.param(
            build.gang("a b*8: rack? r ~90"), "-/-: n1 n2\nb/r1: n3", None, id="held as required for a while"
        ),
        pytest.param(build.gang("a b*8"), "-/-: n1", None, id="prefers nothing"),
    ],
)
def test_preferences_give_way(gang, picture, want):
    assert freed_levels(draw(picture), gang_demand(gang)) == want


@given(gangs.sound(pool=POOL, most=6), clusters(), st.sampled_from(["0.13", "0.17"]))
def test_kai_places_the_gang_once_its_preferences_gave_way_and_not_before(case, nodes, version):
    _, gang = case
    gang = with_gpus(gang, 1)
    demand = gang_demand(gang)
    depth = freed_levels(Snapshot.of(nodes, POOL, paths=True), demand)
    if depth is None:
        return
    assert not played([gang], nodes, version)
    assert len(played([gang], nodes, version, preference_levels=depth)) == len(gang.tasks)
    assert at_preference_levels(demand.tree, depth) != demand.tree


MIXED = build.gang("driver*4: zone! z, rack? r", "w1 w2 w3*2: zone! z, rack? r")
BLIND = [node(f"n{i}", {ZONE: "a"}, gpus=gpus) for i, gpus in enumerate((4, 2, 4, 2))]
"""A zone with room for each task, of which no node carries a rack."""
LABELLED = [node(n.name, {ZONE: "a", RACK: "r1"}, gpus=n.gpus) for n in BLIND]


def test_preferences_give_way_to_a_place_to_which_the_sets_are_then_pinned():
    world, demand = Snapshot.of(BLIND, POOL, paths=True), gang_demand(MIXED, pinnable=True)

    count = freed_levels(world, demand)

    pins = pins_for(Board(world), demand.at_preference_levels(count))
    assert (count, [pin.domain for pin in pins]) == (1, [("a",)])
    for version in ("0.13", "0.17"):
        assert not played([MIXED], BLIND, version)
        assert not played([MIXED], BLIND, version, preference_levels=count)
        assert len(played([MIXED], BLIND, version, preference_levels=count, pins=pins)) == 4
    assert freed_levels(world, demand.pinned(pins)) is None, "nothing more gives way"


def test_preferences_stay_where_pins_alone_lead_to_a_place():
    world = Snapshot.of(LABELLED, POOL, paths=True)
    demand = gang_demand(MIXED, pinnable=True)
    assert pins_for(Board(world), demand)
    assert freed_levels(world, demand) is None
