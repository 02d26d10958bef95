"""Places that KAI's count by the largest task passes over, and pins to them."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.fit.board import Board
from scheduling.fit.pin_choice import pins_for
from scheduling.fit.placing import is_placed
from scheduling.fit.verdict import Answer, judge
from scheduling.gang.pins import Pin, from_json, node_labels, to_json
from tests.unit.scheduling import build, gangs
from tests.unit.scheduling.fit.played import played
from tests.unit.scheduling.fit.worlds import (
    DRIVER_AND_WORKERS,
    MIXED,
    POOL,
    RACK,
    ZONE,
    clusters,
    gang_demand,
    node,
    rack,
    snapshot,
)

RACK_SET = (("rack", "r"),)


"""The rack of fact 28: room for each task, and not for four of the largest."""


def pins_on(nodes, gang):
    return pins_for(Board(snapshot(nodes)), gang_demand(gang))


@pytest.mark.parametrize("version", ["0.13", "0.17"])
def test_a_driver_and_smaller_workers_are_pinned_to_the_rack_that_holds_them(version):
    assert not played([DRIVER_AND_WORKERS], MIXED, version)
    pins = pins_on(MIXED, DRIVER_AND_WORKERS)
    assert pins == (Pin(RACK_SET, ("a", "r1")),)
    assert len(played([DRIVER_AND_WORKERS], MIXED, version, pins=pins)) == 4


@pytest.mark.parametrize(
    ("nodes", "gang"),
    [
        pytest.param(rack("a", "r1", 2, 2, 2), DRIVER_AND_WORKERS, id="no room for the largest"),
        pytest.param(
            rack("a", "r1", 4, 2) + rack("a", "r2", 4, 2), DRIVER_AND_WORKERS, id="no rack of that size"
        ),
        pytest.param(MIXED, build.gang("a b c d*4: rack! r"), id="tasks of one size"),
        pytest.param(MIXED, build.gang("a*4: rack? r", "b c d*2: rack? r"), id="nothing required"),
        pytest.param(
            MIXED, build.gang("a*4: rack? r ~90", "b c d*2: rack? r ~90"), id="required for a while"
        ),
    ],
)
def test_nothing_is_pinned_where_that_does_not_help(nodes, gang):
    assert pins_on(nodes, gang) == ()


def test_only_the_sets_that_are_counted_wrongly_are_pinned():
    gang = build.gang("d*4: zone! z, rack! r", "w1 w2*2: zone! z, rack! r", "o1 o2*2: zone! z, rack! s")
    nodes = [*rack("a", "r1", 4, 2, 2), *rack("a", "r2", 2, 2)]
    pins = pins_on(nodes, gang)
    assert {pin.path[-1]: pin.domain for pin in pins} == {
        ("zone", "z"): ("a",),
        ("rack", "r"): ("a", "r1"),
    }
    labels = node_labels(gang_demand(gang).pinned(pins).tree)
    assert labels["d"] == {ZONE: "a", RACK: "r1"}
    assert labels["o1"] == {ZONE: "a"}


def test_the_verdict_is_now_and_names_the_pins():
    verdict = judge(snapshot(MIXED), gang_demand(DRIVER_AND_WORKERS, pinnable=True))
    assert verdict.answer is Answer.NOW
    assert verdict.pins == (Pin(RACK_SET, ("a", "r1")),)
    assert len(verdict.places) == 4


def test_a_gang_that_pins_could_place_later_is_never_called_never():
    busy = [node(n.name, n.labels, gpus=n.gpus, held=n.gpus) for n in MIXED]
    verdict = judge(snapshot(busy), gang_demand(DRIVER_AND_WORKERS, pinnable=True))
    assert verdict.answer is Answer.NOT_NOW


def test_pins_survive_their_json():
    pins = pins_on(MIXED, DRIVER_AND_WORKERS)
    assert from_json(to_json(pins)) == pins


@given(gangs.sound(pool=POOL, preferred=False, most=5), clusters(gpus=8), st.sampled_from(["0.13", "0.17"]))
def test_kai_places_a_pinned_gang_within_what_it_requires(case, nodes, version):
    _, gang = case
    pins = pins_on(nodes, gang)
    if not pins:
        return
    by_name = {n.name: n for n in nodes}
    bound = played([gang], nodes, version, pins=pins)
    for path, (tasks, _) in gangs.sets_of(POOL, gang).items():
        depth = [level.key for level in POOL].index(path[-1][0]) + 1
        on = {name: by_name[bound["0", name]] for name in tasks if ("0", name) in bound}
        domains = {tuple(n.labels.get(level.label) for level in POOL[:depth]) for n in on.values()}
        assert len(domains) <= 1


FOUR_SETS = build.gang("a b c d*1: rack! p", "e f g*1: rack! q", "h i*1: rack! r", "j k*1: rack! s")
"""4, 3, 2 and 2: on racks of 6 and 5 only 4 + 2 beside 3 + 2 fit, and the largest first misses that."""


def fixed(gang):
    """The gang on a scheduler that takes sets in an order of its own, each into the fullest rack."""
    return replace(gang_demand(gang), counts_largest=False, is_orderable=False, is_pinnable=True)


def test_sets_are_pinned_where_the_order_of_the_scheduler_misses_their_place():
    nodes = rack("a", "r1", *[1] * 6) + rack("a", "r2", *[1] * 5)
    board, gang = Board(snapshot(nodes)), fixed(FOUR_SETS)
    assert not is_placed(board, gang)
    pins = pins_for(board, gang)
    assert is_placed(board, gang.pinned(pins))
    by_rack = Counter()
    for pin in pins:
        by_rack[pin.domain] += {"p": 4, "q": 3, "r": 2, "s": 2}[pin.path[-1][1]]
    assert by_rack == {("a", "r1"): 6, ("a", "r2"): 5}


def test_nothing_is_pinned_where_the_scheduler_finds_a_place_or_there_is_none():
    for sizes in ([6, 6], [6, 4]):
        nodes = [
            at for name, size in zip(("r1", "r2"), sizes, strict=True) for at in rack("a", name, *[1] * size)
        ]
        assert pins_for(Board(snapshot(nodes)), fixed(FOUR_SETS)) == ()
