"""Deleting all objects of an ended group from its cluster, in the only order that is safe.

Pods, and wait until each is gone; then pod group, service and Secrets; then the ComputeDomain;
then wait until all of that, its claim template and all claims are gone. Only then is the group released. An
object that is gone with the reply to its delete is not read again. A wait beyond its limit makes it slower
and raises ``ReleaseStuck``; it never skips a step and never touches a finalizer of another controller.
"""

from datetime import timedelta

from cluster.errors import NotServed
from pools.clusters.guard import MARK_SECONDS
from pools.conditions import Condition, status_of
from scheduling.sentences import in_seconds, plain_listing
from web.crashpoints import reached
from workflows.models import Task, TaskGroup
from workflows.reconcile.objects.apply import Applied, apply
from workflows.reconcile.objects.create import check_cluster
from workflows.reconcile.objects.lost_pods import PodsAway, pods_away
from workflows.reconcile.objects.plan import GroupPlan, plan_pods_down, plan_rest_down
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import StepResult, Stop, Turn
from workflows.reconcile.view.group_reader import GroupReader, ObjectsByName, pod_group_kind
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.outcomes import RequeueAfter, Retry, Settled, look_again
from workflows.services.changes import AttemptCleared, Change, Note, Release

STUCK_AFTER = timedelta(seconds=120)
STUCK_SECONDS = 30.0
UNNOTIFIED_SECONDS = 3.0  # while no observer would report the end of anything that is left
ROUNDS = 4
NEVER_CREATED = "None of its objects was ever created in the cluster."
MOST_READ = 50  # claims that are read by name; listing the namespace costs less for more of them


def take_down(turn: Turn) -> StepResult:
    """Delete as much of an ended group as can be deleted now. Raises ClusterError, TopologyError."""
    view = turn.view
    if not view.ended:
        return turn
    reached("after-end-recorded")
    if not view.row.touched_cluster:
        turn.record(release_changes(view.row, NEVER_CREATED))
        return Stop(turn, Settled())
    outcome = _delete_all(turn)
    if isinstance(outcome, Settled):
        reached("before-released-recorded")
        turn.record(release_changes(view.row, "None of its objects is left in the cluster."))
    return Stop(turn, outcome)


def clear(turn: Turn) -> StepResult:
    """Delete what is left of the attempt before. Raises ClusterError, TopologyError."""
    if not turn.view.row.clearing:
        return turn
    reached("after-attempt-recorded")
    outcome = _delete_all(turn)
    if not isinstance(outcome, Settled):
        return Stop(turn, outcome)
    reached("before-attempt-cleared")
    return turn.moved(cleared_changes(turn.view))


def _delete_all(turn: Turn) -> Settled | RequeueAfter | Retry:
    """The same; Settled once nothing of the group is in its cluster, and nothing may still arrive there."""
    view, cluster = turn.view, turn.cluster
    if (elsewhere := check_cluster(view, cluster, within=MARK_SECONDS)) is not None:
        return elsewhere
    outcome = _delete_present(turn)
    if isinstance(outcome, Settled):  # empty lists prove nothing unless this is still the group's cluster
        return _late_writes(view) or check_cluster(view, cluster, within=0.0) or outcome
    return outcome


def _late_writes(view: GroupView) -> RequeueAfter | None:
    """The time for which a write of a worker that died may still arrive after a list showed nothing."""
    until = view.row.late_writes_until
    return RequeueAfter(at=until) if until is not None and until > view.now else None


def _delete_present(turn: Turn) -> Settled | RequeueAfter | Retry:
    """Delete as much as can be deleted now; Settled once nothing of the group is in the cluster."""
    view = turn.view
    reader = GroupReader(turn.cluster, view.uuid, view.placement)
    grace = 0 if view.row.force else None
    for number in range(ROUNDS):
        pods = reader.pods()
        plan = _plan(view, reader, pods, again=view.row.force and number == 0)
        if plan.finished:
            return Settled()
        away = pods_away(view, pods)
        steps = (*plan.steps, *away.steps(namespace=view.placement.terms.namespace))
        applied = apply(steps, cluster=turn.cluster, archive=turn.archive, grace_seconds=grace)
        if not isinstance(applied, Applied):
            return applied if isinstance(applied, Retry) else Retry(trouble=applied.message)
        if plan.deletes_all and not applied.lingers:
            return Settled()
        reader.note_removed(applied.removed)
        if not steps or applied.lingers:  # it takes time, and a list would show it once more
            break
    return _wait(turn, plan, away)


def _plan(view: GroupView, reader: GroupReader, pods: ObjectsByName, *, again: bool) -> GroupPlan:
    namespace = view.placement.terms.namespace
    down = plan_pods_down(pods, namespace=namespace, again=again)
    if not down.finished:
        return down
    observed = reader.remaining_objects()
    claims = _claims(view, reader) if view.placement.nvlink and not observed.domains else ()
    return plan_rest_down(
        observed, namespace=namespace, pod_group=pod_group_kind(view.placement), claims=claims
    )


def _claims(view: GroupView, reader: GroupReader) -> tuple[str, ...]:
    rows = dict(Task.objects.filter(group=view.row).values_list("pod_name", "spec__claims_channel"))
    claimants = {pod for pod, claims in rows.items() if claims}
    claim_names = observations.claims_of(view, claimants) if len(claimants) <= MOST_READ else None
    try:
        return reader.claims(frozenset(rows), claim_names=claim_names)
    except NotServed:
        return ()  # a cluster without resource claims has none


def _wait(turn: Turn, plan: GroupPlan, away: PodsAway) -> RequeueAfter:
    """Requeue, sooner at first; report it once it takes too long, or at once where a person must help."""
    view = turn.view
    waited = waited_for(view)
    if waited < STUCK_AFTER and not away.needs_help:
        is_notified = plan.notifies and not view.observer_is_silent
        return look_again(waited, first=1.0, most=STUCK_SECONDS if is_notified else UNNOTIFIED_SECONDS)
    objects = plain_listing(plan.remaining)
    whose = "the attempt" if view.row.clearing and not view.ended else "the group"
    message = (
        f"Still in the cluster {in_seconds(int(waited.total_seconds()))} after {whose}'s end: {objects}."
    )
    reason = "NodeLost" if away.needs_help else "StillThere"
    turn.record(stuck_changes(reason, f"{message} {away.sentence}".strip()))
    return RequeueAfter(seconds=STUCK_SECONDS)


def waited_for(view: GroupView) -> timedelta:
    """How long ago the group, or the attempt that is cleared away, ended."""
    begun = view.row.attempt_began_at if view.row.clearing else None
    return view.now - (view.row.end_time or begun or view.now)


def stuck_changes(reason: str, message: str) -> list[Change]:
    """What to record of a group whose release takes too long."""
    return [
        Condition(type="ReleaseStuck", status="True", reason=reason, message=message),
        Note(key="stuck", reason="ReleaseStuck", message=message, warning=True),
    ]


def cleared_changes(view: GroupView) -> list[Change]:
    """The changes to record once nothing of the attempt before is left."""
    message = f"Nothing of attempt {view.row.attempt_number - 1} is left in the cluster."
    changes: list[Change] = [AttemptCleared()]
    if status_of(view.row.conditions, "ReleaseStuck") == "True":
        changes.append(Condition(type="ReleaseStuck", status="False", reason="Released", message=message))
    return changes


def release_changes(group: TaskGroup, message: str) -> list[Change]:
    """The changes to record once nothing is left."""
    changes: list[Change] = [
        Release(),
        Condition(type="Released", status="True", reason="Released", message=message),
    ]
    if status_of(group.conditions, "ReleaseStuck") == "True":
        changes.append(Condition(type="ReleaseStuck", status="False", reason="Released", message=message))
    return [*changes, Note(key="released", reason="Released", message=message)]
