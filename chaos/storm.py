"""The order of faults: every kind once in a seeded order, then kinds by weight, until time is up.

A fault is a function that does harm and may ask that it be undone later. All run in one thread, the main one,
since the supervisor starts servers from there only. Whatever still waits to be undone is undone by ``heal``.
"""

import heapq
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psycopg
import redis
import urllib3

from chaos.site import Progress, Site
from localcluster.api import ApiError
from localcluster.rest import Refused

Undo = Callable[[], object]
TROUBLE = (ApiError, Refused, urllib3.exceptions.HTTPError, OSError, psycopg.Error, redis.RedisError)
"""Errors that a fault may meet because of another fault."""


@dataclass(slots=True)
class Storm:
    """The state that the faults of one run share."""

    site: Site
    generator: random.Random
    progress: Progress
    submit: Callable[..., None]  # one more workflow: pool and text, and its priority unless NORMAL
    counts: Counter[str] = field(default_factory=Counter)
    again: list[str] = field(default_factory=list)  # kinds that did not do what they are for
    deleted: set[str] = field(default_factory=set)  # uids of objects that the harness deleted itself
    _later: list[tuple[float, int, Undo]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def later(self, seconds: float, undo: Undo) -> None:
        """Have something done in ``seconds``, or at the end if that is sooner."""
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._numbers), undo))

    def pause(self, low: float, high: float) -> float:
        return self.generator.uniform(low, high)

    def strike(self, name: str, fault: Callable[["Storm"], int]) -> bool:
        """Do harm; counted by how many things were hit. Whether there was anything to hit."""
        try:
            hit = fault(self)
        except TROUBLE as error:
            self.progress(f"{name}: not done: {error}"[:160])
            return False
        if hit:
            self.counts[name] += hit
            self.progress(f"{name}: {hit}")
        return bool(hit)

    def undo_due(self) -> None:
        while self._later and self._later[0][0] <= time.monotonic():
            self._undo()

    def heal(self, *, seconds: float) -> None:
        """Undo everything now; raises TimeoutError if that does not succeed in time."""
        until = time.monotonic() + seconds
        while self._later:
            if time.monotonic() > until:
                raise TimeoutError("not everything could be healed; see what was said above")
            if not self._undo():
                time.sleep(0.5)

    def _undo(self) -> bool:
        _, _, undo = heapq.heappop(self._later)
        try:
            undo()
        except TROUBLE as error:
            self.progress(f"not undone yet: {error}"[:160])
            self.later(1.0, undo)
            return False
        return True


@dataclass(slots=True)
class Sequence:
    """Every kind once, then by weight; a kind that found nothing to hit comes again in its turn."""

    generator: random.Random
    weights: Mapping[str, int]
    first: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first = list(self.weights)
        self.generator.shuffle(self.first)

    def next(self) -> str:
        if self.first:
            return self.first.pop(0)
        return self.generator.choices(list(self.weights), list(self.weights.values()))[0]

    def again(self, name: str) -> None:
        self.first.insert(min(3, len(self.first)), name)
