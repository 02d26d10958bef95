"""Reading the facts about the service's own servers: database, migrations, broker."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import redis
from celery import current_app
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from kombu.connection import Connection

from pools.preflight.facts import InstallationFacts
from scheduling.preflight import Reading, Unread

T = TypeVar("T")

BROKER_SECONDS = 10.0


def read_installation() -> InstallationFacts:
    return InstallationFacts(
        database=_read(_version),
        bounded=_read(_bounded),
        pending=_read(_pending),
        clock=_read(_clock),
        broker=_broker_role(),
    )


def _read(read: Callable[[], T]) -> Reading[T]:
    try:
        return read()
    except DatabaseError as error:
        return Unread(_one_line(error))


def _version() -> int:
    connection.ensure_connection()
    return int(connection.pg_version)  # type: ignore[attr-defined]  # PostgreSQL alone


def _bounded() -> bool:
    """Whether the limits with which the service connects are in force; a pooler may drop them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setting <> '0' FROM pg_settings WHERE name = 'statement_timeout'")
        (bounded,) = cursor.fetchone()
    return bool(bounded)


def _pending() -> tuple[str, ...]:
    applied = MigrationRecorder(connection).applied_migrations()
    migrations = MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}
    return tuple(sorted(f"{app}.{name}" for app, name in migrations.keys() - applied.keys()))


def _clock() -> float:
    """The database's time less ours; the query's duration is divided between both ways."""
    with connection.cursor() as cursor:
        before = datetime.now(UTC)
        cursor.execute("SELECT clock_timestamp()")
        (database_now,) = cursor.fetchone()
        after = datetime.now(UTC)
    return float((database_now - before - (after - before) / 2).total_seconds())


def _broker_role() -> Reading[str]:
    """Connect as Celery does, in a thread: no time limit of a driver covers a silent server."""
    readings: list[Reading[str]] = []

    def connect() -> None:
        try:
            with current_app.connection_for_write() as broker:
                broker.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
                readings.append(_role(broker))
        except Exception as error:  # noqa: BLE001 -- of whichever driver the address names
            readings.append(Unread(_one_line(error)))

    thread = threading.Thread(target=connect, name="preflight of the broker", daemon=True)
    thread.start()
    thread.join(BROKER_SECONDS)
    return readings[0] if readings else Unread(f"no answer within {BROKER_SECONDS:.0f} s")


def _role(broker: Connection) -> str:
    """The server's role by its own account, such as ``master``; empty if it may not be read."""
    client = getattr(broker.default_channel, "client", None)
    if client is None:
        return ""
    try:
        facts = client.info()
    except redis.ResponseError:  # not among the rights of this user
        return ""
    mode = str(facts.get("redis_mode", ""))
    return mode if mode in {"sentinel", "cluster"} else str(facts.get("role", ""))


def _one_line(error: Exception) -> str:
    """The first line of an error of a driver, which names hosts and never passwords."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300].rstrip(".")
