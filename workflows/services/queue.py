"""How much room the workers' queue has: what bounds it, since every message can be left to the sweep.

A queue is taken in the order of its messages, and the sweep in fair turns. So the queue is kept as short as
keeps the workers busy: a newcomer waits for a few dozen looks at others' groups and not for thousands. Its
length is asked for in Redis, remembered for a moment and counted on by what this process sends, so that a
burst of notifications costs one question. A broker that does not answer is *silent* for a while: nothing is
sent to it, since a request would wait for each message as long as a connection lasts.
"""

import threading
import time

import structlog
from celery import current_app
from django.conf import settings
from kombu.exceptions import ChannelError, KombuError

FULL = 50
"""Messages beyond which no more are sent."""
LOW = 15
"""Messages at which workers ask for more of what is due, ahead of beat's next sweep."""
REMEMBERED_SECONDS = 0.25
SILENT_SECONDS = 5.0
"""The same after a question that was not answered."""
PATIENCE = {"socket_timeout": 1, "socket_connect_timeout": 1}
"""Seconds for which an answer is waited for, on a connection of its own."""
SLOW_SECONDS = 0.3
"""A question that takes longer is one that nobody else should wait with."""

log = structlog.get_logger(__name__)

_measuring = threading.Lock()
_until = float("-inf")  # when to ask again
_asked: float | None = None  # when the question that is being asked was begun
_unanswered = False  # whether the last question was
_waiting = 0  # as found, and what was sent since


def length() -> int | None:
    """Messages that wait; None if that cannot be told."""
    queue = settings.CELERY_TASK_DEFAULT_QUEUE
    with current_app.connection_for_write(transport_options=PATIENCE) as broker:
        try:
            return int(broker.default_channel.queue_declare(queue, passive=True).message_count)
        except ChannelError:  # a queue that is empty is not there
            return 0
        except (*broker.connection_errors, *broker.channel_errors, KombuError, OSError) as error:
            log.debug("queue_not_measured", error=str(error))
            return None


def waiting() -> int:
    """Messages that wait, as far as this process knows. Nobody waits for somebody else's question."""
    global _asked, _unanswered, _until, _waiting  # noqa: PLW0603 -- one memory for all threads of the process
    if time.monotonic() >= _until and _measuring.acquire(blocking=False):
        try:
            _asked = time.monotonic()
            found = length()
            _waiting, _unanswered = found or 0, found is None
            _until = time.monotonic() + (SILENT_SECONDS if found is None else REMEMBERED_SECONDS)
        finally:
            _asked = None
            _measuring.release()
    return _waiting


def is_silent() -> bool:
    """Whether the broker did not answer lately, or lets somebody wait for its answer."""
    asked = _asked
    return _unanswered or (asked is not None and time.monotonic() - asked > SLOW_SECONDS)


def room() -> int:
    """How many more messages may be sent."""
    return max(0, FULL - waiting())


def sent(messages: int) -> None:
    """Count on what was sent since the question."""
    global _waiting  # noqa: PLW0603 -- as above
    _waiting += messages


def forget() -> None:
    """Ask anew at the next question."""
    global _until  # noqa: PLW0603 -- as above
    _until = float("-inf")
