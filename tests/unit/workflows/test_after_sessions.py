"""What is written after a session is written at last, and its failures are logged."""

import threading

import pytest
from structlog.testing import capture_logs

from workflows.sessions import afterwards


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(afterwards, "PAUSES", (0.0, 0.0))


def tried(failures):
    """How often it was tried, where so many tries fail, and the events of the log."""
    tries = []

    def write():
        tries.append(1)
        if len(tries) <= failures:
            raise RuntimeError("no")

    with capture_logs() as logs:
        afterwards.write_later(write)
        until_idle()
    return len(tries), [entry["event"] for entry in logs]


def until_idle():
    barrier = threading.Barrier(3, timeout=60)
    for _ in range(2):  # its two threads
        afterwards.write_later(barrier.wait)
    barrier.wait()


@pytest.mark.parametrize(("failures", "tries"), [(1, 2), (2, 3), (3, 3)])
def test_what_fails_is_tried_again_and_each_failure_is_in_the_log(failures, tries):
    assert tried(failures) == (tries, ["session_end_unwritten"] * failures)
