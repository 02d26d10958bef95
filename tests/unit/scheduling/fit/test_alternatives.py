"""Requirements with which a gang is placed that its scheduler passes over, and that pins do not help."""

import pytest

from scheduling.fit import alternatives
from scheduling.fit.alternatives import alternative, is_passed_over
from scheduling.fit.board import Board
from scheduling.fit.pin_choice import pins_for
from scheduling.gang.tree import build_tree
from scheduling.topology.requirements import effective
from tests.unit.scheduling import build
from tests.unit.scheduling.fit.played import played
from tests.unit.scheduling.fit.worlds import DRIVER_AND_WORKERS, MIXED, gang_demand, rack, snapshot

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


def test_the_needs_beside_a_requirement_for_good_are_left_out():
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


@pytest.mark.parametrize(
    ("first", "others"),
    [
        pytest.param("zone? a, rack! r", "zone! b, rack! r", id="could not be read"),
        pytest.param("zone? a, rack? r ~90", "zone? b, rack? r ~90", id="would be one set"),
    ],
)
def test_no_form_is_given_in_which_sets_of_one_name_do_not_stay_apart(first, others):
    """Racks called r below two zones are two sets; without the zones above them they are not."""
    gang = build.gang(f"driver*4: {first}", f"w1 w2 w3*2: {first}", f"o1 o2*1: {others}")
    levels = gang_demand(gang).tree.levels
    paths = {
        tuple((r.key, r.group) for r in task.requirements)
        for candidate in alternatives._candidates(effective(gang), levels)
        for task in build_tree(candidate, levels).root.all_tasks()
        if task.requirements
    }
    assert (("rack", "r"),) not in paths


def test_a_gang_whose_other_forms_cannot_be_read_has_none():
    nodes = [*MIXED, *rack("b", "r1", 1, 1)]
    first = "zone? a, rack! r"
    gang = build.gang(f"driver*4: {first}", f"w1 w2 w3*2: {first}", "o1 o2*1: zone! b, rack! r")
    demand = gang_demand(gang, pinnable=False)
    assert is_passed_over(Board(snapshot(nodes)), demand)
    assert alternative(snapshot(nodes), demand, effective(gang)) is None
