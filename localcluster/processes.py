"""Whether a process that was noted down is still the same one.

A pid alone is not enough to send a signal to: after a reboot, or some time, it may be another's. So a
process is noted as its pid and the moment of its start (boot and clock ticks since, from
``/proc``), and only a process that still matches both is ever signalled.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Process:
    """One process, told apart from a later one with the same pid."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """Note a running process down; raises ProcessLookupError where there is none."""
        if (started := _started(pid)) is None:
            raise ProcessLookupError(f"there is no process {pid}")
        return cls(pid=pid, started=started)

    def alive(self) -> bool:
        return _started(self.pid) == self.started

    def end(self, *, seconds: float) -> bool:
        """Ask it to end and wait; return whether it did. One that is gone already did."""
        if self.alive():
            os.kill(self.pid, signal.SIGTERM)
        return self.wait(seconds=seconds)

    def kill(self) -> None:
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, *, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


def _started(pid: int) -> str | None:
    """The boot and the tick at which a process started; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the program's name, in brackets, may hold anything
    status, ticks = fields[0], fields[19]
    return None if status in "ZX" else f"{BOOT_ID.read_text().strip()}/{ticks}"
