"""``auto``: required where the set could ever fit one domain, else preferred."""

from dataclasses import replace

import pytest
from hypothesis import given

from scheduling.fit.auto import AutoDecision, decide
from scheduling.fit.search import Possible
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import Answer, judge
from scheduling.topology.levels import ranks
from scheduling.topology.requirements import decided
from tests.unit.scheduling.build import gang
from tests.unit.scheduling.fit.worlds import POOL, RACK, clusters, draw, gang_demand

RACKS = "a/r1: n1x n2x n3x n4x\na/r2: n5 n6\nb/r3: n7 n8"
ONE_LARGE = "a/r1: n1 n2 n3 n4\na/r2: n5 n6\nb/r3: n7 n8"

CASES = {
    "a rack that is only full now": (RACKS, gang("a b c d*8: rack@ r"), {"r": True}),
    "no rack is large enough": (RACKS, gang("a b c d e*8: rack@ r"), {"r": False}),
    "no node carries the label": ("a/-: n1 n2", gang("a b*8: rack@ r"), {"r": False}),
    "no rack in the zone": (RACKS, gang("a b c d e*8: zone@ z, rack@ r"), {"z": True, "r": False}),
    "two sets, each of which needs the only large rack": (
        ONE_LARGE,
        gang("a b c d*8: rack@ r", "e f g h*8: rack@ s"),
        {"r": True, "s": False},
    ),
    "a requirement takes the only large rack": (
        ONE_LARGE,
        gang("a b c d*8: rack! r", "e f g h*8: rack@ s"),
        {"s": False},
    ),
    "what can never be placed anyway does not decide": (
        RACKS,
        gang("a b c d e f*8: rack! r", "g h*8: rack@ s"),
        {"s": True},
    ),
    "one zone for all, with racks in it": (
        RACKS,
        gang("a b*8: zone@ z, rack! r", "c d*8: zone@ z, rack! s"),
        {"z": True},
    ),
    "more than any zone holds": (
        RACKS,
        gang("a b c d*8: zone@ z, rack! r", "e f g*8: zone@ z, rack? s"),
        {"z": False},
    ),
    "of the task group": (RACKS, gang("a b*8", "c d*8: -", topology="rack@ r"), {"r": True}),
}


@pytest.mark.parametrize(("picture", "group", "want"), CASES.values(), ids=CASES)
def test_a_set_is_required_where_it_could_ever_fit_one_domain(picture, group, want):
    decisions = decide(draw(picture), gang_demand(group))
    assert {decision.path[-1][1]: decision.required for decision in decisions} == want


def test_a_decision_counts_what_it_rests_on():
    (decision,) = decide(draw(RACKS), gang_demand(gang("a b c d*8: rack@ r")))
    assert decision == AutoDecision(
        path=(("rack", "r"),), required=True, tasks=4, label=RACK, domains=3, holding=1, largest=4
    )


def test_nodes_of_the_cluster_that_the_tasks_may_not_use_do_not_count_against_a_set():
    """KAI counts them as room, so a domain is not proven too small by its rule of the largest task."""
    group = gang("a*4: rack@ r", "b c d*2: rack@ r")
    snapshot = draw("a/r1: n1\na/r1: n2", gpus=5)
    assert [d.required for d in decide(replace(snapshot, is_complete=False), gang_demand(group))] == [True]


@given(clusters(most=6))
def test_decided_types_never_make_a_gang_impossible(nodes):
    group = gang("a b*1: zone@ z, rack@ r", "c d*1: zone@ z, rack@ s", "e*1: rack@ t")
    snapshot = Snapshot.of(nodes, POOL, paths=True)
    required = {d.path: d.required for d in decide(snapshot, gang_demand(group))}
    frozen = decided(group, required, ranks(POOL))
    assert not any(r.auto for task in frozen.tasks for r in task.requirements)
    free = decided(group, dict.fromkeys(required, False), ranks(POOL))
    if judge(snapshot, gang_demand(free)).answer is not Answer.NEVER:
        assert judge(snapshot, gang_demand(frozen)).answer is not Answer.NEVER


def test_a_search_that_ends_early_requires(monkeypatch):
    monkeypatch.setattr("scheduling.fit.auto.possible", lambda *_: Possible.MAYBE)
    decisions = decide(draw(ONE_LARGE), gang_demand(gang("a b c d*8: rack@ r", "e f g h*8: rack@ s")))
    assert [decision.required for decision in decisions] == [True, True]
