"""Instants are read the same everywhere: without a zone they are UTC, and a malformed one is none."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from web.times import naive_utc, read_instant

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
CASES = {
    "RFC 3339 as Kubernetes writes it": ("2026-05-01T12:00:00Z", NOON),
    "our own JSON": ("2026-05-01T12:00:00", NOON),
    "another zone": ("2026-05-01T14:00:00+02:00", NOON),
    "empty": ("", None),
    "absent": (None, None),
    "malformed": ("yesterday", None),
    "Go's zero time": ("0001-01-01T00:00:00Z", None),
    "too early to reckon with": ("0001-01-01T00:00:00+14:00", None),
    "too late to reckon with": ("9999-12-31T23:59:59Z", None),
}


@pytest.mark.parametrize(("text", "want"), CASES.values(), ids=CASES)
def test_an_instant_is_read_from_text(text, want):
    assert read_instant(text) == want


def test_a_written_time_is_utc_without_a_zone_and_reads_back():
    written = naive_utc(NOON.astimezone(timezone(timedelta(hours=2))))
    assert written == "2026-05-01T12:00:00"
    assert read_instant(written) == NOON
