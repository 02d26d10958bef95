"""The sessions that this process holds: how many may be, whose right to them still stands, which idle.

One look every few seconds serves all of them, whatever their number: a query for the users, one for their
roles, one for the pools. Whoever has lost the right, by whatever change, is told so and the session ends.
Limits of a user and a pool hold for all processes together (``shared_counts``), the others for each.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final

import structlog
from django.conf import settings

from scheduling.errors import Busy
from web.database.row_threads import run_in
from web.limits.rate_limits import take_amount
from web.server.sockets import RESTARTS
from workflows.metrics import SESSIONS, SESSIONS_OPEN
from workflows.sessions import shared_counts
from workflows.sessions.afterwards import write_later
from workflows.sessions.forward_state import lost_forwards
from workflows.sessions.losses import Losses, lost_logins, lost_rights, lost_tasks
from workflows.sessions.open_lines import say_alive
from workflows.sessions.open_session import OpenSession
from workflows.sessions.tickets import CONNECTION, EXEC, PORTFORWARD, Ticket

CHECK_SECONDS: Final = 4.0
"""Between two looks at rights: what is taken away ends sessions within 10 s."""

MOST_CONNECTIONS: Final = 32
"""Most connections of one forward at a time, in a process."""

USER_CONNECTIONS: Final = 64
"""The same of all forwards of one user, and of the ports that they forward."""

MINUTE_SESSIONS: Final = 60
"""That one user may begin, each port by itself; more where more may be open."""

KINDS: Final = {EXEC: "exec", PORTFORWARD: "forward", CONNECTION: "connection"}
"""Their names in metrics."""

_NOUNS: Final = {EXEC: "sessions in tasks", PORTFORWARD: "ports", CONNECTION: "connections"}

log = structlog.get_logger(__name__)
threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="session")
_check_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="session-check")
CHECKS: Sequence[Callable[[Sequence[OpenSession]], Losses]] = (
    shared_counts.stay,
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

    def check(self, tickets: Sequence[Ticket]) -> None:
        """Raise Busy if sessions by these tickets, of one user and pool, are too many; else Unavailable."""
        with _refusals_counted(tickets[0].kind):
            self._check_room(tickets[0], more=len(tickets))
            shared_counts.check(tickets)
            _check_rate(tickets)

    async def enter(self, session: OpenSession) -> None:
        """Count a session, or a connection of one. Raises Busy, Unavailable."""
        kind = session.ticket.kind
        with _refusals_counted(kind):
            self._check_room(session.ticket)
            self._open.add(session)
            SESSIONS_OPEN.labels(KINDS[kind]).inc()
            try:
                if kind != CONNECTION:
                    await run_in(threads, partial(shared_counts.enter, session))
                    session.is_counted = True
            except BaseException:
                self.leave(session)
                raise
        if kind != CONNECTION:
            SESSIONS.labels("served").inc()
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look_after(), name="sessions")

    def leave(self, session: OpenSession) -> None:
        """Count it no more; may be repeated."""
        if session not in self._open:
            return
        self._open.remove(session)
        SESSIONS_OPEN.labels(KINDS[session.ticket.kind]).dec()
        if session.is_counted:
            session.is_counted = False
            write_later(partial(shared_counts.leave, session))

    def connections(self, control: str) -> list[OpenSession]:
        """Those of a forward that this process has."""
        return [
            session
            for session in tuple(self._open)
            if session.ticket.kind == CONNECTION and session.ticket.session == control
        ]

    def _check_room(self, ticket: Ticket, more: int = 1) -> None:
        """Raise Busy if so many more of the ticket's kind are too many for this process."""
        present = [session.ticket for session in tuple(self._open)]
        of_kind = [other for other in present if (other.kind == CONNECTION) is (ticket.kind == CONNECTION)]
        of_user = [other for other in present if other.kind == ticket.kind and other.user == ticket.user]
        bounds = [("The service has", len(of_kind), settings.ENV.sessions)]
        if ticket.kind == CONNECTION:
            of_forward = sum(other.session == ticket.session for other in of_user)
            bounds.append(("This forward has", of_forward, MOST_CONNECTIONS))
        if ticket.kind in {CONNECTION, PORTFORWARD}:
            bounds.append(("Your forwards have", len(of_user), USER_CONNECTIONS))
        for whose, number, most in bounds:
            if number + more > most:
                noun = _NOUNS[ticket.kind]
                raise Busy(
                    f"{whose} as many {noun} as may be at a time ({most}).",
                    retry_after=shared_counts.AGAIN_SECONDS,
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


def _check_rate(tickets: Sequence[Ticket]) -> None:
    """Raise Busy for a user who would begin too many a minute, since each is a line that is kept."""
    most = max(MINUTE_SESSIONS, MINUTE_SESSIONS // 10 * settings.ENV.user_sessions)
    key = f"session:user:{tickets[0].user}"
    waits = take_amount(key, amount=len(tickets), most=most, seconds=60)
    if waits is not None:
        raise Busy(
            f"{most} sessions of a user may begin in a minute. Try again in {waits} seconds.",
            retry_after=waits,
        )


@contextmanager
def _refusals_counted(kind: str) -> Iterator[None]:
    try:
        yield
    except Busy:
        if kind != CONNECTION:
            SESSIONS.labels("busy").inc()
        raise


PROCESS: Final = OpenSessions()
