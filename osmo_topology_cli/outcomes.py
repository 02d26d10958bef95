"""How a command ends: its exit code, and a sentence if that is not 0.

Codes 10 and 75 are those of OSMO's own client for the same. 2 is the usual code for a command line that was
not understood.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


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


class Failure(Exception):
    """Ends the command with one sentence and a code."""

    code = Exit.REFUSED

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Misused(Failure):
    """A request that cannot be sent: no address, no login, no such file."""

    code = Exit.MISUSED


class Misnamed(Failure):
    """A name that the service has nothing for, where its answer is an empty list."""


class ServiceUnreachable(Failure):
    """No answer, or not one of this service."""

    code = Exit.UNREACHABLE


class Refused(Failure):
    """The service answered with an error; ``body`` is its own, in its one shape."""

    def __init__(self, *, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("message") or f"The service answered with status {status}."))
        self.status = status
        self.body = body

    @property
    def code(self) -> Exit:  # type: ignore[override]  # by the status, where the others have one
        if self.status in BY_STATUS:
            return BY_STATUS[self.status]
        return Exit.UNREACHABLE if self.status >= 500 else Exit.REFUSED
