"""How a call fails: each as an exception with a sentence for its reader."""

from collections.abc import Mapping
from typing import Any


class Failure(Exception):
    """Anything that keeps a call from being done; ``message`` is one sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def is_outage(self) -> bool:
        """Whether the service could not do its part, so that the same may go through later."""
        return False


class Misused(Failure):
    """A request that cannot be sent: no address, no login, no such file."""


class ServiceUnreachable(Failure):
    """No answer, or not one of this service."""

    @property
    def is_outage(self) -> bool:
        return True


class Refused(Failure):
    """The service answered with an error; ``body`` is its own, in its one shape."""

    def __init__(self, *, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("message") or f"The service answered with status {status}."))
        self.status = status
        self.body = body

    @property
    def is_outage(self) -> bool:
        return self.status >= 500
