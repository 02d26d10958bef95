"""A database of a service that has run for years: rows of ended workflows, made by PostgreSQL itself.

One workflow in a thousand is live, and each of those waits in its cluster. The others ended over the last 400
days and were released. Each workflow has one task group with one task, its events, and a frozen placement of
usual size; the logs of a month are kept.

Indexes are left out while rows are written and built afterwards, each from all of its rows at once.
"""

from typing import Any

import psycopg

POOLS, USERS, BASES = 10, 200, 1000
LIVE_EVERY = 1000
DAYS = 400

_CONFIGURATION = """
    INSERT INTO pools_cluster (uid) VALUES ('aged');
    INSERT INTO pools_backend (name, description, enabled, kubeconfig, context, namespace, scheduler_type,
        scheduler_name, scheduler_timeout, dashboard_url, grafana_url, router_address, tests, node_conditions,
        revision, created_at, cluster_id, kubernetes_version, scheduler_version, card, conditions)
    VALUES ('aged', '', true, '', '', 'osmo', 'kai', 'kai-scheduler', 30, '', '', '', '[]', '{{}}', 1, now(),
        'aged', '', '', '{{}}', '[]');
    INSERT INTO pools_configrevision (config_type, revision, name, username, created_at, description,
        tags, content, deleted_by)
    SELECT 'POOL', n, 'pool-' || n %% {pools}, 'root',
           now() - make_interval(days => 400) + n * interval '1 h', '', '{{}}', '{{"nvlink": true}}', ''
      FROM generate_series(1, 5000) AS n
        ON CONFLICT DO NOTHING;
"""
_WORKFLOWS = """
    INSERT INTO workflows_workflow (uuid, name, base_name, number, pool_name, backend_id, pool_revision,
        submitted_by, cancelled_by, priority, status, labels, tags, spec, template_spec, warnings,
        task_count, gpu_count, exec_timeout, queue_timeout, submit_time, start_time, end_time, request_id,
        idempotency_digest, reply)
    SELECT md5('w' || n)::uuid, 'train-' || n %% {bases} || '-' || n / {bases} + 1, 'train-' || n %% {bases},
           n / {bases} + 1, 'pool-' || n %% {pools}, (SELECT id FROM pools_backend WHERE name = 'aged'), 1,
           'user-' || n %% {users}, '', 'NORMAL',
           CASE WHEN live THEN 'RUNNING' WHEN n %% 10 = 3 THEN 'FAILED' ELSE 'COMPLETED' END,
           jsonb_build_object('team', 't' || n %% 50, 'run', 'r' || n),
           CASE WHEN n %% 5000 = 1 THEN '["keep"]'::jsonb ELSE '[]' END,
           repeat('- name: worker' || E'\\n', 20) || n, '', '[]', 4, 32, 3600, 3600,
           began, began, CASE WHEN NOT live THEN began + interval '1 hour' END, '', '',
           jsonb_build_object('name', 'train-' || n, 'spec', repeat('x', 200))
      FROM (SELECT n, n %% {every} = 0 AS live,
                   now() - interval '2 hours'
                       - (%(most)s::int - n) * make_interval(days => {days}) / %(most)s::int AS began
              FROM generate_series(%(first)s::int, %(last)s::int) AS n) AS numbers
"""
_GROUPS = """
    INSERT INTO workflows_taskgroup (uuid, workflow_id, backend_id, position, name, status, failure_message,
        barrier, ignore_nonlead_status, placement, constraints, conditions, generation, stop_status,
        stop_message, force, waiting_reason, submit_time, processing_start_time, end_time,
        created_in_cluster_at, touched_cluster, released_at, next_reconcile_at, notifications, failures)
    SELECT md5('g' || n)::uuid, md5('w' || n)::uuid,
           (SELECT id FROM pools_backend WHERE name = 'aged'), 0, 'workers',
           CASE WHEN live THEN 'RUNNING' WHEN n %% 10 = 3 THEN 'FAILED' ELSE 'COMPLETED' END, '', true, true,
           jsonb_build_object('version', 1, 'installation', md5('i')::uuid, 'backend', 'aged',
               'pool', 'pool-' || n %% {pools}, 'pool_revision', 1, 'cluster_uid', 'aged',
               'namespace', 'osmo',
               'scheduler_type', 'kai', 'scheduler_name', 'kai-scheduler', 'workflow_name', 'train-' || n,
               'workflow_uuid', md5('w' || n)::uuid, 'submitted_by', 'user-1', 'priority', 'NORMAL',
               'queue', 'q', 'priority_class', 'p', 'exec_timeout', 3600, 'queue_timeout', 3600,
               'levels', '[{{"key": "zone", "label": "topology.kubernetes.io/zone"}}]'::jsonb,
               'labels', jsonb_build_object('filler', repeat(md5(n::text), 15))),
           '[{{"key": "zone", "label": "topology.kubernetes.io/zone", "type": "required"}}]', '[]', 0, '', '',
           false, '', began, began, CASE WHEN NOT live THEN began + interval '1 hour' END, began, true,
           CASE WHEN NOT live THEN began + interval '61 minutes' END,
           CASE WHEN live THEN now() + interval '1 hour' END, 0, 0
      FROM (SELECT n, n %% {every} = 0 AS live,
                   now() - interval '2 hours'
                       - (%(most)s::int - n) * make_interval(days => {days}) / %(most)s::int AS began
              FROM generate_series(%(first)s::int, %(last)s::int) AS n) AS numbers
"""
_TASKS = """
    INSERT INTO workflows_task (group_id, task_uuid, position, name, retry_id, latest, generation, lead,
        status, spec, pod_name, pod_ip, node_name, failure_message, start_time, end_time, log_state)
    SELECT md5('g' || n)::uuid, md5('t' || n)::uuid, 0, 'worker-0', 0, true, 0, true,
           CASE WHEN n %% {every} = 0 THEN 'RUNNING' WHEN n %% 10 = 3 THEN 'FAILED' ELSE 'COMPLETED' END,
           '{{"image": "nvcr.io/nvidia/pytorch:25.10-py3", "gpu": 4, "cpu": 8, "memory": "64Gi"}}',
           'osmo-' || md5('t' || n), '', 'node-' || n %% 500, '', now(),
           CASE WHEN n %% {every} <> 0 THEN now() END, CASE WHEN n %% {every} = 0 THEN '' ELSE 'kept' END
      FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""
_EVENTS = """
    INSERT INTO workflows_event (workflow_id, group_id, task_name, time, source, warning, reason,
        message, dedupe)
    SELECT md5('w' || n)::uuid, md5('g' || n)::uuid, '', now(), 'osmo-topology', false, reason,
           'Accepted into a pool for somebody, and then it ran to its end.', reason
      FROM generate_series(%(first)s::int, %(last)s::int) AS n,
           LATERAL (SELECT 'Step' || step AS reason FROM generate_series(1, %(events)s::int) AS step) AS steps
"""
_OBSERVED = """
    INSERT INTO workflows_observedpod (cluster_id, namespace, name, uid, group_uuid, phase, node_name,
        pod_ip, deleting, absent, digest, seen_at)
    SELECT 'aged', 'osmo', 'osmo-' || md5('t' || n), md5('p' || n), md5('g' || n)::uuid, 'Running', 'node-1',
           '', false, false, '{{}}', now()
      FROM generate_series({every}, %(most)s::int, {every}) AS n
"""
_LOGS = """
    INSERT INTO workflows_keptlog (name, task_id, size, begun_at, stored_at)
    SELECT 'log-' || id, id, 2000, now(), now() FROM workflows_task WHERE log_state = 'kept' AND id % 13 = 0
        ON CONFLICT DO NOTHING
"""
_STEP = 50_000
_FILLED = ("workflows_workflow", "workflows_taskgroup", "workflows_task", "workflows_event")
_INDEXES = "UPDATE pg_index SET indisready = %s WHERE indrelid::regclass::text = ANY(%s)"


def fill(url: str, *, workflows: int, events: int) -> int:
    """Fill a migrated database with so many events of each workflow; returns its bytes."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # no look-up for each foreign key
        connection.execute("SET maintenance_work_mem = '512MB'")
        connection.execute(_INDEXES, [False, list(_FILLED)])
        insert(connection, workflows=workflows, events=events)
        connection.execute(_INDEXES, [True, list(_FILLED)])
        for name in _FILLED:
            connection.execute(f"REINDEX TABLE {name}")
        connection.execute("VACUUM ANALYZE")
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(row[0]) if row else 0


def insert(connection: psycopg.Connection[Any], *, workflows: int, events: int) -> None:
    """Write the rows."""
    sizes = {"pools": POOLS, "users": USERS, "bases": BASES, "every": LIVE_EVERY, "days": DAYS}
    for statement in _CONFIGURATION.split(";\n")[:-1]:
        connection.execute(statement.format(**sizes).replace("%%", "%"))
    for table in (_WORKFLOWS, _GROUPS, _TASKS, _EVENTS):
        for first in range(1, workflows + 1, _STEP):
            last = min(first + _STEP - 1, workflows)
            parameters = {"first": first, "last": last, "most": workflows, "events": events}
            connection.execute(table.format(**sizes), parameters)
    connection.execute(_LOGS)
    connection.execute(_OBSERVED.format(**sizes), {"most": workflows})
