"""Attempts in vain: the group lost its room before it could do any work there.

A scheduler that evicts what it has just placed, and a program that deletes each pod, never let a group run,
and each attempt by itself looks like an ordinary preemption. So those in a row are counted: the pause before
the next one grows, the group has condition ``NoProgress``, and after ``MOST_IN_VAIN`` of them it ends, but
never before that condition has stood for an hour. Ends of the program itself are none: they have a bound of
their own. Pure.
"""

from dataclasses import dataclass
from datetime import datetime

from pools.conditions import Condition
from scheduling.sentences import count_of
from web.times import naive_utc
from workflows.lifecycle.pod_status import OWN_END, ROOM_SWITCHED_OFF, UNEXPLAINED

NO_PROGRESS = "NoProgress"

PROGRESS = 60.0
"""Seconds after which an attempt that runs was not in vain."""

LASTING = 600.0
"""The same where nothing explains why its pods were deleted: somebody may do so now and then."""

NAMED_FROM = 3
"""Attempts in vain in a row from which on the group has the condition."""

MOST_IN_VAIN = 100
"""Those after which it ends: with the usual pauses not before fifteen hours."""

WARNING = 3600.0
"""Seconds for which the condition has stood before it ends."""

_OTHER_ENDS = frozenset({OWN_END, ROOM_SWITCHED_OFF})
"""Of the program, and by a person, for whom the next attempt waits."""


@dataclass(frozen=True, slots=True)
class InVain:
    """The last attempts in a row that were in vain: how many, and when the first of them ended.

    ``noun`` is ``replacement`` for those of a task that is tried again alone; ``warned`` is since when the
    group has the condition.
    """

    number: int = 0
    since: datetime | None = None
    noun: str = "attempt"
    warned: datetime | None = None

    @property
    def sentence(self) -> str:
        since = f", the first at {naive_utc(self.since, precision='seconds')} UTC" if self.since else ""
        return f"{count_of(self.number, self.noun)} in a row ended in vain{since}."

    def is_last(self, *, now: datetime | None) -> bool:
        """Whether the group is tried no more."""
        if self.number < MOST_IN_VAIN or self.warned is None or now is None:
            return False
        return (now - self.warned).total_seconds() >= WARNING

    def condition(self, reason: str) -> Condition | None:
        """The condition after the last of them ended for ``reason``; None for few."""
        if self.number < NAMED_FROM:
            return None
        end = f"After {MOST_IN_VAIN} in a row, and an hour of this warning, the group ends."
        message = f"{self.sentence} The last one: {reason} {end}"
        return Condition(type=NO_PROGRESS, status="True", reason="AttemptsInVain", message=message)


NONE_IN_VAIN = InVain()
NO_PROGRESS_ENDED = Condition(type=NO_PROGRESS, status="False", reason="Progressed")


def is_in_vain(evidence: str, *, ran: float) -> bool:
    """Whether an attempt that ended so, after it had run for so many seconds, was in vain."""
    if evidence in _OTHER_ENDS:
        return False
    return ran < (LASTING if evidence == UNEXPLAINED else PROGRESS)
