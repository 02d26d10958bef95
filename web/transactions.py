"""Reads of many rows through a cursor of the server."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def one_transaction() -> Iterator[None]:
    """Keep to one connection of the server: a transaction of its own, or the caller's.

    ``QuerySet.iterator()`` needs it. Its cursor is on the server, and where PgBouncer stands between in
    transaction mode, the next statement after a transaction has another connection, without that cursor.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        yield
