"""Jobs for the tests of child processes."""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path


def echo(payload):
    return payload


def own_process(payload):
    return str(os.getpid()).encode()


def burn(payload):
    while True:
        pass


def take_memory(payload):
    return bytes(int(payload))


def fill(payload):
    return b"x" * int(payload)


def fail(payload):
    return 1 // 0


def crash(payload):
    os.abort()


def surroundings(payload):
    """Variables but the one that Python sets, sockets, the bound on files, and whether Django is there."""
    sockets = 0
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the list itself is closed by now
            sockets += int(file.name) > 2 and str(file.readlink()).startswith("socket:")
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    return repr((sorted(os.environ.keys() - {"LC_CTYPE"}), sockets, size, "django" in sys.modules)).encode()
