"""Slots for requests that read logs of running tasks, or watch workflows, in one web process.

A request that reads what is there now occupies a thread for as long as a silent kubelet makes it wait: a few
users would leave no thread for submissions. One that follows occupies none, but memory and a connection to
the API server for each pod; one that watches occupies memory alone. So there are few slots of the first kind
(half of ``OSMO_WEB_THREADS``) and many of the others (``OSMO_LOG_FOLLOWERS``, ``OSMO_WATCHERS``), of each a
part for one user, and the last fifth for users without any; without a free slot the reply says when to try
again. Slots belong to a process: a count in the database would outlive processes that are killed.
"""

import math
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from django.conf import settings
from prometheus_client import Counter as CountedRequests

from scheduling.errors import Busy
from workflows.metrics import LOG_STREAMS, WATCHES

AGAIN_SECONDS: Final = 5
MOST_READS_OF_USER: Final = 2
"""Requests of one user that read logs of running tasks once, in one web process."""
FOR_OTHERS: Final = 5
"""One slot in so many is for users who have none."""


class Slots:
    """The slots of one kind, whose requests ``do`` something; their numbers are read with each request."""

    def __init__(
        self, *, do: str, requests: CountedRequests, most: Callable[[], int], most_of_user: Callable[[], int]
    ) -> None:
        self._do, self._requests = do, requests
        self._most, self._most_of_user = most, most_of_user
        self._lock = threading.Lock()
        self._used: Counter[str] = Counter()

    def used(self) -> int:
        return self._used.total()

    def take(self, user: str) -> "StreamSlot":
        """Take a slot for a user. Raises Busy."""
        most, most_of_user = self._most(), self._most_of_user()
        with self._lock:
            if self._used[user] >= most_of_user:
                self._requests.labels("user_busy").inc()
                raise Busy(
                    f"You {self._do} in as many requests as one user may ({most_of_user}): "
                    "end one, or come again.",
                    retry_after=AGAIN_SECONDS,
                )
            if self._used.total() >= (most - math.ceil(most / FOR_OTHERS) if self._used[user] else most):
                self._requests.labels("busy").inc()
                raise Busy(
                    f"As many requests {self._do} as may at a time: come again.", retry_after=AGAIN_SECONDS
                )
            self._used[user] += 1
        self._requests.labels("served").inc()
        return StreamSlot(self, user)

    def release(self, user: str) -> None:
        with self._lock:
            self._used[user] -= 1
            if self._used[user] <= 0:
                del self._used[user]


class StreamSlot:
    """A slot in use; ``release`` may be called more than once, from any thread."""

    def __init__(self, slots: Slots, user: str) -> None:
        self._slots, self._user = slots, user
        self._lock = threading.Lock()
        self._is_used = True

    def release(self) -> None:
        with self._lock:
            was_used, self._is_used = self._is_used, False
        if was_used:
            self._slots.release(self._user)


_READ_LOGS: Final = "read logs of running tasks"
READING: Final = Slots(
    do=_READ_LOGS,
    requests=LOG_STREAMS,
    most=lambda: max(settings.ENV.web_threads // 2, 1),
    most_of_user=lambda: MOST_READS_OF_USER,
)
FOLLOWING: Final = Slots(
    do=_READ_LOGS,
    requests=LOG_STREAMS,
    most=lambda: settings.ENV.log_followers,
    most_of_user=lambda: settings.ENV.log_user_followers,
)
WATCHING: Final = Slots(
    do="watch workflows",
    requests=WATCHES,
    most=lambda: settings.ENV.watchers,
    most_of_user=lambda: settings.ENV.user_watchers,
)
