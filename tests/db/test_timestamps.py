"""Timestamps as the service reads them are those that Django's own loader reads."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import connection

from web.database.timestamps import TimestampLoader

TIMES = {
    "whole seconds": "2026-11-23 04:47:11+00",
    "milliseconds": "2026-11-23 04:47:11.5+00",
    "microseconds": "2026-11-23 04:47:11.452336+00",
    "another zone": "2026-11-23 04:47:11.452336+05:30",
    "before 1970": "1815-06-18 11:35:00.000001+00",
    "the last year": "9999-12-31 23:59:59.999999+00",
    "an offset with seconds": "1883-11-18 12:00:00-04:56:02",
}


@pytest.mark.parametrize("text", TIMES.values(), ids=TIMES)
def test_a_timestamp_is_read_as_by_django(db, text):
    connection.ensure_connection()
    loader = TimestampLoader(1184, connection.connection)
    want = super(TimestampLoader, loader).load(text.encode())
    assert loader.load(text.encode()) == want
    assert loader.load(text.encode()).tzinfo is UTC


def test_every_connection_has_the_loader(db):
    moment = datetime(2026, 11, 23, 4, 47, 11, 452336, tzinfo=timezone(timedelta(hours=2)))
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz", [moment])
        row = cursor.fetchone()
        loader = cursor.cursor.adapters.get_loader(1184, 0)
    assert row == (moment,)
    assert issubclass(loader, TimestampLoader)
