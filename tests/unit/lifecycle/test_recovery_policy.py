"""A recovery policy as a value: pauses, and its form in a group's row."""

import pytest

from pools.values.recovery import Loss, RecoveryPolicy, Response
from workflows.lifecycle.attempts_in_vain import InVain
from workflows.lifecycle.exit_actions import ExitAction
from workflows.lifecycle.loss_response import History, LostTask, recover


def test_a_group_accepted_before_there_was_recovery_ends_with_every_loss():
    policy = RecoveryPolicy.from_json({})
    assert {policy.response(loss) for loss in Loss} == {Response.FAIL}
    assert not policy.recovers


@pytest.mark.parametrize(
    "policy",
    [
        RecoveryPolicy(),
        RecoveryPolicy(preempted=Response.REQUEUE, node_lost=Response.TASK, most=0, most_preemptions=2),
        RecoveryPolicy(failed=Response.REQUEUE, backoff_first=1.0, backoff_limit=2.0, replace_patience=0.0),
    ],
)
def test_a_policy_is_read_back_as_it_was_written(policy):
    assert RecoveryPolicy.from_json(policy.to_json()) == policy


def test_pauses_double_up_to_the_limit_and_a_preemption_has_none():
    policy = RecoveryPolicy(backoff_first=30.0, backoff_limit=100.0)
    assert [policy.pause(Loss.FAILED, earlier=n) for n in (0, 1, 2, 10_000)] == [30.0, 60.0, 100.0, 100.0]
    assert policy.pause(Loss.PREEMPTED, earlier=5) == 0.0


def test_preemptions_that_do_not_end_have_pauses_too():
    policy = RecoveryPolicy(backoff_first=30.0, backoff_limit=100.0)
    pauses = [policy.pause(Loss.PREEMPTED, earlier=n) for n in (9, 10, 11, 12, 500)]
    assert pauses == [0.0, 30.0, 60.0, 100.0, 100.0]


def test_a_peer_that_failed_with_a_lost_task_is_tried_again_beside_it():
    """The loss that the cluster caused counts, not the failures of peers that it led to."""
    policy = RecoveryPolicy(node_lost=Response.TASK)
    losses = [_lost(1, Loss.NODE_LOST), _lost(2, Loss.FAILED)]
    recovery = recover(losses, policy, tasks=3, ignore_nonlead_status=False, history=History)
    assert (recovery.response, recovery.cause.pk, recovery.alone) == (Response.TASK, 1, (1, 2))


@pytest.mark.parametrize(("earlier", "want"), [(0, 0.0), (1, 30.0), (2, 60.0), (16, 600.0)])
def test_deletions_that_nothing_explains_have_pauses_from_the_second_in_a_row_on(earlier, want):
    policy = RecoveryPolicy(preempted=Response.REQUEUE)
    lost = _lost(1, Loss.PREEMPTED, evidence="unexplained")
    assert _recovered(lost, policy, History(in_vain=InVain(earlier))).pause == want


def test_an_assigned_node_that_is_in_use_is_asked_for_again_after_longer_and_longer_pauses():
    policy = RecoveryPolicy(preempted=Response.REQUEUE)
    lost = _lost(1, Loss.PREEMPTED, evidence="assigned_node_busy")
    pauses = [_recovered(lost, policy, History(preemptions=n)).pause for n in (0, 1, 9)]
    assert pauses == [30.0, 60.0, 600.0]


def test_an_explained_preemption_of_an_attempt_that_ran_has_no_pause_after_attempts_in_vain():
    policy = RecoveryPolicy(preempted=Response.REQUEUE)
    lost = _lost(1, Loss.PREEMPTED, evidence="eviction_event")
    recoveries = [_recovered(lost, policy, History(in_vain=InVain(3), ran=ran)) for ran in (59.0, 60.0)]
    assert [(recovery.pause, recovery.in_vain.number) for recovery in recoveries] == [(120.0, 4), (0.0, 0)]


def test_attempts_by_reschedule_have_the_pauses_of_the_policy():
    policy = RecoveryPolicy()
    lost = _lost(1, Loss.FAILED, lead=True, action=ExitAction.RESCHEDULE)
    pauses = [_recovered(lost, policy, History(rescheduled=n)).pause for n in (0, 1, 2)]
    assert pauses == [30.0, 60.0, 120.0]


def test_no_group_is_tried_again_without_end_by_reschedule_or_task_by_task():
    lost = _lost(1, Loss.FAILED, lead=True, action=ExitAction.RESCHEDULE)
    assert _recovered(lost, RecoveryPolicy(), History(attempts=1000)).response == Response.FAIL
    alone = RecoveryPolicy(preempted=Response.TASK)
    recovery = _recovered(_lost(1, Loss.PREEMPTED), alone, History(attempts=1, replaced=999))
    assert recovery.response == Response.FAIL


def _recovered(lost, policy, history):
    return recover([lost], policy, tasks=2, ignore_nonlead_status=False, history=lambda: history)


def _lost(pk, loss, **values):
    defaults = {"lead": False, "status": "FAILED", "message": "", "evidence": "own_end"}
    return LostTask(pk=pk, name=f"t{pk}", loss=loss, **{**defaults, **values})
