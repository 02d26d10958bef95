"""How long the workers' queue is: what bounds it, since every message in it can be left to the sweep.

Asked for in Redis, and remembered for a moment, so that a burst of nudges costs one question. A broker that
does not answer has no length: then nothing is held back, and sending finds out for itself.
"""

import threading
import time

import structlog
from celery import current_app
from django.conf import settings
from kombu.exceptions import ChannelError, KombuError

FULL = 200
"""Messages beyond which no more are sent; workers take some seconds for as many."""
REMEMBERED_SECONDS = 0.25
SILENT_SECONDS = 5.0
"""The same after a question that was not answered."""

log = structlog.get_logger(__name__)

_measuring = threading.Lock()
_last: tuple[float, bool] = (float("-inf"), False)  # until when it counts, and what was found


def length() -> int | None:
    """Messages that wait; None if that cannot be told."""
    queue = settings.CELERY_TASK_DEFAULT_QUEUE
    with current_app.connection_for_write() as broker:
        try:
            return int(broker.default_channel.queue_declare(queue, passive=True).message_count)
        except ChannelError:  # a queue that is empty is not there
            return 0
        except (*broker.connection_errors, *broker.channel_errors, KombuError, OSError) as error:
            log.debug("queue_not_measured", error=str(error))
            return None


def is_full() -> bool:
    """Whether more messages would only lengthen the queue. Nobody waits for somebody else's question."""
    global _last  # noqa: PLW0603 -- one memory for all threads of the process
    if time.monotonic() < _last[0] or not _measuring.acquire(blocking=False):
        return _last[1]
    try:
        waiting = length()
        remembered = SILENT_SECONDS if waiting is None else REMEMBERED_SECONDS
        _last = (time.monotonic() + remembered, (waiting or 0) > FULL)
    finally:
        _measuring.release()
    return _last[1]


def forget() -> None:
    """Ask anew at the next question."""
    global _last  # noqa: PLW0603 -- as above
    _last = (float("-inf"), False)
