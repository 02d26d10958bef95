"""Work that beat asks for again and again: never behind other work, never void, never too often.

Its messages stand in a queue of their own, which workers serve in turns with the other. In one queue with
the task groups a sweep came too late as soon as the queue was longer than a sweep's interval, and then the
net below lost messages was away for as long as there was most to catch (seen: no sweep for 160 seconds).

They do not expire. An expiry is a time of the sender's clock that is read on the receiver's, so one clock
that is wrong by seconds would void every sweep there is. What piles up while no worker runs is let go of
here instead: a process that did the same work a moment ago, by its monotonic clock, leaves it out.
"""

import threading
import time
from typing import Any

from celery import Task

MAIN_QUEUE = "osmo"
QUEUE = "osmo-upkeep"

_guard = threading.Lock()
_done: dict[str, float] = {}


class Periodic(Task):
    """A task that is asked for every ``every`` seconds; called as a function it always runs."""

    abstract = True
    every: float = 0.0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if not self.request.called_directly and not is_due(str(self.name), self.every):
            return None
        return self.run(*arguments, **named)


def is_due(name: str, every: float) -> bool:
    """Whether the last time is half an interval ago; if so, this is the last time from now on."""
    now = time.monotonic()
    with _guard:
        if now - _done.get(name, float("-inf")) < every / 2:
            return False
        _done[name] = now
        return True
