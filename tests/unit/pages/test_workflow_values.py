"""ComputeDomains, outcomes, evidence, statuses and spans as a page tells them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from pages.workflows.domains import MOST_NODES, ComputeDomainStatus, compute_domain_view
from pages.workflows.evidence import MOST_LONG, evidence, in_words
from pages.workflows.labels import duration, span, status_badge
from pages.workflows.outcome import placement_view
from scheduling.fit.outcome import PlacementOutcome
from workflows.feasibility.placement.placed import PlacedSet, PlacementResult
from workflows.lifecycle.statuses import TaskStatus, WorkflowStatus

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def domain(nodes, *, task_nodes=(), deleting=False, stage="live"):
    status = {"status": "Ready", "nodes": nodes}
    observed = (
        None if nodes is None else ComputeDomainStatus(status=status, deleting=deleting, observed_at=NOW)
    )
    return compute_domain_view(
        group="g", name="cd", namespace="ns", observed=observed, stage=stage, task_nodes=frozenset(task_nodes)
    )


def node(name, clique="c1", status="Ready"):
    return {"name": name, "cliqueID": clique, "status": status}


@pytest.mark.parametrize(
    ("shown", "word", "said"),
    [
        pytest.param(domain(None, stage="before"), "Not made yet", "turn", id="before it is made"),
        pytest.param(domain(None), "Not there", "does not have it yet", id="while it is made"),
        pytest.param(domain(None, stage="ended"), "Gone", "was deleted", id="after its end"),
        pytest.param(domain([]), "Waits for nodes", "No node has joined", id="it calls itself Ready empty"),
        pytest.param(domain([node("a")], task_nodes="ab"), "Not ready", "1 of 2 nodes have", id="half of it"),
        pytest.param(domain([node("a")], task_nodes="a"), "Ready", "1 node has joined it, 1 ready", id="all"),
        pytest.param(
            domain([node("a", status="NotReady")], task_nodes="a"), "Not ready", "0 ready", id="slow"
        ),
        pytest.param(domain([node("a"), node("b", "c2")], task_nodes="ab"), "Ready", "2 cliques", id="two"),
        pytest.param(domain([node("a")], deleting=True), "Being taken down", "1 ready", id="its end"),
    ],
)
def test_a_compute_domain_is_ready_only_with_all_nodes_of_its_tasks(shown, word, said):
    assert shown.badge.word == word
    assert said in shown.sentence


def test_many_nodes_of_a_clique_are_counted_and_some_named():
    (clique,) = domain([node(f"n{number:03}") for number in range(MOST_NODES + 5)]).cliques
    assert (clique.count, len(clique.nodes), clique.more) == (MOST_NODES + 5, MOST_NODES, 5)


@pytest.mark.parametrize("nodes", [{}, "x", [1, None, {}, {"name": 5}]])
def test_a_status_of_nonsense_has_no_nodes(nodes):
    assert domain(nodes).cliques == ()


def placed(outcome, *, key="rack", required=True, domains=(("r1", 2),), outside=0):
    return PlacedSet(
        path=((key, "default"),),
        key=key,
        required=required,
        outcome=PlacementOutcome(outcome),
        domains=tuple((tuple(path.split("/")), tasks) for path, tasks in domains),
        domain_count=len(domains),
        outside=outside,
    )


def test_sets_that_got_what_they_asked_for_are_one_line_and_the_others_come_first():
    sets = (
        placed("match"),
        placed("match", domains=[("r2", 2)]),
        placed("degraded", required=False, domains=[("z/r1", 1), ("z/r2", 3)]),
        placed("violation", outside=1),
    )
    result = PlacementResult(outcome=PlacementOutcome.VIOLATION, at=NOW, places="x", domains="", sets=sets)
    shown = placement_view("g", result)
    assert shown.badge.word == "Requirement missed"
    assert [row.badge.status for row in shown.sets] == ["violation", "degraded", "match"]
    assert [row.where for row in shown.sets] == [
        "r1 (2 tasks); 1 task on nodes without the label",
        "z/r1 (1 task) and z/r2 (3 tasks)",
        "r1 and r2",
    ]
    assert shown.sets[2].requirement == "One rack required, for each of 2 sets"


def test_a_placement_kept_in_the_row_reads_back_as_it_was():
    sets = (placed("degraded", required=False, domains=[("z/r1", 1), ("z/r2", 3)], outside=1),)
    result = PlacementResult(outcome=PlacementOutcome.DEGRADED, at=NOW, places="x", domains="", sets=sets)
    assert PlacementResult.from_row(json.loads(json.dumps(result.to_row()))) == result
    assert set(result.as_json()) == {"outcome", "at", "sets"}


def test_evidence_of_any_shape_is_shown():
    shown = evidence(
        {"queue": "q", "nodes": [{"name": "a", "free": 1}, {"name": "b"}], "deep": {"x": [1, 2]}}
    )
    assert [(name, value.kind) for name, value in shown.pairs] == [
        ("queue", "text"),
        ("nodes", "table"),
        ("deep", "pairs"),
    ]
    assert shown.pairs[1][1].rows == (("a", "1"), ("b", "-"))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (None, "-"),
        (True, "yes"),
        (0, "0"),
        (1.5, "1.5"),
        (1.7e9, "1700000000"),
        ([1, "a"], "1, a"),
        ({}, "-"),
    ],
)
def test_single_values_are_told_in_words(value, want):
    assert in_words(value) == want


def test_long_and_deep_evidence_is_cut():
    assert evidence(list(range(MOST_LONG + 3))).more == 3
    nested = []
    for _ in range(100):
        nested = [nested]
    assert evidence(nested).kind == "list"


def test_every_status_has_a_word_and_a_symbol_and_only_ends_say_so():
    for status in [*TaskStatus, *WorkflowStatus]:
        badge = status_badge(status)
        assert badge.word
        assert len(badge.symbol) == 1
        assert (badge.tone == "good") == (status == "COMPLETED")
        assert (badge.tone == "bad") == (status.startswith("FAILED") and status != "FAILED_CANCELED")
    assert status_badge("FAILED_EXEC_TIMEOUT").word == "Failed: exec timeout"


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (90000, "1 d 1 h"), (86400, "1 d")],
)
def test_a_duration_is_told_in_its_two_largest_units(seconds, want):
    assert duration(seconds) == want


def test_a_duration_that_still_grows_is_in_whole_minutes_so_that_the_page_stays_the_same():
    at = [span(NOW, None, now=NOW + timedelta(seconds=seconds)) for seconds in (5, 59, 61, 119)]
    assert at == ["under a minute", "under a minute", "1 min", "1 min"]
    assert span(NOW, NOW + timedelta(seconds=61), now=NOW) == "1 min 1 s"
    assert span(None, None, now=NOW) == ""
