"""Changing the schema under a running service.

A change that waits for a lock on a table makes all later statements wait too, so one long query and one
``ALTER TABLE`` can stop all requests. So no statement of a migration waits longer than
``LOCK_SECONDS`` for a lock or works longer than ``OSMO_MIGRATION_STATEMENT_SECONDS``; a change
that got no lock is undone and tried again a little later, while the queued statements run.

A change that holds one table and waits for the next makes a deadlock with a request that reads the second
and waits for the first; PostgreSQL would end the request. So a migration that changes several tables begins
with ``LockTables``, and whatever else waits while it holds a table waits less than a deadlock takes to be
noticed.

Of several processes that migrate at once, one migrates and the others wait: an advisory lock of the session,
which ends with it. A pooler may give each statement another session, so there is no migrating through one.

Rejected: ``lock_timeout`` in the connection's options, which would also bind the service's own short waits
for a row; and a blocking advisory lock, whose waiter holds a snapshot that ``CREATE INDEX CONCURRENTLY``
waits for.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
import structlog
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

T = TypeVar("T")

ADVISORY_KEY = 0x6F736D6F  # "osmo"
TRIES = 30
PAUSE_SECONDS = 5.0
LOCK_SECONDS = 4.0  # longest a statement waits for a lock before it lets others pass
TABLES_SECONDS = 4.0  # that several tables may take to be free at once
POLL_SECONDS = 0.02

_NO_LOCK = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
_FAILED = psycopg.pq.TransactionStatus.INERROR
_LEAST_SECONDS = 0.01  # 0 would be without an end
_DEADLOCK_SECONDS = "SELECT setting::float / 1000 FROM pg_settings WHERE name = 'deadlock_timeout'"
_HOLDS_TABLE = """
    SELECT EXISTS (
        SELECT FROM pg_locks
         WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted
           AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    )
"""

log = structlog.get_logger(__name__)


def is_pooled(connection: BaseDatabaseWrapper) -> bool:
    """Whether a pooler stands between: it tells its clients process ids that are not PostgreSQL's."""
    connection.ensure_connection()
    return bool(_ask(connection, "SELECT pg_backend_pid()") != connection.connection.info.backend_pid)


@contextmanager
def bounded(
    connection: BaseDatabaseWrapper, *, lock_seconds: float, statement_seconds: float
) -> Iterator[None]:
    """Bound each statement of this connection; afterwards the previous settings hold again."""
    limits = {"lock_timeout": lock_seconds, "statement_timeout": statement_seconds}
    before = {name: _show(connection, name) for name in limits}
    for name, seconds in limits.items():
        _set(connection, name, f"{int(seconds * 1000)}ms")
    deadlock_seconds = float(str(_ask(connection, _DEADLOCK_SECONDS)))
    waits = _Waits(lock_seconds=lock_seconds, holding_seconds=min(lock_seconds, deadlock_seconds / 2))
    try:
        with connection.execute_wrapper(waits):
            yield
    finally:
        for name, value in before.items():
            _set(connection, name, value)


class _Waits:
    """Sets, before each statement of a transaction, how long it may wait for a lock.

    PostgreSQL looks for deadlocks when a wait has lasted ``deadlock_timeout``, and ends the one who looks.
    A statement can wait for this transaction only since its first lock, so from then on all waits of the
    transaction together last ``holding_seconds``, which is less. The migration is who gives way.
    """

    def __init__(self, *, lock_seconds: float, holding_seconds: float) -> None:
        self._lock_seconds = lock_seconds
        self._holding_seconds = holding_seconds
        self._holds_since: float | None = None

    def __call__(self, execute: Callable[..., T], *statement: Any) -> T:
        """Django's ``execute_wrapper`` calls it with the SQL, its parameters, whether many, and a context."""
        connection = statement[-1]["connection"]
        session = connection.connection  # psycopg's own: its own statements pass no wrapper
        if connection.in_atomic_block and session.info.transaction_status != _FAILED:
            seconds = self._seconds(holds=session.execute(_HOLDS_TABLE).fetchone()[0])
            session.execute("SELECT set_config('lock_timeout', %s, false)", [f"{seconds * 1000:.0f}ms"])
        return execute(*statement)

    def _seconds(self, *, holds: bool) -> float:
        if not holds:
            self._holds_since = None
            return self._lock_seconds
        now = time.monotonic()
        self._holds_since = self._holds_since or now
        return max(self._holding_seconds - (now - self._holds_since), _LEAST_SECONDS)


@contextmanager
def alone(connection: BaseDatabaseWrapper, *, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Wait until nobody else migrates, then keep others out."""
    while not _ask(connection, "SELECT pg_try_advisory_lock(%s)", ADVISORY_KEY):
        log.info("another_migration_runs")
        sleep(PAUSE_SECONDS)
    try:
        yield
    finally:
        _ask(connection, "SELECT pg_advisory_unlock(%s)", ADVISORY_KEY)


class BuildIndex(AddIndexConcurrently):
    """Builds an index beside the work; may be repeated.

    ``CREATE INDEX CONCURRENTLY`` that gets no lock or is stopped leaves an invalid index of that name behind,
    and a migration with several of them is repeated from its first. So the remains of an earlier try are
    dropped first. PostgreSQL learns the values of an expression from the index alone; until it has looked, it
    uses the index where it should not.
    """

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            schema_editor.execute(self.index.remove_sql(model, schema_editor, concurrently=True))
        super().database_forwards(app_label, schema_editor, from_state, to_state)
        if self.index.expressions and not schema_editor.collect_sql:
            schema_editor.execute(f"ANALYZE {schema_editor.quote_name(model._meta.db_table)}")  # noqa: SLF001 -- public


class SampleMore(Operation):
    """Lets PostgreSQL keep so many entries of a column (usually a hundred), from its next ANALYZE on.

    By them it estimates how many rows have a part of a JSON value, such as one label: a part that one row in
    fifty has is absent from a hundred entries once in eight times, and then counts as rare.
    """

    reversible = True

    def __init__(self, model_name: str, name: str, *, entries: int) -> None:
        self.model_name, self.name, self.entries = model_name, name, entries

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        pass

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,  # noqa: ARG002 -- Django's
    ) -> None:
        self._set(app_label, schema_editor, from_state, entries=self.entries)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,  # noqa: ARG002 -- Django's
    ) -> None:
        self._set(app_label, schema_editor, from_state, entries=-1)

    def _set(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, state: ProjectState, *, entries: int
    ) -> None:
        options = state.apps.get_model(app_label, self.model_name)._meta  # noqa: SLF001 -- public
        table, column = map(
            schema_editor.quote_name, (options.db_table, options.get_field(self.name).column or "")
        )
        schema_editor.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS {entries}")

    def describe(self) -> str:
        return f"Sample more of {self.model_name}.{self.name}"


class LockTables(Operation):
    """Takes all tables of an app that a migration changes, or none: its first operation if there are several.

    It never stands in the queue for a table. Behind a place in the queue, requests pile up which hold the
    other tables already.
    """

    reversible = True

    def __init__(self, *models: str) -> None:
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        pass

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,  # noqa: ARG002 -- Django's
    ) -> None:
        models = [from_state.apps.get_model(app_label, name) for name in self.models]
        _lock_tables(schema_editor.connection, [model._meta.db_table for model in models])  # noqa: SLF001 -- public

    database_backwards = database_forwards

    def describe(self) -> str:
        return f"Lock tables of {', '.join(self.models)}"


def _lock_tables(connection: BaseDatabaseWrapper, tables: list[str]) -> None:
    """Raises OperationalError if they are never all free at once."""
    listed = ", ".join(map(connection.ops.quote_name, tables))
    deadline = time.monotonic() + TABLES_SECONDS
    while True:
        try:
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                cursor.execute(f"LOCK TABLE {listed} IN ACCESS EXCLUSIVE MODE NOWAIT")
        except OperationalError as error:
            if not isinstance(error.__cause__, _NO_LOCK) or time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return


def patiently(
    change: Callable[[], T], *, tries: int = TRIES, sleep: Callable[[float], None] = time.sleep
) -> T:
    """Run it, again after a pause if it got no lock. Raises OperationalError if it never gets one."""
    for left in range(tries - 1, -1, -1):
        try:
            return change()
        except OperationalError as error:
            if not isinstance(error.__cause__, _NO_LOCK) or not left:
                raise
            log.warning("migration_got_no_lock", tries_left=left, error=str(error).strip())
            sleep(PAUSE_SECONDS)
    raise AssertionError("tries is at least 1")


def _show(connection: BaseDatabaseWrapper, name: str) -> str:
    return str(_ask(connection, "SELECT current_setting(%s)", name))


def _set(connection: BaseDatabaseWrapper, name: str, value: str) -> None:
    _ask(connection, "SELECT set_config(%s, %s, false)", name, value)


def _ask(connection: BaseDatabaseWrapper, query: str, *values: str | int) -> object:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        row = cursor.fetchone()
    return row[0] if row else None
