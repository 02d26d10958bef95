"""How many requests of one web process may read logs of running tasks at a time.

Such a request holds a thread for as long as it follows, or as long as a silent kubelet lets it wait. Without
a bound a few users who watch their training would leave no thread to anybody's submission. So there are
``OSMO_LOG_STREAMS`` places, of which one user has ``OSMO_LOG_USER_STREAMS``; who finds none is told when to
come again. Places are of a process: its threads are what is short, and a count in the database would outlive
processes that are killed.
"""

import threading
from collections import Counter
from typing import Final

from django.conf import settings

from scheduling.errors import Busy
from workflows.metrics import LOG_STREAMS

AGAIN_SECONDS: Final = 5


class Place:
    """A place that was taken; ``leave`` may be called more than once."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._taken = True

    def leave(self) -> None:
        with _lock:
            if self._taken:
                self._taken = False
                _taken[self._user] -= 1
                if _taken[self._user] <= 0:
                    del _taken[self._user]


_lock = threading.Lock()
_taken: Counter[str] = Counter()


def take(user: str) -> Place:
    """Take a place for a user. Raises Busy."""
    env = settings.ENV
    with _lock:
        if _taken[user] >= env.log_user_streams:
            LOG_STREAMS.labels("user_busy").inc()
            raise Busy(
                f"You read as many logs of running tasks as one user may ({env.log_user_streams}): "
                "end one, or come again.",
                retry_after=AGAIN_SECONDS,
            )
        if _taken.total() >= env.log_streams:
            LOG_STREAMS.labels("busy").inc()
            raise Busy(
                "As many logs of running tasks are read as may be: come again.", retry_after=AGAIN_SECONDS
            )
        _taken[user] += 1
    LOG_STREAMS.labels("served").inc()
    return Place(user)
