"""How many of a worker's threads the work for one cluster may hold at a time.

Calls to a cluster hold worker threads, and one that accepts connections and never answers holds each for
some twenty seconds. Without a bound the groups of one such cluster take every thread, and those of all
others wait. So the work for a cluster needs a seat:

- a cluster never gets all threads, so one that falls silent leaves some to the others from the first moment;
- while it is silent (``cluster.reachability``) it has one seat, enough to hear when it is back;
- all silent clusters together have half of the threads.

Who finds no seat at a cluster that answers leaves its work with those who sit there, and the next one done
goes on with it: no thread waits, and nothing is left to a sweep as long as the cluster is well. At a silent
cluster the work is dropped; the row is due, and a sweep offers it again.

Probes have seats of their own: they find out that a cluster is back, so its groups must not keep them off.
Rejected: a queue and worker processes per backend (an operator's burden that grows with backends), and
shorter time limits alone (a list of 10,000 pods from a busy API server does take seconds).
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from cluster import reachability
from cluster.connection import Access

T = TypeVar("T")

MAX_WAITING = 500
"""Pieces of work kept for each cluster while its seats are taken; a sweep offers what is beyond."""


class Seats(Generic[T]):
    """Seats at clusters for the threads of this process; unbounded until ``share`` was called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._occupied: Counter[Access] = Counter()
        self._waiting: dict[Access, OrderedDict[T, None]] = {}
        self._most = self._most_silent = 1_000_000

    def share(self, *, most: int, silent: int) -> None:
        """Give each cluster at most ``most`` seats, and silent ones ``silent`` together."""
        self._most, self._most_silent = max(1, most), max(1, silent)

    def enter(self, access: Access, work: T | None = None) -> bool:
        """Take a seat. Without one, leave ``work`` to those who have, if the cluster answers."""
        with self._lock:
            if self._is_free(access):
                self._occupied[access] += 1
                return True
            if work is not None and not reachability.is_silent(access):
                waiting = self._waiting.setdefault(access, OrderedDict())
                if len(waiting) < MAX_WAITING:
                    waiting[work] = None
            return False

    def leave(self, access: Access) -> None:
        """Give the seat back."""
        with self._lock:
            self._occupied[access] -= 1
            if self._occupied[access] <= 0:
                del self._occupied[access]

    def next(self, access: Access) -> T | None:
        """The next work that waits for a seat here; None if there is none, or the cluster is silent."""
        with self._lock:
            waiting = self._waiting.get(access)
            if waiting is None:
                return None
            if not waiting or reachability.is_silent(access):
                del self._waiting[access]
                return None
            return waiting.popitem(last=False)[0]

    @contextmanager
    def seat(self, access: Access) -> Iterator[bool]:
        """Take a seat for a while, or say that there is none."""
        entered = self.enter(access)
        try:
            yield entered
        finally:
            if entered:
                self.leave(access)

    def _is_free(self, access: Access) -> bool:
        if not reachability.is_silent(access):
            return self._occupied[access] < self._most
        silent = sum(seats for other, seats in self._occupied.items() if reachability.is_silent(other))
        return self._occupied[access] < 1 and silent < self._most_silent


WORK: Seats[str] = Seats()
"""For reconciling task groups, and for syncing shared objects."""
PROBES: Seats[str] = Seats()


def share(threads: int) -> None:
    """Divide the threads of this process."""
    WORK.share(most=threads * 3 // 4, silent=threads // 2)
    PROBES.share(most=1, silent=threads // 4)
