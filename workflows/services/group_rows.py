"""The row of a group: one writer for each kind of change of it."""

from dataclasses import replace
from typing import assert_never

from pools import conditions
from pools.conditions import Condition
from workflows.explain.disagreement import DISAGREES
from workflows.explain.reasons import Reason
from workflows.lifecycle.form_states import FormState
from workflows.lifecycle.statuses import TERMINAL, TaskStatus, may_move
from workflows.models import TaskGroup
from workflows.services import attempt_rows, task_rows
from workflows.services.changes import (
    AttemptCleared,
    ClusterContact,
    Creation,
    DomainOfPods,
    GroupChange,
    GroupMove,
    NewAttempt,
    NewAvoidedNodes,
    NewAwaitedUpstream,
    NewForm,
    NewGeneration,
    NewMembership,
    NewPlacementResult,
    NewWaitingReason,
    Note,
    OrderReached,
    PatienceClock,
    PinsSettled,
    ProposalDropped,
    Release,
    RunClock,
)
from workflows.services.steps import Steps

_GROUP_TIMES = {
    TaskStatus.PROCESSING: "processing_start_time",
    TaskStatus.SCHEDULING: "scheduling_start_time",
    TaskStatus.INITIALIZING: "initializing_start_time",
    TaskStatus.RUNNING: "start_time",
}


def write(change: GroupChange, steps: Steps) -> None:  # noqa: PLR0912, PLR0915, C901 -- one case for each kind of change
    """Put what the change means for the row into the steps."""
    group, now = steps.group, steps.now
    match change:
        case NewGeneration(number):
            steps.put(generation=number)
        case NewMembership(members):
            task_rows.note_membership(members, steps)
        case NewAttempt():
            attempt_rows.begin(change, steps)
        case AttemptCleared():
            attempt_rows.note_cleared(steps)
        case RunClock(since):
            attempt_rows.set_clock(steps, since=since)
        case GroupMove():
            _move_group(change, steps)
        case NewWaitingReason(reason):
            _explain(reason, steps)
        case ClusterContact(cluster_uid):
            _note_contact(cluster_uid, steps)
        case Creation():
            steps.put(created_in_cluster_at=group.created_in_cluster_at or now)
        case DomainOfPods(uid):
            steps.put(compute_domain={"attempt": group.attempt_number, "uid": uid} if uid else None)
        case Release():
            left = conditions.without(group.conditions, [DISAGREES])  # no turn judges it any more
            steps.put(released_at=now, next_reconcile_at=None, conditions=left)
        case NewAwaitedUpstream(group_id):
            steps.put(awaited_upstream=group_id, next_reconcile_at=None)
        case NewAvoidedNodes(nodes):
            steps.put(avoided_nodes=list(nodes))
        case PatienceClock(running):
            _set_clock(steps, running=running)
        case NewForm():
            _form(change, steps)
        case PinsSettled():
            state = FormState.ORDER if group.reordering else FormState.REACHED
            steps.put(form_state=state, other_form=None)
        case OrderReached():
            state = FormState.PINS if group.repinning else FormState.REACHED
            steps.put(form_state=state)
        case ProposalDropped():
            steps.put(other_form=None)
        case NewPlacementResult(result):
            steps.put(placement_result=dict(result))
        case Condition():
            written = conditions.upsert(
                group.conditions, [change], now=now, observed_revision=group.generation
            )
            steps.put(conditions=written)
        case Note():
            steps.note(key=change.key, reason=change.reason, message=change.message, warning=change.warning)
        case _:
            assert_never(change)


def _move_group(move: GroupMove, steps: Steps) -> None:
    group, status = steps.group, move.status
    if group.present_status == status or not may_move(group.present_status, status):
        return
    if group.progress:
        steps.put(progress="" if status in TERMINAL else status)
    if may_move(group.status, status):
        _move_status(move, steps)
    if group.attempt_number > 1 and status not in TERMINAL:
        number = group.attempt_number
        steps.note(
            key=f"attempt:{number}:{status}",
            reason=f"Attempt{str(status).title()}",
            message=f"Attempt {number} of group {group.name} is {status}.",
            warning=False,
        )
        return
    steps.event(
        key=f"group:{group.pk.hex}:{status}",
        reason=str(status),
        message=f"Group {group.name} is {status}." + (f" {move.message}" if move.message else ""),
        warning=task_rows.is_failure(status),
    )


def _move_status(move: GroupMove, steps: Steps) -> None:
    """Move what users see, which never goes back."""
    group, status = steps.group, move.status
    steps.put(status=status, awaited_upstream=None)
    if (column := _GROUP_TIMES.get(TaskStatus(status))) and getattr(group, column) is None:
        steps.put(**{column: steps.now})
    if status in TERMINAL:
        steps.put(
            end_time=steps.now,
            waiting_why="",
            waiting_reason="",
            waiting_evidence={},
            waiting_since=None,
            unplaced_since=None,
        )
        if move.message:
            steps.put(failure_message=move.message)


def _explain(reason: Reason | None, steps: Steps) -> None:
    if steps.group.status in TERMINAL:
        return
    since = (steps.group.waiting_since or steps.now) if reason else None
    why, text, evidence = reason.columns if reason else ("", "", {})
    steps.put(waiting_why=why, waiting_reason=text, waiting_evidence=evidence, waiting_since=since)


def _form(new: NewForm, steps: Steps) -> None:
    group = steps.group
    steps.put(
        form=replace(new.form, stage=max(new.form.stage, group.form["stage"])).to_json(),
        other_form=group.form if new.behind == FormState.PINS else None,
        constraints=list(new.constraints),
        searched_capacity="",
    )
    if new.behind and group.form_state != FormState.PINS_AND_ORDER:
        steps.put(form_state=new.behind)


def _note_contact(cluster_uid: str, steps: Steps) -> None:
    group = steps.group
    steps.put(touched_cluster=True, touched_at=group.touched_at or steps.now)
    if cluster_uid and not group.placement.get("cluster_uid"):
        steps.put(placement={**group.placement, "cluster_uid": cluster_uid})


def _set_clock(steps: Steps, *, running: bool) -> None:
    if steps.group.status not in TERMINAL:
        steps.put(unplaced_since=(steps.group.unplaced_since or steps.now) if running else None)
        if not running and _proposes_easing(steps.group):
            steps.put(other_form=None)


def _proposes_easing(group: TaskGroup) -> bool:
    other = None if group.form_state else group.other_form
    return other is not None and other["preference_levels"] != group.form["preference_levels"]
