"""The tables of the tests are emptied between two tests, whoever reads them at that time."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import psycopg
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.color import no_style
from django.core.management.sql import sql_flush
from django.db import connection
from psycopg.errors import DeadlockDetected

LOOKS = 600
TRUNCATE_WAITS = (
    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'TRUNCATE%' AND wait_event_type = 'Lock'"
)


def first_and_last_table():
    """Of those that TRUNCATE locks, in its order."""
    (truncate, *_) = sql_flush(no_style(), connection, allow_cascade=False)
    tables = re.findall(r'"\w+"', truncate)
    return tables[0], tables[-1]


def read_across(server, first, last, holds):
    """Read the table that is emptied last, and then, once TRUNCATE waits for it, the first table.

    PostgreSQL ends one of two that wait for each other; on a busy machine that may be the reader.
    """
    with (
        suppress(DeadlockDetected),
        psycopg.connect(**server) as reader,
        psycopg.connect(**server, autocommit=True) as watcher,
    ):
        reader.execute(f"SELECT FROM {last}")
        holds.set()
        for _ in range(LOOKS):
            if watcher.execute(TRUNCATE_WAITS).fetchone()[0]:
                break
            time.sleep(0.01)
        reader.execute(f"SELECT FROM {first}")


def test_a_query_over_two_tables_does_not_fail_the_flush(transactional_db):
    User.objects.create_user("ann")
    names = ("host", "port", "user", "password", "dbname")
    server = {name: connection.get_connection_params()[name] for name in names}
    holds = Event()
    with ThreadPoolExecutor() as readers:
        reading = readers.submit(read_across, server, *first_and_last_table(), holds)
        assert holds.wait(10)
        call_command("flush", interactive=False, verbosity=0)
        reading.result()
    assert not User.objects.exists()
