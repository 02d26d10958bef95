"""gunicorn's ASGI worker, with limits on what a client may make it wait for.

gunicorn parses requests, but it puts no end to waiting. Here a request's headers, its body and the taking of
an answer each have a deadline, and the connections that wait for their clients are counted, for the whole
process and for each address. Beyond a limit the one that has waited longest is cut: a caller who sends and
reads at an ordinary pace is never that one, also behind a proxy whose address all callers share.

The process closes what it cuts, for ``close`` alone would wait for the client to take what was written.
"""

import asyncio
import resource
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers import gasgi

from web.access import gateway
from web.env import Environment, environment
from web.server.application import PIECE
from web.server.counts import REFUSALS
from web.server.sockets import CallerSocket

HEADER_SECONDS: Final = 20.0
"""Longest a new connection takes to send a request's headers."""

BODY_SECONDS: Final = 60.0
"""Longest a request's body takes."""

ANSWER_SECONDS: Final = 30.0
"""Longest a client takes less than ``LEAST_BYTES`` of a waiting answer."""

LEAST_BYTES = 16 * 1024
"""The bytes that a client that reads slowly takes, at least, in ``ANSWER_SECONDS``."""

HEADER_BYTES = 32 * 1024
"""The bytes that a request's headers may have, which wait in memory until they are complete."""

MOST_CONNECTIONS: Final = 4000
"""Most open connections of a process, as far as its limit of open files allows; each takes about 30 KiB."""

UPGRADED = "api/router/"
"""What paths of sessions begin with; OSMO's client adds it to an address that may end in a slash."""

SPARE_FILES = 512
"""Open files that are kept for everything that is not a client: databases, logs, clusters."""


class Connections:
    """The open connections of a process, and which of them wait for their clients."""

    def __init__(self, *, most: int, most_of_address: int) -> None:
        self._most, self._most_of_address = most, most_of_address
        self._open = 0
        self._waiting: dict[BoundedProtocol, None] = {}  # the longest wait first
        self._by_address: defaultdict[str, dict[BoundedProtocol, None]] = defaultdict(dict)

    def opened(self) -> None:
        self._open += 1
        if self._open > self._most and self._waiting:
            next(iter(self._waiting)).cut("connections")

    def closed(self, connection: "BoundedProtocol") -> None:
        self._open -= 1
        self.end_wait(connection)

    def begin_wait(self, connection: "BoundedProtocol") -> None:
        if connection in self._waiting:
            return
        self._waiting[connection] = None
        if not connection.address:
            return
        same = self._by_address[connection.address]
        same[connection] = None
        if len(same) > self._most_of_address:
            next(iter(same)).cut("address_connections")

    def end_wait(self, connection: "BoundedProtocol") -> None:
        self._waiting.pop(connection, None)
        if same := self._by_address.get(connection.address):
            same.pop(connection, None)
            if not same:
                del self._by_address[connection.address]

    def waiting(self) -> Sequence["BoundedProtocol"]:
        return tuple(self._waiting)


class BoundedProtocol(ASGIProtocol):  # type: ignore[misc]  # gunicorn has no types
    """One connection, which waits for its client for a bounded time."""

    def __init__(self, worker: "BoundedWorker") -> None:
        super().__init__(worker)
        self.address = ""
        self._env: Environment = worker.env
        self._connections: Connections = worker.connections
        self._header_bytes: int | None = 0  # received of a request's headers; None behind them
        self._deadline: asyncio.TimerHandle | None = None
        self._unwritten = 0
        self._write_check: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=PIECE)
        self.address = _counted_address(transport.get_extra_info("peername"), self._env)
        self._connections.opened()
        self._connections.begin_wait(self)
        self._set_deadline(HEADER_SECONDS, "headers_late")

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._cancel_write_check()
        if not self._conn_lost_handled:
            self._connections.closed(self)
        super().connection_lost(exc)

    def cut(self, reason: str) -> None:
        """Close the connection at once, whatever is under way on it."""
        REFUSALS.labels(reason).inc()
        self._connections.end_wait(self)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except ValueError:  # a length of more digits than Python reads, in gunicorn 27.0.1
            self._send_error_response(400, "The request cannot be read.")
            self._close_transport()
            return
        if self._header_bytes is not None and not self._closed:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES:
                REFUSALS.labels("headers_large").inc()
                self._send_error_response(431, f"The address and headers are over {HEADER_BYTES} bytes.")
                self._close_transport()

    def _on_headers_complete(self) -> Any:
        self._header_bytes = None
        result = super()._on_headers_complete()
        self._set_deadline(BODY_SECONDS, "body_late")
        return result

    def _on_message_complete(self) -> None:
        self._cancel_deadline()
        self._connections.end_wait(self)
        super()._on_message_complete()

    def _arm_keepalive_timer(self) -> None:
        """The next request is waited for; gunicorn's own timer bounds that until its headers are there."""
        super()._arm_keepalive_timer()
        self._header_bytes = 0
        self._connections.begin_wait(self)

    def _is_websocket_upgrade(self, request: Any) -> bool:
        """Sessions alone are upgraded; elsewhere the request is answered like any other."""
        return request.path.lstrip("/").startswith(UPGRADED) and bool(super()._is_websocket_upgrade(request))

    async def _handle_websocket(self, request: Any, sockname: Any, peername: Any) -> None:
        """Run the session that Django answers with, or write its refusal; the connection ends with it."""
        answer = await self.app.upgrade(self._build_http_scope(request, sockname, peername))
        if answer.session is None:
            self._send_response_start(answer.status, answer.headers, request, close=True)
            self._send_body(answer.content)
            return
        early = self._callback_parser.remaining()  # all of it, of the parser that ``webserver`` names
        self._callback_parser: Any = None
        self._resume_reading()  # which much of it has stopped
        socket = CallerSocket(self.transport, self._flow_control.drain)
        if socket.accept(request.headers, subprotocols=answer.session.subprotocols):
            self._websocket = socket  # what comes from now on is fed to it
            if early:
                socket.feed_data(early)
            await self.app.run(answer.session, socket)

    def _send_response_start(self, status: int, headers: Any, request: Any, close: bool = False) -> None:  # noqa: FBT001, FBT002 -- gunicorn's signature
        """Write the headers of an answer without a length at once: its text may be long in coming."""
        super()._send_response_start(status, headers, request, close=close)
        if not any(bytes(name).lower() == b"content-length" for name, _ in headers):
            self._safe_write(self._response_buffer)
            self._response_buffer: bytes | None = None

    def _send_body(self, body: bytes, *framing: Any) -> None:
        """Write to a client that is there: asyncio has a warning for each piece behind its end."""
        if not self.transport.is_closing():
            super()._send_body(body, *framing)

    def _set_deadline(self, seconds: float, reason: str) -> None:
        self._cancel_deadline()
        self._deadline = self.worker.loop.call_later(seconds, self._expire, reason)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self, reason: str) -> None:
        REFUSALS.labels(reason).inc()
        self._send_error_response(408, "The request did not come in time.")
        self._close_transport()

    def pause_writing(self) -> None:
        """The client does not take what was written: wait for it, as long as it takes some."""
        super().pause_writing()
        self._connections.begin_wait(self)
        self._watch_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._closed:
            self._cancel_write_check()
            self._connections.end_wait(self)
        if self._websocket:
            self._websocket.pace()

    def _close_transport(self) -> None:
        super()._close_transport()
        if self.transport.get_write_buffer_size():
            self._connections.begin_wait(self)
            self._watch_writing()

    def _watch_writing(self) -> None:
        self._cancel_write_check()
        self._unwritten = self.transport.get_write_buffer_size()
        self._write_check = self.worker.loop.call_later(ANSWER_SECONDS, self._check_writing)

    def _check_writing(self) -> None:
        if self.transport.get_write_buffer_size() > self._unwritten - LEAST_BYTES:
            self.cut("answer_unread")
        else:
            self._watch_writing()

    def _cancel_write_check(self) -> None:
        if self._write_check is not None:
            self._write_check.cancel()
            self._write_check = None


class BoundedWorker(gasgi.ASGIWorker):  # type: ignore[misc]  # gunicorn has no types
    """A process that serves connections with limits."""

    def init_process(self) -> None:
        self.env = environment()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.connections = Connections(
            most=max(min(MOST_CONNECTIONS, files - SPARE_FILES), 1),
            most_of_address=self.env.address_connections,
        )
        gasgi.ASGIProtocol = BoundedProtocol  # the worker makes one for each connection, by this name
        super().init_process()

    async def _shutdown(self) -> None:
        """Let go of clients that are waited for and of streams; requests under way are finished."""
        for server in self.servers:
            server.close()
        for connection in self.connections.waiting():
            connection.transport.abort()
        self.asgi.stop()
        await super()._shutdown()


def _counted_address(peer: Any, env: Environment) -> str:
    """The address whose connections are counted together; empty for our own proxy and for a local socket."""
    meta = {"REMOTE_ADDR": peer[0]} if isinstance(peer, tuple) else {}
    networks = (*env.trusted_proxy_networks, *env.forwarded_for_networks)
    proxy = gateway.Proxy(secrets=(), networks=networks)
    if not meta or gateway.proves(meta, proxy):
        return ""
    return gateway.client_address(meta, gateway.Proxy(secrets=(), networks=()))
