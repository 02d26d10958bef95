"""How a command ends: its exit code.

Codes 10 and 75 are those of OSMO's own client for the same. 2 is the usual code for a command line that was
not understood.
"""

from enum import IntEnum

from osmo_topology_client.errors import Failure, Misused, Refused


class Exit(IntEnum):
    DONE = 0
    REFUSED = 1
    MISUSED = 2
    NOT_WELL = 3
    NOT_CHECKED = 4
    UNREACHABLE = 10
    TRY_LATER = 75
    INTERRUPTED = 130


BY_STATUS = {401: Exit.MISUSED, 429: Exit.TRY_LATER}
"""Of an answer that is none of the service's faults; other refusals end with REFUSED."""


def exit_of(failure: Failure) -> Exit:
    """The code of a command that a failure ended."""
    if failure.is_outage:
        return Exit.UNREACHABLE
    if isinstance(failure, Refused):
        return BY_STATUS.get(failure.status, Exit.REFUSED)
    return Exit.MISUSED if isinstance(failure, Misused) else Exit.REFUSED
