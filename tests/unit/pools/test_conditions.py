"""Conditions keep the time of their last change."""

from datetime import UTC, datetime, timedelta

from pools.conditions import Condition, status_of, upsert, without

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def reachable(status, message=""):
    return Condition(type="Reachable", status=status, reason="Asked", message=message)


def test_a_condition_is_in_the_shape_kubernetes_users_know():
    assert upsert([], [reachable("False", "gone")], now=NOON, observed_revision=3) == [
        {
            "type": "Reachable",
            "status": "False",
            "reason": "Asked",
            "message": "gone",
            "lastTransitionTime": "2026-01-01T12:00:00",
            "observedRevision": 3,
        }
    ]


def test_only_another_status_moves_the_time():
    before = upsert([], [reachable("False", "gone")], now=NOON, observed_revision=3)
    [same] = upsert(before, [reachable("False", "still gone")], now=LATER, observed_revision=4)
    assert (same["lastTransitionTime"], same["message"], same["observedRevision"]) == (
        "2026-01-01T12:00:00",
        "still gone",
        4,
    )
    [other] = upsert(before, [reachable("True")], now=LATER, observed_revision=4)
    assert other["lastTransitionTime"] == "2026-01-01T13:00:00"


def test_conditions_of_other_types_stay_and_all_are_sorted():
    other = Condition(type="Able", status="True", reason="R")
    both = upsert(
        upsert([], [reachable("True")], now=NOON, observed_revision=1),
        [other],
        now=NOON,
        observed_revision=1,
    )
    assert [entry["type"] for entry in both] == ["Able", "Reachable"]
    assert status_of(both, "Able") == "True"
    assert status_of(without(both, ["Able"]), "Able") is None
