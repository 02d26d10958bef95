"""Requirements with which a gang is placed that its scheduler passes over, and that pins do not help."""

import pytest

from scheduling.fit.alternatives import alternative, is_passed_over
from scheduling.fit.board import Board
from scheduling.fit.pinning import pins_for
from scheduling.requirements import effective
from tests.unit.scheduling import build
from tests.unit.scheduling.fit.played import played
from tests.unit.scheduling.fit.test_pinning import DRIVER_AND_WORKERS, MIXED, snapshot
from tests.unit.scheduling.fit.worlds import gang_demand

FOR_A_WHILE = build.gang("driver*4: rack? r ~90", "w1 w2 w3*2: rack? r ~90")
PREFERRED = build.gang("driver*4: zone? z, rack? r", "w1 w2 w3*2: zone? z, rack? r")
BOTH = build.gang("driver*4: zone? z, rack? r ~90", "w1 w2 w3*2: zone? z, rack? r ~90")


def required(gang):
    return {(r.key, r.required, r.wait_seconds) for task in gang.tasks for r in task.requirements}


@pytest.mark.parametrize(
    ("gang", "want"),
    [
        pytest.param(FOR_A_WHILE, {("rack", True, None)}, id="required for a while"),
        pytest.param(PREFERRED, set(), id="preferred"),
    ],
)
@pytest.mark.parametrize("version", ["0.13", "0.17"])
def test_the_alternative_is_placed_where_the_gang_is_not(gang, want, version):
    demand = gang_demand(gang, pinnable=True)
    world = snapshot(MIXED)
    assert not played([gang], MIXED, version)
    assert is_passed_over(Board(world), demand)

    workable = alternative(world, demand, effective(gang))

    assert required(workable) == want
    pins = pins_for(Board(world), gang_demand(workable, pinnable=True))
    assert len(played([workable], MIXED, version, pins=pins)) == 4


def test_what_a_requirement_for_good_needs_besides_is_left_out():
    workable = alternative(snapshot(MIXED), gang_demand(BOTH, pinnable=True), effective(BOTH))
    assert ("rack", True, None) in required(workable)


@pytest.mark.parametrize(
    "gang",
    [
        pytest.param(build.gang("a b c d*4: rack? r ~90"), id="no room"),
        pytest.param(build.gang("a b*2: rack! r"), id="placed as it is"),
        pytest.param(build.gang("a*4", "b c d*2"), id="nothing counted"),
    ],
)
def test_nothing_is_passed_over(gang):
    assert not is_passed_over(Board(snapshot(MIXED)), gang_demand(gang, pinnable=True))


def test_a_gang_that_pins_place_is_passed_over_only_as_long_as_it_has_none():
    demand = gang_demand(DRIVER_AND_WORKERS, pinnable=True)
    world = snapshot(MIXED)
    assert is_passed_over(Board(world), demand)
    assert not is_passed_over(Board(world), demand.pinned(pins_for(Board(world), demand)))
