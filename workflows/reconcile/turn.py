"""What every step of a reconciliation takes and returns.

A step is a function from a turn, which it leaves as it is, to one of three results: a turn to go on with,
``ReadAgain`` where the rows have moved, or ``Stop`` with how the reconciliation ends. ``run`` has the steps
in their order. What fails is an exception, as everywhere.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from scheduling.queues.namespace_quota import QuotaAmounts
from workflows.lifecycle.domain_health import DomainHealth
from workflows.metrics import ATTEMPTS_ENDED
from workflows.reconcile.assess.follow import Assessment, ObservedPods
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster, LogArchive
from workflows.reconcile.view.outcomes import Outcome, RequeueAfter, Retry
from workflows.services.changes import Change, NewAttempt
from workflows.services.lease import Lease
from workflows.services.record import Recorded, record
from workflows.values.observation import PodSeen

NO_PODS = ObservedPods(pods={}, gone_at={}, complete=True)


@dataclass(frozen=True, slots=True)
class QuotaWait:
    """The namespace's quotas have no room for all pods of the gang that are missing; ``pods`` are there."""

    sentence: str
    requested: QuotaAmounts
    pods: Mapping[str, PodSeen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What the steps of a turn learned that may explain why the group waits; empty for what it does not."""

    observed: ObservedPods | None = None

    trouble: Retry | None = None

    template: str = ""
    """The claim template that is waited for."""

    node_wait: str = ""
    """Which nodes keep pods of earlier tries, or are assigned and not there."""

    paused: str = ""
    """Until when a task is not tried again alone."""

    unchosen: str = ""
    """Why no domain is chosen for sets around others."""

    silence: str = ""
    """That its scheduler does not answer."""

    held_back: str = ""
    """Which failures do not count yet."""

    quota_wait: QuotaWait | None = None

    domain: DomainHealth | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """The group as this turn has it, what the steps so far learned of it, and what they act with.

    ``times`` are moments at which the group is due without a notification.
    """

    lease: Lease
    cluster: LeasedCluster
    archive: LogArchive
    view: GroupView
    assessment: Assessment = field(default_factory=lambda: Assessment(changes=(), recheck=None))
    learned: Learned = field(default_factory=Learned)
    times: tuple[datetime | None, ...] = ()

    @property
    def observed(self) -> ObservedPods:
        """The group's pods; none before a step has observed them."""
        return self.learned.observed or NO_PODS

    def learn(self, **learned: Any) -> "Turn":
        return replace(self, learned=replace(self.learned, **learned))

    def at(self, *times: datetime | None) -> "Turn":
        """The same, due at these times, too."""
        return replace(self, times=(*self.times, *times))

    def record(self, changes: Sequence[Change]) -> Recorded:
        """Record them, and count the attempts that they end."""
        recorded = record(self.lease, changes)
        for attempt in (change for change in changes if isinstance(change, NewAttempt)):
            ATTEMPTS_ENDED.labels(self.view.placement.terms.backend, attempt.loss).inc()
        return recorded

    def moved(self, changes: Sequence[Change]) -> "ReadAgain":
        """Record them, which ends the turn."""
        self.record(changes)
        return ReadAgain()

    def due(self, *, within: float) -> "Stop":
        """Stop until the first of its times, at most this many seconds."""
        now = self.view.now
        seconds = [(time - now).total_seconds() for time in self.times if time is not None]
        return Stop(self, RequeueAfter(seconds=min(max(min(seconds, default=within), 0.2), within)))


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """The rows have moved: another turn begins, with ``view`` where the record left all that is read."""

    view: GroupView | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """The reconciliation ends; the reason that the row has is right already if it ``is_explained``."""

    turn: Turn
    outcome: Outcome
    is_explained: bool = False


StepResult = Turn | ReadAgain | Stop
TurnStep = Callable[[Turn], StepResult]
