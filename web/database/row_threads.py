"""Threads in which coroutines have rows read: each keeps its connection by Django's rule for requests."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from django.db import close_old_connections

T = TypeVar("T")


async def run_in(threads: Executor, function: Callable[[], T]) -> T:
    """Run a function that reads rows in one of these threads."""

    def run() -> T:
        close_old_connections()
        try:
            return function()
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(threads, run)
