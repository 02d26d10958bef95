"""Crash points: arming them by turns, and noting which processes died of them.

This is the list of points: a point that vanished from the product, or that no run reaches, fails the run.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

POINTS = (
    "after-submission-before-reply",
    "between-lease-and-first-call",
    "after-touched-cluster",
    "created-computedomains",
    "after-template-seen",
    "created-podgroups",
    "room-assigned",
    "created-services",
    "half-of-pods",
    "created-pods",
    "before-created-recorded",
    "after-relax-decision",
    "before-minimum-set",
    "after-order-decision",
    "reordered-podgroup",
    "half-of-labels",
    "before-order-recorded",
    "after-pin-decision",
    "deleted-pods-to-pin",
    "after-attempt-recorded",
    "before-attempt-cleared",
    "after-end-recorded",
    "deleted-pods",
    "deleted-podgroups",
    "deleted-services",
    "deleted-computedomains",
    "before-released-recorded",
    "before-lease-given-back",
    "after-move-recorded",
)
OF_WEB = "after-submission-before-reply"


@dataclass(slots=True)
class Points:
    """``hits`` counts deaths by point."""

    directory: Path
    generator: Random
    hits: Counter[str] = field(default_factory=Counter)
    at_once: int = 2

    def missing(self) -> list[str]:
        return [point for point in POINTS if not self.hits[point]]

    def arm(self) -> None:
        """Keep some points armed that were not hit yet, one of all once none is missing."""
        armed = {point for point in POINTS if (self.directory / point).exists()} - {OF_WEB}
        candidates = [point for point in self.missing() if point not in armed and point != OF_WEB]
        if not self.hits[OF_WEB]:  # it takes down no worker, so it is in nobody's way
            (self.directory / OF_WEB).touch()
        for point in self.generator.sample(
            candidates, min(max(self.at_once - len(armed), 0), len(candidates))
        ):
            (self.directory / point).touch()

    def arm_any(self) -> None:
        (self.directory / self.generator.choice(POINTS)).touch()

    def collect(self) -> int:
        """Count and clear the notes of processes that died; returns how many."""
        notes = list(self.directory.glob("*.hit.*"))
        for note in notes:
            self.hits[note.name.partition(".hit.")[0]] += 1
            note.unlink()
        return len(notes)

    def disarm(self) -> None:
        for point in POINTS:
            (self.directory / point).unlink(missing_ok=True)
