"""Other work of a gang's queue: what is placed before it, and what could be preempted for it."""

from scheduling.fit.contention import WaitingGang, after, has_place, preempted
from tests.unit.scheduling import build
from tests.unit.scheduling.fit.worlds import draw, gang_demand

FOUR = gang_demand(build.gang("a b c d*8: rack! r"))
THREE = gang_demand(build.gang("a b c*8: rack! r"))


def test_a_gang_that_goes_first_holds_the_nodes_that_it_would_get():
    snapshot = draw("a/r1: n1 n2 n3\na/r2: n4 n5 n6 n7")
    left = after(snapshot, [WaitingGang("early", FOUR)])
    holders = {node.name: [each.holder for each in node.holdings] for node in left.nodes}
    assert holders == {
        **{name: [] for name in ("n1", "n2", "n3")},
        **{name: ["early"] for name in ("n4", "n5", "n6", "n7")},
    }
    assert not has_place(left, FOUR)
    assert has_place(left, THREE)


def test_gangs_go_first_in_order_and_one_without_a_place_takes_none():
    snapshot = draw("a/r1: n1 n2 n3\na/r2: n4 n5 n6 n7")
    first_two = [WaitingGang("one", FOUR), WaitingGang("two", FOUR)]
    assert has_place(after(snapshot, first_two), THREE)
    assert after(draw("a/r1: n1"), first_two) == draw("a/r1: n1")


def test_a_gang_of_the_levels_before_an_edit_of_the_pool_goes_first_on_its_own_levels():
    old = gang_demand(build.gang("a b c d*8: zone? z, rack! r"))
    snapshot = draw("a/r1: n1 n2 n3\na/r2: n4 n5 n6 n7").by_levels(build.levels("rack"))
    rack = gang_demand(build.gang("a b c d*8: rack! r"), build.levels("rack"))
    left = after(snapshot, [WaitingGang("early", old), WaitingGang("late", rack)])
    assert {holding.holder for node in left.nodes for holding in node.holdings} == {"early"}
    assert (left.levels, left.domains, left.places) == (snapshot.levels, snapshot.domains, snapshot.places)
    assert not has_place(left, rack)


def test_a_gang_of_levels_whose_labels_are_not_known_takes_no_room():
    block = gang_demand(build.gang("a*8: block! b"), build.levels("block"))
    snapshot = draw("a/r1: n1 n2 n3\na/r2: n4 n5 n6 n7")
    assert after(snapshot, [WaitingGang("early", block)]) == snapshot


def test_without_preempted_work_its_nodes_are_free_and_no_others():
    snapshot = draw("a/r1: n1x n2x n3\na/r2: n4x")
    assert not has_place(snapshot, THREE)
    assert not has_place(preempted(snapshot, {"of-n1"}), THREE)
    assert has_place(preempted(snapshot, {"of-n1", "of-n2"}), THREE)
