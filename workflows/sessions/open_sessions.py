"""The sessions that this process holds: how many may be, whose right to them still stands, which idle.

One look every few seconds serves all of them, whatever their number: a query for the users, one for their
roles, one for the pools. Whoever has lost the right, by whatever change, is told so and the session ends.
Counts belong to a process, as those of log followers (``logs.slots``).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import structlog
from django.conf import settings

from scheduling.errors import Busy
from web.database.row_threads import run_in
from web.server.sockets import RESTARTS
from workflows.metrics import SESSIONS
from workflows.sessions.forward_state import lost_forwards
from workflows.sessions.losses import Losses, lost_logins, lost_rights, lost_tasks
from workflows.sessions.open_lines import say_alive
from workflows.sessions.open_session import OpenSession
from workflows.sessions.tickets import CONNECTION, Ticket

CHECK_SECONDS: Final = 4.0
"""Between two looks at rights: what is taken away ends sessions within 10 s."""

AGAIN_SECONDS: Final = 5
MOST_CONNECTIONS: Final = 32
"""Most connections of one forward at a time, in a process."""

USER_CONNECTIONS: Final = 64
"""The same of all forwards of one user."""

log = structlog.get_logger(__name__)
threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="session")
_check_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="session-check")
CHECKS: Sequence[Callable[[Sequence[OpenSession]], Losses]] = (
    lost_logins,
    lost_rights,
    lost_tasks,
    lost_forwards,
    say_alive,
)
"""In a thread of their own, so that nothing delays them; of those that fail, the next round."""


class OpenSessions:
    """Those of this process. Used by its event loop; ``check`` by any thread."""

    def __init__(self) -> None:
        self._open: set[OpenSession] = set()
        self._watch: asyncio.Task[None] | None = None

    def check(self, *, user: int, pool: str, more: int = 1) -> None:
        """Raise Busy if so many more sessions of this user, or in this pool, are too many."""
        env = settings.ENV
        present = [session for session in tuple(self._open) if session.ticket.kind != CONNECTION]
        of_user = sum(session.ticket.user == user for session in present)
        of_pool = sum(session.ticket.target.pool == pool for session in present)
        for number, most, whose in (
            (of_user, env.user_sessions, "You have"),
            (of_pool, env.pool_sessions, f"Pool {pool} has"),
            (len(present), env.sessions, "The service has"),
        ):
            if number + more > most:
                SESSIONS.labels("busy").inc()
                raise Busy(
                    f"{whose} {number} sessions in tasks, and {more} more would be too many: "
                    f"{most} may be at a time. End some, or try again.",
                    retry_after=AGAIN_SECONDS,
                )

    def enter(self, session: OpenSession) -> None:
        """Count a session, or a connection of one. Raises Busy."""
        if session.ticket.kind == CONNECTION:
            self._check_connection(session.ticket)
        else:
            self.check(user=session.ticket.user, pool=session.ticket.target.pool)
        self._open.add(session)
        SESSIONS.labels("served").inc()
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look_after(), name="sessions")

    def leave(self, session: OpenSession) -> None:
        self._open.discard(session)

    def connections(self, control: str) -> list[OpenSession]:
        """Those of a forward that this process has."""
        return [
            session
            for session in tuple(self._open)
            if session.ticket.kind == CONNECTION and session.ticket.control == control
        ]

    def _check_connection(self, ticket: Ticket) -> None:
        present = [session.ticket for session in self._open if session.ticket.kind == CONNECTION]
        for number, most, whose in (
            (sum(other.control == ticket.control for other in present), MOST_CONNECTIONS, "This forward has"),
            (sum(other.user == ticket.user for other in present), USER_CONNECTIONS, "Your forwards have"),
            (len(present), settings.ENV.sessions, "The service has"),
        ):
            if number >= most:
                SESSIONS.labels("busy").inc()
                raise Busy(
                    f"{whose} as many connections as may be at a time ({number}).",
                    retry_after=AGAIN_SECONDS,
                )

    async def _look_after(self) -> None:
        while self._open:
            await asyncio.sleep(CHECK_SECONDS)
            present = tuple(self._open)
            idle, life = settings.ENV.session_idle_seconds, settings.ENV.session_life_seconds
            for session in present:
                if idle and time.monotonic() - session.active_at > idle:
                    session.end(f"Nothing was said for {idle:g} seconds, so the session ended.")
                if session.login.is_lasting and time.monotonic() - session.began_at > life:
                    session.end(f"A session lasts {life:g} seconds with this login.", RESTARTS)
            for check in CHECKS:
                try:
                    losses = await run_in(_check_thread, partial(check, present))
                except Exception:
                    log.exception("sessions_unread", check=check.__name__)
                    continue
                for session, why in losses.items():
                    session.end(why)


PROCESS: Final = OpenSessions()
