"""Metrics of workflows that processes count where it happens; docs/reference/metrics.md lists them.

``workflows.services.gauges`` reads all values that follow from rows: a count that is kept twice drifts.
Labels are kinds, results and clusters, never names of workflows, groups or users.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import Counter, Gauge, Histogram

from scheduling.errors import Busy, Conflict, InvalidSpec, NotFound, TopologyError
from web.limits.turns import Parked

SUBMISSIONS = Counter(
    "osmo_submissions",
    "Submissions by result: accepted, repeated, checked, refused, not_found, conflict, busy, unavailable.",
    ("result",),
)
RECONCILE_SECONDS = Histogram(
    "osmo_reconcile_seconds",
    "Reconciles of task groups by outcome: done, again, retry, failed, lease_lost, error; together: of up to "
    "200 groups of a workflow that rows alone move.",
    ("outcome",),
    buckets=(0.01, 0.05, 0.2, 1.0, 5.0, 25.0),
)
RECONCILES_SKIPPED = Counter(
    "osmo_reconciles_skipped",
    "Groups of messages that were not reconciled: not_due (or leased), no_seat (concurrency limit).",
    ("reason",),
)
RECONCILES_IDLE = Counter(
    "osmo_reconciles_idle",
    "Reconciles that had nothing to record and nothing to write to the cluster: the group was woken in vain.",
)
PLACED = Counter(
    "osmo_placed_groups",
    "Placed groups with requirements, by strictness (required, preferred) and outcome.",
    ("pool", "asked", "outcome"),
)
COMPOSITES_BROKEN = Counter(
    "osmo_composites_broken",
    "Placements of sets inside sets that broke a required level: the scheduler does not hold them.",
    ("backend",),
)
UNRECOGNISED_REASONS = Counter(
    "osmo_unrecognised_reasons",
    "Texts of schedulers about waiting groups that no pattern knows, whenever a group's reason changes.",
    ("scheduler",),
)
ATTEMPTS_ENDED = Counter(
    "osmo_attempts_ended",
    "Attempts of groups that were followed by another one: preempted, node_lost, failed.",
    ("backend", "cause"),
)
NEWS = Counter(
    "osmo_news", "Tries to send news of workflows, by result: sent, failed, given_up.", ("result",)
)
WAKES = Counter(
    "osmo_scheduler_wakes",
    "Waiting groups at which a scheduler was made to look again: it does not notice that others' pods end.",
    ("backend",),
)
ORDER_SEARCHES = Counter(
    "osmo_order_searches",
    "Waiting gangs for which another order of their sets was sought: proposed, none, and skipped where the "
    "cluster's time for it was used up.",
    ("result",),
)
NOTIFICATIONS_DROPPED = Counter(
    "osmo_notifications_dropped",
    "Groups without a message, left to the sweep: queue_full, broker_away.",
    ("reason",),
)
ORPHANS_FOUND = Counter("osmo_orphans_found", "Deleted objects that no row needed.", ("kind",))
ROWS_REMOVED = Counter(
    "osmo_removed_rows",
    "Rows removed by retention: workflows, groups, tasks, events, observations, revisions, sessions, tokens, "
    "rate_buckets, node_failures, suspects.",
    ("kind",),
)
LOGS = Counter(
    "osmo_logs",
    "Logs of ended pods: kept, unread (unreadable), dropped (bounds of the store), store_failed.",
    ("result",),
)
LOG_BYTES = Counter("osmo_log_stored_bytes", "Bytes written to the log store, compressed.")
LOG_STREAMS = Counter(
    "osmo_log_streams", "Requests for logs of running tasks: served, user_busy, busy.", ("result",)
)
WATCHES = Counter(
    "osmo_watch_streams", "Requests that watch workflows: served, user_busy, busy.", ("result",)
)
SESSIONS = Counter("osmo_task_sessions", "Sessions in tasks: served, busy.", ("result",))
SESSIONS_OPEN = Gauge(
    "osmo_task_sessions_open",
    "Open sessions in tasks, and connections of forwards, by kind: exec, forward, connection.",
    ("kind",),
    multiprocess_mode="livesum",
)
WATCH_EVENTS = Counter("osmo_watch_events", "Events from watches; a list counts as one.", ("cluster", "kind"))
WATCH_RESTARTS = Counter(
    "osmo_watch_restarts",
    "Restarted watches by reason: cut, not_begun, failed.",
    ("cluster", "kind", "reason"),
)
WATCH_LAST_EVENT = Gauge(
    "osmo_watch_last_heard_timestamp_seconds",
    "Unix time of the last event from any watch of the cluster.",
    ("cluster",),
)
INBOX_CHANGES = Gauge("osmo_observer_inbox_changes", "Observed changes not yet written to PostgreSQL.")
QUARANTINED = Counter(
    "osmo_observer_quarantined",
    "Observed objects that could not be read or written and were kept aside.",
    ("cluster", "kind"),
)
BATCH_SECONDS = Histogram(
    "osmo_observer_batch_seconds",
    "Time to write a batch of observed changes, by result: written, refused.",
    ("result",),
    buckets=(0.01, 0.05, 0.2, 1.0, 5.0),
)

_REFUSALS: tuple[tuple[type[TopologyError], str], ...] = (
    (Busy, "busy"),
    (NotFound, "not_found"),
    (Conflict, "conflict"),
    (InvalidSpec, "refused"),
    (TopologyError, "refused"),
)


@dataclass(slots=True)
class Ending:
    """How a measured block ended, set inside the block; an exception leaves it an ``error``."""

    outcome: str = "error"


@contextmanager
def reconcile() -> Iterator[Ending]:
    """Count one reconciliation of a group and its time."""
    began, ending = time.monotonic(), Ending()
    try:
        yield ending
    finally:
        RECONCILE_SECONDS.labels(ending.outcome).observe(time.monotonic() - began)


@contextmanager
def batch() -> Iterator[Ending]:
    """Count one write of the observer and its time."""
    began, ending = time.monotonic(), Ending("refused")
    try:
        yield ending
    finally:
        BATCH_SECONDS.labels(ending.outcome).observe(time.monotonic() - began)


@contextmanager
def submission() -> Iterator[Ending]:
    """Count one submission by its result."""
    ending = Ending()
    try:
        yield ending
    except TopologyError as error:
        ending.outcome = next(result for kind, result in _REFUSALS if isinstance(error, kind))
        raise
    except Parked:  # it comes again
        ending.outcome = ""
        raise
    finally:
        if ending.outcome:
            SUBMISSIONS.labels(ending.outcome).inc()
