"""Edits of a pod group whose pods exist: relaxing it while they wait, and resizing it later.

Both read the pod group live just before, render at its stage, and patch that version of it alone, so neither
undoes the other, and an edit from outside in between makes the next reconciliation read again. Every
reconciliation may be the first after a crash: the missing edit follows from the row's stage and the pod
group's annotation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cluster.errors import ObjectNotFound, WriteConflict
from cluster.interface import MERGE_PATCH, Obj
from cluster.kinds import Kind
from pools import conditions
from scheduling import names
from scheduling.backends.base import RenderedGang
from scheduling.backends.registry import scheduler_backend
from scheduling.sentences import listing
from web.crashpoints import reached
from web.times import read_instant
from workflows.lifecycle import patience
from workflows.lifecycle.patience import ConstraintRow, PatienceAction, PatienceFacts, PatienceStep
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile import observations
from workflows.reconcile.create import edits_pod_groups
from workflows.reconcile.follow import ObservedPods
from workflows.reconcile.group_reader import GroupReader, pod_group_kind
from workflows.reconcile.group_view import GroupView, TaskView
from workflows.reconcile.leased import LeasedCluster
from workflows.services.lease import Lease
from workflows.services.record import NewConstraints, NewStage, Note, PatienceClock, record
from workflows.values.observation import MEMBERS_ANNOTATION, STAGE_ANNOTATION

RECHECK_AFTER = timedelta(seconds=1)
REST_AFTER = timedelta(seconds=25)  # well below KAI's grace period, which is 60 seconds by default


@dataclass(frozen=True, slots=True)
class PatienceProgress:
    """``moved``: the row has changed and should be read again; ``at``: when the next stage may begin."""

    moved: bool = False
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Members:
    """The tasks that a gang's minimums count: live ones, and those of them without a place."""

    live: tuple[str, ...]
    waiting: tuple[str, ...]


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
    return _stage_of(view, pod_groups[0]) if len(pod_groups) == 1 else None


def _live_stage(view: GroupView, cluster: LeasedCluster) -> int | None:
    """The same without an observer."""
    kind = pod_group_kind(view.placement)
    live = _read(view, kind, cluster) if kind else None
    return None if live is None else _stage_of(view, live)


def _stage_of(view: GroupView, pod_group: Obj) -> int:
    stage = patience.stage_of(pod_group["metadata"].get("annotations"))
    return min(stage, len(view.begins) - 1)


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
    kind = pod_group_kind(view.placement)
    if kind is None or (live := _read(view, kind, cluster)) is None:
        return
    before, stage = _stage_of(view, live), view.row.stage
    bound = before < stage and _any_bound(view, cluster)
    if before < stage and not bound:
        _relax(view, kind, live, before=before, cluster=cluster)
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


def _relax(view: GroupView, kind: Kind, live: Obj, *, before: int, cluster: LeasedCluster) -> None:
    """Edit a pod group of stage ``before`` to the row's stage."""
    scheduler = scheduler_backend(view.placement.scheduler_type)
    body = scheduler.relaxed(_gang(view, before), _gang(view, view.row.stage))
    if body is None:
        raise ValueError(f'Scheduler "{view.placement.scheduler_type}" cannot relax a pending pod group.')
    marks: dict[str, str | None] = {STAGE_ANNOTATION: str(view.row.stage)}
    if MEMBERS_ANNOTATION in (live["metadata"].get("annotations") or {}):
        marks |= {MEMBERS_ANNOTATION: None}  # its minimums are those of the whole gang again
    _patch(view, kind, live, annotations=marks, spec=body.get("spec") or {}, cluster=cluster)


def resize(
    view: GroupView, observed: ObservedPods, *, silent: bool, lease: Lease, cluster: LeasedCluster
) -> datetime | None:
    """Set the gang's minimums to its live tasks, once some have finished, failed or are tried again.

    A gang below its minimum is evicted after its scheduler's grace period, so this is done in the same
    reconciliation that observes it. ``silent`` says that the observer's row of the pod group may be old.
    Returns when to reconcile again without a notification. Raises ClusterError.
    """
    live = [task for task in view.tasks if task.live]
    waiting = waiting_beside_others(live, observed)
    if len(live) == len(view.tasks) and not waiting and not any(task.retry_id for task in live):
        return None
    kind = pod_group_kind(view.placement)
    if kind is None or not live or not edits_pod_groups(view):
        return None
    members = Members(tuple(task.name for task in live), tuple(waiting))
    return _set_members(view, kind, members, silent=silent, lease=lease, cluster=cluster)


def _set_members(
    view: GroupView,
    kind: Kind,
    members: Members,
    *,
    silent: bool,
    lease: Lease,
    cluster: LeasedCluster,
) -> datetime | None:
    """Set the pod group's minimums for these tasks, unless they are; returns what ``resize`` does."""
    observed = () if silent else observations.pod_groups(view)
    pod_group = observed[0] if len(observed) == 1 else _read(view, kind, cluster)
    if pod_group is None:
        return None
    paused, at = _pause(view, pod_group, members)
    digest = names.digest(members.live, members.waiting, *(["rest"] if paused else []), length=16)
    live = None if _members_of(pod_group) == digest else _read(view, kind, cluster)
    if live is None or _members_of(live) == digest:
        return at
    if spec := _resized(view, live, members, paused=paused):
        reached("before-minimum-set")
        _patch(view, kind, live, annotations={MEMBERS_ANNOTATION: digest}, spec=spec, cluster=cluster)
        if absent := _absent(view, members):
            record(lease, [_minimum_note(absent)])
    return at


def _resized(view: GroupView, pod_group: Obj, members: Members, *, paused: bool) -> Obj:
    gang = _gang(view, _stage_of(view, pod_group))
    scheduler = scheduler_backend(view.placement.scheduler_type)
    return dict(scheduler.resized(gang, living=members.live, waiting=members.waiting, rest=paused))


def _pause(view: GroupView, pod_group: Obj, members: Members) -> tuple[bool, datetime | None]:
    """Whether sets without any place are left out for a moment, and when to decide this again.

    They keep the gang below its minimum however low it is. Left out long before the end of the grace
    period, and put back once the scheduler has removed its mark, they are tried again and again while the
    rest of the gang runs.
    """
    mark = scheduler_backend(view.placement.scheduler_type).read_back.stale
    annotations = pod_group["metadata"].get("annotations") or {}
    since = read_instant(annotations.get(mark)) if mark and members.waiting else None
    if since is None:
        return False, None
    if view.now < since + REST_AFTER:
        return False, since + REST_AFTER
    lasting = _resized(view, pod_group, members, paused=False)
    paused = _resized(view, pod_group, members, paused=True) != lasting
    return paused, view.now + RECHECK_AFTER if paused else None


def waiting_beside_others(living: Sequence[TaskView], observed: ObservedPods) -> list[str]:
    """The tasks whose pods have no place while others of their gang do.

    Those that are tried again and have no node, and those whose pods are being deleted. While no pod of the
    gang has a place there are none: the gang is placed as a whole or not at all.
    """
    pods = {task.name: observed.pods.get(task.pod_name) for task in living}
    ending = {name for name, pod in pods.items() if pod is not None and (pod.deleting or pod.absent)}
    placed = {name for name, pod in pods.items() if pod is not None and pod.node_name} - ending
    if not placed:
        return []
    return [t.name for t in living if t.name in ending or (t.retry_id and t.name not in placed)]


def _absent(view: GroupView, members: Members) -> list[str]:
    """The tasks that the gang goes on without, for now or for good."""
    finished = (TaskStatus.COMPLETED, TaskStatus.RESCHEDULED)
    failed = [task.name for task in view.tasks if not task.live and task.status not in finished]
    return [*failed, *members.waiting]


def _minimum_note(absent: Sequence[str]) -> Note:
    message = (
        f"The gang goes on without {listing(absent)}: its minimum was lowered, so that its scheduler does "
        "not evict the rest."
    )
    return Note(key=f"without:{names.digest(absent, length=16)}", reason="MinimumLowered", message=message)


def _members_of(pod_group: Obj) -> str | None:
    digest: str | None = (pod_group["metadata"].get("annotations") or {}).get(MEMBERS_ANNOTATION)
    return digest


def _read(view: GroupView, kind: Kind, cluster: LeasedCluster) -> Obj | None:
    """The one pod group of an editable gang, as it is now; None if it is gone or being deleted."""
    (pod_group,) = _gang(view, view.row.stage).pod_groups
    live = cluster.get(kind, pod_group["metadata"]["name"], namespace=view.placement.namespace)
    return None if live is None or "deletionTimestamp" in live["metadata"] else live


def _patch(
    view: GroupView,
    kind: Kind,
    live: Obj,
    *,
    annotations: dict[str, str | None],
    spec: Obj,
    cluster: LeasedCluster,
) -> None:
    """Patch this version of the pod group, or nothing. Raises WriteConflict."""
    metadata = {"annotations": annotations, "resourceVersion": live["metadata"]["resourceVersion"]}
    cluster.patch(
        kind,
        live["metadata"]["name"],
        {"metadata": metadata, **({"spec": spec} if spec else {})},
        patch_type=MERGE_PATCH,
        namespace=view.placement.namespace,
    )


def _gang(view: GroupView, stage: int) -> RenderedGang:
    (gang,) = view.at_stage(stage).gangs.values()
    return gang


def _constraint_rows(view: GroupView, stage: int) -> list[ConstraintRow]:
    return [constraint.as_json() for constraint in _gang(view, stage).constraints]
