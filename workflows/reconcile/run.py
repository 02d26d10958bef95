"""One look at one task group: observe, plan, apply, record; then give it back.

A look has no memory but the rows: it may end between any two calls, and the next one, by any worker, goes
on from what it finds. Statuses are settled first and need no cluster; then the cluster is brought in line
with them, whatever they are. A short look may take several turns, so a group without anything to wait for
is made in one message.
"""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from cluster.errors import ClusterError
from cluster.interface import ClusterApi
from pools import conditions
from pools.conditions import Condition
from scheduling.errors import TopologyError
from web.crashpoints import reached
from workflows.lifecycle.pod_status import UPSTREAM_CODE
from workflows.lifecycle.statuses import TERMINAL, TaskStatus
from workflows.reconcile import observations, waiting
from workflows.reconcile.apply import NameTaken, retry_for
from workflows.reconcile.create import Created, TemplateWait, create, edits_pod_groups, made
from workflows.reconcile.edit import advance_patience, resize
from workflows.reconcile.follow import (
    UNSEEN_GRACE,
    Assessment,
    ObservedPods,
    end_all,
    follow,
    next_deadline,
    timed_out,
)
from workflows.reconcile.group_reader import GroupReader
from workflows.reconcile.group_view import GroupView, load
from workflows.reconcile.leased import LeasedCluster
from workflows.reconcile.outcomes import Failed, Outcome, RequeueAfter, Retry, backoff
from workflows.reconcile.placing_outcome import record_placing_outcome
from workflows.reconcile.recreate import next_missing_check, recreate_missing
from workflows.reconcile.teardown import STUCK_AFTER, stuck_changes, take_down, waited_for
from workflows.services.lease import Lease, LeaseLost, release
from workflows.services.notify import notify_on_commit
from workflows.services.record import Changes, TaskMove, record

TURNS = 6
SAFETY_SECONDS = 120.0  # a running group is looked at this often even without news
WAITING_SECONDS = 300.0  # who ends a group makes those below it due in the same transaction
TEMPLATE_SECONDS = 2.0
SILENT_SECONDS = 10.0  # the same while no observer is at work
PATIENCE = 4

log = structlog.get_logger(__name__)


def run(lease: Lease, *, cluster: ClusterApi, clock: Callable[[], float] = time.monotonic) -> Outcome | None:
    """Look at the group whose lease this is, and release it. None if the lease was lost on the way."""
    lease.clock = clock
    reached("between-lease-and-first-call")
    try:
        outcome = Reconciliation(lease, LeasedCluster(cluster, lease)).all()
        reached("before-lease-given-back")
        _release(lease, outcome)
    except LeaseLost as error:
        log.warning("lease_lost", group=str(lease.group_id), error=str(error))
        return None
    return outcome


def _release(lease: Lease, outcome: Outcome) -> None:
    if isinstance(outcome, Retry):
        failures = lease.failures + 1
        pause = backoff(outcome, failures=failures, spread=random.random())  # noqa: S311 -- sets groups apart
        log.warning("reconcile_retry", group=str(lease.group_id), trouble=outcome.trouble, seconds=pause)
        due = release(lease, failures=failures, seconds=pause)
    elif isinstance(outcome, RequeueAfter):
        due = release(lease, failures=0, seconds=outcome.seconds, at=outcome.at)
    else:
        due = release(lease, failures=0)
    if due:
        notify_on_commit([lease.group_id])


@dataclass(slots=True)
class Reconciliation:
    """The turns of one look. Each turn reads the rows anew and says whether another one follows."""

    lease: Lease
    cluster: LeasedCluster
    view: GroupView | None = None
    observed: ObservedPods | None = None
    template: str = ""

    def all(self) -> Outcome:
        outcome = self._turns()
        if isinstance(outcome, Failed):
            view = load(self.lease)
            record(self.lease, end_all(view, status=outcome.status, message=outcome.message))
            outcome = self._turns()
        self._explain(outcome if isinstance(outcome, Retry) else None)
        return outcome

    def _turns(self) -> Outcome:
        for _ in range(TURNS):
            try:
                outcome = self._turn()
            except ClusterError as error:
                return retry_for(error)
            except (NameTaken, ValueError, TopologyError) as error:
                # ValueError: a placement of another release; both need somebody's deed
                return Retry(trouble=str(error), slow=True)
            if outcome is not None:
                return outcome
        return RequeueAfter(seconds=0.0)

    def _turn(self) -> Outcome | None:
        """Do the next thing; None when the rows have moved and should be read again."""
        self.view = view = load(self.lease)
        self.observed, self.template = None, ""
        if not view.ended and (settled := self._settle(view)) is not None:
            record(self.lease, settled)
            return None
        if not view.ended and view.row.status == TaskStatus.WAITING:
            return RequeueAfter(seconds=WAITING_SECONDS)
        if (view.row.touched_cluster or not view.ended) and (away := _unreachable(view, self.lease)):
            return away
        return take_down(view, self.lease, self.cluster) if view.ended else self._go_on(view)

    def _go_on(self, view: GroupView) -> Outcome | None:
        """Follow what was made, and make what is missing: a retry must not keep its peers unheard."""
        followed = self._follow(view) if view.row.created_in_cluster_at else None
        if view.row.created_in_cluster_at and followed is None:
            return None
        if any(task.status == TaskStatus.PROCESSING for task in view.tasks):
            return self._create(view)
        return followed

    def _settle(self, view: GroupView) -> Changes | None:
        """What the rows alone decide: a stop, the time being up, upstream groups."""
        row = view.row
        if row.stop_status:
            return end_all(view, status=TaskStatus(row.stop_status), message=row.stop_message)
        if up := timed_out(view):
            return end_all(view, status=up[0], message=up[1])
        if row.status in (TaskStatus.SUBMITTING, TaskStatus.WAITING):
            return _started(view)
        return None

    def _create(self, view: GroupView) -> Outcome | None:
        outcome = create(view, self.lease, self.cluster)
        if isinstance(outcome, Created):
            reached("before-created-recorded")
            record(self.lease, made(view, outcome.tasks))
            return None
        if isinstance(outcome, TemplateWait):
            self.template = outcome.name
            return RequeueAfter(seconds=TEMPLATE_SECONDS)
        return outcome

    def _follow(self, view: GroupView) -> Outcome | None:
        observed = observations.observed_pods(view)
        assessment = self._assess(view, observed)
        silent = observations.observer_is_silent(view)
        if silent or (assessment.unseen and _overdue(view)):
            observed = self._live_pods(view, observed, heard=not silent)
            assessment = self._assess(view, observed)
        self.observed = observed
        if assessment.changes.tasks or assessment.changes.group:
            record(self.lease, assessment.changes)
        if assessment.changes.tries or assessment.changes.group or _ends_some(assessment.changes):
            return None  # the rows have moved: timers and what to do next follow from them
        if (
            not silent
            and (outcome := recreate_missing(view, observed, assessment.lost, self.lease, self.cluster))
            is not None
        ):
            return outcome
        record_placing_outcome(view, observed, self.lease)
        progress = advance_patience(view, observed, silent=silent, lease=self.lease, cluster=self.cluster)
        if progress.moved:
            return None
        resized_at = resize(view, observed, silent=silent, lease=self.lease, cluster=self.cluster)
        times = (assessment.recheck, progress.at, resized_at, next_missing_check(view), next_deadline(view))
        return _next_reconcile(view, times, SILENT_SECONDS if silent else SAFETY_SECONDS)

    def _assess(self, view: GroupView, observed: ObservedPods) -> Assessment:
        return follow(view, observed, editable=lambda: edits_pod_groups(view))

    def _live_pods(self, view: GroupView, observed: ObservedPods, *, heard: bool) -> ObservedPods:
        """Pods as they are in the cluster now, where the observer has not seen all of them."""
        found = GroupReader(self.cluster, view.uuid, view.placement).pod_observations()
        gone = {name: replace(pod, gone=True) for name, pod in observed.pods.items() if name not in found}
        return ObservedPods(
            pods={**gone, **found},
            gone_at=observed.gone_at,
            complete=True,
            heard=heard,
            nodes_gone=observed.nodes_gone,
            evictions=observations.evictions(view),
            exit_actions=observations.exit_actions_of_live_tasks(view),
        )

    def _explain(self, trouble: Retry | None) -> None:
        """Keep in the row why the group waits, if that is news."""
        view = self.view
        if view is None:
            return
        status = view.row.status
        reason = waiting.reason_of(
            view, status=status, observed=self.observed, trouble=trouble, template=self.template
        )
        known = (view.row.waiting_why, view.row.waiting_reason, view.row.waiting_evidence)
        told = (reason.why, reason.text, reason.evidence) if reason else ("", "", {})
        if status not in TERMINAL and known != told:
            record(self.lease, Changes(waiting=reason, told=True))
        elif status in TERMINAL and trouble is not None:
            message = trouble.trouble
            late = Condition(type="Released", status="False", reason="Retrying", message=message)
            record(self.lease, Changes(conditions=(late,)))
            if waited_for(view) >= STUCK_AFTER:
                record(self.lease, stuck_changes("Retrying", message))


def _ends_some(changes: Changes) -> bool:
    """Whether fewer tasks live than before: the gang's minimum must follow in this very look."""
    return any(move.status in TERMINAL for move in changes.tasks)


def _started(view: GroupView) -> Changes | None:
    """Whether the upstream groups let it start, end it, or keep it waiting."""
    statuses = dict(view.row.upstream.values_list("name", "status"))
    ended_badly = sorted(
        name for name, status in statuses.items() if status in TERMINAL and status != TaskStatus.COMPLETED
    )
    if ended_badly:
        message = f'It needs group "{ended_badly[0]}", which ended as {statuses[ended_badly[0]]}.'
        return end_all(view, status=TaskStatus.FAILED_UPSTREAM, message=message, code=UPSTREAM_CODE)
    if all(status == TaskStatus.COMPLETED for status in statuses.values()):
        status = TaskStatus.PROCESSING
    elif view.row.status == TaskStatus.SUBMITTING:
        status = TaskStatus.WAITING
    else:
        return None
    live = [task for task in view.tasks if task.live]
    return Changes(tasks=[TaskMove(pk=t.pk, status=str(status)) for t in live], group=str(status))


def _unreachable(view: GroupView, lease: Lease) -> Retry | None:
    """Spare the workers the timeouts of a cluster that is known not to answer.

    Only after a failure of our own, and not each time: who probes the cluster notifies its groups once it is
    back, but must not be depended on.
    """
    down = conditions.status_of(view.backend.conditions, "Reachable") == "False"
    if not down or lease.failures % PATIENCE == 0:
        return None
    return Retry(trouble="The cluster does not answer.", unreachable=True)


def _overdue(view: GroupView) -> bool:
    """Whether pods that nobody has seen should have been seen by now."""
    made_at = view.row.created_in_cluster_at or view.now
    latest = max((t.scheduling_since for t in view.tasks if t.scheduling_since), default=made_at)
    return view.now - latest > UNSEEN_GRACE


def _next_reconcile(view: GroupView, times: Iterable[datetime | None], safety: float) -> Outcome:
    soonest = min(((time - view.now).total_seconds() for time in times if time is not None), default=safety)
    return RequeueAfter(seconds=min(max(soonest, 0.2), safety))
