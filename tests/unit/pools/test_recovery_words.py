"""Recovery words of pool, workflow and group: which hold, and where a fault points."""

from pools.documents.recovery import words_of
from pools.values.recovery import RecoveryPolicy, Response
from pools.values.recovery_words import (
    check_amounts,
    check_responses,
    document_of,
    policy_of,
    read_words,
)
from scheduling.backends.registry import installed
from scheduling.capabilities import Capabilities, Capability
from scheduling.errors import format_path

POOL = words_of({"preempted": "requeue", "max": 2, "backoff": {"limit": "5m"}})


def said(place, **words):
    spoken, faults = read_words(words, path=(place, "recovery"))
    assert not faults
    return spoken


def test_each_word_overrides_the_same_word_of_a_broader_place_alone():
    workflow = said("workflow", failed="requeue", max=4, backoff={"first": "10s"})
    group = said("group", failed="fail", node_lost="task", replace_patience=90)
    assert policy_of([POOL, workflow, group]) == RecoveryPolicy(
        preempted=Response.REQUEUE,
        node_lost=Response.TASK,
        failed=Response.FAIL,
        most=4,
        backoff_first=10.0,
        backoff_limit=300.0,
        replace_patience=90.0,
    )


def test_a_policy_in_words_reads_as_the_same_policy():
    policy = policy_of([POOL, said("group", max_preemptions=7, node_lost="task")])
    assert policy_of([read_words(document_of(policy), path=())[0]]) == policy


def test_a_line_says_each_response_and_the_bound_that_matters():
    preempted_alone = RecoveryPolicy(preempted=Response.REQUEUE)
    assert preempted_alone.summary == "preempted: requeue, node lost: fail, failed: fail"
    policy = policy_of([POOL, said("group", node_lost="task")])
    assert policy.summary == "preempted: requeue, node lost: task, failed: fail, at most 2"


def test_a_deletion_that_nothing_explains_has_a_word_of_its_own():
    policy = policy_of([POOL, said("group", unexplained="fail")])
    assert policy.summary == (
        "preempted: requeue, node lost: requeue, failed: fail, unexplained: fail, at most 2"
    )
    assert policy_of([read_words(document_of(policy), path=())[0]]) == policy
    assert RecoveryPolicy.from_json({**policy.to_json(), "of_a_later_release": 1}) == policy
    assert RecoveryPolicy(unexplained=Response.TASK).recovers
    without = Capabilities("other", frozenset(), 0)
    (fault,) = check_responses([POOL, said("group", unexplained="task")], capabilities=without)
    assert format_path(fault.path) == "group.recovery.unexplained"


def test_a_fault_of_two_places_points_at_the_narrower():
    workflow, group = said("workflow", max=9), said("group", backoff={"first": "6m"})
    found = [*check_amounts([POOL, workflow, group], most=8)]
    assert [format_path(fault.path) for fault in found] == [
        "workflow.recovery.max",
        "group.recovery.backoff.first",
    ]


def test_no_attempt_is_put_off_for_more_than_a_day():
    """No timeout runs during a pause, so a longer one would keep a workflow alive for ever."""
    workflow, group = said("workflow", backoff={"limit": "2d"}), said("group", backoff={"first": "25h"})
    found = [*check_amounts([POOL, workflow, group], most=8)]
    assert [(format_path(fault.path), fault.allowed) for fault in found] == [
        ("group.recovery.backoff.first", ("1d",)),
        ("workflow.recovery.backoff.limit", ("1d",)),
    ]
    assert not [*check_amounts([POOL, said("workflow", backoff={"first": "1d", "limit": "1d"})], most=8)]


def test_a_pool_that_says_more_is_refused_when_it_is_saved_and_not_beside_its_workflows():
    pool = words_of({"backoff": {"first": "30d", "limit": "100d"}})
    assert [format_path(fault.path) for fault in check_amounts([pool], most=3)] == [
        "backoff.first",
        "backoff.limit",
    ]
    assert not [*check_amounts([pool, said("group", failed="requeue")], most=3)]


def test_every_duration_that_is_none_is_a_fault_of_its_own():
    words = {"replace_patience": "soon", "backoff": {"first": "-1s", "limit": "0"}, "max": 1}
    spoken, faults = read_words(words, path=("recovery",))
    assert [format_path(fault.path) for fault in faults] == [
        "recovery.replace_patience",
        "recovery.backoff.first",
        "recovery.backoff.limit",
    ]
    assert spoken.values == {"most": 1}


def test_one_task_alone_needs_a_scheduler_that_places_it_beside_its_peers():
    words = [POOL, said("workflow", node_lost="task"), said("group", failed="task")]
    without = Capabilities("other", frozenset(), 0)
    assert [(format_path(f.path), f.capability) for f in check_responses(words, capabilities=without)] == [
        ("workflow.recovery.node_lost", "gang.replace_task"),
        ("group.recovery.failed", "gang.replace_task"),
    ]
    assert not [*check_responses([POOL], capabilities=without)]


def test_all_schedulers_of_the_service_place_one_task_again():
    assert all(
        Capability.GANG_REPLACE_TASK in installed()[name].rendering.capabilities(None)
        for name in ("kai", "kubernetes", "default")
    )
