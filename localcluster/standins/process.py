"""What the stand-ins' processes share: plain one-line logs, and an end that is clean or says why.

A thread that dies of an unforeseen error would leave a stand-in that looks alive and does nothing; it
takes the whole process down instead, with status 1.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

log = logging.getLogger(__name__)


def run(name: str, *, work: Callable[[], None], shut_down: Callable[[], None]) -> int:
    """Run ``work`` until SIGTERM or SIGINT calls ``shut_down``; return the exit status."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format=f"%(asctime)s {name} %(levelname)s %(message)s"
    )
    died: list[threading.ExceptHookArgs] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        shut_down()

    def on_death(dead: threading.ExceptHookArgs) -> None:
        died.append(dead)
        log.critical("a thread died of %r", dead.exc_value, exc_info=dead.exc_value)
        shut_down()

    threading.excepthook = on_death
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    work()
    log.info("ended")
    return 1 if died else 0
