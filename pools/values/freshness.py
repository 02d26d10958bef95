"""How fresh all is that was observed of a cluster: by its observer's heartbeat, on the database's clock.

A full list of nodes may be hours old while every change since was followed, so its time says nothing. The
heartbeat moves every few seconds while an observer hears from the cluster. Past one bound all numbers of the
cluster are old, conditions that follow from them are Unknown, and a verdict on them proves nothing. A cluster
whose nodes were never listed is not old: nothing is known of it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pools.values.completeness import NODES, is_known
from scheduling.sentences import count_of

OBSERVER_SILENCE = timedelta(seconds=60)
"""For how long an observer may say nothing of a cluster before its rows may be old."""

OBSERVED_AT = f"CASE WHEN {is_known(NODES)} THEN heartbeat_at END"
"""Until when a cluster is known, by columns that no other table has; null: never listed."""

IS_OLD = f"{OBSERVED_AT} <= clock_timestamp() - interval '{OBSERVER_SILENCE.total_seconds()} seconds'"


class Age(StrEnum):
    FRESH = "fresh"
    OLD = "old"
    NEVER = "never"


@dataclass(frozen=True, slots=True, repr=False)
class Freshness:
    """Until when a cluster is known, None for never, and the time of the database at which that was read."""

    observed_at: datetime | None = None
    now: datetime | None = None

    def __repr__(self) -> str:
        """The text that pages show: two pages with the same text are the same page."""
        return f"Freshness({self.sentence!r})"

    @property
    def seconds(self) -> float | None:
        if self.observed_at is None or self.now is None:
            return None
        return max(0.0, (self.now - self.observed_at).total_seconds())

    @property
    def age(self) -> Age:
        if self.seconds is None:
            return Age.NEVER
        return Age.OLD if self.seconds >= OBSERVER_SILENCE.total_seconds() else Age.FRESH

    @property
    def is_old(self) -> bool:
        return self.age is Age.OLD

    @property
    def sentence(self) -> str:
        """Say how old the numbers beside it are; of fresh ones the same text at every moment."""
        match self.age:
            case Age.NEVER:
                return "The nodes of its cluster have not been observed yet."
            case Age.FRESH:
                return "Observed less than a minute ago."
            case Age.OLD:
                return f"As of {self._clock}, {_lapse(self.seconds or 0)} old: the observer is silent."

    @property
    def dated(self) -> str:
        """The same for a picture that is kept: of fresh ones with the time."""
        return f"As of {self.observed_at:%Y-%m-%d %H:%M} UTC." if self.age is Age.FRESH else self.sentence

    @property
    def _clock(self) -> str:
        """The time of the observation, with its day where that is not today."""
        if self.observed_at is None or self.now is None:
            return ""
        is_today = self.observed_at.date() == self.now.date()
        return f"{self.observed_at:%H:%M} UTC" if is_today else f"{self.observed_at:%Y-%m-%d %H:%M} UTC"

    def as_json(self) -> dict[str, Any]:
        """The fields of REST, apart from how the time is written."""
        return {"observed_at": self.observed_at, "age_seconds": self.seconds, "freshness": self.age.value}


NEVER_OBSERVED = Freshness()


def _lapse(seconds: float) -> str:
    """A duration in one unit, rounded down."""
    minutes = int(seconds // 60)
    if minutes < 120:
        return count_of(minutes, "minute")
    return count_of(minutes // 60, "hour") if minutes < 48 * 60 else count_of(minutes // 1440, "day")
