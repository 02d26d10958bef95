"""Periodic work of beat: never delayed by other work, never expired, at a steady pace.

Its messages have a queue of their own, which workers serve in turns with the other one. In a common queue, a
sweep came too late as soon as the queue was longer than the sweep's interval, so lost messages were not found
just when there were most of them (observed: no sweep for 160 seconds).

Messages do not expire. An expiry is a time of the sender's clock that is read on the receiver's, so one clock
that is wrong by seconds would void every sweep. Instead, messages that pile up while no worker runs are
dropped here: a process that did the same work a moment ago, by its monotonic clock, skips it.

Beat itself counts on its monotonic clock too, and keeps no file. Celery's own schedulers compare times of
day: after a clock is set back by five minutes they send nothing for five minutes, and a scheduler that reads
future times in its file waits for them as well.
"""

import threading
import time
from functools import cached_property
from typing import Any, Final

from celery import Task
from celery.beat import Scheduler

from web.operation.pulse import Loop

MAIN_QUEUE = "osmo"
QUEUE = "osmo-upkeep"

SWEEP_SECONDS: Final = 2.0
"""Between two sweeps for due task groups: how late a group is whose message is lost."""

BEAT = Loop("beat")

_guard = threading.Lock()
_ended: dict[tuple[Any, ...], float] = {}
_began: dict[tuple[Any, ...], float] = {}  # of runs that go on
HUNG_SECONDS = 900.0
"""A run that goes on for so long counts as hung: another may begin. Runs end by deadlines of their own."""


class Periodic(Task):
    """A task that beat sends every ``every`` seconds; called as a function it always runs.

    In one process, the same work is done once at a time, and half of ``every`` must pass until the next.
    """

    abstract = True
    every: float = 0.0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.request.called_directly:
            return self.run(*arguments, **named)
        work = (self.name, *arguments)
        began = _begin(work, self.every)
        if began is None:
            return None
        try:
            return self.run(*arguments, **named)
        finally:
            _end(work, began)


def _begin(work: tuple[Any, ...], every: float) -> float | None:
    """Begin a run, unless one goes on or ended a moment ago; returns when it began."""
    with _guard:
        now = time.monotonic()
        is_running = now - _began.get(work, float("-inf")) < HUNG_SECONDS
        if is_running or now - _ended.get(work, float("-inf")) < every / 2:
            return None
        _began[work] = now
        return now


def _end(work: tuple[Any, ...], began: float) -> None:
    with _guard:
        _ended[work] = time.monotonic()
        if _began.get(work) == began:
            del _began[work]


class Steady(Scheduler):
    """Celery's beat on the monotonic clock: each entry at once, and then again after its interval."""

    def install_default_entries(self, data: Any) -> None:
        """Leave out the nightly clearing of results: none are kept."""

    def tick(self, *_arguments: Any, **_named: Any) -> float:
        """Send what is due; returns the seconds until something is."""
        for name, entry in self.data.items():
            BEAT.turn()
            if self._next.get(name, 0.0) <= time.monotonic():
                self._next[name] = time.monotonic() + entry.schedule.run_every.total_seconds()
                self.apply_entry(entry, producer=self.producer)
        return max(0.0, min(self._next.values()) - time.monotonic())

    @cached_property
    def _next(self) -> dict[str, float]:
        """When each entry is due."""
        return {}
