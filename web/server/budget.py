"""A bound on the memory that clients make the process hold: bodies half sent, answers not taken.

Whoever has held memory longest is cut off when it runs short. A body that is read or an answer that is taken
at an ordinary pace is never the oldest for long. Used by the event loop alone, so without locks.
"""

import asyncio
from types import TracebackType
from typing import Self

from web.server.counts import REFUSALS


class ByteBudget:
    """At most so many bytes, shared by the tasks that hold them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._shares: dict[Share, None] = {}  # in the order in which they began to wait for their clients

    def share(self) -> "Share":
        return Share(self)

    def add(self, share: "Share", size: int) -> None:
        """Count bytes of a share, and cut off the oldest ones while there are too many."""
        self._shares.setdefault(share)
        share.size += size
        self._total += size
        while self._total > self._most and self._shares:
            oldest = next(iter(self._shares))
            self.remove(oldest)
            oldest.cut()

    def keep(self, share: "Share") -> None:
        """Take a share out of those that may be cut off; its bytes count until it ends."""
        self._shares.pop(share, None)

    def remove(self, share: "Share") -> None:
        self._shares.pop(share, None)
        self._total -= share.size
        share.size = 0


class Share:
    """The bytes that one task holds; to be used as a context."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._task = asyncio.current_task()
        self.size = 0

    def add(self, size: int) -> None:
        self._budget.add(self, size)

    def keep(self) -> None:
        self._budget.keep(self)

    def cut(self) -> None:
        """End the task, and with it the connection."""
        REFUSALS.labels("memory").inc()
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._budget.remove(self)
