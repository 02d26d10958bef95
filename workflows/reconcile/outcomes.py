"""How one look at a group ends: a small closed set, so that every end is one of few known ones."""

from dataclasses import dataclass
from datetime import datetime

from workflows.lifecycle.statuses import TaskStatus


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is due until somebody has news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Look again in ``seconds``, or at ``at`` on the database's clock; sooner if there is news."""

    seconds: float | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """It cannot be done, ever; the group ends with ``status`` and is taken down."""

    status: TaskStatus
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """It did not work now. ``trouble`` is for people; ``slow`` where only somebody's deed can help."""

    trouble: str
    slow: bool = False
    unreachable: bool = False
    after: float = 0.0


Outcome = Done | Again | Failed | Retry

RETRY_FIRST = 1.0
RETRY_MOST = 60.0
RETRY_SLOW = 30.0


def backoff(outcome: Retry, *, failures: int, spread: float) -> float:
    """Seconds until try ``failures`` + 1; ``spread`` in [0, 1) sets groups apart."""
    first = RETRY_SLOW if outcome.slow else RETRY_FIRST
    full = min(first * 2.0 ** min(max(failures - 1, 0), 10), RETRY_MOST)
    return max(full * (0.5 + spread / 2), outcome.after)
