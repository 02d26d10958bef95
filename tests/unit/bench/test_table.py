"""The bench's table, and what it says of two reports."""

import pytest

from bench.table import comparison, figures, moves, table

MACHINE = {"cores": 2, "processor": "p", "memory_gib": 24.0, "python": "3.11.9"}


def report(*, small=False, environment=MACHINE, **parts):
    return {"small": small, "environment": environment, "parts": parts}


def test_a_figure_is_named_by_its_path_in_the_order_of_the_report():
    part = {
        "servers": {"postgresql": "18.1"},
        "p95_ms": 12.5,
        "service_mib": {"web": {"rss": 90}},
        "fits": True,
        "ratio_by_round": [1.0, 2.0],
        "machine_before": {"busy_share": 0.5},
    }
    assert list(figures(report(memory=part)).items()) == [
        ("memory.p95_ms", 12.5),
        ("memory.service_mib.web.rss", 90),
    ]


def test_a_table_has_one_line_for_each_figure_with_numbers_to_the_right():
    assert table(report(load={"p50_ms": 1.25, "pods": 10000})).split("\n") == [
        "figure       value",
        "load.p50_ms   1.25",
        "load.pods    10000",
    ]


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        (100, 109, False),
        (100, 110, True),
        (100, 90, True),
        (0, 0, False),
        (0, 1, True),
        (None, 1, True),
        (1, None, True),
    ],
)
def test_a_figure_has_moved_from_a_tenth_on(before, after, want):
    old = report(load={} if before is None else {"p50_ms": before})
    new = report(load={} if after is None else {"p50_ms": after})
    assert [move.has_moved for move in moves(new, old)] == [want]


def test_a_comparison_shows_what_moved_and_counts_the_rest():
    old = report(load={"p50_ms": 10.0, "p95_ms": 20.0, "errors": 0}, fit={"left": 1})
    new = report(load={"p50_ms": 5.0, "p95_ms": 20.5, "errors": 3})
    assert comparison(new, old).split("\n") == [
        "figure       before  after  change",
        "load.p50_ms      10      5    -50%",
        "load.errors       0      3",
        "1 figures moved by less than 10%.",
    ]


def test_parts_that_were_not_measured_now_have_not_vanished():
    assert moves(report(load={"n": 1}), report(load={"n": 1}, fit={"n": 2})) == moves(
        report(load={"n": 1}), report(load={"n": 1})
    )


def test_reports_of_two_machines_or_sizes_say_so():
    old = report(small=True, environment=MACHINE | {"cores": 8}, load={"n": 1})
    text = comparison(report(load={"n": 1}), old)
    assert "Another machine: cores was 8 and is 2." in text
    assert "One of the two is a small run." in text
