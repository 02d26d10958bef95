"""A waiting group says what it waits for, the first obstacle on its way and no stale one."""

from dataclasses import replace

import pytest

from scheduling.backends.base import Waiting
from scheduling.backends.registry import scheduler_backend
from scheduling.coverage import cover
from scheduling.levels import Level
from workflows.explain import GroupSeen, uncovered, waiting_reason
from workflows.statuses import TERMINAL

KAI = scheduler_backend("kai")
ZONE, RACK = Level("zone", "topo/zone"), Level("rack", "topo/rack")
NO_RACK = "topology t, requirement topo/rack couldn't be satisfied for job <osmo/g>"


def waiting(*, placed=False, message=NO_RACK):
    group = {
        "metadata": {"name": "g"},
        "status": {"schedulingConditions": [{"reasons": [{"message": message}]}]},
    }
    return Waiting(
        placed=placed,
        expected=("g",),
        pod_groups=(group,),
        pods=4,
        pods_expected=4,
        levels=(ZONE, RACK),
        sets={},
    )


def seen(**changes):
    return GroupSeen(
        **{"status": "SCHEDULING", "backend": "east", "starting": {}, "waiting": waiting(), **changes}
    )


def said(**changes):
    reason = waiting_reason(seen(**changes), scheduler=KAI)
    return reason.text if reason else ""


GONE = "None of the pool's 2 nodes carries label topo/zone"

CASES = {
    "an upstream group": (
        {"status": "WAITING", "upstream": ["prep"]},
        'It starts when group "prep" has completed.',
    ),
    "a silent cluster": (
        {"unreachable_since": "2026-01-01T10:00:00"},
        'The cluster of backend "east" does not answer since 2026-01-01T10:00:00 UTC',
    ),
    "a level that is gone": (
        {"lost": GONE},
        f"{GONE} You can wait until it is back, cancel the workflow, or",
    ),
    "a refused object": ({"trouble": "quota exceeded"}, "tried again: quota exceeded"),
    "a missing template": ({"template": "osmo-1-channel"}, "It waits for claim template osmo-1-channel"),
    "nothing made yet": ({"waiting": None}, "Its objects are being made"),
    "a rack without room": ({}, "No rack has room for the whole task group at the moment"),
    "a silent scheduler": ({"waiting": waiting(message="")}, "has given no reason"),
    "an image": (
        {"waiting": waiting(placed=True), "starting": {"ImagePullBackOff": 2}},
        "starting: 2 wait for ImagePullBackOff.",
    ),
}


@pytest.mark.parametrize(("changes", "want"), CASES.values(), ids=CASES)
def test_a_group_says_what_it_waits_for(changes, want):
    assert want in said(**changes)


def test_what_two_pod_groups_say_alike_is_told_once():
    twice = replace(waiting(), pod_groups=waiting().pod_groups * 2, expected=waiting().expected * 2)
    assert said(waiting=twice).count("No rack has room") == 1


@pytest.mark.parametrize("status", sorted({"RUNNING", *TERMINAL}))
def test_a_group_that_runs_or_has_ended_waits_for_nothing(status):
    assert said(status=status, lost=GONE) == ""


def test_what_the_scheduler_left_behind_is_not_told_once_the_pods_have_nodes():
    assert "rack" not in said(waiting=waiting(placed=True))
    assert "topo/zone" not in said(waiting=waiting(placed=True), lost=GONE)


def test_a_cluster_that_does_not_answer_comes_before_what_its_scheduler_once_said():
    assert "rack" not in said(unreachable_since="2026-01-01T10:00:00")


def test_nodes_that_a_label_keeps_out_are_counted_and_named_beside_the_reason():
    nodes = {
        "n1": {"topo/zone": "a", "topo/rack": "1"},
        "n2": {"topo/zone": "a"},
        "n3": {"topo/rack": "1"},
    }
    text = said(coverage=cover(nodes, (ZONE, RACK), named=3, paths=True))
    assert "No rack has room" in text
    assert "1 of the pool's 3 nodes lacks label topo/zone" in text
    assert '2 of the pool\'s 3 nodes lack label topo/rack of key "rack" or of a broader one' in text
    assert "n2, n3." in text


def test_of_many_nodes_a_few_are_named():
    nodes = {f"n{i}": {} for i in range(10)} | {"carrier": {"topo/zone": "a"}}
    (sentence,) = uncovered(cover(nodes, (ZONE,), named=3, paths=True))
    assert sentence.endswith("for these tasks: n0, n1, n2 and 7 more.")
