"""Whether a process without a web server makes progress: ``/livez`` beside its metrics.

A process that answers is not yet one that works: its loop may hang while another thread serves the page. So
each process names what must turn: beat and the observer a loop, the worker its threads. Nothing here touches
a database, a broker or a cluster: their absence is no reason to restart a process, which would end its
reconciles and help nobody. The limits are far above the time limits of single calls.

Rejected: a command that a probe runs (it loads Django for seconds, every few seconds), and a file that the
process touches (it says no more than this, and needs a place to write).
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Check = Callable[[], str]

LOOP_SECONDS = 300.0
TASK_SECONDS = 900.0

_checks: list[Check] = []


def watch(check: Check) -> None:
    """Add what must turn in this process; a check returns a sentence if it does not."""
    _checks.append(check)


def faults() -> list[str]:
    return [sentence for check in _checks if (sentence := check())]


@dataclass(slots=True)
class Loop:
    """A loop that turns at least every ``LOOP_SECONDS``."""

    name: str
    turned_at: float = field(default_factory=time.monotonic)

    def turn(self) -> None:
        self.turned_at = time.monotonic()

    def fault(self) -> str:
        age = time.monotonic() - self.turned_at
        return f"{self.name} has not turned for {age:.0f} s" if age > LOOP_SECONDS else ""


@dataclass(slots=True)
class TaskThreads:
    """The threads of a worker: some of them must be free, or have begun a task a while ago at most."""

    count: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    began: dict[str, float] = field(default_factory=dict)

    def begin(self, task_id: str) -> None:
        with self.lock:
            self.began[task_id] = time.monotonic()

    def end(self, task_id: str) -> None:
        with self.lock:
            self.began.pop(task_id, None)

    def fault(self) -> str:
        now = time.monotonic()
        with self.lock:
            hung = sum(now - began > TASK_SECONDS for began in self.began.values())
        return f"all {self.count} threads have hung for {TASK_SECONDS:.0f} s" if hung >= self.count else ""
