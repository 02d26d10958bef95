"""Whether what workflows of a pool prefer is ever had, key by key."""

import pytest

from tests.factories import LEVELS, PoolFactory, TaskGroupFactory

pytestmark = pytest.mark.django_db


def outcome_row(key, outcome, *, required=False):
    return {
        "key": key,
        "required": required,
        "outcome": outcome,
        "path": [],
        "domains": [],
        "domain_count": 0,
        "outside": 0,
    }


@pytest.fixture
def pool():
    pool = PoolFactory(name="h100", levels=LEVELS)
    for outcome, sets in (
        ("match", [outcome_row("zone", "match", required=True), outcome_row("rack", "match")]),
        ("degraded", [outcome_row("zone", "match", required=True), outcome_row("rack", "degraded")]),
        ("degraded", [outcome_row("rack", "degraded"), outcome_row("rack", "match")]),
    ):
        group = TaskGroupFactory(pool=pool)
        group.placement_result = {
            "outcome": outcome,
            "at": "2026-01-01T00:00:00",
            "places": "x",
            "sets": sets,
        }
        group.save()
    TaskGroupFactory(pool=pool)  # asked for nothing
    return pool


def test_outcomes_are_counted_by_group_and_by_key(api, pool):
    answer = api.get("/api/pool/h100/outcomes").json()
    assert answer == {
        "pool": "h100",
        "days": 30,
        "groups": {"match": 1, "degraded": 2, "violation": 0},
        "keys": [
            {"key": "rack", "required": 0, "required_held": 0, "preferred": 4, "preferred_had": 2},
            {"key": "zone", "required": 2, "required_held": 2, "preferred": 0, "preferred_had": 0},
        ],
    }


def test_a_group_shows_what_it_got(api, pool):
    group = (
        pool.backend.task_groups.exclude(placement_result=None).order_by("placement_result__outcome").first()
    )
    shown = api.get(f"/api/workflow/{group.workflow.name}").json()["groups"][0]["got"]
    assert (shown["outcome"], len(shown["sets"])) == ("degraded", 2)


@pytest.mark.parametrize("days", ["0", "367", "x", "1e3", ""])
def test_days_that_make_no_sense_are_refused(api, pool, days):
    assert api.get(f"/api/pool/h100/outcomes?days={days}").status_code == 400
