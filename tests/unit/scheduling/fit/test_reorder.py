"""Another order of sets: it is taken where only that order has a place, and it places what it promises."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.fit import reorder
from scheduling.fit.board import Board
from scheduling.fit.greedy import Placer
from scheduling.fit.search import MOST_SETS
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import Answer, judge
from scheduling.gang.set_order import PartsOrder, from_json, order_of, ordered, parts_of, relabelled, to_json
from scheduling.gang.subgroups import lay_out
from scheduling.gang.tree import build_tree
from tests.unit.scheduling import build
from tests.unit.scheduling.fit.played import played
from tests.unit.scheduling.fit.worlds import POOL, RACK, ZONE, clusters, draw, gang_demand, node
from tests.unit.scheduling.gangs import sound

VERSIONS = pytest.mark.parametrize("version", ["0.13", "0.17"])


def racks(*sizes):
    """One zone of racks with so many nodes each."""
    rows = [f"z/r{n}: {' '.join(f'n{n}{i}' for i in range(size))}" for n, size in enumerate(sizes)]
    return draw("\n".join(rows))


def sets(**sizes):
    rows = (f"{' '.join(f'{name}{i}' for i in range(n))}*8: rack! {name}" for name, n in sizes.items())
    return build.gang(*rows)


FOUR_SETS = sets(five=5, four=4, three=3, tre=3)
EIGHT_SEVEN = racks(8, 7)


@VERSIONS
def test_a_gang_that_only_another_order_places_fits_now_in_that_order(version):
    """Racks of 8 and 7: the usual order puts the five into the seven, and then the four has no rack."""
    verdict = judge(EIGHT_SEVEN, gang_demand(FOUR_SETS, orderable=True))

    assert verdict.answer is Answer.NOW
    assert verdict.order
    assert played([FOUR_SETS], EIGHT_SEVEN.nodes, version) == {}
    places = played([FOUR_SETS], EIGHT_SEVEN.nodes, version, order=verdict.order)
    assert {task: place for (_, task), place in places.items()} == verdict.places


@pytest.mark.parametrize(("number", "is_sought"), [(1, True), (MOST_SETS, False)])
def test_of_a_great_many_sets_no_order_is_sought(number, is_sought):
    """Each try would take longer, and there would be more to make."""
    singles = {f"one{n}x": 1 for n in range(number)}
    gang = sets(five=5, four=4, three=3, tre=3, **singles)

    verdict = judge(racks(8, 7, *singles.values()), gang_demand(gang, orderable=True))

    assert bool(verdict.order) is is_sought


def test_where_the_order_is_not_ours_it_is_only_reported():
    verdict = judge(EIGHT_SEVEN, gang_demand(FOUR_SETS))

    assert (verdict.answer, verdict.another_order, verdict.order) == (Answer.NOT_NOW, True, ())


def test_a_gang_that_fits_keeps_the_usual_order():
    verdict = judge(racks(8, 8), gang_demand(FOUR_SETS, orderable=True))

    assert (verdict.answer, verdict.another_order, verdict.order) == (Answer.NOW, False, ())


def test_the_order_that_relabels_the_fewest_pods_is_taken():
    gang = gang_demand(FOUR_SETS, orderable=True)
    usual = gang.tree
    order = judge(EIGHT_SEVEN, gang).order
    every = [
        ordered(usual, (PartsOrder((), parts),))
        for parts in permutations(parts_of(usual.root))
        if parts != parts_of(usual.root)
    ]
    costs = [relabelled(usual, other) for other in every if _is_placed(EIGHT_SEVEN, gang, other)]

    assert relabelled(usual, ordered(usual, order)) == min(costs)


def _is_placed(snapshot, gang, tree):
    return Placer(Board(snapshot), replace(gang, tree=tree)).run()


@VERSIONS
def test_tasks_without_a_set_may_come_first(version):
    """Two tasks of a set would share the only node that is large enough for the free one."""
    gang = build.gang("a b*4: rack! r", "free*8")
    nodes = [node("n0", {ZONE: "z", RACK: "r0"}, gpus=8)]
    nodes += [node(f"n{n}", {ZONE: "z", RACK: "r1"}, gpus=4) for n in (1, 2)]
    snapshot = Snapshot.of(nodes, POOL, paths=True)

    verdict = judge(snapshot, gang_demand(gang, orderable=True))

    assert verdict.answer is Answer.NOW
    assert verdict.order == (PartsOrder((), ((), (("rack", "r"),))),)
    assert played([gang], snapshot.nodes, version) == {}
    places = played([gang], snapshot.nodes, version, order=verdict.order)
    assert {task: place for (_, task), place in places.items()} == verdict.places


def test_tasks_without_a_set_stay_last_beside_an_inner_set():
    """KAI v0.13 places inner sub-groups before all leaves, whatever their names."""
    gang = build.gang("a b: zone! z, rack! r", "c: zone! z", "d")

    with pytest.raises(ValueError, match="does not name each of its parts once"):
        ordered(build_tree(gang, POOL), (PartsOrder((), ((), (("zone", "z"),))),))


def test_a_gang_of_many_sets_is_tried_in_fewer_orders(monkeypatch):
    """Twelve racks that the sets would fill exactly: no order is found, and each try looks at all sets."""
    tries, compared = [], []

    class Counted(Placer):
        def run(self):
            tries.append(sum(1 for _ in self.gang.tree.root.walk()))
            return super().run()

    class Compared(reorder._Orders):
        def _sequence(self, root, candidate):
            compared.append(len(root.parts))
            return super()._sequence(root, candidate)

    monkeypatch.setattr(reorder, "Placer", Counted)
    monkeypatch.setattr(reorder, "_Orders", Compared)
    gang = sets(**{f"s{n:02}": (7, 5, 4)[n % 3] for n in range(36)})

    assert not judge(racks(*[16] * 12), gang_demand(gang, orderable=True)).order
    assert tries
    assert sum(tries) <= 1_500
    assert sum(compared) <= 300_000


@given(sound(pool=POOL, most=6), clusters(most=7, gpus=8), st.sampled_from(["0.13", "0.17"]))
def test_a_gang_that_fits_in_another_order_is_placed_there_in_that_order(case, nodes, version):
    pool, gang = case
    verdict = judge(Snapshot.of(nodes, pool, paths=True), gang_demand(gang, orderable=True))
    if verdict.order and verdict.proven:
        places = played([gang], nodes, version, order=verdict.order)
        assert {task: place for (_, task), place in places.items()} == verdict.places
        assert len(played([gang], nodes, version)) < len(gang.tasks)


@given(sound(pool=POOL, most=8), st.randoms())
def test_an_order_changes_names_alone(case, generator):
    pool, gang = case
    usual = build_tree(gang, pool)
    other = ordered(usual, tuple(_shuffled(node, generator) for node in usual.root.walk() if node.sets))
    before, after = lay_out(usual), lay_out(other)

    assert ordered(usual, from_json(to_json(order_of(other)))) == other
    assert {(sub.path, sub.constraint, sub.tasks) for sub in before} == {
        (sub.path, sub.constraint, sub.tasks) for sub in after
    }
    assert order_of(usual) == ()


def _shuffled(node, generator):
    own = [node.path] if node.tasks else []
    sets_in_order = [sub.path for sub in node.sets]
    generator.shuffle(sets_in_order)
    return PartsOrder(node.path, (*sets_in_order, *own))


@pytest.mark.parametrize(
    "order",
    [
        (PartsOrder((("rack", "nowhere"),), ()),),
        (PartsOrder((), ((("rack", "five"),),)),),
    ],
)
def test_an_order_of_another_gang_is_refused(order):
    with pytest.raises(ValueError, match=r"nowhere|each of its parts"):
        ordered(build_tree(FOUR_SETS, POOL), order)
