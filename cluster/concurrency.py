"""The concurrency limit of each cluster: how many threads of a worker its calls may occupy at a time.

A call to a cluster occupies a worker thread, and a cluster that accepts connections and never answers
occupies each for about twenty seconds. Without a limit, the task groups of one such cluster take every
thread, and the groups of all other clusters wait. So work for a cluster needs a slot:

- A cluster never gets all threads. One that falls silent leaves threads to the others from the first moment.
- A silent cluster (``cluster.reachability``) gets one slot, enough to notice that it answers again.
- All silent clusters together get half of the threads.

Work that finds no slot at a cluster that answers is queued in this process; a thread that ends its work for
that cluster continues with the queued work. No thread waits, and the sweep is not needed while the cluster
answers. Work is queued only as long as a thread has a slot there: work that the last one leaves, because its
time was up, is dropped, as is work for a silent cluster. Its row is due, and the sweep enqueues it again.

Probes have slots of their own, because they detect that a cluster answers again: the work of its groups must
not delay them. Rejected: a queue and worker processes for each backend (more to operate with each backend),
and shorter time limits alone (a busy API server does take seconds to list 10,000 pods).
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
"""Pieces of work queued for each cluster at its limit; the sweep enqueues what exceeds this."""


class ConcurrencyLimit(Generic[T]):
    """The slots of every cluster for the threads of this process; unlimited until ``share`` is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._occupied: Counter[Access] = Counter()
        self._waiting: dict[Access, OrderedDict[T, None]] = {}
        self._most = self._most_silent = 1_000_000

    def share(self, *, most: int, silent: int) -> None:
        """Give each cluster at most ``most`` slots, and all silent clusters ``silent`` together."""
        self._most, self._most_silent = max(1, most), max(1, silent)

    def enter(self, access: Access, *work: T) -> bool:
        """Take a slot; False if none is free. Then ``work`` is queued if the cluster answers."""
        with self._lock:
            if self._is_free(access):
                self._occupied[access] += 1
                return True
            if work and not reachability.is_silent(access):
                waiting = self._waiting.setdefault(access, OrderedDict())
                waiting.update(dict.fromkeys(work[: MAX_WAITING - len(waiting)]))
            return False

    def waiting(self) -> frozenset[T]:
        """The work that is queued here."""
        with self._lock:
            return frozenset(work for queued in self._waiting.values() for work in queued)

    def leave(self, access: Access) -> None:
        """Give the slot back; with the last one of a cluster, its queued work is dropped."""
        with self._lock:
            self._occupied[access] -= 1
            if self._occupied[access] <= 0:
                del self._occupied[access]
                self._waiting.pop(access, None)

    def next(self, access: Access) -> T | None:
        """The next queued work of this cluster; None if there is none, or the cluster is silent."""
        with self._lock:
            waiting = self._waiting.get(access)
            if waiting is None:
                return None
            if not waiting or reachability.is_silent(access):
                del self._waiting[access]
                return None
            return waiting.popitem(last=False)[0]

    @contextmanager
    def slot(self, access: Access) -> Iterator[bool]:
        """Take a slot for the block; yields whether one was free."""
        entered = self.enter(access)
        try:
            yield entered
        finally:
            if entered:
                self.leave(access)

    def _is_free(self, access: Access) -> bool:
        if not reachability.is_silent(access):
            return self._occupied[access] < self._most
        silent = sum(slots for other, slots in self._occupied.items() if reachability.is_silent(other))
        return self._occupied[access] < 1 and silent < self._most_silent


WORK: ConcurrencyLimit[str] = ConcurrencyLimit()
"""For reconciling task groups, and for syncing shared objects."""
PROBES: ConcurrencyLimit[str] = ConcurrencyLimit()


def share(threads: int) -> None:
    """Divide the threads of this process."""
    WORK.share(most=threads * 3 // 4, silent=threads // 2)
    PROBES.share(most=1, silent=threads // 4)
