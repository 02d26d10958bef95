"""Patience: what is due, decided from what was seen, and how it is told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from workflows.lifecycle import patience
from workflows.lifecycle.patience import PatienceAction, PatienceFacts, PatienceStep, next_step
from workflows.values.form_marks import FormMarks

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
BEGINS = (0.0, 20.0, 60.0)
WAITING = PatienceFacts(
    stage_begins=BEGINS,
    stage=0,
    pod_group_stage=0,
    since=NOW,
    now=NOW,
    unplaced=True,
    bound=False,
    reachable=True,
    recorded=True,
)
RUNNING = replace(WAITING, since=None, unplaced=False, bound=True)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


CASES = {
    "the clock begins with the first reconcile that finds all pods without a node": (
        {"since": None},
        PatienceStep(PatienceAction.START),
    ),
    "not before all pods are there": (
        {"since": None, "unplaced": False},
        PatienceStep(PatienceAction.WAIT),
    ),
    "nor through a cluster that does not answer": (
        {"since": None, "reachable": False},
        PatienceStep(PatienceAction.WAIT),
    ),
    "nor where everything is relaxed already": (
        {"since": None, "stage": 2, "pod_group_stage": 2},
        PatienceStep(PatienceAction.WAIT),
    ),
    "it runs until the next stage begins": (
        {"since": ago(5)},
        PatienceStep(PatienceAction.WAIT, at=NOW + timedelta(seconds=15)),
    ),
    "a stage is due when its time has come": (
        {"since": ago(20)},
        PatienceStep(PatienceAction.RELAX, stage=1),
    ),
    "and one that was passed is not stopped at": (
        {"since": ago(90)},
        PatienceStep(PatienceAction.RELAX, stage=2),
    ),
    "nothing is decided while the cluster does not answer": (
        {"since": ago(20), "reachable": False},
        PatienceStep(PatienceAction.WAIT),
    ),
    "the pod group follows the decision": ({"since": ago(20), "stage": 1}, PatienceStep(PatienceAction.EDIT)),
    "also where the cluster was away, as it is read live then": (
        {"since": ago(20), "stage": 1, "reachable": False},
        PatienceStep(PatienceAction.EDIT),
    ),
    "a stage is not decided twice": (
        {"since": ago(25), "stage": 1, "pod_group_stage": 1},
        PatienceStep(PatienceAction.WAIT, at=NOW + timedelta(seconds=35)),
    ),
    "a gang made anew keeps its stage and waits for the next one": (
        {"since": NOW, "stage": 1, "pod_group_stage": 1},
        PatienceStep(PatienceAction.WAIT, at=NOW + timedelta(seconds=60)),
    ),
    "a pod with a node ends the clock": (
        {"since": ago(5), "unplaced": False, "bound": True},
        PatienceStep(PatienceAction.RESET),
    ),
    "and so does a pod that is gone": (
        {"since": ago(5), "unplaced": False},
        PatienceStep(PatienceAction.RESET),
    ),
    "a gang that is being made anew is relaxed before its pods are": (
        {"since": None, "unplaced": False, "stage": 1},
        PatienceStep(PatienceAction.EDIT),
    ),
    "without a pod group there is nothing to edit": (
        {"since": None, "unplaced": False, "stage": 1, "pod_group_stage": None},
        PatienceStep(PatienceAction.WAIT),
    ),
}


@pytest.mark.parametrize(("change", "want"), CASES.values(), ids=CASES)
def test_the_step_that_is_due(change, want):
    assert next_step(replace(WAITING, **change)) == want


def test_a_running_gang_is_left_as_it_is_once_the_row_says_so():
    behind = replace(RUNNING, stage=1, pod_group_stage=0)
    assert next_step(replace(behind, recorded=False)) == PatienceStep(
        PatienceAction.EDIT
    )  # which looks live, and says what it finds
    assert next_step(behind) == PatienceStep(PatienceAction.WAIT)


@pytest.mark.parametrize(
    ("written", "want"),
    [({}, 0), ({"osmo.nvidia.com/stage": "2"}, 2), ({"osmo.nvidia.com/stage": "x"}, 0)],
)
def test_a_pod_group_says_its_stage(written, want):
    assert FormMarks.read(written, stages=3, levels=2).stage == want


def line(key, group, *, wait=None, relaxed=False):
    waits = {} if wait is None else {"waitSeconds": wait, "relaxed": relaxed}
    return {"key": key, "set": [{"key": key, "group": group}], **waits}


LINES = [line("zone", "all"), line("rack", "r1", wait=20.0), line("rack", "r2", wait=20.0, relaxed=True)]


def test_a_level_with_a_wait_is_told_with_the_time_that_is_left():
    lines = [line("zone", "all", wait=60.0), line("rack", "r1", wait=20.0), line("rack", "r2", wait=20.0)]
    assert patience.patience_sentence(lines, since=ago(19), now=NOW) == (
        "It is held to one rack as required for 1 more second, then as a preference. "
        "It is held to one zone as required for 41 more seconds, then as a preference."
    )
    assert patience.patience_sentence(lines[:1], since=ago(70), now=NOW) == (
        "It is held to one zone as required and is about to be relaxed."
    )
    assert patience.patience_sentence(lines, since=None, now=NOW) == ""
    assert patience.patience_sentence(LINES[2:], since=ago(19), now=NOW) == ""


def test_events_name_the_group_the_sets_and_the_seconds():
    after = [line("rack", "r1", wait=20.0, relaxed=True), *LINES[2:]]
    assert patience.relaxation_message(LINES, after, group="g") == (
        'Group "g" found no place. No longer required but preferred from now on: '
        'rack "r1" (required for 20 seconds).'
    )
    assert patience.relaxation_message(after, after, group="g") == ""
    assert 'rack "r1" for 20 seconds' in patience.start_message(LINES)
    assert 'rack "r1"' in patience.left_out_message(LINES)
    assert 'rack "r2"' in patience.caught_up_message(LINES)


def test_many_sets_are_told_by_a_few():
    lines = [line("rack", f"r{i}", wait=20.0) for i in range(100)]
    assert patience.start_message(lines).endswith('rack "r4" for 20 seconds and 95 more.')


def test_the_next_relaxation_is_that_of_the_shortest_wait_left():
    assert patience.next_relaxation(LINES, NOW) == NOW + timedelta(seconds=20)
    assert patience.next_relaxation(LINES[2:], NOW) is None
    assert patience.next_relaxation(LINES, None) is None
