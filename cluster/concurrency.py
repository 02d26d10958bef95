"""The concurrency limit of each cluster: how many threads of a worker its calls may occupy at a time.

A call to a cluster occupies a worker thread, and a cluster that accepts connections and never answers
occupies each for about twenty seconds. Without a limit, the task groups of one such cluster take every
thread, and the groups of all other clusters wait. So work for a cluster needs a slot:

- A cluster never gets all threads. One that falls silent leaves threads to the others from the first moment.
- A silent cluster (``cluster.reachability``) gets one slot, enough to notice that it answers again.
- All silent clusters together get half of the threads.

Work that finds no slot at a cluster that answers is queued in this process, where its owners take turns
(``cluster.fair_queue``); a thread that ends its work for that cluster continues with the queued work. The
last free slot of a cluster is for an owner that has none, so a wide workflow never has them all. No thread
waits, and the sweep is not needed while the cluster answers. Work is queued only as long as a thread has a
slot there: work that the last one leaves, because its time was up, is dropped, as is work for a silent
cluster. Its row is due, and the sweep enqueues it again.

Probes have slots of their own, because they detect that a cluster answers again: the work of its groups must
not delay them. Rejected: a queue and worker processes for each backend (more to operate with each backend),
and shorter time limits alone (a busy API server does take seconds to list 10,000 pods).
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

from cluster import reachability
from cluster.connection import Access
from cluster.fair_queue import FairQueue, Owner

T = TypeVar("T")

MAX_WAITING = 500
"""Pieces of work queued for each cluster at its limit; the sweep enqueues what exceeds this."""


class ClusterSlot(Generic[T]):
    """A slot of a cluster; ``owner`` is the owner of the work that it serves now, if it has one."""

    def __init__(self, limit: "ConcurrencyLimit[T]", access: Access, owner: Owner | None) -> None:
        self.access, self.owner = access, owner
        self._limit = limit

    def next(self) -> T | None:
        """The next queued work of this cluster; None if there is none, or the cluster is silent."""
        return self._limit.next(self)

    def leave(self) -> None:
        """Give the slot back; with the last one of a cluster, its queued work is dropped."""
        self._limit.leave(self)


class ConcurrencyLimit(Generic[T]):
    """The slots of every cluster for the threads of this process; unlimited until ``share`` is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[Access, list[ClusterSlot[T]]] = {}
        self._waiting: dict[Access, FairQueue[T]] = {}
        self._most = self._most_silent = 1_000_000

    def share(self, *, most: int, silent: int) -> None:
        """Give each cluster at most ``most`` slots, and all silent clusters ``silent`` together."""
        self._most, self._most_silent = max(1, most), max(1, silent)

    def enter(self, access: Access, work: Mapping[T, Owner] | None = None) -> ClusterSlot[T] | None:
        """Take a slot for the first piece of work; None if none is free.

        Then all of it is queued if the cluster answers.
        """
        work = work or {}
        owner = next(iter(work.values()), None)
        with self._lock:
            if self._is_free(access, owner):
                slot = ClusterSlot(self, access, owner)
                self._slots.setdefault(access, []).append(slot)
                return slot
            if work and not reachability.is_silent(access):
                waiting = self._waiting.setdefault(access, FairQueue(most=MAX_WAITING))
                for piece, of in work.items():
                    waiting.put(piece, of)
            return None

    def waiting(self) -> frozenset[T]:
        """The work that is queued here."""
        with self._lock:
            return frozenset(work for queued in self._waiting.values() for work in queued)

    def leave(self, slot: ClusterSlot[T]) -> None:
        with self._lock:
            slots = self._slots[slot.access]
            slots.remove(slot)
            if not slots:
                del self._slots[slot.access]
                self._waiting.pop(slot.access, None)

    def next(self, slot: ClusterSlot[T]) -> T | None:
        with self._lock:
            waiting = self._waiting.get(slot.access)
            if waiting is None:
                return None
            if not waiting or reachability.is_silent(slot.access):
                del self._waiting[slot.access]
                return None
            following = waiting.take()
            assert following is not None, "the queue has work"
            work, slot.owner = following
            return work

    @contextmanager
    def slot(self, access: Access) -> Iterator[bool]:
        """Take a slot for the block; yields whether one was free."""
        slot = self.enter(access)
        try:
            yield slot is not None
        finally:
            if slot is not None:
                slot.leave()

    def _is_free(self, access: Access, owner: Owner | None) -> bool:
        slots = self._slots.get(access, ())
        if not reachability.is_silent(access):
            is_last = len(slots) == self._most - 1
            has_some = owner is not None and any(slot.owner == owner for slot in slots)
            return len(slots) < self._most and not (is_last and has_some)
        silent = sum(len(of) for other, of in self._slots.items() if reachability.is_silent(other))
        return not slots and silent < self._most_silent


WORK: ConcurrencyLimit[str] = ConcurrencyLimit()
"""For reconciling task groups, and for syncing shared objects."""
PROBES: ConcurrencyLimit[str] = ConcurrencyLimit()


def share(threads: int) -> None:
    """Divide the threads of this process."""
    WORK.share(most=threads * 3 // 4, silent=threads // 2)
    PROBES.share(most=1, silent=threads // 4)
