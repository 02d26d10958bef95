"""The simulation of many clusters in its small form: what it counts, never how long it takes."""

import fcntl
import json
import subprocess
import sys

import pytest

from localcluster.directories import CHECKOUT

SECONDS = 500
pytestmark = pytest.mark.deep
STATEMENTS_OF_A_GROUP = 260
"""Of workers and observer, for a group of eight pods; a slow machine looks more often."""


@pytest.fixture(scope="module")
def report(tmp_path_factory, testrun_uid):
    """Made once, also where two workers share these tests."""
    made = tmp_path_factory.getbasetemp().parent / f"scale-{testrun_uid}.json"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.write_text(simulate())
    return json.loads(made.read_text())["parts"]["scale"]


def simulate():
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--small", "--only", "scale"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_everything_that_is_listed_reaches_the_rows(report):
    assert report["first_list"]["node_rows"] == report["clusters"] * report["nodes"]
    assert report["first_list"]["objects"] >= 3 * report["clusters"] * report["nodes"]


def test_a_report_without_news_is_not_written(report):
    """Heartbeats and relists read much and write next to nothing: a few rows of the clusters themselves."""
    for name in ("heartbeats", "listed"):
        price = report["prices"][name]
        assert price["count"] > 0
        assert price["rows_written"] < 0.5
        assert price["statements"] < 1


def test_every_group_is_released_whatever_the_number_of_workers(report):
    for crew in report["crews"].values():
        assert crew["released"] == crew["groups"]
        assert crew["per_group"]["deadlocks"] == 0
        assert crew["per_group"]["pod_events"] >= 8 * 6
        statements = crew["per_group"]["statements.worker"] + crew["per_group"]["statements.observer"]
        assert statements < STATEMENTS_OF_A_GROUP


def test_groups_that_are_offered_at_a_rate_are_all_released(report):
    for offer in report["offered_groups"].values():
        assert offer["released"] == offer["offered"]


def test_the_computed_figures_stand_apart(report):
    assert set(report["computed"]) == {"1 clusters", "5 clusters", "20 clusters"}
