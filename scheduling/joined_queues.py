"""A queue of somebody else's that gangs join, and the flavors of nodes and topology objects it leads to.

A scheduler backend whose gangs join such queues (``JoinsQueues``) reads each object alone; here is what it
makes of them together. Nothing is decided about what to do: what belongs to others is never written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Readings = Mapping[tuple[str, str], Mapping[str, Any]]
"""What was read of each object, by resource and name; ``namespace/name`` of an object in a namespace."""


@dataclass(frozen=True, slots=True)
class QueueFault:
    """Why a queue admits no gang, or not on nodes that the service needs to know; a full sentence."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeFlavor:
    """A part of the nodes by their labels, and the topology object of its levels, empty for none."""

    name: str
    node_labels: Mapping[str, str]
    topology: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorUsage:
    """What a queue may use of a resource in a flavor, and uses: cores, bytes or devices.

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
    """How full a queue is; ``words`` name it for people, ``waiting`` counts all gangs that wait there."""

    words: str
    waiting: int
    flavors: tuple[FlavorUsage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedQueue:
    """A queue with the flavors that a pool's gangs may get, in its order, and its faults, worst first."""

    name: str
    flavors: tuple[NodeFlavor, ...] = ()
    faults: tuple[QueueFault, ...] = ()
    usage: QueueUsage | None = None

    @property
    def topologies(self) -> tuple[str, ...]:
        """The topology objects that it leads to, each once."""
        return tuple(dict.fromkeys(flavor.topology for flavor in self.flavors if flavor.topology))
