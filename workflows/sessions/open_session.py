"""One session that this process holds."""

import asyncio
import time
from dataclasses import dataclass, field

from web.access.rights import ExternalRights
from workflows.sessions.tickets import Ticket


@dataclass(slots=True, eq=False)
class OpenSession:
    """One session; ``over`` gets the sentence with which it is to end."""

    ticket: Ticket
    external: ExternalRights | None
    over: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    received: int = 0
    sent: int = 0
    active_at: float = field(default_factory=time.monotonic)
    reported: tuple[int, int] = (0, 0)
    """Bytes of a connection that its forward has heard of."""

    def count(self, *, received: int = 0, sent: int = 0) -> None:
        """Count bytes from the caller, and to them."""
        self.received += received
        self.sent += sent
        self.active_at = time.monotonic()

    def end(self, why: str) -> None:
        if not self.over.done():
            self.over.set_result(why)
