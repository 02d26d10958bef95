"""Transactions around reads: one connection for a cursor of the server, one moment for several statements."""

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


@contextmanager
def one_moment() -> Iterator[bool]:
    """Let every statement read the database as of the first one; True if they do.

    False in a caller's transaction, whose own writes nobody else can see. A write inside may be refused by
    PostgreSQL: this is for reads.
    """
    if connection.in_atomic_block:
        yield False
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield True
