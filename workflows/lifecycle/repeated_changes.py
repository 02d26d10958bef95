"""How often the order of a waiting gang's sets, or their pins, may be changed.

In a pool that several gangs contend for, each change may come too late, and be sought again for ever.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

PAUSE = timedelta(minutes=5)
RENEWAL_PAUSE = timedelta(minutes=1)
MOST_CHANGES = 3


def may_change_again(times: Sequence[datetime], *, now: datetime) -> bool:
    """Whether a gang that was changed at these times may be changed once more."""
    at = changeable_at(times)
    return len(times) < MOST_CHANGES and (at is None or at <= now)


def changeable_at(times: Sequence[datetime]) -> datetime | None:
    """When the last change is no longer too recent for another one, whatever it is for; None: at once."""
    return max(times) + PAUSE if times else None


def renewable_at(times: Sequence[datetime]) -> datetime | None:
    """When a place without room may give way to another one, if places were chosen at these times.

    None: at once. The first choice may have been made together with those of other gangs.
    """
    return max(times) + RENEWAL_PAUSE if len(times) > 1 else None
