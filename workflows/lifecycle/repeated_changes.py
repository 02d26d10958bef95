"""How often the order of a waiting gang's sets, or their pins, may be changed.

In a pool that several gangs contend for, each change may come too late, and be sought again for ever.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

PAUSE = timedelta(minutes=5)
MOST_CHANGES = 3


def may_change_again(times: Sequence[datetime], *, now: datetime) -> bool:
    """Whether a gang that was changed at these times may be changed once more."""
    return len(times) < MOST_CHANGES and not is_paused(times, now=now)


def is_paused(times: Sequence[datetime], *, now: datetime) -> bool:
    """Whether the last change is too recent for another one, whatever it is for."""
    return any(now - time < PAUSE for time in times)
