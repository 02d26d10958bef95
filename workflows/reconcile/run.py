"""One reconciliation of one task group: observe, plan, apply, record; then release its lease.

A reconciliation has no memory but the rows: it may end between any two calls, and the next one, by any
worker, continues from what it observes. Statuses are decided first, without the cluster; then the cluster is
brought in line with them. A reconciliation takes several turns while nothing has to be waited for, so one
message can create a whole group.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from cluster.clock import boot_seconds
from cluster.errors import ClusterError, WritesSuspended
from cluster.interface import ClusterApi
from pools import conditions
from pools.conditions import Condition
from scheduling.errors import TopologyError
from web.crashpoints import reached
from workflows.explain.reasons import Reason, Why
from workflows.lifecycle.domain_health import DomainHealth
from workflows.lifecycle.repeated_changes import RENEWAL_PAUSE
from workflows.lifecycle.statuses import TERMINAL, TaskStatus
from workflows.metrics import ATTEMPTS_ENDED, UNRECOGNISED_REASONS
from workflows.reconcile import waiting
from workflows.reconcile.assess.deadlines import next_deadline, timed_out
from workflows.reconcile.assess.follow import (
    UNSEEN_GRACE,
    Assessment,
    ObservedPods,
    end_all,
    follow,
)
from workflows.reconcile.assess.unforeseen import note_recovery, note_unforeseen
from workflows.reconcile.end.kept_pods import delete_kept_pods
from workflows.reconcile.end.teardown import STUCK_AFTER, clear, stuck_changes, take_down, waited_for
from workflows.reconcile.form.chosen_domains import DomainChoice, better_choice, first_choice
from workflows.reconcile.form.pinning import advance_pins
from workflows.reconcile.form.readiness import report_ready
from workflows.reconcile.form.relaxing import advance_patience
from workflows.reconcile.form.reordering import advance_order
from workflows.reconcile.form.resizing import resize
from workflows.reconcile.form.waking import wake, wake_preemptor
from workflows.reconcile.objects.apply import NameTaken, retry_for
from workflows.reconcile.objects.avoiding import avoidance_changes
from workflows.reconcile.objects.create import (
    Created,
    LeftBehind,
    NodeWait,
    Progress,
    TemplateWait,
    create,
    created_changes,
    rejoins_pod_group,
)
from workflows.reconcile.objects.namespace_quotas import QuotaWait
from workflows.reconcile.objects.other_queues import follow_other_queues
from workflows.reconcile.objects.paused_replacements import ReplacementPause
from workflows.reconcile.objects.rejoining import rejoins
from workflows.reconcile.objects.repin import repins
from workflows.reconcile.objects.room import RoomGone, RoomWait, lost_changes, queued_changes, with_room
from workflows.reconcile.observe import observations
from workflows.reconcile.observe.binding import silent_failures
from workflows.reconcile.observe.busy_nodes import with_busy_nodes
from workflows.reconcile.observe.domain_health import record_domain_health
from workflows.reconcile.observe.node_health import record_node_health
from workflows.reconcile.observe.placement_result import record_placement_result
from workflows.reconcile.observe.pod_changes import record_pod_changes
from workflows.reconcile.observe.progress import record_progress
from workflows.reconcile.repair.ended_peers import name_ended_peers
from workflows.reconcile.repair.recreate import (
    next_missing_check,
    recreate_domain_before_room,
    recreate_missing,
)
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView, history_of, load
from workflows.reconcile.view.leased import LeasedCluster, LogArchive
from workflows.reconcile.view.outcomes import Failed, Outcome, RequeueAfter, Retry, backoff, look_again
from workflows.services.changes import (
    Change,
    NewAttempt,
    NewMembership,
    NewTry,
    NewWaitingReason,
    Note,
)
from workflows.services.lease import Lease, LeaseLost, release
from workflows.services.notify import notify_on_commit
from workflows.services.record import record

TURNS = 6
SAFETY_SECONDS = 120.0  # a running group is reconciled this often even without a notification
TEMPLATE_SECONDS = 2.0
ROOM_SECONDS = 3.0  # then as long as the group has waited: six reconciles in its first two minutes
MOST_TEMPLATE_SECONDS = 60.0
NODE_SECONDS = 10.0  # a person must act, or a node come back
REPORT_SECONDS = 3.0  # the observer reports new pods sooner, and nothing is known of them before
RECHECK_AFTER = timedelta(seconds=1)

_HIDES_BINDING = frozenset({Why.SILENT, Why.SCHEDULER, Why.TOPOLOGY, Why.CAPACITY, Why.NODES, Why.DISAGREES})
"""Reasons that may be a scheduler's last report, from before it chose nodes."""
SILENT_SECONDS = 10.0  # as SAFETY_SECONDS, while no observer is at work
TRY_EVERY = 4  # failures, while a cluster is known not to answer

log = structlog.get_logger(__name__)


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
        note_recovery(reconciliation.lease, reconciliation.view)
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
    """The turns of one reconciliation, each of which decides whether another follows.

    A turn begins with the rows as read anew, or as the record has left them that ended the turn before.
    """

    lease: Lease
    cluster: LeasedCluster
    archive: LogArchive
    view: GroupView | None = None
    recorded_view: GroupView | None = None
    observed: ObservedPods | None = None
    quota_wait: QuotaWait | None = None
    claim_template: str = ""
    node_wait: str = ""
    paused: str = ""
    unchosen: str = ""
    silence: str = ""
    held_back: str = ""
    domain: DomainHealth | None = None
    is_explained: bool = False

    def run(self) -> Outcome:
        outcome = self._turns()
        if isinstance(outcome, Failed):
            view = load(self.lease)
            changes = end_all(_live_tries(view), status=outcome.status, message=outcome.message)
            record(self.lease, changes)
            outcome = self._turns()
        self._explain(outcome if isinstance(outcome, Retry) else None)
        return outcome

    def _turns(self) -> Outcome:
        for _ in range(TURNS):
            try:
                outcome = self._turn()
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
            if outcome is not None:
                return outcome
        return RequeueAfter(seconds=0.0)

    def _turn(self) -> Outcome | None:
        """Do the next step; None when the rows have moved and should be read again."""
        self.view = view = self.recorded_view or load(self.lease)
        self.recorded_view = self.observed = self.domain = None
        self.quota_wait = None
        self.claim_template = self.node_wait = self.unchosen = self.silence = self.held_back = ""
        self.paused = ""
        if not view.ended and (changes := self._settle(view)) is not None:
            self.recorded_view = view.after(record(self.lease, changes))
            return None
        if not view.ended and view.row.status in (TaskStatus.SUBMITTING, TaskStatus.WAITING):
            self.is_explained = True
            return RequeueAfter(seconds=0.0)  # it became due after its message was read: see ``batches``
        if (view.row.touched_cluster or not view.ended) and (retry := _unreachable(view, self.lease)):
            return retry
        if view.ended:
            return take_down(view, self.lease, self.cluster, self.archive)
        return self._between_attempts(view) if _is_between_attempts(view) else self._follow_and_create(view)

    def _between_attempts(self, view: GroupView) -> Outcome | None:
        """Clear the attempt before away, then wait until the pause is over."""
        if view.row.clearing:
            return clear(view, self.lease, self.cluster, self.archive)
        return RequeueAfter(at=view.row.attempt_not_before)

    def _follow_and_create(self, view: GroupView) -> Outcome | None:
        """Follow the pods that exist, then create missing ones: a retry must not leave its peers unread."""
        created = view.row.created_in_cluster_at is not None
        outcome = self._follow(view) if created else None
        if created and outcome is None:
            return None
        view = self.view or view  # read again where tasks ended in this reconcile
        if view.awaits_room or any(task.status == TaskStatus.PROCESSING for task in view.live):
            return self._create(view)
        return outcome

    def _settle(self, view: GroupView) -> list[Change] | None:
        """The changes that the rows alone decide: a stop, a timeout."""
        row = view.row
        if row.stop_status:
            return end_all(_live_tries(view), status=TaskStatus(row.stop_status), message=row.stop_message)
        if timeout := timed_out(view):
            status, message = timeout
            return end_all(_live_tries(view), status=status, message=message)
        return None

    def _create(self, view: GroupView) -> Outcome | None:
        avoidance = avoidance_changes(view)
        choice = DomainChoice() if avoidance else first_choice(view)
        if changes := avoidance or choice.changes:
            record(self.lease, changes)
            return None
        self.unchosen = choice.obstacle
        outcome = RoomWait() if choice.obstacle else self._create_missing(view)
        if isinstance(outcome, Created | LeftBehind | RoomGone):
            return self._record_step(view, outcome)
        return self._wait(view, outcome)

    def _wait(
        self,
        view: GroupView,
        outcome: TemplateWait | RoomWait | NodeWait | QuotaWait | ReplacementPause | Outcome,
    ) -> Outcome | None:
        """Keep for the reason what is waited for, and when it is looked at again."""
        match outcome:
            case TemplateWait():
                self.claim_template = outcome.name
                most = SILENT_SECONDS if view.observer_is_silent else MOST_TEMPLATE_SECONDS
                return look_again(view.now - view.waits_since, first=TEMPLATE_SECONDS, most=most)
            case RoomWait():
                self.node_wait = outcome.sentence
                return self._wait_for_room(view)
            case NodeWait():
                self.node_wait = outcome.sentence
                return RequeueAfter(seconds=NODE_SECONDS)
            case ReplacementPause():
                if changes := outcome.changes(view):
                    record(self.lease, changes)
                self.paused = outcome.sentence
                return _next_reconcile(view, (outcome.until,), NODE_SECONDS)
            case QuotaWait():
                self.quota_wait = outcome
                return outcome.next_look(view.waits_since, view.now)
        return outcome

    def _create_missing(self, view: GroupView) -> Progress:
        repaired = recreate_domain_before_room(view, self.lease, self.cluster)
        return repaired or create(view, self.lease, self.cluster, self.archive)

    def _record_step(self, view: GroupView, outcome: Created | LeftBehind | RoomGone) -> Outcome | None:
        """Record it. After the first creation there is nothing to follow until the observer reports pods."""
        if isinstance(outcome, RoomGone):
            changes = lost_changes(view, outcome.lost)
            record(self.lease, changes)
            _count_attempts(view, changes)
            return None
        if isinstance(outcome, LeftBehind):
            record(self.lease, outcome.changes)
            return None
        reached("before-created-recorded")
        record(self.lease, created_changes(view, outcome))
        if view.row.created_in_cluster_at is not None or view.observer_is_silent:
            return None
        self.is_explained = True
        return RequeueAfter(seconds=REPORT_SECONDS)

    def _wait_for_room(self, view: GroupView) -> Outcome | None:
        """Wait until the observer reports the scheduler's answer; a silent one is not waited for.

        How full the queue is stands in the reason, and nobody is notified when others change that.
        """
        if changes := queued_changes(view) or better_choice(view).changes:
            record(self.lease, changes)
            return None
        follow_other_queues(view, self.cluster)
        self.silence = wake(view, self.lease, self.cluster)
        self.observed = self.observed or ObservedPods(pods={}, gone_at={}, complete=True)
        most = RENEWAL_PAUSE.total_seconds() if view.form.pins else SAFETY_SECONDS
        if view.observer_is_silent:
            most = SILENT_SECONDS
        waited = (view.now - view.waits_since).total_seconds()
        return _next_reconcile(view, (next_deadline(view),), min(max(waited, ROOM_SECONDS), most))

    def _follow(self, view: GroupView) -> Outcome | None:
        silent = view.observer_is_silent
        observed, assessment = self._observe(view, silent=silent)
        self.observed, self.held_back = observed, assessment.held_back
        record_pod_changes(view, observed, self.lease)
        if assessment.changes:
            recorded = record(self.lease, assessment.changes)
            _count_attempts(view, assessment.changes)
            if _changes_tries(assessment.changes):
                return None
            self.view = view = view.after(recorded)  # later steps see the new statuses in the same turn
            if view.ended:
                self.recorded_view = view
                return None
            self.observed = observed = observed.of(task.pod_name for task in view.live)
        if not silent and not view.row.repinning:
            outcome = recreate_missing(view, observed, assessment.lost, self.lease, self.cluster)
            if outcome is not None:
                return outcome
        if changes := rejoins(view, observed, self.cluster) or repins(view, observed, self.cluster):
            record(self.lease, changes)
            return None
        record_placement_result(view, observed, self.lease)
        check = record_domain_health(view, observed, self.lease, self.cluster)
        self.domain = check.health
        record_node_health(view, observed, self.lease)
        name_ended_peers(view, observed, self.cluster)
        report_ready(view, self.lease, self.cluster)
        woken = None if silent else wake_preemptor(view, self.lease, self.cluster)
        edits = self._edit(view, observed, silent=silent)
        if edits is None or isinstance(edits, Retry | Failed):
            return edits
        times = (
            assessment.recheck,
            check.look_again,
            record_progress(view, self.lease),
            *edits,
            woken,
            next_missing_check(view),
            next_deadline(view),
        )
        return _next_reconcile(view, times, SILENT_SECONDS if silent else SAFETY_SECONDS)

    def _observe(self, view: GroupView, *, silent: bool) -> tuple[ObservedPods, Assessment]:
        """The pods as the rows say, from the cluster where these do not suffice, and what they lead to."""
        observed = with_busy_nodes(view, observations.observed_pods(view))
        assessment = self._assess(view, observed)
        if silent or (assessment.unobserved and _overdue(view)):
            observed = self._live_pods(view, observed, silent=silent)
            assessment = self._assess(view, observed)
        with_loss = with_room(view, observed, cluster=self.cluster)
        if with_loss is observed:
            return observed, assessment
        return with_loss, self._assess(view, with_loss)

    def _edit(
        self, view: GroupView, observed: ObservedPods, *, silent: bool
    ) -> tuple[datetime | None, ...] | Retry | Failed | None:
        """Edit the pod group where needed; returns when to reconcile again, None if the rows moved."""
        lease, cluster = self.lease, self.cluster
        for advance in (advance_pins, advance_order):
            step = advance(view, observed, lease=lease, cluster=cluster)
            if step.failure is not None:
                return step.failure
            if step.moved or step.unfinished:  # no other edit before its objects are of one form
                return None if step.moved else (view.now + RECHECK_AFTER,)
        progress = advance_patience(view, observed, silent=silent, lease=lease, cluster=cluster)
        if progress.moved:
            return None
        at = resize(view, observed, silent=silent, lease=lease, cluster=cluster)
        return delete_kept_pods(view, lease, cluster, self.archive) or (progress.at, at)

    def _assess(self, view: GroupView, observed: ObservedPods) -> Assessment:
        return follow(
            view,
            observed,
            editable=lambda: rejoins_pod_group(view),
            history=lambda: history_of(view.row, now=view.now, tasks=view.live),
            placed=lambda: self._placed_pods(view),
        )

    def _placed_pods(self, view: GroupView) -> set[str]:
        """The pods that have nodes in the cluster now."""
        pods = GroupReader(self.cluster, view.uuid, view.placement).pods()
        return {pod.name for pod in pods.values() if pod.node}

    def _live_pods(self, view: GroupView, observed: ObservedPods, *, silent: bool) -> ObservedPods:
        """The pods in the cluster now, read because the observer has not reported all of them."""
        live = GroupReader(self.cluster, view.uuid, view.placement).pod_observations()
        missing = {name: replace(pod, absent=True) for name, pod in observed.pods.items() if name not in live}
        return ObservedPods(
            pods={**missing, **live},
            gone_at=observed.gone_at,
            complete=True,
            observer_silent=silent,
            heartbeat_at=view.heartbeat_at,
            nodes_gone=observed.nodes_gone,
            evictions=observations.evictions(view),
            exit_actions=observations.exit_actions_of_live_tasks(view),
            uncounted_tries=observations.uncounted_tries_of_live_tasks(view),
            nodes={} if silent else observed.nodes,  # of a silent observer they are old, too
            lost_after=observed.lost_after,
            room_lost=None if silent else observed.room_lost,
            busy={} if silent else observed.busy,
        )

    def _reason(self, view: GroupView, trouble: Retry | None) -> Reason | None:
        reason_of = partial(
            waiting.reason_of,
            view,
            status=view.status,
            observed=self.observed,
            trouble=trouble,
            template=self.claim_template,
            node_wait=self.node_wait,
            paused=self.paused,
            unchosen=self.unchosen,
            silence=self.silence,
            quota_wait=self.quota_wait,
            held_back=self.held_back,
            domain=self.domain,
        )
        reason = reason_of()
        may_hide = reason is not None and reason.why in _HIDES_BINDING
        if may_hide and (failures := silent_failures(view, self.cluster)):
            return reason_of(bind_failures=failures)
        return reason

    def _explain(self, trouble: Retry | None) -> None:
        """Record why the group waits, if the reason has changed."""
        view = self.view
        if view is None or self.is_explained:
            return
        status, reason = view.status, self._reason(view, trouble)
        recorded = (view.row.waiting_why, view.row.waiting_reason, view.row.waiting_evidence)
        current = reason.columns if reason else ("", "", {})
        if status not in TERMINAL and recorded != current:
            record(self.lease, [NewWaitingReason(reason)])
            if texts := current[2].get("unrecognised"):
                UNRECOGNISED_REASONS.labels(view.placement.terms.scheduler_type).inc(len(texts))
        elif status in TERMINAL and trouble is not None:
            message = trouble.trouble
            not_released = Condition(type="Released", status="False", reason="Retrying", message=message)
            record(self.lease, [not_released])
            if waited_for(view) >= STUCK_AFTER:
                record(self.lease, stuck_changes("Retrying", message))


def _count_attempts(view: GroupView, changes: Iterable[Change]) -> None:
    for attempt in (change for change in changes if isinstance(change, NewAttempt)):
        ATTEMPTS_ENDED.labels(view.placement.terms.backend, attempt.loss).inc()


def _live_tries(view: GroupView) -> list[int]:
    return [task.pk for task in view.live]


def _is_between_attempts(view: GroupView) -> bool:
    """Whether nothing of the present attempt may be created yet."""
    begins_at = view.row.attempt_not_before
    return view.row.clearing or (begins_at is not None and view.now < begins_at)


def _changes_tries(changes: Iterable[Change]) -> bool:
    """Whether the turn must start anew: a new try has another pod."""
    return any(isinstance(change, NewTry | NewAttempt | NewMembership) for change in changes)


def _unreachable(view: GroupView, lease: Lease) -> Retry | None:
    """Spare the workers the timeouts of a cluster that is known not to answer.

    Every fourth failure tries the cluster all the same: the probe notifies the groups once it answers, but
    they do not depend on that.
    """
    down = conditions.status_of(view.backend.conditions, "Reachable") == "False"
    if not down or lease.failures % TRY_EVERY == 0:
        return None
    return Retry(trouble="The cluster does not answer.", unreachable=True)


def _overdue(view: GroupView) -> bool:
    """Whether the observer should have reported all pods by now."""
    created_at = view.row.created_in_cluster_at or view.now
    starts = (t.scheduling_start_time for t in view.tasks if t.scheduling_start_time)
    return view.now - max(starts, default=created_at) > UNSEEN_GRACE


def _next_reconcile(view: GroupView, times: Iterable[datetime | None], safety: float) -> Outcome:
    soonest = min(((time - view.now).total_seconds() for time in times if time is not None), default=safety)
    return RequeueAfter(seconds=min(max(soonest, 0.2), safety))
