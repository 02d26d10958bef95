"""The verdict against three others: all placements there are, KAI as read from facts, the KAI stand-in.

``exists`` knows nothing of trees or orders. ``kai_reader`` plays KAI's placement with one pod to a node. The
stand-in is the strictest player there is, with GPUs, processor and memory.
"""

from hypothesis import given
from hypothesis import strategies as st

from scheduling.backends.kai import Kai
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import Answer, judge
from tests.unit.scheduling import kai_reader
from tests.unit.scheduling.build import request
from tests.unit.scheduling.fit.played import played
from tests.unit.scheduling.fit.worlds import POOL, clusters, exists, gang_demand
from tests.unit.scheduling.gangs import gang_of, sets_of, shapes, sound, with_gpus

KAI = Kai()


@given(sound(pool=POOL), clusters())
def test_now_is_said_exactly_where_kai_would_place_the_gang(case, nodes):
    pool, gang = case
    gang = with_gpus(gang, 1)
    verdict = judge(Snapshot.of(nodes, pool, paths=True), gang_demand(gang))
    seen = [kai_reader.Node(n.name, n.labels, n.free[0] > 0) for n in nodes]
    got = KAI.render(request(gang, pool))
    group = kai_reader.read(got.pod_groups[0], got.pods, got.topologies)
    for version in (kai_reader.V013, kai_reader.V017):
        placed = kai_reader.place(group, seen, version)
        assert (verdict.answer is Answer.NOW) == (placed is not None)


@given(sound(pool=POOL, most=5), clusters(most=6, gpus=8))
def test_never_is_said_only_where_no_placement_exists_on_empty_nodes(case, nodes):
    pool, gang = case
    snapshot = Snapshot.of(nodes, pool, paths=True)
    verdict = judge(snapshot, gang_demand(gang, counts_largest=False))
    if exists(pool, gang, snapshot, empty=True) and _sees_all(gang, nodes):
        assert verdict.answer is not Answer.NEVER


def _sees_all(gang, nodes):
    """A preference hides nodes without its label from KAI; ``exists`` knows only what is required."""
    soft = any(not r.required for t in gang.tasks for r in t.requirements)
    return not soft or all(len(n.labels) == 2 for n in nodes)


def small(shape):
    _, size, number, soft, free = shape
    return size * number + sum(soft) + free <= 6


@given(shapes().filter(small), clusters(most=7, labelled=True))
def test_never_is_exact_for_equal_tasks_on_labelled_nodes(shape, nodes):
    gang = with_gpus(gang_of(shape), 1)
    snapshot = Snapshot.of(nodes, POOL, paths=True)
    verdict = judge(snapshot, gang_demand(gang))
    assert (verdict.answer is Answer.NEVER) == (not exists(POOL, gang, snapshot, empty=True))
    assert verdict.proven


@given(sound(pool=POOL, most=6), clusters(most=7, labelled=True))
def test_another_order_is_promised_only_where_a_placement_exists_now(case, nodes):
    pool, gang = case
    gang = with_gpus(gang, 1)
    snapshot = Snapshot.of(nodes, pool, paths=True)
    verdict = judge(snapshot, gang_demand(gang))
    if verdict.answer is not Answer.NOW:
        assert verdict.another_order == exists(pool, gang, snapshot)


@given(sound(pool=POOL), clusters(most=7, gpus=8))
def test_a_placed_gang_holds_everything_required(case, nodes):
    pool, gang = case
    snapshot = Snapshot.of(nodes, pool, paths=True)
    verdict = judge(snapshot, gang_demand(gang))
    if verdict.answer is not Answer.NOW:
        return
    by_name = {n.name: n for n in nodes}
    assert set(verdict.places) == {t.name for t in gang.tasks}
    left = {n.name: n.free[0] for n in nodes}
    for task in gang.tasks:
        left[verdict.places[task.name]] -= task.gpus
    assert min(left.values()) >= 0
    for path, (tasks, required) in sets_of(pool, gang).items():
        if required:
            rank = [level.key for level in pool].index(path[-1][0])
            labels = [level.label for level in pool[: rank + 1]]
            assert (
                len({tuple(by_name[verdict.places[t]].labels[label] for label in labels) for t in tasks}) == 1
            )


@given(sound(pool=POOL), clusters(most=8, gpus=8), st.sampled_from([1, 4, 8]))
def test_the_stand_in_of_kai_binds_equal_tasks_exactly_where_now_is_said(case, nodes, gpus):
    pool, gang = case
    gang = with_gpus(gang, gpus)
    verdict = judge(Snapshot.of(nodes, pool, paths=True), gang_demand(gang))
    for version in ("0.13", "0.17"):
        assert (verdict.answer is Answer.NOW) == (len(played([gang], nodes, version)) == len(gang.tasks))
