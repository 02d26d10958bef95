"""Instants as text: written for OSMO's client, read from our own JSON and from Kubernetes objects.

OSMO's client refuses a zone, so a time is written as UTC without one, and a time read without one is UTC.
"""

from datetime import UTC, datetime
from typing import Literal, overload

EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)
"""Times outside are none: Go writes year 1 for no time, and sums with others do not overflow."""

Precision = Literal["auto", "seconds", "microseconds"]


@overload
def naive_utc(instant: datetime, *, precision: Precision = "auto") -> str: ...
@overload
def naive_utc(instant: None, *, precision: Precision = "auto") -> None: ...
@overload
def naive_utc(instant: datetime | None, *, precision: Precision = "auto") -> str | None: ...
def naive_utc(instant: datetime | None, *, precision: Precision = "auto") -> str | None:
    """Write an instant in ISO 8601; ``auto`` leaves microseconds out where they are 0."""
    if instant is None:
        return None
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    return instant.replace(tzinfo=None).isoformat(timespec=precision)


def clock(instant: datetime, *, now: datetime) -> str:
    """The time of day, with its day where that is not today."""
    day = "" if instant.astimezone(UTC).date() == now.astimezone(UTC).date() else f"{instant:%Y-%m-%d} "
    return f"{day}{instant:%H:%M:%S} UTC"


def read_instant(text: object) -> datetime | None:
    """Read an instant in ISO 8601 or RFC 3339; None for an empty, malformed or impossible one."""
    try:
        instant = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    if instant is not None and instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return instant if instant is not None and EARLIEST <= instant < LATEST else None
