"""Instants as OSMO's client reads them: UTC, written without a zone, which the client refuses."""

from datetime import UTC, datetime
from typing import Literal, overload

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
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision)
