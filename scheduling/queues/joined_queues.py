"""A queue of somebody else's that gangs join, and the flavors of nodes and topology objects it leads to.

A scheduler backend whose gangs join such queues (``JoinedQueues``) reads each object alone; here is what it
makes of them together. Nothing is decided about what to do: an object that belongs to others is never
written.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.kubernetes_syntax import GPU
from scheduling.queues.queue_state import QueueAmounts, QueueShortage, QuotaAnswer, QuotaVerdict

Readings = Mapping[tuple[str, str], Mapping[str, Any]]
"""What was read of each object, by resource and name; ``namespace/name`` of an object in a namespace."""


_WRITTEN = {"gpu": (GPU, 1.0), "cpu": ("cpu", 1000.0), "memory": ("memory", 1.0)}
"""How Kubernetes writes the resources of ``QUEUE_RESOURCES``, and how many of ours are one of its units."""


@dataclass(frozen=True, slots=True)
class QueueFault:
    """Why a queue admits no gang, or not on nodes that the service needs to know; a full sentence."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeFlavor:
    """A part of the nodes by their labels, and the topology object of its levels, empty for none.

    ``has_taints``: it is for pods that tolerate some.
    """

    name: str
    node_labels: Mapping[str, str]
    topology: str
    has_taints: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorUsage:
    """The amounts that a queue may use of a resource in a flavor, and uses: cores, bytes or devices.

    ``most`` counts what it may borrow, None for as much as others leave; ``borrowed`` is part of ``used``.
    """

    flavor: str
    resource: str
    quota: float
    most: float | None
    used: float
    borrowed: float


@dataclass(frozen=True, slots=True)
class QueueUsage:
    """How full a queue is; ``words`` say its kind and name, ``waiting`` counts all gangs that wait there.

    ``entries`` are the names by which gangs join it. ``is_strict`` says whether nothing passes the first
    gang.
    """

    name: str
    words: str
    waiting: int
    flavors: tuple[FlavorUsage, ...]
    entries: frozenset[str] = frozenset()
    is_strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedGang:
    """A gang that waits in a queue: higher ``priority`` first, then the earlier ``since``.

    ``since`` is RFC 3339 in whole seconds, as Kubernetes writes it; empty if it is not known.
    """

    priority: int
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """How many others of its queue are before a gang and behind it; the order of the rest is not known."""

    before: int
    behind: int


def position_of(gang: QueuedGang, others: Iterable[QueuedGang]) -> QueuePosition:
    """Where a gang stands among others; nothing is said of those of its own priority and second."""
    before = behind = 0
    for other in others:
        if other.priority != gang.priority:
            is_before, is_behind = other.priority > gang.priority, other.priority < gang.priority
        else:
            is_timed = bool(other.since and gang.since)
            is_before, is_behind = (
                is_timed and other.since < gang.since,
                is_timed and other.since > gang.since,
            )
        before, behind = before + is_before, behind + is_behind
    return QueuePosition(before=before, behind=behind)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedQueue:
    """A queue with the flavors that a pool's gangs may get, in its order, and its faults, worst first.

    For ``faults`` it admits nothing, for ``partial_faults`` none of the gangs that they name.
    """

    name: str
    flavors: tuple[NodeFlavor, ...] = ()
    faults: tuple[QueueFault, ...] = ()
    partial_faults: tuple[QueueFault, ...] = ()
    others: tuple[NodeFlavor, ...] = ()
    """Flavors with a topology object of the cluster's, that its gangs do not get."""
    usage: QueueUsage | None = None

    @property
    def topologies(self) -> tuple[str, ...]:
        """The topology objects that it leads to, each once."""
        return tuple(dict.fromkeys(flavor.topology for flavor in self.flavors if flavor.topology))

    def quota(self, requested: QueueAmounts, *, is_first: bool = False) -> QuotaVerdict:
        """Whether the flavors admit a gang that asks for so much: all of them together at most.

        ``is_first``: nothing goes before it in the queue.

        ADMITS only within one flavor's own quota of all that is asked for. UNKNOWN is what a queue with a
        fault does, whether a gang tolerates the taints of a flavor, what it may borrow of its cohort, which
        of several flavors a gang gets, and how Kueue is configured to count a resource that no flavor has.
        """
        if self.usage is None or self.faults:
            return QuotaVerdict(QuotaAnswer.UNKNOWN)
        usable = {flavor.name for flavor in self.flavors}
        shortages: list[QueueShortage] = []
        is_certain = is_first or not (self.usage.is_strict and self.usage.waiting)
        is_certain &= not any(flavor.has_taints for flavor in self.flavors)
        own_flavors: set[str] = set()
        for resource, amount in requested.items():
            written, unit = _WRITTEN[resource]
            lines = [
                line for line in self.usage.flavors if line.resource == written and line.flavor in usable
            ]
            most = sum(math.inf if line.most is None else line.most * unit for line in lines)
            used = sum(line.used * unit for line in lines)
            if lines and used + amount > most:
                shortages.append(
                    QueueShortage(
                        queue=self.usage.name,
                        resource=resource,
                        bound="limit",
                        amount=most,
                        used=used,
                        requested=amount,
                    )
                )
            own = sum(line.quota * unit for line in lines)
            is_certain &= not amount or (len(lines) == 1 and used + amount <= own)
            own_flavors.update(line.flavor for line in lines if amount)
        if shortages:
            return QuotaVerdict(QuotaAnswer.SHORT, tuple(shortages))
        is_certain &= len(own_flavors) < 2
        return QuotaVerdict(QuotaAnswer.ADMITS if is_certain else QuotaAnswer.UNKNOWN)
