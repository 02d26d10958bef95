"""What is left to do after a session: by the process, as its connection is gone."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import structlog
from django.db import close_old_connections

PAUSES = (0.5, 2.0, 8.0)
"""Seconds between the tries."""

log = structlog.get_logger(__name__)
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="session-end")
_running: Final[set[asyncio.Task[None]]] = set()


def write_later(write: Callable[[], None]) -> None:
    """Have a thread write something, tried again if it fails; the last failure is logged."""
    _threads.submit(_write, write)


def _write(write: Callable[[], None]) -> None:
    for pause in PAUSES:
        if _succeeds(write):
            return
        time.sleep(pause)
    _succeeds(write)


def _succeeds(write: Callable[[], None]) -> bool:
    close_old_connections()
    try:
        write()
    except Exception:
        log.exception("session_end_unwritten")
        return False
    finally:
        close_old_connections()
    return True


def go_on(work: Coroutine[Any, Any, None]) -> None:
    """Run something to its end, whatever becomes of the connection that it began in."""
    task = asyncio.create_task(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
