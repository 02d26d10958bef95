"""A snapshot that derives from another has the verdicts, and the counts, of one that is made anew."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduling.fit.board import POOL, Board, Region
from scheduling.fit.demand import Demand
from scheduling.fit.node_index import MOST_KINDS, NodeIndex
from scheduling.fit.snapshot import Snapshot, amounts
from scheduling.fit.verdict import judge
from tests.unit.scheduling.fit.worlds import POOL as LEVELS
from tests.unit.scheduling.fit.worlds import clusters, draw, gang_demand, node
from tests.unit.scheduling.gangs import sound

BUSY = st.lists(st.sampled_from(["", "held", "cordoned"]), min_size=9, max_size=9)
"""What becomes of each node."""

PAIR = Demand.of(amounts(gpu=2, cpu=1000, pods=1))


def snapshot(nodes, *, paths=True):
    return Snapshot.of(nodes, LEVELS, paths=paths)


def anew(derived):
    """The same nodes without anything that was worked out before."""
    return Snapshot.of(derived.nodes, derived.levels, paths=derived.paths)


def changed(world, becomes):
    return world.with_nodes(
        {
            at: node(each.name, each.labels, gpus=each.gpus, held=each.gpus if what == "held" else 0)
            if what == "held"
            else replace(each, closed=what)
            for at, (each, what) in enumerate(zip(world.nodes, becomes, strict=False))
            if what
        }
    )


@given(clusters(gpus=4), st.lists(BUSY, min_size=1, max_size=3), sound(pool=LEVELS), st.booleans())
def test_a_derived_snapshot_has_the_verdict_of_one_made_anew(nodes, turns, case, paths):
    world = snapshot(nodes, paths=paths)
    demand = gang_demand(case[1], orderable=True, pinnable=True)
    judge(world, demand)  # so that the index has counted already
    for becomes in turns:
        world = changed(world, becomes)
        assert judge(world, demand) == judge(anew(world), demand)
        assert world.emptied() == anew(world).emptied()


def test_free_room_of_domains_follows_what_differs_and_what_is_placed():
    world = draw("a/r1: n1 n2\na/r2: n3")
    kind = PAIR
    for derived in (world, changed(world, ["held", "", "cordoned"])):
        board, fresh = Board(derived), Board(anew(derived))
        for each in (board, fresh):
            each.know(kind)
            each.put(kind, 1)
        for rank, at in ((0, 0), (1, 0), (1, 1)):
            assert board.free_in(rank, at, cut=1) == fresh.free_in(rank, at, cut=1)
            assert board.room(kind, Region(rank, at, 1)) == fresh.room(kind, Region(rank, at, 1))
        assert list(board.in_order(kind)) == list(fresh.in_order(kind))
        assert board.room(kind, POOL) == fresh.room(kind, POOL)


def test_the_kinds_counted_last_are_kept():
    index = NodeIndex.of(draw("a/r1: n1"))
    kinds = [Demand.of(amounts(gpu=1, cpu=number, pods=1)) for number in range(MOST_KINDS + 1)]
    first = index.room(kinds[0])
    assert index.room(kinds[0]) is first
    for kind in kinds[1:]:
        index.room(kind)
    assert index.room(kinds[-1]) is index.room(kinds[-1])
    assert index.room(kinds[0]) is not first


def test_a_snapshot_that_differs_in_many_nodes_is_counted_by_itself():
    world = draw(f"a/r1: {' '.join(f'n{number}' for number in range(40))}")
    few, many = (changed(world, ["held"] * count) for count in (16, 17))
    assert few.base is world
    assert many.base is None
