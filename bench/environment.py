"""Where a report was made: figures of another machine mean nothing, and of a busy one little."""

import os
import platform
import time
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 1.0


def describe() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": platform.processor() or platform.machine(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def load() -> dict[str, Any]:
    """How busy the machine is with other things, while the bench only waits."""
    busy, total = _ticks()
    time.sleep(SAMPLE_SECONDS)
    busy_after, total_after = _ticks()
    return {
        "busy_share": round((busy_after - busy) / max(total_after - total, 1), 2),
        "load_average_1m": round(os.getloadavg()[0], 2),
    }


def _ticks() -> tuple[int, int]:
    """Ticks of all cores that were busy, and all ticks (proc(5): user nice system idle iowait irq ...)."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    total = sum(fields)
    return total - fields[3] - fields[4], total
