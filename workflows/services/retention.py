"""Removing rows that nobody needs any more, in small batches and without long locks.

*Ended workflows* go with their groups, tasks, events and observed rows once they are older than their pool
keeps them: its ``ended_workflow_days``, else ``OSMO_WORKFLOW_DAYS``. One that has not ended, or of which a
group is not released, stays however old it is. A deleted pool's workflows follow the installation.

*Revisions of configuration* go when another one replaced them longer ago than ``OSMO_REVISION_DAYS`` and no
kept workflow was submitted while they were in force. So a revision that a kept workflow names stays, and so
does the newest of each object. *Void rows*, which mean the same as no row, always go: expired sessions and
tokens, buckets of rate limits that are empty again, failures of nodes and suspicions whose time is over; so
does news a week after it was sent or given up, but not before its workflow ended: while that lives, items
are the memory of what was sent.

An idempotency key is a column of its workflow and lives as long, at least a day after the workflow's end.

Every statement is a transaction of at most ``ROWS`` rows or the rest of one batch, waits no longer than
``LOCK_SECONDS`` for a lock, and skips rows that somebody holds. A sweep ends after about ``SWEEP_SECONDS``
and the next one goes on. Events and tasks of a workflow go before its row, so a workflow that is being
removed may show fewer of them for a moment. Whatever ends a sweep, the next one finds the rest.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models.functions import Now

from pools.models import Pool
from web.models import PersonalToken
from workflows.lifecycle.statuses import WORKFLOW_LIVE, WORKFLOW_TERMINAL, quoted
from workflows.metrics import ROWS_REMOVED

SWEEP_SECONDS = 15.0
LOCK_SECONDS = 0.5
WORKFLOWS = 200
ROWS = 5000
NEWS_DAYS = 7
TOKEN_GRACE = timedelta(days=7)

log = structlog.get_logger(__name__)

_ENDED = f"""
    w.status IN ({quoted(sorted(WORKFLOW_TERMINAL))}) AND w.end_time IS NOT NULL
    AND w.end_time < statement_timestamp() - make_interval(secs => %(seconds)s)
    AND NOT EXISTS (SELECT 1 FROM workflows_taskgroup g WHERE g.workflow_id = w.uuid
                     AND (g.released_at IS NULL OR g.released_at > statement_timestamp() - interval '1 hour'))
"""  # noqa: S608 -- constants
_FIRST_POOL = """
    SELECT pool_name FROM workflows_workflow WHERE end_time IS NOT NULL AND pool_name > %(after)s
     ORDER BY pool_name LIMIT 1
"""
_CANDIDATES = f"""
    SELECT w.uuid FROM workflows_workflow w WHERE w.pool_name = %(pool)s AND {_ENDED}
     ORDER BY w.end_time LIMIT {WORKFLOWS} FOR UPDATE OF w SKIP LOCKED
"""  # noqa: S608 -- constants
_LOCKED = f"""
    SELECT w.uuid FROM workflows_workflow w WHERE w.uuid = ANY(%(workflows)s) AND {_ENDED}
       FOR UPDATE SKIP LOCKED
"""  # noqa: S608 -- constants
_GROUPS_OF = "SELECT uuid FROM workflows_taskgroup WHERE workflow_id = ANY(%(workflows)s)"
_SOME_EVENTS = f"""
    DELETE FROM workflows_event WHERE id IN (
        SELECT id FROM workflows_event WHERE workflow_id = ANY(%(workflows)s)
         LIMIT {ROWS} FOR UPDATE SKIP LOCKED)
"""  # noqa: S608 -- constants
_SOME_TASKS = f"""
    WITH chosen AS MATERIALIZED (
        SELECT id FROM workflows_task WHERE group_id = ANY(%(groups)s) LIMIT {ROWS} FOR UPDATE SKIP LOCKED
    ), detached AS (
        UPDATE workflows_keptlog SET task_id = NULL WHERE task_id IN (SELECT id FROM chosen)
    )
    DELETE FROM workflows_task WHERE id IN (SELECT id FROM chosen)
"""  # noqa: S608 -- constants
_REST = (
    (
        "",
        """UPDATE workflows_keptlog SET task_id = NULL
            WHERE task_id IN (SELECT id FROM workflows_task WHERE group_id = ANY(%(groups)s))""",
    ),
    ("tasks", "DELETE FROM workflows_task WHERE group_id = ANY(%(groups)s)"),
    ("events", "DELETE FROM workflows_event WHERE workflow_id = ANY(%(workflows)s)"),
    ("observations", "DELETE FROM workflows_observedpod WHERE group_uuid = ANY(%(groups)s)"),
    ("observations", "DELETE FROM workflows_observedobject WHERE group_uuid = ANY(%(groups)s)"),
    (
        "",
        """DELETE FROM workflows_taskgroup_upstream
            WHERE from_taskgroup_id = ANY(%(groups)s) OR to_taskgroup_id = ANY(%(groups)s)""",
    ),
    ("", "DELETE FROM workflows_attempt WHERE group_id = ANY(%(groups)s)"),
    ("groups", "DELETE FROM workflows_taskgroup WHERE uuid = ANY(%(groups)s)"),
    ("workflows", "DELETE FROM workflows_workflow WHERE uuid = ANY(%(workflows)s)"),
)
_REVISIONS = f"""
    DELETE FROM pools_configrevision WHERE id IN (
        SELECT r.id FROM pools_configrevision r
         CROSS JOIN LATERAL (
            SELECT later.created_at FROM pools_configrevision later
             WHERE later.config_type = r.config_type AND later.name = r.name AND later.revision > r.revision
             ORDER BY later.revision LIMIT 1) AS next
         WHERE next.created_at < statement_timestamp() - make_interval(secs => %(seconds)s)
           AND NOT EXISTS (SELECT 1 FROM workflows_workflow w
                            WHERE w.submit_time BETWEEN r.created_at - interval '1 hour'
                                                    AND next.created_at + interval '1 hour')
         ORDER BY r.id LIMIT {ROWS} FOR UPDATE OF r SKIP LOCKED)
"""  # noqa: S608 -- constants
_NEWS = f"""
    DELETE FROM workflows_newsitem WHERE id IN (
        SELECT n.id FROM workflows_newsitem n
         WHERE n.ended_at < statement_timestamp() - interval '{NEWS_DAYS} days'
           AND NOT EXISTS (SELECT FROM workflows_workflow w
                            WHERE w.uuid = n.workflow_uuid AND w.status IN ({quoted(WORKFLOW_LIVE)}))
         ORDER BY n.ended_at LIMIT {ROWS} FOR UPDATE OF n SKIP LOCKED)
"""  # noqa: S608 -- constants

Removed = Counter[str]


def remove_old(*, seconds: float = SWEEP_SECONDS) -> Removed:
    """Remove what is older than it is kept, for so long at most. Returns how many rows of each kind."""
    until = time.monotonic() + seconds
    removed: Removed = Counter()
    with _counted(removed):
        _remove_void(removed)
        _remove_workflows(removed, until=until)
    return removed


def remove_revisions() -> Removed:
    """Remove revisions of configuration that are older than they are kept, some at a time."""
    removed: Removed = Counter()
    if days := settings.ENV.revision_days:
        with _counted(removed):
            removed["revisions"] += _delete(_REVISIONS, seconds=days * 86400)
    return removed


def kept_days() -> dict[str, float | None]:
    """The days for which each pool with ended workflows keeps them; None: for ever."""
    own = dict(Pool.objects.values_list("name", "ended_workflow_days"))
    overall = settings.ENV.workflow_days
    return {pool: (overall if (days := own.get(pool)) is None else days) or None for pool in _pools()}


@contextmanager
def _counted(removed: Removed) -> Iterator[None]:
    """Count what was removed, also where a lock or the database ended it."""
    try:
        yield
    except OperationalError as error:
        log.warning("retention_interrupted", error=str(error).strip())
    finally:
        for kind, rows in removed.items():
            ROWS_REMOVED.labels(kind).inc(rows)
        if removed.total():
            log.info("rows_removed", **removed)


def _remove_void(removed: Removed) -> None:
    window = settings.ENV.suspect_window_seconds
    removed["sessions"] += _delete_past("django_session", "session_key", "expire_date")
    removed["rate_buckets"] += _delete_past("web_ratebucket", "key", "clear_at")
    removed["node_failures"] += _delete_past("pools_nodefailure", "id", "at", seconds=window)
    removed["news"] += _delete(_NEWS)
    removed["suspects"] += _delete_past("pools_suspectnode", "id", "until")
    expired = PersonalToken.objects.filter(expiry__lt=Now() - TOKEN_GRACE, descendants=None).order_by("pk")
    tokens = list(expired.values_list("pk", flat=True)[:ROWS])
    removed["tokens"] += PersonalToken.objects.filter(pk__in=tokens).delete()[0] if tokens else 0


def _remove_workflows(removed: Removed, *, until: float) -> None:
    """Remove ended workflows, a batch of each pool in turns."""
    turns = [(pool, days * 86400) for pool, days in kept_days().items() if days is not None]
    while turns and time.monotonic() < until:
        turns = [turn for turn in turns if time.monotonic() < until and _take_turn(*turn, removed, until)]


def _take_turn(pool: str, seconds: float, removed: Removed, until: float) -> bool:
    """Remove a batch of a pool; False if that was all, or if its rows cannot be removed now."""
    try:
        return _remove_batch(pool, seconds, removed, until)
    except OperationalError as error:  # a lock that was not free, a statement that took too long
        log.warning("workflows_not_removed", pool=pool, error=str(error).strip())
        return False


def _pools() -> Iterator[str]:
    """The names of pools with ended workflows; one step of an index for each."""
    after = ""
    while rows := _select(_FIRST_POOL, after=after):
        after = rows[0][0]
        yield after


def _remove_batch(pool: str, seconds: float, removed: Removed, until: float) -> bool:
    """Remove some workflows of a pool; False once there are no more, or none that can be removed now."""
    rows = _select(_CANDIDATES, pool=pool, seconds=seconds)
    if not rows:
        return False
    workflows = [row[0] for row in rows]
    groups = [row[0] for row in _select(_GROUPS_OF, workflows=workflows)]
    for kind, statement in (("events", _SOME_EVENTS), ("tasks", _SOME_TASKS)):
        count = ROWS
        while count == ROWS:
            if time.monotonic() > until:
                return False
            count = _delete(statement, workflows=workflows, groups=groups)
            removed[kind] += count
    before = removed["workflows"]
    removed.update(_remove_rows(workflows, seconds))
    return removed["workflows"] > before and len(rows) == WORKFLOWS


def _remove_rows(workflows: Sequence[UUID], seconds: float) -> Removed:
    """Remove those of the workflows that nobody holds, and what is left of their rows, at once."""
    counts: Removed = Counter()
    with _transaction() as cursor:
        cursor.execute(_LOCKED, {"workflows": list(workflows), "seconds": seconds})
        locked = [row[0] for row in cursor.fetchall()]
        cursor.execute(_GROUPS_OF, {"workflows": locked})
        values = {"workflows": locked, "groups": [row[0] for row in cursor.fetchall()]}
        for kind, statement in _REST:
            cursor.execute(statement, values)
            if kind:
                counts[kind] += cursor.rowcount
    return counts


@contextmanager
def _transaction() -> Iterator[CursorWrapper]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{int(LOCK_SECONDS * 1000)}ms"])
        yield cursor


def _delete(statement: str, **values: Any) -> int:
    with _transaction() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


def _delete_past(table: str, key: str, at: str, *, seconds: float = 0) -> int:
    """Delete rows whose time is more than so many seconds ago, the oldest first, some at a time."""
    statement = f"""
        DELETE FROM {table} WHERE {key} IN (
            SELECT {key} FROM {table} WHERE {at} < statement_timestamp() - make_interval(secs => %(seconds)s)
             ORDER BY {at} LIMIT {ROWS} FOR UPDATE SKIP LOCKED)
    """  # noqa: S608 -- names of columns
    return _delete(statement, seconds=seconds)


def _select(statement: str, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
