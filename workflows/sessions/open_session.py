"""One session that this process holds."""

import asyncio
import time
from dataclasses import dataclass, field

from web.access.rights import ExternalRights
from web.server.sockets import NORMAL
from workflows.sessions.tickets import Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLogin:
    """How the caller of a session logged in: it ends with its personal token or its browser's session."""

    external: ExternalRights | None = None
    token: str = ""
    """A personal token's digest."""

    browser: str = ""
    """The key of one of Django's sessions."""

    password: str = ""
    """With it Django's proof of the user's password, which changes with that."""

    @property
    def is_lasting(self) -> bool:
        """Whether nothing tells when it ends: a gateway, or an identity provider, spoke of one request."""
        return not (self.token or self.browser)


@dataclass(slots=True, eq=False)
class OpenSession:
    """One session; ``over`` gets the sentence with which it is to end, and the socket's code."""

    ticket: Ticket
    login: SessionLogin
    over: asyncio.Future[tuple[str, int]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    received: int = 0
    sent: int = 0
    began_at: float = field(default_factory=time.monotonic)
    active_at: float = field(default_factory=time.monotonic)
    is_counted: bool = False
    """Whether it counts for all web processes."""

    reported: tuple[int, int] = (0, 0)
    """Bytes of a connection that its forward has heard of."""

    def count(self, *, received: int = 0, sent: int = 0) -> None:
        """Count bytes from the caller, and to them."""
        self.received += received
        self.sent += sent
        self.active_at = time.monotonic()

    def end(self, why: str, code: int = NORMAL) -> None:
        if not self.over.done():
            self.over.set_result((why, code))
