"""Waiting for what another process or thread does."""

import time


def until(condition, *, seconds=120.0):
    """What the condition returns as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return value
