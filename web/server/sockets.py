"""A caller's WebSocket on the event loop: what a session in a task speaks over.

Frames are those of the ``websockets`` package, without its I/O; gunicorn's own unmask byte by byte and send
no pings. A view answers with a ``SessionAnswer``, and the loop runs its session, a coroutine, on the
caller's connection: no thread, and little memory while nothing is said. Both ends are bounded. A caller that
sends faster than the session reads, or makes the server write more than it takes, is not read; one that takes
nothing is cut (``protocol``), one that answers no ping is cut, too.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from django.http import HttpResponse
from websockets.datastructures import Headers
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

UPGRADES: Final = "osmo.upgrades"
"""Key of a request's ``META`` where its connection may become a WebSocket."""

NORMAL, FAILED, RESTARTS = 1000, 1011, 1012
MOST_MESSAGE = 64 * 1024
"""Bytes of one message of a caller: OSMO's client sends 4 KiB."""

MOST_UNREAD = 128 * 1024
"""Bytes of messages that wait for the session; then the caller is not read."""

MOST_UNSENT = 64 * 1024
"""Bytes that wait for the caller; then it is not read either, since each ping of it is answered.

Output of the task stays below: it waits for less, so that a caller who falls behind can interrupt it.
"""

MESSAGE_BYTES = 128  # that an empty message costs
PING_SECONDS = 20.0
CLOSE_SECONDS = 5.0
MOST_REASON = 123
_LOG = logging.getLogger("websockets.server")
_LOG.setLevel(logging.WARNING)  # it has a line for each connection that is closed
_HANDSHAKE = frozenset(
    {
        "UPGRADE",
        "CONNECTION",
        "SEC-WEBSOCKET-KEY",
        "SEC-WEBSOCKET-VERSION",
        "SEC-WEBSOCKET-PROTOCOL",
    }
)


class CallerLeft(Exception):
    """The caller has closed the socket, or its connection is lost."""


Drain = Callable[[], Awaitable[None]]


class CallerSocket:
    """One connection after its upgrade; gunicorn feeds it."""

    def __init__(self, transport: asyncio.Transport, drain: Drain) -> None:
        self._transport, self._drain = transport, drain
        self._protocol = ServerProtocol(max_size=MOST_MESSAGE)
        self._loop = asyncio.get_running_loop()
        self._messages: deque[bytes] = deque()
        self._unread = 0
        self._fragments = bytearray()
        self._is_paused = self._awaits_pong = False
        self._arrived, self._closed = asyncio.Event(), asyncio.Event()
        self._ping: asyncio.TimerHandle | None = None

    def accept(self, headers: Iterable[tuple[str, str]], *, subprotocols: Iterable[str]) -> bool:
        """Answer the handshake, with the first subprotocol of these that is offered; false if it is none."""
        handshake = [(name, value) for name, value in headers if name in _HANDSHAKE]
        self._protocol = ServerProtocol(
            max_size=MOST_MESSAGE,
            select_subprotocol=lambda _, offered: next(
                (Subprotocol(name) for name in subprotocols if name in offered), None
            ),
        )
        self._protocol.receive_data(Request("/", Headers(handshake)).serialize())
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._protocol.send_response(self._protocol.accept(event))
        self._write()
        if self._protocol.state is not State.OPEN:
            return False
        self._ping = self._loop.call_later(PING_SECONDS, self._send_ping)
        return True

    @property
    def subprotocol(self) -> str:
        return self._protocol.subprotocol or ""

    @property
    def has_left(self) -> bool:
        return self._closed.is_set()

    def feed_data(self, data: bytes) -> None:
        """Read what came; for gunicorn."""
        self._awaits_pong = False
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._take(event)
        if self._protocol.eof_sent:  # both have closed, or the caller broke the protocol
            self._end()
        self._write()
        self.pace()

    def pace(self) -> None:
        """Read the caller no faster than what it sends, and what answers it, is taken; for gunicorn."""
        most = MOST_UNREAD // 2 if self._is_paused else MOST_UNREAD
        is_ahead = self._protocol.state is State.OPEN and self._unread > most
        is_ahead = is_ahead or self._transport.get_write_buffer_size() > MOST_UNSENT
        if is_ahead is self._is_paused or self._transport.is_closing():
            return
        self._is_paused = is_ahead
        if is_ahead:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def feed_eof(self) -> None:
        """The connection is lost; for gunicorn."""
        self._end()

    async def receive(self) -> bytes:
        """The next message. Raises CallerLeft."""
        while not self._messages:
            if self._closed.is_set():
                raise CallerLeft
            self._arrived.clear()
            await self._arrived.wait()
        message = self._messages.popleft()
        self._unread -= len(message) + MESSAGE_BYTES
        self.pace()
        return message

    async def send(self, data: bytes) -> None:
        """Send a message once the caller has taken most of those before. Raises CallerLeft."""
        await self._drain()
        try:
            self._protocol.send_binary(data)
        except InvalidState as error:  # it is closed
            raise CallerLeft from error
        self._write()

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Say that it is over, and wait for the caller's word for a moment."""
        if self._ping is not None:
            self._ping.cancel()
        if self._protocol.state is State.OPEN:
            text = reason.encode()[:MOST_REASON].decode(errors="ignore")
            self._protocol.send_close(code, text)
            self._write()
        self.pace()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._closed.wait()

    def _take(self, frame: Frame) -> None:
        if frame.opcode not in {Opcode.BINARY, Opcode.TEXT, Opcode.CONT}:
            return
        self._fragments += frame.data
        if frame.fin and self._protocol.state is State.OPEN:
            self._messages.append(bytes(self._fragments))
            self._unread += len(self._fragments) + MESSAGE_BYTES
            self._arrived.set()
        if frame.fin:
            self._fragments.clear()

    def _write(self) -> None:
        for data in self._protocol.data_to_send():
            if data:  # the end of the stream is written when the connection is closed
                self._transport.write(data)

    def _send_ping(self) -> None:
        if self._awaits_pong and not self._is_paused:
            self._transport.abort()
            return
        self._awaits_pong = True
        with suppress(InvalidState):
            self._protocol.send_ping(b"")
        self._write()
        self._ping = self._loop.call_later(PING_SECONDS, self._send_ping)

    def _end(self) -> None:
        if self._ping is not None:
            self._ping.cancel()
        self._closed.set()
        self._arrived.set()


SessionRun = Callable[[CallerSocket], Awaitable[None]]


class SessionAnswer(HttpResponse):
    """A view's answer to an upgrade: the session that runs on the caller's connection."""

    def __init__(self, session: SessionRun, *, subprotocols: Iterable[str] = ()) -> None:
        super().__init__(status=101)
        self.session, self.subprotocols = session, tuple(subprotocols)
