"""Connections of this process that wait until their keys are announced: one call asks for all of them."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog
from django.conf import settings

from scheduling.errors import Unavailable
from web.database.row_threads import run_in
from web.limits.redis_server import KEY_SECONDS, use_keys
from web.server.sockets import FAILED, RESTARTS, CallerLeft, CallerSocket
from workflows.sessions.ends import Over
from workflows.sessions.open_sessions import threads
from workflows.sessions.tickets import Ticket

MOST_WAITING: Final = 32
"""Connections of one user that wait for their announcement."""

PAUSE: Final = 0.05

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    socket: CallerSocket
    key: str
    user: int
    workflow: str
    ticket: asyncio.Future[Ticket]

    def fail(self, error: Exception) -> None:
        if not self.ticket.done():
            self.ticket.set_exception(error)

    def read(self, content: str) -> None:
        ticket = Ticket.read(content, user=self.user, workflow=self.workflow)
        if ticket is not None and not self.ticket.done():
            self.ticket.set_result(ticket)


class AnnouncedKeys:
    """Those that this process waits for. Used by its event loop."""

    def __init__(self) -> None:
        self._waiting: set[_Waiting] = set()
        self._watch: asyncio.Task[None] | None = None

    async def ticket(self, socket: CallerSocket, *, key: str, user: int, workflow: str) -> Ticket:
        """What a key stands for, once it is announced. Raises Over, CallerLeft, Unavailable."""
        of_users = Counter(waiting.user for waiting in self._waiting)
        if of_users[user] >= MOST_WAITING or of_users.total() >= settings.ENV.sessions:
            raise Over("Too many connections wait to be announced.", code=RESTARTS)
        future = asyncio.get_running_loop().create_future()
        waiting = _Waiting(socket, key, user, workflow, future)
        self._waiting.add(waiting)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._ask(), name="announced keys")
        try:
            async with asyncio.timeout(KEY_SECONDS):
                return await waiting.ticket
        except TimeoutError as error:
            sentence = f"The connection was not announced within {KEY_SECONDS} seconds."
            raise Over(sentence, code=FAILED) from error
        finally:
            self._waiting.discard(waiting)

    async def _ask(self) -> None:
        while self._waiting:
            present = tuple(self._waiting)
            for waiting in present:
                if waiting.socket.has_left:
                    waiting.fail(CallerLeft())
            try:
                contents = await run_in(threads, partial(use_keys, [waiting.key for waiting in present]))
                for waiting, content in zip(present, contents, strict=True):
                    if content is not None:
                        waiting.read(content)
            except Unavailable as error:
                for waiting in present:
                    waiting.fail(error)
            except Exception:
                log.exception("announced_keys_unread")
            await asyncio.sleep(PAUSE)


PROCESS_KEYS: Final = AnnouncedKeys()
