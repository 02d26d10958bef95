"""Edits of a pod group whose pods are there: relaxing it while they wait, and resizing it later.

Both read the pod group live just before, render at the stage it holds, and patch that version of it alone, so
neither undoes the other and an edit by anybody else in between is met by looking again. Every look may
be the one after a crash: what is missing is seen from the row's stage and the pod group's annotation.
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
from workflows.lifecycle.patience import Do, Due, Line, Waits
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile import observations
from workflows.reconcile.create import edits_pod_groups
from workflows.reconcile.follow import ObservedPods
from workflows.reconcile.group_reader import GroupReader, pod_group_kind
from workflows.reconcile.group_view import GroupView, TaskView
from workflows.reconcile.leased import LeasedCluster
from workflows.services.lease import Lease
from workflows.services.record import Changes, Note, record
from workflows.values.observation import MEMBERS_ANNOTATION, STAGE_ANNOTATION

AGAIN = timedelta(seconds=1)
REST_AFTER = timedelta(seconds=25)  # well below KAI's grace period, which is 60 seconds by default


@dataclass(frozen=True, slots=True)
class PatienceProgress:
    """``moved``: the row has changed and should be read again; ``at``: when the next stage may begin."""

    moved: bool = False
    at: datetime | None = None


def advance_patience(
    view: GroupView, observed: ObservedPods, *, silent: bool, lease: Lease, cluster: LeasedCluster
) -> PatienceProgress:
    """Do the next thing that patience asks for. Raises ClusterError.

    ``silent`` says that no observer is at work, so its rows may be old.
    """
    if not patience.has_patience(view.row.constraints):
        return PatienceProgress()
    held = _held_live(view, cluster) if silent and view.row.stage else _held(view)
    seen = _seen(view, observed, held=held, reachable=_reachable(view, observed, silent=silent))
    due = patience.due(seen)
    if due.do == Do.EDIT:
        try:
            _bring(view, lease, cluster)
        except (WriteConflict, ObjectNotFound):
            return PatienceProgress(at=view.now + AGAIN)
        due = patience.due(replace(seen, held=None))
    return _write(view, due, lease)


def _write(view: GroupView, due: Due, lease: Lease) -> PatienceProgress:
    if due.do == Do.NOTHING:
        return PatienceProgress(at=due.at)
    if due.do == Do.RELAX:
        _decide(view, due.stage, lease)
        reached("after-relax-decision")
    elif due.do == Do.BEGIN:
        said = patience.began(view.row.constraints)
        note = Note(key=f"patience:{view.now.isoformat()}", reason="PatienceBegan", message=said)
        record(lease, Changes(unplaced=True, notes=(note,)))
    else:
        record(lease, Changes(unplaced=False))
    return PatienceProgress(moved=True)


def _seen(view: GroupView, observed: ObservedPods, *, held: int | None, reachable: bool) -> Waits:
    pods = [observed.pods.get(task.pod_name) for task in view.tasks]
    there = [pod for pod in pods if pod is not None and not pod.gone]
    finished = any(not task.live and task.node_name for task in view.tasks)
    bound = finished or any(pod.node_name for pod in there)
    return Waits(
        begins=view.begins,
        stage=view.row.stage,
        held=held,
        since=view.row.unplaced_since,
        now=view.now,
        whole=not bound and len(there) == len(pods) and not any(pod.deleting for pod in there),
        bound=bound,
        reachable=reachable,
        told=held is None or patience.tells(view.row.constraints, waited=view.begins[held]),
    )


def _held(view: GroupView) -> int | None:
    """The stage of the pod group as it was last seen."""
    found = observations.pod_groups(view)
    return _stage_of(view, found[0]) if len(found) == 1 else None


def _held_live(view: GroupView, cluster: LeasedCluster) -> int | None:
    """The same without an observer."""
    kind = pod_group_kind(view.placement)
    live = _read(view, kind, cluster) if kind else None
    return None if live is None else _stage_of(view, live)


def _stage_of(view: GroupView, pod_group: Obj) -> int:
    held = patience.stage_of(pod_group["metadata"].get("annotations"))
    return min(held, len(view.begins) - 1)


def _reachable(view: GroupView, observed: ObservedPods, *, silent: bool) -> bool:
    """Whether the cluster answers: it was read in this look, or its observer and probes say so."""
    answers = conditions.status_of(view.backend.conditions, "Reachable") != "False"
    return observed.complete or (answers and not silent)


def _decide(view: GroupView, stage: int, lease: Lease) -> None:
    """Write that the group is relaxed. It comes first, so that it survives whatever happens next."""
    lines = _lines(view, stage)
    said = patience.relaxed(view.row.constraints, lines, group=view.row.name)
    note = Note(key=f"relaxed:{stage}", reason="Relaxed", message=said)
    record(lease, Changes(stage=stage, constraints=lines, notes=(note,) if said else ()))


def _bring(view: GroupView, lease: Lease, cluster: LeasedCluster) -> None:
    """Bring the pod group to the row's stage unless a pod is bound, and the row's constraints to it."""
    kind = pod_group_kind(view.placement)
    if kind is None or (live := _read(view, kind, cluster)) is None:
        return
    held, stage = _stage_of(view, live), view.row.stage
    bound = held < stage and _any_bound(view, cluster)
    if held < stage and not bound:
        _relax(view, kind, live, held=held, cluster=cluster)
    holds = held if bound else max(held, stage)
    if patience.tells(view.row.constraints, waited=view.begins[holds]):
        return
    lines = _lines(view, holds)
    note = (
        Note(key=f"left-out:{stage}", reason="RelaxationLeftOut", message=patience.left_out(lines))
        if bound
        else Note(key=f"caught-up:{stage}", reason="Relaxed", message=patience.caught_up(lines))
    )
    record(lease, Changes(constraints=lines, notes=(note,)))


def _any_bound(view: GroupView, cluster: LeasedCluster) -> bool:
    """Whether a pod of a latest try has a node at this moment, or its task has finished."""
    wanted = {task.pod_name for task in view.tasks}
    pods = GroupReader(cluster, view.uuid, view.placement).pod_observations()
    bound = any(pod.node_name for name, pod in pods.items() if name in wanted)
    return bound or any(not task.live and task.node_name for task in view.tasks)


def _relax(view: GroupView, kind: Kind, live: Obj, *, held: int, cluster: LeasedCluster) -> None:
    before, after = _gang(view, held), _gang(view, view.row.stage)
    body = scheduler_backend(view.placement.scheduler_type).relaxed(before, after)
    if body is None:
        raise ValueError(f'Scheduler "{view.placement.scheduler_type}" cannot relax a pending pod group.')
    marks: dict[str, str | None] = {STAGE_ANNOTATION: str(view.row.stage)}
    if MEMBERS_ANNOTATION in (live["metadata"].get("annotations") or {}):
        marks |= {MEMBERS_ANNOTATION: None}  # its minimums are those of the whole gang again
    _patch(view, kind, live, annotations=marks, spec=body.get("spec") or {}, cluster=cluster)


def resize(
    view: GroupView, observed: ObservedPods, *, silent: bool, lease: Lease, cluster: LeasedCluster
) -> datetime | None:
    """Hold the scheduler's gang to the tasks that are left, once some have finished, failed or come again.

    A gang below its minimum is evicted after its scheduler's grace period, so this is done in the look that
    learns of it. ``silent`` says that the observer's row of the pod group may be old. Returns when to look
    again without news. Raises ClusterError.
    """
    living = [task for task in view.tasks if task.live]
    waits = waiting_beside_others(living, observed)
    if len(living) == len(view.tasks) and not waits and not any(task.retry_id for task in living):
        return None
    kind = pod_group_kind(view.placement)
    if kind is None or not living or not edits_pod_groups(view):
        return None
    return _hold(
        view, kind, [task.name for task in living], waits, silent=silent, lease=lease, cluster=cluster
    )


def _hold(
    view: GroupView,
    kind: Kind,
    living: Sequence[str],
    waits: Sequence[str],
    *,
    silent: bool,
    lease: Lease,
    cluster: LeasedCluster,
) -> datetime | None:
    """Hold the pod group to these tasks, unless it is; the same result as ``resize``."""
    seen = () if silent else observations.pod_groups(view)
    found = seen[0] if len(seen) == 1 else _read(view, kind, cluster)
    if found is None:
        return None
    rest, at = _rests(view, found, living, waits)
    members = names.digest(living, waits, *(["rest"] if rest else []), length=16)
    live = None if _members_of(found) == members else _read(view, kind, cluster)
    if live is None or _members_of(live) == members:
        return at
    if wanted := _resized(view, live, living, waits, rest=rest):
        reached("before-minimum-set")
        _patch(view, kind, live, annotations={MEMBERS_ANNOTATION: members}, spec=wanted, cluster=cluster)
        if without := _gone_without(view, waits):
            record(lease, Changes(notes=(_told_without(without),)))
    return at


def _resized(
    view: GroupView, pod_group: Obj, living: Sequence[str], waits: Sequence[str], *, rest: bool
) -> Obj:
    gang = _gang(view, _stage_of(view, pod_group))
    scheduler = scheduler_backend(view.placement.scheduler_type)
    return dict(scheduler.resized(gang, living=living, waiting=waits, rest=rest))


def _rests(
    view: GroupView, pod_group: Obj, living: Sequence[str], waits: Sequence[str]
) -> tuple[bool, datetime | None]:
    """Whether sets without any place are left out for a moment, and when that may change without news.

    They keep the gang below its minimum however low it is. Left out long before the end of the grace
    period, and put back once the scheduler has taken back its mark, they are tried again and again while the
    rest of the gang runs.
    """
    mark = scheduler_backend(view.placement.scheduler_type).read_back.stale
    annotations = pod_group["metadata"].get("annotations") or {}
    since = read_instant(annotations.get(mark)) if mark and waits else None
    if since is None:
        return False, None
    if view.now < since + REST_AFTER:
        return False, since + REST_AFTER
    lasting = _resized(view, pod_group, living, waits, rest=False)
    rest = _resized(view, pod_group, living, waits, rest=True) != lasting
    return rest, view.now + AGAIN if rest else None


def waiting_beside_others(living: Sequence[TaskView], observed: ObservedPods) -> list[str]:
    """The tasks whose pods hold no place while others of their gang do.

    Those that are tried again and have no node, and those whose pods are going. With no place held at all
    there are none: the gang comes back whole or not at all.
    """
    pods = {task.name: observed.pods.get(task.pod_name) for task in living}
    going = {name for name, pod in pods.items() if pod is not None and (pod.deleting or pod.gone)}
    placed = {name for name, pod in pods.items() if pod is not None and pod.node_name} - going
    if not placed:
        return []
    return [t.name for t in living if t.name in going or (t.retry_id and t.name not in placed)]


def _gone_without(view: GroupView, waits: Sequence[str]) -> list[str]:
    """The tasks that the gang goes on without, for now or for good."""
    finished = (TaskStatus.COMPLETED, TaskStatus.RESCHEDULED)
    failed = [task.name for task in view.tasks if not task.live and task.status not in finished]
    return [*failed, *waits]


def _told_without(without: Sequence[str]) -> Note:
    said = (
        f"The gang goes on without {listing(without)}: its minimum was lowered, so that its scheduler does "
        "not evict the rest."
    )
    return Note(key=f"without:{names.digest(without, length=16)}", reason="MinimumLowered", message=said)


def _members_of(pod_group: Obj) -> str | None:
    found: str | None = (pod_group["metadata"].get("annotations") or {}).get(MEMBERS_ANNOTATION)
    return found


def _read(view: GroupView, kind: Kind, cluster: LeasedCluster) -> Obj | None:
    """The one pod group of a gang that can be edited, as it is now; None if it is gone or going."""
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
    """Patch this version of the pod group, or nothing. Raises Conflict."""
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


def _lines(view: GroupView, stage: int) -> list[Line]:
    return [constraint.as_json() for constraint in _gang(view, stage).constraints]
