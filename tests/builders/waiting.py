"""Waiting for what another process or thread does."""

import time

LONGEST_PAUSE = 0.5


def until(condition, *, seconds=120.0):
    """What the condition returns as soon as that is true."""
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, "it did not come"
        pause(waited, least=0.02)
    return value


def pause(waited, *, least):
    """Look rarely at what takes long: a look costs the server that is waited for more than the test."""
    time.sleep(min(max(least, waited / 5), LONGEST_PAUSE))
