"""The form of a waiting gang (``scheduling.gang.gang_form``): its objects are brought to it, or it changes.

``lifecycle.form_proposers`` decides which form is taken. That is done under the lease on the cluster as it is
now, and recorded before an object is edited, so every reconciliation may be the first after a crash:
``bringing`` goes by the row and the objects. What changes with a form is written here alone.
"""

from dataclasses import replace

from pools import conditions
from scheduling.backends.registry import traits_of
from web.crashpoints import reached
from workflows.lifecycle import patience
from workflows.lifecycle.form_proposers import FormFacts, FormProposal, is_stale, next_form
from workflows.lifecycle.form_states import FormState
from workflows.lifecycle.patience import PatienceAction, PatienceFacts, PatienceStep
from workflows.reconcile.form import edit
from workflows.reconcile.form.bringing import bring_objects, has_constraints_of, waits
from workflows.reconcile.observe import observations
from workflows.reconcile.observe.binding import bound_pods
from workflows.reconcile.turn import ReadAgain, StepResult, Turn
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.services.changes import Change, NewForm, Note, PatienceClock, ProposalDropped
from workflows.values.form_marks import FormMarks


def advance_form(turn: Turn) -> StepResult:
    """Do the next step in bringing the gang to its form, or in taking another one. Raises ClusterError."""
    view = turn.view
    if view.row.form_state:
        return bring_objects(turn)
    is_patient = patience.has_patience(view.row.constraints) or _may_free(view)
    if not is_patient and view.proposed_form is None:
        return turn
    facts = _facts(turn, is_patient=is_patient)
    if is_stale(facts):
        return turn.moved([ProposalDropped()])
    proposal, patient = next_form(facts), facts.patience
    if proposal is None and patient and patience.next_step(patient).action == PatienceAction.EDIT:
        result = bring_objects(turn)
        if result is not turn:
            return result
        patient = replace(patient, pod_group_stage=None)  # what was observed of it is old
        proposal = next_form(replace(facts, patience=patient))
    if proposal is not None:
        return _take(turn, proposal)
    return _set_clock(turn, patience.next_step(patient)) if patient else turn


def _take(turn: Turn, proposal: FormProposal) -> ReadAgain:
    """Take this form, on the cluster as it is now: the observer's rows may lack what was bound since."""
    view = turn.view
    changes: list[Change] = [ProposalDropped()]
    if not proposal.behind or _may_begin(view, proposal.behind, turn.cluster):
        rows = edit.constraint_rows(view, proposal.form)
        message = proposal.message(rows)
        changes = [NewForm(proposal.form, rows, proposal.behind)]
        changes += [Note(key=proposal.key, reason=proposal.reason, message=message)] if message else []
    turn.record(changes)
    match proposal.behind:
        case FormState.PINS:
            reached("after-pin-decision")
        case FormState.ORDER:
            reached("after-order-decision")
        case _:
            reached("after-relax-decision")
    return ReadAgain()


def _may_begin(view: GroupView, part: FormState, cluster: LeasedCluster) -> bool:
    """Whether all pods are there, and none has a node or is about to get one.

    For another order, none may be deleted, and the pod group must be as the row has it.
    """
    if len(view.gangs) != 1 or (part == FormState.ORDER and not _may_reorder(view, cluster)):
        return False
    pods = GroupReader(cluster, view.uuid, view.placement).pod_observations()
    present = {pod.name for pod in pods.values() if part != FormState.ORDER or not pod.deleting}
    is_whole = {task.pod_name for task in view.tasks} <= present
    return is_whole and not bound_pods(view, cluster, pods).may_be_any


def _may_reorder(view: GroupView, cluster: LeasedCluster) -> bool:
    live = edit.read(view, cluster) if traits_of(view.placement.terms.scheduler_type).orders_sets else None
    if live is None or edit.is_resized(live):
        return False
    return edit.marks_of(view, live).order == FormMarks.of(view.form).order


def _facts(turn: Turn, *, is_patient: bool) -> FormFacts:
    view, observed = turn.view, turn.observed
    pods = [observed.pods.get(task.pod_name) for task in view.tasks]
    existing = [pod for pod in pods if pod is not None and not pod.absent]
    is_complete = len(existing) == len(pods) and not any(pod.deleting for pod in existing)
    has_node = any(pod.node_name for pod in existing)
    return FormFacts(
        group=view.row.name,
        now=view.now,
        form=view.form,
        proposed=view.proposed_form,
        constraints=view.row.constraints,
        waits=waits(view, observed),
        is_intact=is_complete and all(task.live and not task.replaces for task in view.tasks),
        is_bound=has_node or any(task.node_name for task in view.tasks),
        patience=_patience(turn, has_node=has_node, is_complete=is_complete) if is_patient else None,
    )


def _patience(turn: Turn, *, has_node: bool, is_complete: bool) -> PatienceFacts:
    """The pod group is read where the observer's row of it may be old."""
    view = turn.view
    is_eased = (view.form.stage, view.form.preference_levels) != (0, None)
    if view.observer_is_silent and is_eased:
        pod_group = edit.read(view, turn.cluster)
    else:
        pod_groups = observations.pod_groups(view)
        pod_group = pod_groups[0] if len(pod_groups) == 1 else None
    form = None if pod_group is None else edit.eased(view, pod_group)
    bound = has_node or any(not task.live and task.node_name for task in view.tasks)
    answers = conditions.status_of(view.backend.conditions, "Reachable") != "False"
    return PatienceFacts(
        stage_begins=view.begins,
        stage=view.form.stage,
        pod_group_stage=None if form is None else form.stage,
        since=view.row.unplaced_since,
        now=view.now,
        unplaced=not bound and is_complete,
        bound=bound,
        reachable=turn.observed.complete or (answers and not view.observer_is_silent),
        recorded=form is None or has_constraints_of(view, form),
        free_after=view.placement.free_preferences_after if _may_free(view) else 0,
        has_row_levels=form is None or form.preference_levels == view.form.preference_levels,
    )


def _may_free(view: GroupView) -> bool:
    return view.placement.free_preferences_after > 0 and patience.has_preference(view.row.constraints)


def _set_clock(turn: Turn, step: PatienceStep) -> StepResult:
    """Start or reset the clock of patience, which is no part of a form, or wait for its next moment."""
    if step.action == PatienceAction.WAIT:
        return turn.at(step.at)
    begins = step.action == PatienceAction.START
    message = patience.start_message(turn.view.row.constraints) if begins else ""
    note = Note(key=f"patience:{turn.view.now.isoformat()}", reason="PatienceBegan", message=message)
    return turn.moved([PatienceClock(running=begins), *([note] if message else [])])
