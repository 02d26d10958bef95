"""The clock of deadlines and leases: seconds since boot, those in which the machine slept included.

``time.monotonic`` stands still while a Linux machine is suspended, so a deadline by it would still be ahead
when the lease that it came from has long passed to another worker.
"""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_seconds() -> float:
    """Seconds since boot, suspension included."""
    return time.clock_gettime(_CLOCK)
