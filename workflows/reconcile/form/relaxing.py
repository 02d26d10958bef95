"""Easing a pod group's preferences while its pods wait (``lifecycle.patience`` decides).

A preference that waits is relaxed once its time is over, and preferences that block the gang give way
(``freeing``). Every reconciliation may be the first after a crash: the missing edit follows from the row
and the pod group's marks.
"""

from dataclasses import replace
from datetime import timedelta

from cluster.errors import ObjectNotFound, WriteConflict
from pools import conditions
from pools.clusters.kinds import kind_of
from scheduling.gang.gang_form import GangForm
from web.crashpoints import reached
from workflows.lifecycle import patience
from workflows.lifecycle.patience import PatienceAction, PatienceFacts, PatienceStep
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.form import edit
from workflows.reconcile.form.freeing import freeing_changes
from workflows.reconcile.objects.apply import create_objects
from workflows.reconcile.objects.plan import Create
from workflows.reconcile.observe import observations
from workflows.reconcile.observe.binding import bound_pods
from workflows.reconcile.turn import ReadAgain, StepResult, Turn
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.reconcile.view.outcomes import Failed, Retry
from workflows.services.changes import NewConstraints, NewForm, Note, PatienceClock

RECHECK_AFTER = timedelta(seconds=1)
AFTER_FAILURE = timedelta(seconds=10)


def advance_patience(turn: Turn) -> StepResult:
    """Do the next step of the group's patience. Raises ClusterError."""
    view, observed = turn.view, turn.observed
    if not patience.has_patience(view.row.constraints) and not _may_free(view):
        return turn
    is_eased = (view.form.stage, view.form.preference_levels) != (0, None)
    may_be_old = view.observer_is_silent and is_eased
    form = _live_form(view, turn.cluster) if may_be_old else _observed_form(view)
    facts = _facts(view, observed, form=form, reachable=_reachable(view, observed))
    step = patience.next_step(facts)
    if step.action == PatienceAction.EDIT:
        try:
            if (done := _bring_to_row(turn)) is not None:
                return done
        except (WriteConflict, ObjectNotFound):
            return turn.at(view.now + RECHECK_AFTER)
        step = patience.next_step(replace(facts, pod_group_stage=None))
    may_give_way = step.action == PatienceAction.WAIT and patience.may_give_way(facts)
    if may_give_way and (changes := freeing_changes(view)):
        turn.record(changes)
        reached("after-relax-decision")
        return ReadAgain()
    return _record_step(turn, step)


def _may_free(view: GroupView) -> bool:
    return view.placement.free_preferences_after > 0 and patience.has_preference(view.row.constraints)


def _record_step(turn: Turn, step: PatienceStep) -> StepResult:
    if step.action == PatienceAction.WAIT:
        return turn.at(step.at)
    if step.action == PatienceAction.RELAX:
        _record_relaxation(turn, step.stage)
        reached("after-relax-decision")
        return ReadAgain()
    if step.action == PatienceAction.START:
        message = patience.start_message(turn.view.row.constraints)
        note = Note(key=f"patience:{turn.view.now.isoformat()}", reason="PatienceBegan", message=message)
        return turn.moved([PatienceClock(running=True), *([note] if message else [])])
    return turn.moved([PatienceClock(running=False)])


def _facts(
    view: GroupView, observed: ObservedPods, *, form: GangForm | None, reachable: bool
) -> PatienceFacts:
    """``form`` is the row's, eased as the pod group is; None if there is none."""
    pods = [observed.pods.get(task.pod_name) for task in view.tasks]
    existing = [pod for pod in pods if pod is not None and not pod.absent]
    finished = any(not task.live and task.node_name for task in view.tasks)
    bound = finished or any(pod.node_name for pod in existing)
    complete = len(existing) == len(pods) and not any(pod.deleting for pod in existing)
    return PatienceFacts(
        stage_begins=view.begins,
        stage=view.form.stage,
        pod_group_stage=None if form is None else form.stage,
        since=view.row.unplaced_since,
        now=view.now,
        unplaced=not bound and complete,
        bound=bound,
        reachable=reachable,
        recorded=form is None or _records(view, form),
        free_after=view.placement.free_preferences_after if _may_free(view) else 0,
        has_row_levels=form is None or form.preference_levels == view.form.preference_levels,
    )


def _records(view: GroupView, form: GangForm) -> bool:
    """Whether the row's constraints are those of preferences that are eased so far."""
    rows, keys = view.row.constraints, [level.key for level in view.placement.terms.levels]
    return patience.are_of_stage(rows, begins=view.begins[form.stage]) and patience.are_of_levels(
        rows, keys=keys, count=form.preference_levels
    )


def _observed_form(view: GroupView) -> GangForm | None:
    """The row's form, eased as the pod group was last observed."""
    pod_groups = observations.pod_groups(view)
    return edit.eased(view, pod_groups[0]) if len(pod_groups) == 1 else None


def _live_form(view: GroupView, cluster: LeasedCluster) -> GangForm | None:
    """The same without an observer."""
    live = edit.read(view, cluster)
    return None if live is None else edit.eased(view, live)


def _reachable(view: GroupView, observed: ObservedPods) -> bool:
    """Whether the cluster answers: it was read in this reconciliation, or its observer and probes say so."""
    answers = conditions.status_of(view.backend.conditions, "Reachable") != "False"
    return observed.complete or (answers and not view.observer_is_silent)


def _record_relaxation(turn: Turn, stage: int) -> None:
    """Record the relaxed stage, before the edit, so that the decision survives whatever happens next."""
    view = turn.view
    form = replace(view.form, stage=stage)
    rows = edit.constraint_rows(view, form)
    message = patience.relaxation_message(view.row.constraints, rows, group=view.row.name)
    note = Note(key=f"relaxed:{stage}", reason="Relaxed", message=message)
    turn.record([NewForm(form), NewConstraints(rows), *([note] if message else [])])


def _bring_to_row(turn: Turn) -> StepResult | None:
    """Bring the pod group to the row's easing unless a pod is bound, and the row's constraints to it.

    None where the row has them already.
    """
    view, cluster = turn.view, turn.cluster
    live = edit.read(view, cluster)
    if live is None:
        return None
    before = edit.eased(view, live)
    after = replace(view.form, stage=max(before.stage, view.form.stage))
    bound = before != after and _any_bound(view, cluster)
    if bound:
        after = before
    elif before != after:  # its minimums are those of the whole gang again
        if _create_topologies(view, before, after, cluster):
            return turn.at(view.now + AFTER_FAILURE)
        marks = replace(
            edit.marks_of(view, live), stage=after.stage, preference_levels=after.preference_levels
        )
        edit.bring(view, live, marks, cluster=cluster)
    if not _records(view, after):
        constraints = NewConstraints(edit.constraint_rows(view, after))
        form = NewForm(replace(view.form, preference_levels=after.preference_levels))
        return turn.moved([constraints, form, *_notes(view, after, bound=bound)])
    return None


def _create_topologies(
    view: GroupView, before: GangForm, after: GangForm, cluster: LeasedCluster
) -> Retry | Failed | None:
    """Create the Topology objects that only the eased constraints name."""
    named = {topology["metadata"]["name"] for topology in edit.gang_of(view, before).topologies}
    new = tuple(t for t in edit.gang_of(view, after).topologies if t["metadata"]["name"] not in named)
    return create_objects(Create(kind_of(new[0]), new), cluster=cluster) if new else None


def _notes(view: GroupView, form: GangForm, *, bound: bool) -> list[Note]:
    """The events for constraints that the row did not have."""
    rows, stage = edit.constraint_rows(view, form), view.form.stage
    if patience.are_of_stage(view.row.constraints, begins=view.begins[form.stage]):
        key = f"preferences-left-out:{view.now.isoformat()}"
        message = patience.preferences_stay_message()
        return [Note(key=key, reason="RelaxationLeftOut", message=message)] if bound else []
    if bound:
        message = patience.left_out_message(rows)
        return [Note(key=f"left-out:{stage}", reason="RelaxationLeftOut", message=message)]
    return [Note(key=f"caught-up:{stage}", reason="Relaxed", message=patience.caught_up_message(rows))]


def _any_bound(view: GroupView, cluster: LeasedCluster) -> bool:
    """Whether a pod of a latest try has a node or is about to get one, or its task has finished.

    Where BindRequests may not be read, a node alone counts: preferences that wait are relaxed all the same.
    """
    pods = GroupReader(cluster, view.uuid, view.placement).pod_observations()
    finished = any(not task.live and task.node_name for task in view.tasks)
    return finished or bool(bound_pods(view, cluster, pods).names)
