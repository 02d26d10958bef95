"""The threads that run Django, and the queue before them.

As many as are useful under one interpreter lock, and no more: each keeps a database connection. When the
queue is full, or a request has waited in it for too long, the caller is asked to come again later.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")


class ThreadsBusy(Exception):
    """No thread is free and the queue is full, or was too slow."""


class ThreadLane:
    """A bounded pool of threads with a bounded queue."""

    def __init__(self, name: str, *, threads: int, queue: int, queue_seconds: float) -> None:
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
        self._most = threads + queue
        self._queue_seconds = queue_seconds
        self._lock = threading.Lock()
        self._pending = 0

    @property
    def is_full(self) -> bool:
        return self._pending >= self._most

    async def admit(
        self,
        function: Callable[[], R],
        *,
        discard: Callable[[R], None],
        end: Callable[[], None] = lambda: None,
    ) -> R:
        """Run a function that begins a request. Raises ThreadsBusy.

        ``discard`` gets a result that nobody waits for any more. ``end`` is called once, when the function
        has ended or will never begin: a thread goes on when its caller has gone.
        """
        try:
            future = self._admitted(function)
        except BaseException:
            end()
            raise
        future.add_done_callback(lambda _: end())
        return await self._wait_for(future, discard)

    def _admitted(self, function: Callable[[], R]) -> Future[R]:
        if self.is_full:
            raise ThreadsBusy
        queued_at = time.monotonic()

        def run() -> R:
            if time.monotonic() - queued_at > self._queue_seconds:
                raise ThreadsBusy
            return function()

        return self._submit(run)

    async def run(self, function: Callable[[], R], *, end: Callable[[], None] = lambda: None) -> R:
        """Run a function of a request that was admitted; ``end`` is called as ``admit`` does."""
        try:
            future = self._submit(function)
        except BaseException:
            end()
            raise
        future.add_done_callback(lambda _: end())
        return await self._wait_for(future, None)

    async def _wait_for(self, future: Future[R], discard: Callable[[R], None] | None) -> R:
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if discard is not None:
                future.add_done_callback(lambda done: _discard(done, discard))
            raise

    def start(self, function: Callable[[], object]) -> None:
        """Run a function without waiting for it."""
        self._submit(function)

    def _submit(self, function: Callable[[], R]) -> Future[R]:
        """Queue a function; one that is cancelled goes at once, with the body that belongs to it.

        The executor keeps a cancelled call until a thread takes it out, and counts it no more.
        """
        functions = [function]

        def run() -> R:
            return functions.pop()()

        self._count(1)
        try:
            future = self._executor.submit(run)
        except BaseException:  # the process stops
            self._count(-1)
            raise
        future.add_done_callback(lambda _: functions.clear())
        future.add_done_callback(lambda _: self._count(-1))
        return future

    def _count(self, change: int) -> None:
        with self._lock:
            self._pending += change


def _discard(future: Future[R], discard: Callable[[R], None]) -> None:
    if not future.cancelled() and future.exception() is None:
        discard(future.result())
