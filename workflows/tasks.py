"""The messages of workflows, and the sweeps that make lost ones harmless.

A message is a notification and the row is the truth. Cluster calls block worker threads (``-P threads``), so
a run is bounded by its lease's deadline, not by a time limit, and a cluster's share of the threads by its
concurrency limit (``cluster.concurrency``).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import closing
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import structlog
from celery import Task, shared_task
from django.db import connection
from django.db.models import F, Q
from django.db.models.functions import Now

from cluster import concurrency, reachability
from cluster.connection import Access
from cluster.errors import ClusterError
from cluster.fair_queue import Owner
from pools.clusters.connect import access_of, cluster_for
from pools.models import Backend
from pools.services import evaluation
from web.env import environment
from web.operation.periodic import Periodic
from workflows import metrics
from workflows.feasibility.placement import measured_fragmentation
from workflows.logs.archive import HOLD_SECONDS, keep_before_delete, keep_ended
from workflows.logs.sweep import backends_due, claim, keep_within_bounds, settle_released
from workflows.metrics import RECONCILES_IDLE, RECONCILES_SKIPPED
from workflows.news import outbox, sending
from workflows.reconcile import batches, run
from workflows.reconcile.end import orphans
from workflows.services import (
    disagreements,
    follow_up,
    heartbeat,
    levels,
    notify,
    orders,
    overdue_news,
    queue,
    record,
    retention,
    sweep,
)
from workflows.services.lease import take_lease
from workflows.sessions.open_lines import complete_orphans

AFTERMATH = timedelta(minutes=10)  # how long a cleaned backend's cluster is swept for orphans
TURN_SECONDS = 30.0  # how long one message may go on with other groups of its cluster
ORPHAN_SECONDS = 300.0  # for all calls of one sweep for orphans
REFILL_SECONDS = 0.5

log = structlog.get_logger(__name__)

_advancing: set[UUID] = set()
_advancing_guard = threading.Lock()
_refilling = threading.Lock()
_refilled_at = float("-inf")


@shared_task(bind=True, acks_late=True, name="workflows.tasks.reconcile_task_group", ignore_result=True)
def reconcile_task_group(self: Task, group_id: str) -> None:
    """Bring the objects of one task group in its cluster in line with its row, then those of further groups.

    A late, lost or doubled delivery is harmless: the lease is taken only of a group that is due, and
    ``sweep_due_groups`` finds it again from ``next_reconcile_at``.
    """
    headers = self.request.headers or {}
    reconcile_groups([group_id, *headers.get(notify.FURTHER, ())])


def reconcile_groups(groups: Sequence[str]) -> None:
    """Reconcile those of these groups of one backend that are due and that nobody has a lease of.

    First workflows move on whose groups need no cluster for that, which takes no slot of one.
    """
    due = _due(groups)
    RECONCILES_SKIPPED.labels("not_due").inc(len(groups) - len(due))
    batched = {entry.workflow: entry.backend for entry in due.values() if entry.is_batched}
    started = {
        group
        for workflow, backend in batched.items()
        for group in _advance(workflow, backend=backend, groups=due)
    }
    work = {group: entry for group, entry in due.items() if not entry.is_batched or group in started}
    if not work:
        return
    access = next(iter(work.values())).access
    slot = concurrency.WORK.enter(access, {group: entry.owner for group, entry in work.items()})
    if slot is None:
        RECONCILES_SKIPPED.labels("no_seat").inc(len(work))
        return
    try:
        _MessageTurn(slot, work).run()
    finally:
        slot.leave()
    _refill()


def _advance(workflow: UUID, *, backend: int, groups: Container[str]) -> frozenset[str]:
    """Move the batched groups of a workflow, unless a thread of this process does; returns which started.

    Messages are sent for groups that started, but for those that the caller goes on with.
    """
    with _advancing_guard:
        if workflow in _advancing:
            return frozenset()
        _advancing.add(workflow)
    started: list[UUID] = []
    until = time.monotonic() + TURN_SECONDS
    try:
        is_full = True
        while is_full and time.monotonic() < until:
            with metrics.reconcile() as ending:
                step = batches.advance(workflow)
                ending.outcome = "together"
            started += step.started
            is_full = step.is_full
    finally:
        with _advancing_guard:
            _advancing.discard(workflow)
    notify.notify_on_commit([(group, backend) for group in started if str(group) not in groups])
    return frozenset(map(str, started))


class _MessageTurn:
    """The work of a thread on one message: its groups, then others of its cluster that wait for a slot.

    At last come groups that were notified during their reconciliation: a message for each would cost more
    than to go on. Those that are left when the time is up, or when the cluster falls silent, are found by the
    sweep.
    """

    def __init__(self, slot: concurrency.ClusterSlot[str], groups: Iterable[str]) -> None:
        self._slot = slot
        self._groups, self._again = deque(groups), deque[str]()

    def run(self) -> None:
        until = time.monotonic() + TURN_SECONDS
        following: str | None = self._groups.popleft()
        while following is not None:
            _reconcile(UUID(following), again=self._again.append)
            following = self._next() if time.monotonic() < until else None

    def _next(self) -> str | None:
        if reachability.is_silent(self._slot.access):
            return self._slot.next()  # which drops them
        if self._groups:
            return self._groups.popleft()
        return self._slot.next() or (self._again.popleft() if self._again else None)


class _DueGroup(NamedTuple):
    """A group that is due and without a lease: where its cluster is reached, and whose it is."""

    access: Access
    workflow: UUID
    backend: int
    owner: Owner
    is_batched: bool


_DUE = f"""
    SELECT g.uuid, b.kubeconfig, b.context, w.uuid, b.id, w.pool_name, w.submitted_by,
           ({record.BATCHED}) IS TRUE
      FROM workflows_taskgroup AS g JOIN pools_backend AS b ON b.id = g.backend_id
      JOIN workflows_workflow AS w ON w.uuid = g.workflow_id
     WHERE g.uuid = ANY(%s::uuid[]) AND g.released_at IS NULL AND {record.IS_DUE}
"""  # noqa: S608 -- constants


def _due(groups: Sequence[str]) -> dict[str, _DueGroup]:
    """Those of the groups that are due and without a lease, in their order."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, [list(groups)])
        due = {
            str(group): _DueGroup(
                Access(kubeconfig, context), workflow, backend, (pool, user, workflow.hex), is_batched
            )
            for group, kubeconfig, context, workflow, backend, pool, user, is_batched in cursor.fetchall()
        }
    return {group: due[group] for group in groups if group in due}


def _reconcile(group_id: UUID, *, again: Callable[[str], None]) -> None:
    lease = take_lease(group_id)
    if lease is None:
        RECONCILES_SKIPPED.labels("not_due").inc()
        return
    structlog.contextvars.bind_contextvars(**lease.names)
    with metrics.reconcile() as ending:
        outcome = run.run(
            lease,
            cluster=cluster_for(lease.backend),
            archive=keep_before_delete,
            again=lambda lease: again(str(lease.group_id)),
        )
        ending.outcome = outcome.label if outcome else "lease_lost"
    if not lease.acts:
        RECONCILES_IDLE.inc()


@shared_task(base=Periodic, name="workflows.tasks.sweep_due_groups", ignore_result=True)
def sweep_due_groups() -> None:
    """Notify workers of the groups that are due, unless the queue is full."""
    _notify_due()
    sweep.note_sweep()
    if heartbeat.end_leases_of_the_dead():
        _notify_due()


def _notify_due() -> None:
    """Send messages for groups that are due, but for none that waits in this process for a slot."""
    if room := queue.room(of_many=True):
        waiting = concurrency.WORK.waiting()
        due = sweep.due_groups(limit=room + len(waiting))
        free = ((group, backend) for group, backend in due.items() if str(group) not in waiting)
        notify.notify_on_commit(free, most=room)


def _refill() -> None:
    """Enqueue more groups that are due when the queue runs low, so that no worker is idle.

    One thread of a process at a time, and not often: the query reads every group that is due.
    """
    global _refilled_at  # noqa: PLW0603 -- one clock for all threads of the process
    if time.monotonic() - _refilled_at < REFILL_SECONDS or not _refilling.acquire(blocking=False):
        return
    try:
        _refilled_at = time.monotonic()
        if queue.waiting() <= queue.LOW:
            _notify_due()
    finally:
        _refilling.release()


@shared_task(base=Periodic, name="workflows.tasks.sweep_conclusions", ignore_result=True)
def sweep_conclusions() -> None:
    """Draw what follows from groups that moved, where a process died before it did."""
    follow_up.conclude_left()


@shared_task(base=Periodic, name="workflows.tasks.sweep_conditions", ignore_result=True)
def sweep_conditions() -> None:
    """Enqueue an evaluation of each cluster of which something changed, or that had none for long."""
    for uid in evaluation.clusters_due():
        evaluate_cluster.delay(uid)


@shared_task(base=Periodic, name="workflows.tasks.evaluate_cluster", ignore_result=True)
def evaluate_cluster(uid: str) -> None:
    """Bring the conditions of one cluster's pools and groups in line with its observed objects.

    Of several messages that waited, the first does the work of all.
    """
    if uid in evaluation.clusters_due():
        levels.evaluate(uid)


@shared_task(base=Periodic, name="workflows.tasks.measure_fragmentation", ignore_result=True)
def measure_fragmentation() -> None:
    """Enqueue a measurement of the pools of each cluster."""
    for uid in measured_fragmentation.clusters_measured():
        measure_cluster.delay(uid)


@shared_task(base=Periodic, name="workflows.tasks.measure_cluster", ignore_result=True)
def measure_cluster(uid: str) -> None:
    """Record how the free nodes of one cluster's pools are spread."""
    measured_fragmentation.measure(uid)


@shared_task(base=Periodic, name="workflows.tasks.seek_orders", ignore_result=True)
def seek_orders() -> None:
    """Enqueue a search of orders for the waiting gangs of each cluster that has some."""
    for uid in orders.clusters_waiting():
        seek_cluster_orders.delay(uid)


@shared_task(base=Periodic, name="workflows.tasks.seek_cluster_orders", ignore_result=True)
def seek_cluster_orders(uid: str) -> None:
    """Propose an order to waiting gangs of one cluster that are placed only in that order."""
    orders.propose(uid, seconds=environment().order_search_seconds * seek_cluster_orders.every / 60)


@shared_task(base=Periodic, name="workflows.tasks.judge_schedulers", ignore_result=True)
def judge_schedulers() -> None:
    """Enqueue a look at the waiting gangs of each cluster that has some."""
    for uid in disagreements.clusters_judged():
        judge_scheduler.delay(uid)


@shared_task(base=Periodic, name="workflows.tasks.judge_scheduler", ignore_result=True)
def judge_scheduler(uid: str) -> None:
    """Find the gangs of one cluster that fit and that its schedulers leave waiting."""
    disagreements.judge(uid)


def _swept() -> Q:
    """Backends through which orphans are swept: a create may arrive after a backend was cleaned."""
    return Q(cleaned_at=None) | Q(cleaned_at__gt=Now() - AFTERMATH)


@shared_task(base=Periodic, name="workflows.tasks.sweep_orphans", ignore_result=True)
def sweep_orphans() -> None:
    """Enqueue a sweep of each cluster for objects with our labels that no group desires."""
    clusters = Backend.objects.filter(_swept(), cluster__isnull=False).order_by("cluster_id")
    for uid in clusters.values_list("cluster_id", flat=True).distinct():
        sweep_cluster_orphans.delay(uid)


@shared_task(base=Periodic, name="workflows.tasks.sweep_cluster_orphans", ignore_result=True)
def sweep_cluster_orphans(uid: str) -> None:
    """Sweep one cluster, through the first of its backends that leads there."""
    for backend in Backend.objects.filter(_swept(), cluster_id=uid).order_by(
        F("cleaned_at").asc(nulls_first=True), "pk"
    ):
        with concurrency.WORK.slot(access_of(backend)) as free:
            if not free:
                continue
            try:
                cluster = cluster_for(backend, seconds=ORPHAN_SECONDS)
                if cluster.kube_system_uid() == uid:
                    orphans.sweep(cluster, uid=uid, namespaces=orphans.namespaces_of(uid))
                    return
            except ClusterError as error:
                log.warning("orphans_not_swept", backend=backend.name, error=str(error))


@shared_task(base=Periodic, name="workflows.tasks.sweep_sessions", ignore_result=True)
def sweep_sessions() -> None:
    """Complete the record of sessions in tasks whose web process was killed."""
    if completed := complete_orphans():
        log.warning("sessions_without_end", count=completed)


@shared_task(base=Periodic, name="workflows.tasks.purge_observations", ignore_result=True)
def purge_observations() -> None:
    """Delete observations of groups that were released long ago."""
    sweep.purge_observations()


@shared_task(base=Periodic, name="workflows.tasks.purge_old_rows", ignore_result=True)
def purge_old_rows() -> None:
    """Remove ended workflows that are older than they are kept, and rows that mean nothing any more."""
    retention.remove_old()


@shared_task(base=Periodic, name="workflows.tasks.purge_revisions", ignore_result=True)
def purge_revisions() -> None:
    """Remove replaced revisions of configuration that are older than they are kept."""
    retention.remove_revisions()


@shared_task(base=Periodic, name="workflows.tasks.sweep_news", ignore_result=True)
def sweep_news() -> None:
    """Send news that is due, a batch after the other for as long as there is more."""
    until = time.monotonic() + TURN_SECONDS
    while time.monotonic() < until and (items := outbox.take_due()):
        with closing(sending.send(items)) as ends:
            for item, problem in ends:
                outbox.settle(item, problem)


@shared_task(base=Periodic, name="workflows.tasks.seek_news", ignore_result=True)
def seek_news() -> None:
    """Record news that no event brings."""
    overdue_news.announce_waits()
    overdue_news.announce_nevers()


@shared_task(base=Periodic, name="workflows.tasks.sweep_logs", ignore_result=True)
def sweep_logs() -> None:
    """Enqueue keeping the logs of pods that ended while their groups go on."""
    settle_released()
    for backend_id in backends_due():
        sweep_backend_logs.delay(backend_id)


@shared_task(base=Periodic, name="workflows.tasks.sweep_backend_logs", ignore_result=True)
def sweep_backend_logs(backend_id: int) -> None:
    """Keep such logs of one backend, some at a time; the next sweep claims the others."""
    backend = Backend.objects.filter(pk=backend_id).first()
    if backend is None:
        return
    with concurrency.WORK.slot(access_of(backend)) as free:
        if free and (claimed := claim(backend_id)):
            keep_ended(claimed, cluster=cluster_for(backend, seconds=HOLD_SECONDS), seconds=HOLD_SECONDS)


@shared_task(base=Periodic, name="workflows.tasks.purge_logs", ignore_result=True)
def purge_logs() -> None:
    """Keep the store of logs within its bounds."""
    keep_within_bounds()
