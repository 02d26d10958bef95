"""Queues of a scheduler: their bounds, what is in use below them, and what a gang lacks there.

A *quota* is what a queue is guaranteed, a *limit* the most that it may ever use. Amounts count GPUs,
thousandths of a core and bytes of memory; a bound of -1 is unlimited. A chain of queues runs from the gang's
own up to the broadest. Which bound counts for which gang is a scheduler's own rule (``BoundedQueues``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

QUEUE_RESOURCES = ("gpu", "cpu", "memory")
UNLIMITED = -1.0

QueueAmounts = Mapping[str, float]
"""By the names of ``QUEUE_RESOURCES``; a missing one is 0."""


@dataclass(frozen=True, slots=True)
class QueueBound:
    quota: float = UNLIMITED
    limit: float = UNLIMITED


NO_BOUND = QueueBound()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A queue. ``used`` is by everything below it, ``fixed`` the part of it that nothing may preempt.

    ``preempt_min_runtime``: for so many seconds its work runs before work of higher priority preempts it;
    None where the queue above decides.
    """

    name: str
    parent: str = ""
    bounds: Mapping[str, QueueBound] = field(default_factory=dict)
    used: QueueAmounts = field(default_factory=dict)
    fixed: QueueAmounts = field(default_factory=dict)
    preempt_min_runtime: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Without its name; ``from_json`` is its inverse."""
        return {
            "parent": self.parent,
            "bounds": {name: [bound.quota, bound.limit] for name, bound in self.bounds.items()},
            "used": dict(self.used),
            "fixed": dict(self.fixed),
            "preempt_min_runtime": self.preempt_min_runtime,
        }

    @classmethod
    def from_json(cls, name: str, value: Mapping[str, Any]) -> "QueueState":
        bounds = {resource: QueueBound(*bound) for resource, bound in value["bounds"].items()}
        return cls(
            name=name,
            parent=value["parent"],
            bounds=bounds,
            used=value["used"],
            fixed=value["fixed"],
            preempt_min_runtime=value.get("preempt_min_runtime"),
        )

    def bound(self, resource: str) -> QueueBound:
        return self.bounds.get(resource, NO_BOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShortage:
    """A bound that does not admit a gang: how much it allows, what counts against it, what is asked for.

    ``namespace``: ``queue`` is the name of a quota of the namespace (``namespace_quota``).
    """

    queue: str
    resource: str
    bound: Literal["limit", "quota", "namespace"]
    amount: float
    used: float
    requested: float

    @property
    def is_lasting(self) -> bool:
        """Whether the gang alone asks for more, so that no end of other work helps."""
        return self.requested > self.amount

    def as_json(self) -> dict[str, Any]:
        return {
            "queue": self.queue,
            "resource": self.resource,
            "bound": self.bound,
            "amount": self.amount,
            "used": self.used,
            "requested": self.requested,
        }


class QuotaAnswer(StrEnum):
    """Whether a gang's queues admit it now; NONE: its scheduler has no queues."""

    ADMITS = "admits"
    SHORT = "short"
    UNKNOWN = "unknown"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class QuotaVerdict:
    """The answer for one gang; ``shortages`` are in the order in which the scheduler finds them."""

    answer: QuotaAnswer
    shortages: tuple[QueueShortage, ...] = ()

    @property
    def is_lasting(self) -> bool:
        return any(shortage.is_lasting for shortage in self.shortages)

    def as_json(self) -> dict[str, Any]:
        return {
            "answer": self.answer.value,
            "shortages": [shortage.as_json() for shortage in self.shortages],
        }


NO_QUEUES = QuotaVerdict(QuotaAnswer.NONE)
