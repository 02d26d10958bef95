"""How one reconciliation of a group ends: a small closed set, each with its label in metrics."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from workflows.lifecycle.statuses import TaskStatus


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing is due until a notification comes."""

    label: ClassVar[str] = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueAfter:
    """Reconcile again after ``seconds``, or at ``at`` on the database's clock; sooner on a notification."""

    label: ClassVar[str] = "again"

    seconds: float | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The group can never be created; it ends with ``status`` and is taken down."""

    label: ClassVar[str] = "failed"

    status: TaskStatus
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """It did not work now. ``trouble`` is for people; ``slow`` where only a person can remove the cause.

    ``unserved``: the cause is a kind that the cluster does not serve; ``unanswered``: a webhook of it that
    gives no answer. ``refused``: that, or a quota, a policy or a right, does not allow it now.
    """

    label: ClassVar[str] = "retry"

    trouble: str
    slow: bool = False
    unreachable: bool = False
    unserved: bool = False
    unanswered: bool = False
    refused: bool = False
    after: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unforeseen(Retry):
    """It ended with an error that the code does not know; most likely it will again."""

    label: ClassVar[str] = "error"


Outcome = Settled | RequeueAfter | Failed | Retry

LOOK_SHARE = 0.2
RETRY_FIRST = 1.0
RETRY_MOST = 60.0
RETRY_MOST_UNFORESEEN = 600.0
RETRY_SLOW = 30.0
SILENT_SECONDS = 10.0  # a group is reconciled this often while no observer is at work


def look_again(waited: timedelta, *, first: float, most: float) -> RequeueAfter:
    """Reconcile again after a share of the time that was waited so far.

    The observer notifies the group as soon as what it waits for has happened; a later reconcile makes up for
    what was missed. A thousand groups that wait for one slow controller must not all be reconciled every
    second.
    """
    return RequeueAfter(seconds=min(max(waited.total_seconds() * LOOK_SHARE, first), most))


def backoff(outcome: Retry, *, failures: int, spread: float) -> float:
    """Seconds until try ``failures`` + 1; ``spread`` in [0, 1) sets groups apart."""
    first = RETRY_SLOW if outcome.slow else RETRY_FIRST
    most = RETRY_MOST_UNFORESEEN if isinstance(outcome, Unforeseen) else RETRY_MOST
    full = min(first * 2.0 ** min(max(failures - 1, 0), 10), most)
    return max(full * (0.5 + spread / 2), outcome.after)
