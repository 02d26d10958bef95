"""Patience: relaxing a pod group while its pods wait (``lifecycle.patience`` decides).

Every reconciliation may be the first after a crash: the missing edit follows from the row's stage and the pod
group's mark.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cluster.errors import ObjectNotFound, WriteConflict
from pools import conditions
from web.crashpoints import reached
from workflows.lifecycle import patience
from workflows.lifecycle.patience import ConstraintRow, PatienceAction, PatienceFacts, PatienceStep
from workflows.reconcile import edit, observations
from workflows.reconcile.edit import PodGroupForm
from workflows.reconcile.follow import ObservedPods
from workflows.reconcile.group_reader import GroupReader
from workflows.reconcile.group_view import GroupView
from workflows.reconcile.leased import LeasedCluster
from workflows.services.lease import Lease
from workflows.services.record import NewConstraints, NewStage, Note, PatienceClock, record

RECHECK_AFTER = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class PatienceProgress:
    """``moved``: the row has changed and should be read again; ``at``: when the next stage may begin."""

    moved: bool = False
    at: datetime | None = None


def advance_patience(
    view: GroupView, observed: ObservedPods, *, silent: bool, lease: Lease, cluster: LeasedCluster
) -> PatienceProgress:
    """Do the next step of the group's patience. Raises ClusterError.

    ``silent`` says that no observer is at work, so its rows may be old.
    """
    if not patience.has_patience(view.row.constraints):
        return PatienceProgress()
    stage = _live_stage(view, cluster) if silent and view.row.stage else _observed_stage(view)
    facts = _facts(view, observed, pod_group_stage=stage, reachable=_reachable(view, observed, silent=silent))
    step = patience.next_step(facts)
    if step.action == PatienceAction.EDIT:
        try:
            _bring_to_stage(view, lease, cluster)
        except (WriteConflict, ObjectNotFound):
            return PatienceProgress(at=view.now + RECHECK_AFTER)
        step = patience.next_step(replace(facts, pod_group_stage=None))
    return _record_step(view, step, lease)


def _record_step(view: GroupView, step: PatienceStep, lease: Lease) -> PatienceProgress:
    if step.action == PatienceAction.WAIT:
        return PatienceProgress(at=step.at)
    if step.action == PatienceAction.RELAX:
        _record_relaxation(view, step.stage, lease)
        reached("after-relax-decision")
    elif step.action == PatienceAction.START:
        message = patience.start_message(view.row.constraints)
        note = Note(key=f"patience:{view.now.isoformat()}", reason="PatienceBegan", message=message)
        record(lease, [PatienceClock(running=True), note])
    else:
        record(lease, [PatienceClock(running=False)])
    return PatienceProgress(moved=True)


def _facts(
    view: GroupView, observed: ObservedPods, *, pod_group_stage: int | None, reachable: bool
) -> PatienceFacts:
    pods = [observed.pods.get(task.pod_name) for task in view.tasks]
    existing = [pod for pod in pods if pod is not None and not pod.absent]
    finished = any(not task.live and task.node_name for task in view.tasks)
    bound = finished or any(pod.node_name for pod in existing)
    complete = len(existing) == len(pods) and not any(pod.deleting for pod in existing)
    return PatienceFacts(
        stage_begins=view.begins,
        stage=view.row.stage,
        pod_group_stage=pod_group_stage,
        since=view.row.unplaced_since,
        now=view.now,
        unplaced=not bound and complete,
        bound=bound,
        reachable=reachable,
        recorded=pod_group_stage is None or _records(view, pod_group_stage),
    )


def _records(view: GroupView, stage: int) -> bool:
    """Whether the row's constraints are those of this stage."""
    return patience.are_of_stage(view.row.constraints, begins=view.begins[stage])


def _observed_stage(view: GroupView) -> int | None:
    """The stage of the pod group as last observed."""
    pod_groups = observations.pod_groups(view)
    return edit.stage_of(view, pod_groups[0]) if len(pod_groups) == 1 else None


def _live_stage(view: GroupView, cluster: LeasedCluster) -> int | None:
    """The same without an observer."""
    live = edit.read(view, cluster)
    return None if live is None else edit.stage_of(view, live)


def _reachable(view: GroupView, observed: ObservedPods, *, silent: bool) -> bool:
    """Whether the cluster answers: it was read in this reconciliation, or its observer and probes say so."""
    answers = conditions.status_of(view.backend.conditions, "Reachable") != "False"
    return observed.complete or (answers and not silent)


def _record_relaxation(view: GroupView, stage: int, lease: Lease) -> None:
    """Record the relaxed stage, before the edit, so that the decision survives whatever happens next."""
    rows = _constraint_rows(view, stage)
    message = patience.relaxation_message(view.row.constraints, rows, group=view.row.name)
    note = Note(key=f"relaxed:{stage}", reason="Relaxed", message=message)
    record(lease, [NewStage(stage), NewConstraints(rows), *([note] if message else [])])


def _bring_to_stage(view: GroupView, lease: Lease, cluster: LeasedCluster) -> None:
    """Bring the pod group to the row's stage unless a pod is bound, and the row's constraints to it."""
    live = edit.read(view, cluster)
    if live is None:
        return
    before, stage = edit.stage_of(view, live), view.row.stage
    bound = before < stage and _any_bound(view, cluster)
    if before < stage and not bound:  # its minimums are those of the whole gang again
        edit.bring(view, live, PodGroupForm(stage), cluster=cluster)
    after = before if bound else max(before, stage)
    if _records(view, after):
        return
    rows = _constraint_rows(view, after)
    note = (
        Note(key=f"left-out:{stage}", reason="RelaxationLeftOut", message=patience.left_out_message(rows))
        if bound
        else Note(key=f"caught-up:{stage}", reason="Relaxed", message=patience.caught_up_message(rows))
    )
    record(lease, [NewConstraints(rows), note])


def _any_bound(view: GroupView, cluster: LeasedCluster) -> bool:
    """Whether a pod of a latest try has a node at this moment, or its task has finished."""
    latest = {task.pod_name for task in view.tasks}
    pods = GroupReader(cluster, view.uuid, view.placement).pod_observations()
    bound = any(pod.node_name for name, pod in pods.items() if name in latest)
    return bound or any(not task.live and task.node_name for task in view.tasks)


def _constraint_rows(view: GroupView, stage: int) -> list[ConstraintRow]:
    return [constraint.as_json() for constraint in edit.gang_of(view, stage).constraints]
