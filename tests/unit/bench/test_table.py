"""The bench's table, and what it says of two reports."""

from bench.table import comparison, figures, table

MACHINE = {"cores": 2, "processor": "p"}


def report(*, environment=MACHINE, **parts):
    return {"environment": environment, "parts": parts}


def test_a_figure_is_named_by_its_path_in_the_order_of_the_report():
    part = {
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
    assert table(report(pages={"p50_ms": 1.25, "pods": 10000})).split("\n") == [
        "figure        value",
        "pages.p50_ms   1.25",
        "pages.pods    10000",
    ]


def test_a_comparison_shows_what_moved_by_a_tenth_and_counts_the_rest():
    old = report(pages={"p50_ms": 10.0, "p95_ms": 20.0, "rows": 100, "errors": 0})
    new = report(pages={"p50_ms": 5.0, "p95_ms": 20.5, "rows": 110, "errors": 3})
    assert comparison(new, old).split("\n") == [
        "figure        before  after  change",
        "pages.p50_ms      10      5    -50%",
        "pages.rows       100    110    +10%",
        "1 figures moved by less than 10%.",
    ]


def test_a_comparison_names_another_machine_first():
    other = report(environment={"cores": 8, "processor": "p"}, pages={"p50_ms": 1.0})
    assert comparison(other, report(pages={"p50_ms": 1.0})).startswith("Another machine")
