"""Timestamps of PostgreSQL, read by the standard library's parser in C.

Django's loader for psycopg matches a pattern in Python, 17 microseconds for each value: of a gang of 1,000
tasks that is more than the query itself. Text that the parser does not take goes to Django's loader.
"""

from datetime import UTC, datetime
from typing import Any

from django.db.backends.postgresql.psycopg_any import BaseTzLoader
from django.db.backends.signals import connection_created


class TimestampLoader(BaseTzLoader):  # type: ignore[misc]  # Django has no types
    """A value of type timestamptz in UTC, the time zone of every connection of ours."""

    timezone = UTC

    def load(self, data: bytes | bytearray | memoryview) -> datetime:
        try:
            value = datetime.fromisoformat(bytes(data).decode())
        except ValueError:  # a year beyond 9999, infinity, an offset with seconds
            fallback: datetime = super().load(data)
            return fallback
        return value if value.tzinfo is UTC else value.astimezone(UTC)


def _register(*, connection: Any, **_: object) -> None:
    connection.connection.adapters.register_loader("timestamptz", TimestampLoader)


def register() -> None:
    """Read timestamps so on every connection that begins from now on."""
    connection_created.connect(_register, dispatch_uid="web.database.timestamps")
