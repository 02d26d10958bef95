"""Whether a Topology object in a cluster still lists the levels we count on.

A constraint sees only nodes that carry every label of its Topology, so one level more changes placement as
surely as one level less: only the same labels in the same order are in sync. Nothing is decided here about
what to do; an object of ours is created again, an external one is never written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar, Literal

from scheduling.topology.levels import Level


@dataclass(frozen=True, slots=True)
class InSync:
    """The levels are those expected."""

    status: ClassVar[Literal["False"]] = "False"
    reason: ClassVar[str] = "InSync"

    @property
    def message(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Drift:
    """Node labels, broadest first: those expected, and those found."""

    expected: tuple[str, ...]
    observed: tuple[str, ...]
    status: ClassVar[Literal["True"]] = "True"
    reason: ClassVar[str] = "Drift"

    @property
    def missing(self) -> tuple[str, ...]:
        """Expected labels that the object does not list at all: no constraint can name them."""
        return tuple(label for label in self.expected if label not in self.observed)

    @property
    def message(self) -> str:
        different = [
            f"level {i} is {observed or 'missing'} instead of {expected or 'none'}"
            for i, (expected, observed) in enumerate(zip_longest(self.expected, self.observed))
            if expected != observed
        ]
        return f"The Topology object has other levels than the pool: {'; '.join(different)}."


@dataclass(frozen=True, slots=True)
class TopologyNotFound:
    """There is no such object."""

    status: ClassVar[Literal["Unknown"]] = "Unknown"
    reason: ClassVar[str] = "TopologyNotFound"

    @property
    def message(self) -> str:
        return "The Topology object is not in the cluster."


TopologyState = InSync | Drift | TopologyNotFound
"""``status``, ``reason`` and ``message`` are those of condition ``TopologyDrift``."""


def compare(observed: Sequence[str] | None, *, expected: Sequence[Level]) -> TopologyState:
    """Compare an object's node labels, broadest first, with levels. ``observed`` is None if there is none."""
    if observed is None:
        return TopologyNotFound()
    labels = tuple(level.label for level in expected)
    return InSync() if tuple(observed) == labels else Drift(labels, tuple(observed))
