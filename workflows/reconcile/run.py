"""One reconciliation of one task group: observe, plan, apply, record; then release its lease.

A reconciliation has no memory but the rows: it may end between any two calls, and the next one, by any
worker, continues from what it observes. Statuses are decided first, without the cluster; then the cluster is
brought in line with them. A reconciliation takes several turns while nothing has to be waited for, so one
message can create a whole group. Each turn takes its steps in the order below (``turn`` says what a step is).
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from cluster.clock import boot_seconds
from cluster.errors import ClusterError, WritesSuspended
from cluster.interface import ClusterApi
from pools import conditions
from pools.conditions import Condition
from scheduling.errors import TopologyError
from web.crashpoints import reached
from workflows.explain.reasons import Reason, Why
from workflows.lifecycle.repeated_changes import RENEWAL_PAUSE
from workflows.lifecycle.statuses import TERMINAL, TaskStatus
from workflows.metrics import UNRECOGNISED_REASONS
from workflows.reconcile import waiting
from workflows.reconcile.assess.deadlines import next_deadline, timed_out
from workflows.reconcile.assess.follow import end_all
from workflows.reconcile.assess.unforeseen import note_recovery, note_unforeseen
from workflows.reconcile.end.kept_pods import delete_kept_pods
from workflows.reconcile.end.teardown import STUCK_AFTER, clear, stuck_changes, take_down, waited_for
from workflows.reconcile.following import observe, record_assessment, watch_deadlines
from workflows.reconcile.form.advancing import advance_form
from workflows.reconcile.form.chosen_domains import choose_better_domain, choose_domain
from workflows.reconcile.form.readiness import report_ready
from workflows.reconcile.form.resizing import resize
from workflows.reconcile.form.waking import wake, wake_preemptor
from workflows.reconcile.objects.apply import NameTaken, retry_for
from workflows.reconcile.objects.avoiding import avoid_nodes
from workflows.reconcile.objects.create import create
from workflows.reconcile.objects.other_queues import follow_other_queues
from workflows.reconcile.objects.rejoining import rejoin
from workflows.reconcile.objects.repin import repin
from workflows.reconcile.objects.room import record_queued
from workflows.reconcile.observe.binding import silent_failures
from workflows.reconcile.observe.domain_health import record_domain_health
from workflows.reconcile.observe.node_health import record_node_health
from workflows.reconcile.observe.placement_result import record_placement_result
from workflows.reconcile.observe.pod_changes import record_pod_changes
from workflows.reconcile.observe.progress import record_progress
from workflows.reconcile.repair.ended_peers import name_ended_peers
from workflows.reconcile.repair.recreate import recreate_domain_before_room, recreate_missing
from workflows.reconcile.turn import ReadAgain, StepResult, Stop, Turn, TurnStep
from workflows.reconcile.view.group_view import GroupView, load
from workflows.reconcile.view.leased import LeasedCluster, LogArchive
from workflows.reconcile.view.outcomes import SILENT_SECONDS, Failed, Outcome, RequeueAfter, Retry, backoff
from workflows.services.changes import Change, NewWaitingReason, Note
from workflows.services.lease import Lease, LeaseLost, release
from workflows.services.notify import notify_on_commit
from workflows.services.record import record

TURNS = 6
SAFETY_SECONDS = 120.0  # a running group is reconciled this often even without a notification
ROOM_SECONDS = 3.0  # then as long as the group has waited: six reconciles in its first two minutes
TRY_EVERY = 4  # failures, while a cluster is known not to answer

_HIDES_BINDING = frozenset({Why.SILENT, Why.SCHEDULER, Why.TOPOLOGY, Why.CAPACITY, Why.NODES, Why.DISAGREES})
"""Reasons that may be a scheduler's last report, from before it chose nodes."""

log = structlog.get_logger(__name__)


def settle(turn: Turn) -> StepResult:
    """Make the changes that the rows alone decide: a stop, a timeout."""
    row, end = turn.view.row, None
    if not turn.view.ended:
        end = (TaskStatus(row.stop_status), row.stop_message) if row.stop_status else timed_out(turn.view)
    if end is None:
        return turn
    return ReadAgain(turn.view.after(turn.record(_end(turn.view, *end))))


def leave_to_batches(turn: Turn) -> StepResult:
    """Leave a group alone that became due after its message was read: see ``batches``."""
    if turn.view.row.status in (TaskStatus.SUBMITTING, TaskStatus.WAITING):
        return Stop(turn, RequeueAfter(seconds=0.0), is_explained=True)
    return turn


def spare_workers(turn: Turn) -> StepResult:
    """Spare the workers the timeouts of a cluster that is known not to answer.

    Every fourth failure tries the cluster all the same: the probe notifies the groups once it answers, but
    they do not depend on that.
    """
    view = turn.view
    calls = view.row.touched_cluster or not view.ended
    down = conditions.status_of(view.backend.conditions, "Reachable") == "False"
    if not (calls and down) or turn.lease.failures % TRY_EVERY == 0:
        return turn
    return Stop(turn, Retry(trouble="The cluster does not answer.", unreachable=True))


def pause_before_attempt(turn: Turn) -> StepResult:
    """Create nothing of the present attempt before its pause is over."""
    begins_at = turn.view.row.attempt_not_before
    if begins_at is not None and turn.view.now < begins_at:
        return Stop(turn, RequeueAfter(at=begins_at))
    return turn


def rest(turn: Turn) -> Stop:
    """Wait for a notification, or for the next moment at which a step wants to look again."""
    return turn.due(within=SILENT_SECONDS if turn.view.observer_is_silent else SAFETY_SECONDS)


def wait_for_room(turn: Turn) -> Stop:
    """Wait until the observer reports the scheduler's answer; a silent one is not waited for.

    How full the queue is stands in the reason, and nobody is notified when others change that.
    """
    view = turn.view
    most = RENEWAL_PAUSE.total_seconds() if view.form.pins else SAFETY_SECONDS
    if view.observer_is_silent:
        most = SILENT_SECONDS
    waited = (view.now - view.waits_since).total_seconds()
    turn = turn.learn(observed=turn.observed).at(next_deadline(view))
    return turn.due(within=min(max(waited, ROOM_SECONDS), most))


SETTLE: tuple[TurnStep, ...] = (
    settle,
    leave_to_batches,
    spare_workers,
    take_down,
    clear,
    pause_before_attempt,
)
FOLLOW: tuple[TurnStep, ...] = (
    observe,
    record_pod_changes,
    record_assessment,
    recreate_missing,
    rejoin,
    repin,
    record_placement_result,
    record_domain_health,
    record_node_health,
    name_ended_peers,
    report_ready,
    wake_preemptor,
    watch_deadlines,
    advance_form,
    resize,
    delete_kept_pods,
    record_progress,
    rest,
)
CREATE: tuple[TurnStep, ...] = (
    avoid_nodes,
    choose_domain,
    recreate_domain_before_room,
    create,
    record_queued,
    choose_better_domain,
    follow_other_queues,
    wake,
    wait_for_room,
)


def _send_message(lease: Lease) -> None:
    notify_on_commit([(lease.group_id, lease.backend.pk)])


def run(
    lease: Lease,
    *,
    cluster: ClusterApi,
    archive: LogArchive,
    clock: Callable[[], float] = boot_seconds,
    again: Callable[[Lease], None] = _send_message,
) -> Outcome | None:
    """Reconcile the group of this lease, and release it. None if the lease was lost on the way.

    ``archive`` keeps the logs of pods before they are deleted; ``again`` is called if the group is due again.
    """
    lease.clock = clock
    reached("between-lease-and-first-call")
    try:
        outcome = _reconcile(Reconciliation(lease, LeasedCluster(cluster, lease), archive))
        reached("before-lease-given-back")
        if _release(lease, outcome):
            again(lease)
    except LeaseLost as error:
        log.warning("lease_lost", group=str(lease.group_id), error=str(error))
        return None
    return outcome


def _reconcile(reconciliation: "Reconciliation") -> Outcome:
    """Run it; an error that nobody foresaw is an outcome too."""
    try:
        outcome = reconciliation.run()
        if reconciliation.turn is not None:
            note_recovery(reconciliation.lease, reconciliation.turn.view)
    except LeaseLost:
        raise
    except Exception as error:  # whatever it is, it is this group's alone
        log.exception("reconcile_failed", group=str(reconciliation.lease.group_id))
        return note_unforeseen(reconciliation.lease, error)
    return outcome


def _release(lease: Lease, outcome: Outcome) -> bool:
    """Release the lease; returns whether the group is due again."""
    if isinstance(outcome, Retry):
        failures = lease.failures + 1
        pause = backoff(outcome, failures=failures, spread=random.random())  # noqa: S311 -- sets groups apart
        log.warning("reconcile_retry", group=str(lease.group_id), trouble=outcome.trouble, seconds=pause)
        return release(lease, failures=failures, seconds=pause)
    if isinstance(outcome, RequeueAfter):
        return release(lease, failures=0, seconds=outcome.seconds, at=outcome.at)
    return release(lease, failures=0)


@dataclass(slots=True)
class Reconciliation:
    """The turns of one reconciliation; ``turn`` is the last one, as far as its steps have gone.

    A turn begins with the rows as read anew, or as the record has left them that ended the turn before.
    """

    lease: Lease
    cluster: LeasedCluster
    archive: LogArchive
    turn: Turn | None = None
    is_explained: bool = False

    def run(self) -> Outcome:
        outcome = self._turns()
        if isinstance(outcome, Failed):
            record(self.lease, _end(load(self.lease), outcome.status, outcome.message))
            outcome = self._turns()
        if self.turn is not None and not self.is_explained:
            _explain(self.turn.learn(trouble=outcome if isinstance(outcome, Retry) else None))
        return outcome

    def _turns(self) -> Outcome:
        view = None
        for _ in range(TURNS):
            try:
                result = self._take(view or load(self.lease))
            except WritesSuspended as error:
                message = error.message
                note = Note(key="suspended", reason="WritesSuspended", message=message, warning=True)
                record(self.lease, [note])
                return Retry(trouble=message, slow=True)
            except ClusterError as error:
                return retry_for(error)
            except (NameTaken, ValueError, TopologyError) as error:
                # ValueError: a placement of another release; both need a person or an upgrade
                return Retry(trouble=str(error), slow=True)
            if isinstance(result, Stop):
                self.is_explained = result.is_explained
                return result.outcome
            view = result.view
        return RequeueAfter(seconds=0.0)

    def _take(self, view: GroupView) -> StepResult:
        """Take a turn; missing pods are created however following ends, once their peers are read."""
        result = self._go(SETTLE, Turn(self.lease, self.cluster, self.archive, view))
        if isinstance(result, Turn) and result.view.row.created_in_cluster_at is not None:
            result = self._go(FOLLOW, result)
            if isinstance(result, Stop) and _lacks_pods(result.turn.view):
                result = result.turn
        return self._go(CREATE, replace(result, times=())) if isinstance(result, Turn) else result

    def _go(self, steps: tuple[TurnStep, ...], turn: Turn) -> StepResult:
        """Take these steps until one ends the turn; where one fails, the turn is as those before left it."""
        self.turn = turn
        for step in steps:
            result = step(self.turn)
            if isinstance(result, ReadAgain):
                self.turn = replace(self.turn, view=result.view or self.turn.view)
                return result
            if isinstance(result, Stop):
                self.turn = result.turn
                return result
            self.turn = result
        return self.turn


def _end(view: GroupView, status: TaskStatus, message: str) -> list[Change]:
    return end_all([task.pk for task in view.live], status=status, message=message)


def _lacks_pods(view: GroupView) -> bool:
    return view.awaits_room or any(task.status == TaskStatus.PROCESSING for task in view.live)


def _reason(turn: Turn) -> Reason | None:
    reason = waiting.reason_of(turn.view, turn.learned)
    may_hide = reason is not None and reason.why in _HIDES_BINDING
    if may_hide and (failures := silent_failures(turn.view, turn.cluster)):
        return waiting.reason_of(turn.view, turn.learned, bind_failures=failures)
    return reason


def _explain(turn: Turn) -> None:
    """Record why the group waits, if the reason has changed."""
    view, trouble, reason = turn.view, turn.learned.trouble, _reason(turn)
    recorded = (view.row.waiting_why, view.row.waiting_reason, view.row.waiting_evidence)
    current = reason.columns if reason else ("", "", {})
    if view.status not in TERMINAL and recorded != current:
        turn.record([NewWaitingReason(reason)])
        if texts := current[2].get("unrecognised"):
            UNRECOGNISED_REASONS.labels(view.placement.terms.scheduler_type).inc(len(texts))
    elif view.status in TERMINAL and trouble is not None:
        message = trouble.trouble
        turn.record([Condition(type="Released", status="False", reason="Retrying", message=message)])
        if waited_for(view) >= STUCK_AFTER:
            turn.record(stuck_changes("Retrying", message))
