"""Slots for requests that read logs of running tasks in one web process.

Such a request occupies a thread for as long as it follows, or as long as a silent kubelet makes it wait.
Without a bound, a few users who watch their training would leave no thread for submissions. There are
``OSMO_LOG_STREAMS`` slots, of which one user gets at most ``OSMO_LOG_USER_STREAMS``; without a free slot the
reply says when to try again. Slots belong to a process: its threads are scarce, and a count in the database
would outlive processes that are killed.
"""

import threading
from collections import Counter
from typing import Final

from django.conf import settings

from scheduling.errors import Busy
from workflows.metrics import LOG_STREAMS

AGAIN_SECONDS: Final = 5


class StreamSlot:
    """A slot in use; ``release`` may be called more than once."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._is_used = True

    def release(self) -> None:
        with _lock:
            if self._is_used:
                self._is_used = False
                _used[self._user] -= 1
                if _used[self._user] <= 0:
                    del _used[self._user]


_lock = threading.Lock()
_used: Counter[str] = Counter()


def take(user: str) -> StreamSlot:
    """Take a slot for a user. Raises Busy."""
    env = settings.ENV
    with _lock:
        if _used[user] >= env.log_user_streams:
            LOG_STREAMS.labels("user_busy").inc()
            raise Busy(
                f"You read as many logs of running tasks as one user may ({env.log_user_streams}): "
                "end one, or come again.",
                retry_after=AGAIN_SECONDS,
            )
        if _used.total() >= env.log_streams:
            LOG_STREAMS.labels("busy").inc()
            raise Busy(
                "As many logs of running tasks are read as may be: come again.", retry_after=AGAIN_SECONDS
            )
        _used[user] += 1
    LOG_STREAMS.labels("served").inc()
    return StreamSlot(user)
