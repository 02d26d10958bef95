"""How much room the workers' queue has. It is bounded, since every message can be left to the sweep.

A queue is taken in the order of its messages, and the sweep in fair turns. So the queue is as short as keeps
the workers busy: a new group waits for a few dozen reconciliations of other groups and not for thousands. Its
length is read from Redis, cached for a moment, and raised by the messages that this process sends, so that a
burst of notifications costs one query. Queries share a connection: to open one costs more than the query. A
broker that does not answer is *silent* for a while: no message is sent to it, since a request would wait for
each message as long as a connection lasts.
"""

import threading
import time
from functools import cache
from typing import Any

import structlog
from celery import current_app
from django.conf import settings
from kombu.exceptions import ChannelError, KombuError

FULL = 50
"""Messages beyond which no more are sent."""
KEPT_FREE = 20
"""Of these, places for messages that come alone: whoever comes beside a crowd finds one."""
LOW = 10
"""Messages at which workers enqueue more groups that are due, ahead of beat's next sweep."""
CACHED_SECONDS = 0.25
SILENT_SECONDS = 5.0
"""The same after a query without an answer."""
QUERY_TIMEOUTS = {"socket_timeout": 1, "socket_connect_timeout": 1}
"""Timeouts of a query in seconds, on a connection for queries alone."""
SLOW_SECONDS = 0.3
"""While a query takes longer than this, the broker counts as silent."""

log = structlog.get_logger(__name__)

_connected = threading.Lock()
_measuring = threading.Lock()
_until = float("-inf")  # when to query again
_queried_at: float | None = None  # when the running query began
_unanswered = False  # whether the last query was
_waiting = 0  # messages by the last query, and those sent since


def length() -> int | None:
    """Messages that wait; None if the broker does not answer."""
    queue = settings.CELERY_TASK_DEFAULT_QUEUE
    with _connected:
        broker = _broker()
        try:
            return int(broker.default_channel.queue_declare(queue, passive=True).message_count)
        except ChannelError:  # a queue that is empty is not there
            return 0
        except (*broker.connection_errors, *broker.channel_errors, KombuError, OSError) as error:
            log.debug("queue_not_measured", error=str(error))
            _disconnect()
            return None


@cache
def _broker() -> Any:
    """The connection for queries. It lasts until one has no answer; Redis may close it meanwhile."""
    return current_app.connection_for_write(transport_options=QUERY_TIMEOUTS)


def _disconnect() -> None:
    _broker().release()
    _broker.cache_clear()


def waiting() -> int:
    """Messages that wait, as far as this process knows. No thread waits for another thread's query."""
    global _queried_at, _unanswered, _until, _waiting  # noqa: PLW0603 -- one memory for all threads of the process
    if time.monotonic() >= _until and _measuring.acquire(blocking=False):
        try:
            _queried_at = time.monotonic()
            messages = length()
            _waiting, _unanswered = messages or 0, messages is None
            _until = time.monotonic() + (SILENT_SECONDS if messages is None else CACHED_SECONDS)
        finally:
            _queried_at = None
            _measuring.release()
    return _waiting


def is_silent() -> bool:
    """Whether the broker did not answer lately, or a query has waited too long for its answer."""
    began = _queried_at
    return _unanswered or (began is not None and time.monotonic() - began > SLOW_SECONDS)


def room(*, of_many: bool) -> int:
    """How many more messages may be sent: fewer for the many groups of a crowd than for a new one."""
    return max(0, (FULL - KEPT_FREE if of_many else FULL) - waiting())


def sent(messages: int) -> None:
    """Add messages that were sent since the last query."""
    global _waiting  # noqa: PLW0603 -- as above
    _waiting += messages


def forget() -> None:
    """Query the broker again at the next call, on a new connection."""
    global _until  # noqa: PLW0603 -- as above
    _until = float("-inf")
    with _connected:
        _disconnect()
