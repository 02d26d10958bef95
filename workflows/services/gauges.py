"""Gauges that follow from rows, read in one place.

Beat exports these, because there is one beat: each web process would export the same sums again. A scrape
queries the database once in a few seconds at most; while it does not answer, ``osmo_state_up`` is 0 and the
other values are absent rather than old. Every query reads unreleased groups by a partial index, or the few
rows of configuration; of ended groups only the sizes of kept logs are summed, which are bounded.
"""

import threading
import time
from collections.abc import Iterator
from typing import Any

import structlog
from django.db import DatabaseError, connection
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pools.values.completeness import GANGS, is_known
from pools.values.freshness import IS_OLD
from workflows.lifecycle.statuses import TaskStatus
from workflows.services.queue import length

CACHED_SECONDS = 5.0

STATE: dict[str, tuple[str, tuple[str, ...]]] = {
    "osmo_due_groups": ("Task groups that are due and not leased by a worker.", ("backend",)),
    "osmo_due_age_seconds": ("Seconds for which the longest of them has been due.", ("backend",)),
    "osmo_unreleased_groups": (
        "Task groups that may have objects in a cluster, by status.",
        ("backend", "status"),
    ),
    "osmo_release_age_seconds": ("Seconds since the oldest unreleased group ended.", ("backend",)),
    "osmo_release_stuck_groups": ("Task groups with the condition ReleaseStuck.", ("backend",)),
    "osmo_nvlink_not_ready_groups": (
        "Running task groups whose ComputeDomain has a node that is not ready.",
        ("backend",),
    ),
    "osmo_scheduler_disagrees_groups": (
        "Task groups that certainly fit and that their scheduler leaves waiting.",
        ("backend",),
    ),
    "osmo_no_progress_groups": (
        "Task groups whose attempts are in vain again and again, the last one within the hour.",
        ("backend",),
    ),
    "osmo_suspect_nodes": ("Nodes on which groups of several users were lost lately.", ("cluster",)),
    "osmo_waiting_gangs_of_others": (
        "Gangs that others submitted and that wait, where they are followed.",
        ("cluster",),
    ),
    "osmo_backlog_groups": ("Task groups that wait for workers to create them in their cluster.", ("pool",)),
    "osmo_free_nodes": ("Nodes that take work and have no GPU in use.", ("pool",)),
    "osmo_free_slots": (
        "Groups of this many free nodes that fit at once, each in one domain of a key.",
        ("pool", "key", "size"),
    ),
    "osmo_largest_free_group_nodes": (
        "Size of the largest group of free nodes in one domain of a key.",
        ("pool", "key"),
    ),
    "osmo_compute_domains": ("ComputeDomains as last observed, by state.", ("cluster", "state")),
    "osmo_cluster_heartbeat_age_seconds": (
        "Seconds since the observer last heard from a cluster, or since it answered and nobody follows it.",
        ("cluster",),
    ),
    "osmo_backend_reachable": ("1 if the backend's cluster answered the last probe, else 0.", ("backend",)),
    "osmo_backend_writes_allowed": (
        "0 if this database may not write in the backend's cluster, or if that is not known, else 1.",
        ("backend",),
    ),
    "osmo_sweep_age_seconds": ("Seconds since the last sweep.", ()),
    "osmo_configuration_refused": (
        "1 if the configuration file is refused or cannot be read, else 0.",
        (),
    ),
    "osmo_observer_lease": (
        "1 for the observer that follows a cluster; no series while none does.",
        ("cluster", "observer"),
    ),
    "osmo_log_store_bytes": ("Bytes of all kept logs, compressed.", ()),
    "osmo_oldest_ended_workflow_age_seconds": (
        "Seconds since the end of the oldest ended workflow that is kept.",
        (),
    ),
    "osmo_queue_messages": ("Messages that wait for a worker.", ()),
    "osmo_state_up": ("1 if the database answered for these values, else 0.", ()),
}
"""Name, help and labels of every gauge that comes from here."""

_FRAGMENTS = f"""FROM (SELECT f.content, p.name FROM workflows_measuredfragments f
                      JOIN pools_pool p ON p.id = f.pool_id
                      JOIN pools_backend b ON b.id = p.backend_id
                      JOIN pools_cluster c ON c.uid = b.cluster_id
                     WHERE f.measured_at > clock_timestamp() - interval '5 minutes'
                       AND ({IS_OLD}) IS NOT TRUE) AS fragments"""  # noqa: S608 -- a constant

_QUERIES: dict[str, str] = {
    "osmo_due_groups": """
        SELECT count(*), b.name FROM workflows_taskgroup g JOIN pools_backend b ON b.id = g.backend_id
         WHERE g.released_at IS NULL AND g.next_reconcile_at <= clock_timestamp()
           AND (g.lease_until IS NULL OR g.lease_until < clock_timestamp()) GROUP BY b.name""",
    "osmo_due_age_seconds": """
        SELECT extract(epoch FROM clock_timestamp() - min(greatest(g.next_reconcile_at, g.lease_until))),
               b.name
          FROM workflows_taskgroup g JOIN pools_backend b ON b.id = g.backend_id
         WHERE g.released_at IS NULL AND g.next_reconcile_at <= clock_timestamp()
           AND (g.lease_until IS NULL OR g.lease_until < clock_timestamp()) GROUP BY b.name""",
    "osmo_unreleased_groups": """
        SELECT count(*), b.name, g.status
          FROM workflows_taskgroup g JOIN pools_backend b ON b.id = g.backend_id
         WHERE g.released_at IS NULL GROUP BY b.name, g.status""",
    "osmo_release_age_seconds": """
        SELECT extract(epoch FROM clock_timestamp() - min(g.end_time)), b.name
          FROM workflows_taskgroup g JOIN pools_backend b ON b.id = g.backend_id
         WHERE g.released_at IS NULL AND g.end_time IS NOT NULL GROUP BY b.name""",
    "osmo_release_stuck_groups": """
        SELECT count(*), b.name FROM workflows_taskgroup g JOIN pools_backend b ON b.id = g.backend_id
         WHERE g.released_at IS NULL AND g.end_time IS NOT NULL
           AND g.conditions @> '[{"type": "ReleaseStuck", "status": "True"}]' GROUP BY b.name""",
    "osmo_nvlink_not_ready_groups": """
        SELECT count(*), b.name FROM workflows_taskgroup g JOIN pools_backend b ON b.id = g.backend_id
         WHERE g.released_at IS NULL AND g.end_time IS NULL AND g.status = 'RUNNING'
           AND g.conditions @> '[{"type": "NVLinkReady", "status": "False"}]' GROUP BY b.name""",
    "osmo_scheduler_disagrees_groups": """
        SELECT count(*), b.name FROM workflows_taskgroup g JOIN pools_backend b ON b.id = g.backend_id
         WHERE g.released_at IS NULL AND g.end_time IS NULL
           AND g.conditions @> '[{"type": "SchedulerDisagrees", "status": "True"}]' GROUP BY b.name""",
    "osmo_no_progress_groups": """
        SELECT count(*), b.name FROM workflows_taskgroup g JOIN pools_backend b ON b.id = g.backend_id
         WHERE g.released_at IS NULL AND g.end_time IS NULL
           AND g.conditions @> '[{"type": "NoProgress", "status": "True"}]'
           AND (greatest(g.attempt_began_at, g.attempt_not_before) > clock_timestamp() - interval '1 hour'
                OR EXISTS (SELECT 1 FROM workflows_task t
                            WHERE t.group_id = g.uuid AND t.latest AND t.replaced_after <> ''
                              AND t.processing_start_time > clock_timestamp() - interval '1 hour'))
         GROUP BY b.name""",
    "osmo_suspect_nodes": """
        SELECT count(*), cluster_id FROM pools_suspectnode
         WHERE until > clock_timestamp() GROUP BY cluster_id""",
    "osmo_waiting_gangs_of_others": f"""
        SELECT c.gangs_omitted + (SELECT count(*) FROM workflows_observedgang g WHERE g.cluster_id = c.uid),
               c.uid
          FROM pools_cluster c WHERE {is_known(GANGS)}""",  # noqa: S608 -- a constant
    "osmo_backlog_groups": f"""
        SELECT count(*), w.pool_name
          FROM workflows_taskgroup g JOIN workflows_workflow w ON w.uuid = g.workflow_id
         WHERE g.released_at IS NULL AND g.created_in_cluster_at IS NULL
           AND g.status = '{TaskStatus.PROCESSING}' GROUP BY w.pool_name""",  # noqa: S608 -- a constant
    "osmo_free_nodes": f"SELECT (content->>'free')::int, name {_FRAGMENTS}",
    "osmo_free_slots": f"""
        SELECT (slot->>1)::int, name, key->>'key', slot->>0 {_FRAGMENTS},
               jsonb_array_elements(content->'keys') AS key, jsonb_array_elements(key->'slots') AS slot""",
    "osmo_largest_free_group_nodes": f"""
        SELECT (key->>'largest')::int, name, key->>'key'
          {_FRAGMENTS}, jsonb_array_elements(content->'keys') AS key""",
    "osmo_compute_domains": f"""
        SELECT count(*), cluster_id,
               CASE WHEN deleting THEN 'Deleting'
                    ELSE coalesce(digest #>> '{{status,status}}', 'Unknown') END AS state
          FROM workflows_observedobject JOIN pools_cluster c ON c.uid = cluster_id
         WHERE kind = 'ComputeDomain' AND ({IS_OLD}) IS NOT TRUE GROUP BY cluster_id, state""",  # noqa: S608 -- a constant
    "osmo_cluster_heartbeat_age_seconds": """
        SELECT extract(epoch FROM clock_timestamp() - coalesce(c.heartbeat_at, min(b.answered_at))), c.uid
          FROM pools_cluster c
          JOIN (SELECT cluster_id,
                       (jsonb_path_query_first(
                            conditions, '$[*] ? (@.type == "Reachable" && @.status == "True")')
                        ->> 'lastTransitionTime')::timestamp AT TIME ZONE 'UTC' AS answered_at
                  FROM pools_backend WHERE cleaned_at IS NULL) AS b ON b.cluster_id = c.uid
         GROUP BY c.uid HAVING coalesce(c.heartbeat_at, min(b.answered_at)) IS NOT NULL""",
    "osmo_backend_reachable": """
        SELECT (conditions @> '[{"type": "Reachable", "status": "True"}]')::int, name FROM pools_backend
         WHERE deleted_at IS NULL AND conditions @> '[{"type": "Reachable"}]'""",
    "osmo_backend_writes_allowed": """
        SELECT (NOT conditions @> '[{"type": "WritesAllowed", "status": "False"}]'
                AND NOT conditions @> '[{"type": "WritesAllowed", "status": "Unknown"}]')::int, name
          FROM pools_backend WHERE deleted_at IS NULL AND conditions @> '[{"type": "WritesAllowed"}]'""",
    "osmo_sweep_age_seconds": """
        SELECT extract(epoch FROM clock_timestamp() - ran_at) FROM pools_sweeprun""",
    "osmo_configuration_refused": """
        SELECT (declared->'condition'->>'status' <> 'True')::int FROM pools_installation
         WHERE declared->'condition'->>'status' IS NOT NULL""",
    "osmo_observer_lease": """
        SELECT 1, cluster_id, observer FROM pools_clusterlease WHERE until > clock_timestamp()""",
    "osmo_log_store_bytes": "SELECT coalesce(sum(size), 0) FROM workflows_keptlog",
    "osmo_oldest_ended_workflow_age_seconds": """
        WITH RECURSIVE pools AS (
            (SELECT pool_name FROM workflows_workflow WHERE end_time IS NOT NULL ORDER BY pool_name LIMIT 1)
            UNION ALL
            SELECT (SELECT w.pool_name FROM workflows_workflow w
                     WHERE w.end_time IS NOT NULL AND w.pool_name > p.pool_name ORDER BY w.pool_name LIMIT 1)
              FROM pools p WHERE p.pool_name IS NOT NULL)
        SELECT extract(epoch FROM clock_timestamp() - min(ended.first)) FROM pools p
         CROSS JOIN LATERAL (SELECT w.end_time AS first FROM workflows_workflow w
                              WHERE w.pool_name = p.pool_name AND w.end_time IS NOT NULL
                              ORDER BY w.end_time LIMIT 1) AS ended
         HAVING min(ended.first) IS NOT NULL""",
}

_ZERO_PER_BACKEND = (
    "osmo_due_groups",
    "osmo_due_age_seconds",
    "osmo_release_age_seconds",
    "osmo_release_stuck_groups",
)

GaugeRows = dict[str, list[tuple[Any, ...]]]

log = structlog.get_logger(__name__)


class StateCollector(Collector):
    """Reads the rows when scraped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._rows: GaugeRows = {}

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Names without a query, so that registering needs no database."""
        for name, (text, labels) in STATE.items():
            yield GaugeMetricFamily(name, text, labels=labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        rows = self._cached()
        for family in self.describe():
            for value, *labels in rows.get(family.name, ()):
                family.add_metric([str(label) for label in labels], float(value))
            yield family

    def _cached(self) -> GaugeRows:
        with self._lock:
            if time.monotonic() - self._read_at >= CACHED_SECONDS:
                try:
                    self._rows = read()
                finally:
                    connection.close()  # each scrape has a thread of its own: none keeps a connection
                self._read_at = time.monotonic()
            return self._rows


def read() -> GaugeRows:
    """All values now, as (value, label, ...) by name."""
    try:
        rows = _read_database()
    except DatabaseError as error:
        log.warning("state_not_read", error=str(error))
        rows = {"osmo_state_up": [(0,)]}
    waiting = length()
    if waiting is not None:
        rows["osmo_queue_messages"] = [(waiting,)]
    return rows


def _read_database() -> GaugeRows:
    rows: GaugeRows = {"osmo_state_up": [(1,)]}
    with connection.cursor() as cursor:
        for name, query in _QUERIES.items():
            cursor.execute(query)
            rows[name] = cursor.fetchall()
        cursor.execute("SELECT name FROM pools_backend WHERE deleted_at IS NULL")
        backends = [name for (name,) in cursor.fetchall()]
    for name in _ZERO_PER_BACKEND:  # a series that comes and goes cannot be compared with yesterday's
        present = {label for _, label in rows[name]}
        rows[name] += [(0, backend) for backend in backends if backend not in present]
    return rows
