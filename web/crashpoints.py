"""Named places where the fault harness kills a process, to test a crash between any two steps.

``reached`` does nothing unless ``OSMO_CRASH_POINTS`` names a directory, which the settings of production
refuse. A file in it, named like a point, arms the point: the process that gets there first renames the file
to ``<point>.hit.<pid>`` and kills itself with SIGKILL. A rename succeeds once, so each arming kills one
process, and hits can be counted afterwards. Rejected: exceptions instead of a crash. They run ``finally``
blocks and release leases and connections, which a real crash does not do.
"""

import os
import signal
from pathlib import Path

from django.conf import settings

POINTS = (
    "after-submission-before-reply",
    "between-lease-and-first-call",
    "after-touched-cluster",
    "created-computedomains",
    "after-template-seen",
    "created-podgroups",
    "room-assigned",
    "created-services",
    "half-of-pods",
    "created-pods",
    "before-created-recorded",
    "after-relax-decision",
    "before-minimum-set",
    "after-order-decision",
    "reordered-podgroup",
    "half-of-labels",
    "before-order-recorded",
    "after-pin-decision",
    "deleted-pods-to-pin",
    "after-attempt-recorded",
    "before-attempt-cleared",
    "after-end-recorded",
    "deleted-pods",
    "deleted-podgroups",
    "deleted-services",
    "deleted-computedomains",
    "before-released-recorded",
    "before-lease-given-back",
)
"""Every point that a full run of the harness must hit; ``reached`` of another name is harmless."""


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
