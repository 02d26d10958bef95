"""Named places where the fault harness kills a process, to test a crash between any two steps.

``reached`` does nothing unless ``OSMO_CRASH_POINTS`` names a directory, which the settings of production
refuse. A file in it, named like a point, arms the point: the process that gets there first renames the file
to ``<point>.hit.<pid>`` and kills itself with SIGKILL. A rename succeeds once, so each arming kills one
process, and hits can be counted afterwards. Rejected: exceptions instead of a crash. They run ``finally``
blocks and release leases and connections, which a real crash does not do. The harness has the list of points.
"""

import os
import signal
from pathlib import Path

from django.conf import settings


def enabled() -> bool:
    """Whether this process may be killed at all."""
    return bool(settings.ENV.crash_points)


def reached(point: str) -> None:
    """Die here if the point is armed."""
    if not enabled():
        return
    armed = Path(settings.ENV.crash_points) / point
    try:
        armed.rename(armed.with_name(f"{point}.hit.{os.getpid()}"))
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
