"""Why a deleted pod ended, by each kind of evidence; and what looks like evidence and is none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pools.values.recovery import Loss
from scheduling.backends.base import Eviction, EvictionCause
from scheduling.nodes.node_health import NodeHealth, NodeState
from tests.builders.pods import NOW, PREEMPTED, ended, pod, read_gone
from workflows.lifecycle.evidence import (
    DISRUPTIONS,
    EVICTION_MARK,
    PLACED_ABOVE,
    STALE_MARK,
    DeletionTraces,
    Successor,
    conclude,
    deletion_requested,
)
from workflows.values.observation import see_pod

GONE = NOW
NO_CAUSE = Eviction(EvictionCause.UNKNOWN, "It was evicted, cause unknown.")


def before(seconds):
    return GONE - timedelta(seconds=seconds)


def successor(seconds, *, node="n1", priority="HIGH"):
    return Successor(node, before(-seconds), priority)


def traces(*successors, priority="LOW", **marks):
    return DeletionTraces(priority=priority, successors=lambda: successors, **marks)


def read(seen, evidence):
    return read_gone(seen, eviction=None, now=NOW, traces=evidence, gone_at=GONE)


def deleted(seen, *, asked, grace=30):
    """The pod as it was seen while it was being deleted."""
    until = asked + timedelta(seconds=grace)
    return replace(seen, digest={**seen.digest, "deletion": until.isoformat(), "grace": grace})


EXPLAINED = {
    "the scheduler marked the pod group": (
        traces(evicted_at=before(3)),
        ("FAILED_PREEMPTED", 3006, Loss.PREEMPTED, EVICTION_MARK),
    ),
    "it marked it when the pod had 90 seconds left": (
        traces(evicted_at=before(91)),
        ("FAILED_PREEMPTED", 3006, Loss.PREEMPTED, EVICTION_MARK),
    ),
    "the gang was too small for too long": (
        traces(stale_since=before(63), stale_grace=60.0),
        ("FAILED_EVICTED", 3004, Loss.PREEMPTED, STALE_MARK),
    ),
    "a group of higher priority has its node": (
        traces(successor(2)),
        ("FAILED_PREEMPTED", 3006, Loss.PREEMPTED, PLACED_ABOVE),
    ),
}
UNEXPLAINED = {
    "nothing is there": traces(),
    "an eviction before this pod was made": traces(evicted_at=before(3700)),
    "an eviction long before it was deleted": traces(evicted_at=before(600)),
    "a gang that has been too small for a moment": traces(stale_since=before(5), stale_grace=60.0),
    "a gang that is never evicted for being small": traces(stale_since=before(63), stale_grace=None),
    "a group of its own priority has its node": traces(successor(2, priority="LOW")),
    "a group of higher priority has another node": traces(successor(2, node="n2")),
    "a group of higher priority was there before": traces(successor(-300)),
    "a group of higher priority came much later": traces(successor(60)),
    "work that is not preempted": traces(successor(2), priority="NORMAL"),
}


@pytest.mark.parametrize("case", EXPLAINED)
def test_a_deletion_without_events_is_explained_by_objects(case):
    evidence, want = EXPLAINED[case]
    reading = read(pod("Running"), evidence)
    assert (reading.status, reading.code, reading.loss, reading.evidence) == want


@pytest.mark.parametrize("case", EXPLAINED)
def test_objects_name_the_cause_that_an_event_of_the_scheduler_does_not(case):
    evidence, want = EXPLAINED[case]
    reading = read_gone(pod("Running"), eviction=NO_CAUSE, now=NOW, traces=evidence, gone_at=GONE)
    assert (reading.status, reading.code, reading.loss, reading.evidence) == want


def test_a_condition_of_the_scheduler_names_it_too():
    reading = read_gone(pod("Running", conditions=[PREEMPTED]), eviction=NO_CAUSE, now=NOW)
    assert (reading.status, reading.evidence) == ("FAILED_PREEMPTED", "disruption_condition")


@pytest.mark.parametrize("case", UNEXPLAINED)
def test_an_eviction_of_which_nothing_names_the_cause_is_said_to_be_one(case):
    reading = read_gone(pod("Running"), eviction=NO_CAUSE, now=NOW, traces=UNEXPLAINED[case], gone_at=GONE)
    assert (reading.message, reading.loss, reading.evidence) == (
        NO_CAUSE.message,
        Loss.PREEMPTED,
        "eviction_event",
    )


def test_the_cause_that_an_event_names_goes_before_all_objects():
    stale = Eviction(EvictionCause.STALE_GANG, "It had to go.")
    reading = read_gone(pod("Running"), eviction=stale, now=NOW, traces=traces(successor(2)), gone_at=GONE)
    assert (reading.message, reading.status) == ("It had to go.", "FAILED_EVICTED")


@pytest.mark.parametrize("case", UNEXPLAINED)
def test_an_unexplained_deletion_is_said_to_be_one(case):
    reading = read(pod("Running"), UNEXPLAINED[case])
    assert (reading.status, reading.loss, reading.evidence) == (
        "FAILED_BACKEND_ERROR",
        Loss.PREEMPTED,
        "unexplained",
    )
    assert "nothing there explains it" in reading.message


def test_a_pod_that_nobody_saw_has_no_place_that_was_taken():
    assert read(None, traces(successor(2), evicted_at=before(1))).evidence == "unexplained"
    assert read(pod("Pending", node=""), traces(successor(2))).evidence == "unexplained"


def test_the_successor_is_named_by_its_priority_and_node_alone():
    reading = read(pod("Running", node="node-3"), traces(successor(2, node="node-3")))
    assert reading.message == (
        "It was deleted, most likely preempted: a group of priority HIGH was placed on node-3 2 seconds "
        "later."
    )


def test_the_time_of_the_request_tells_an_eviction_from_another_deletion():
    seen = pod("Running")
    evicted = traces(evicted_at=before(40))
    assert conclude(deleted(seen, asked=before(38)), evicted, gone_at=GONE).evidence == EVICTION_MARK
    assert conclude(deleted(seen, asked=before(20)), evicted, gone_at=GONE) is None


def test_a_pod_that_took_its_time_to_save_was_still_preempted():
    """It got 600 seconds, so its node was free long after its deletion was asked for."""
    seen = deleted(
        pod("Failed", state=ended(75, finishedAt=before(1).isoformat())), asked=before(500), grace=600
    )
    reading = read_gone(seen, eviction=None, now=NOW, traces=traces(successor(1)), gone_at=GONE, deleted=True)
    assert (reading.evidence, reading.code) == (PLACED_ABOVE, 3006)


def test_successors_are_looked_up_only_where_nothing_else_explains_it():
    def looked_up():
        raise AssertionError("looked up")

    asking = DeletionTraces(priority="LOW", successors=looked_up)
    away = NodeHealth(NodeState.UNREACHABLE, "NodeStatusUnknown", before(60))
    gone = {"eviction": None, "now": NOW, "gone_at": GONE, "traces": asking}
    assert read_gone(pod("Running"), node=away, **gone).evidence == "node_away"
    assert read_gone(pod("Failed", state=ended(3)), **gone).evidence == "own_end"
    assert read(pod("Running"), replace(asking, evicted_at=before(2))).evidence == EVICTION_MARK


@pytest.mark.parametrize("reason", DISRUPTIONS)
def test_each_disruption_says_what_became_of_the_node(reason):
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "x"}
    reading = read(pod("Running", conditions=[condition]), traces())
    assert (reading.code, reading.loss, reading.evidence) == (3001, Loss.NODE_LOST, "disruption_condition")
    assert reading.message == f"Its pod was disrupted: {reason}: x ({DISRUPTIONS[reason]})"


def test_a_condition_of_the_scheduler_is_a_preemption():
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    reading = read(pod("Running", conditions=[condition]), traces())
    assert (reading.code, reading.loss, reading.evidence) == (3006, Loss.PREEMPTED, "disruption_condition")
    saved = pod("Failed", state=ended(75), conditions=[condition])
    assert read_gone(saved, eviction=None, now=NOW, deleted=True) == reading


def test_the_digest_has_when_the_deletion_was_asked_for():
    seen = see_pod(
        {
            "metadata": {
                "name": "osmo-" + "0" * 31 + "7-x",
                "uid": "u",
                "deletionTimestamp": "2026-01-01T12:00:30Z",
                "deletionGracePeriodSeconds": 30,
            },
            "status": {"phase": "Running"},
        }
    )
    assert conclude(seen, traces(), gone_at=None) is None
    assert (seen.digest["deletion"], seen.digest["grace"]) == ("2026-01-01T12:00:30Z", 30)
    assert datetime(2026, 1, 1, 12, tzinfo=UTC) == NOW


def test_a_grace_period_of_any_length_can_be_reckoned_with():
    digest = {"deletion": "2026-01-01T12:00:30Z", "grace": 2**63 - 1}
    assert deletion_requested(replace(pod("Running"), digest=digest)) < NOW
