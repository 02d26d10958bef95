"""The application that the event loop serves: Django behind a bounded pool of threads.

A request goes to a thread only when its body is there, and comes back as status, headers and content. The
loop runs a stream that is a coroutine, and reads static files, without a thread; any other stream takes one
for each piece, in a turn of its ``turn_user`` if it names one. The loop itself answers ``/livez``, which says
that it turns; ``/readyz`` has threads of its own, so that a queue of requests does not take a process out of
service. A request that must wait for its turn (``web.limits.turns``) gives its thread up, and is run again
when its turn has come.
"""

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog

from web.limits.turns import WAIT_SECONDS, Parked, Place, allow_waiting, process_turns
from web.rest.errors import NO_STORE, OF_LOGIN, is_database_away
from web.server.budget import ByteBudget
from web.server.counts import REFUSALS
from web.server.environ import environ_of
from web.server.sockets import FAILED, RESTARTS, UPGRADES, CallerLeft, CallerSocket, SessionAnswer
from web.server.threads import ThreadLane, ThreadsBusy

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Wsgi = Callable[[dict[str, Any], Any], Any]
Headers = list[tuple[bytes, bytes]]

PIECE = 16 * 1024
"""What is written at once, and read of a file: a connection whose client does not read holds three."""

HELD_BYTES: Final = 128 * 2**20
"""Most memory of one process for request bodies, and as much again for answers that nobody has read yet."""

QUEUE_SECONDS = 20.0
RETRY_SECONDS = 2
READINESS_THREADS = 2
READINESS_QUEUE = 8
STOPS = "service restart"
log = structlog.get_logger(__name__)

_LIVEZ, _READYZ = "/livez", "/readyz"
_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one process takes upon itself; ``held_bytes`` bounds bodies and answers, each."""

    threads: int
    queue: int
    body_bytes: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What Django made of a request; ``stream`` or ``session`` takes the place of the content."""

    status: int
    headers: Headers
    content: bytes = b""
    stream: Any = None
    session: SessionAnswer | None = None


class BodyMissing(Exception):
    """The rest of a body does not come: the client has gone or is silent."""


class Application:
    """Serve a WSGI application whose answers may be coroutines that stream."""

    def __init__(self, wsgi: Wsgi, limits: Limits) -> None:
        self._wsgi = wsgi
        self._body_bytes = limits.body_bytes
        self._bodies, self._answers = ByteBudget(limits.held_bytes), ByteBudget(limits.held_bytes)
        self._lane = ThreadLane(
            "request", threads=limits.threads, queue=limits.queue, queue_seconds=QUEUE_SECONDS
        )
        self._readiness = ThreadLane(
            "readiness", threads=READINESS_THREADS, queue=READINESS_QUEUE, queue_seconds=QUEUE_SECONDS
        )
        self._streams: set[asyncio.Task[Any]] = set()
        self._stopping = False

    def stop(self) -> None:
        """End the streams, so that a process that stops does not wait for what has no end."""
        self._stopping = True
        process_turns().expire_all()
        for task in self._streams:
            task.cancel()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        if scope["path"] == _LIVEZ and scope["method"] in _READS:
            answer = _json(200, {"status": "ok"})
            await _send_content(send, replace(answer, content=b"") if scope["method"] == "HEAD" else answer)
            return
        lane = self._readiness if scope["path"] == _READYZ else self._lane
        try:
            answer = await self._answer(lane, scope, receive)
        except BodyMissing:
            answer = _json(408, _error("USER", "The request's body did not come in time."))
        except ThreadsBusy:
            REFUSALS.labels("threads_busy").inc()
            answer = _busy()
        if scope["method"] == "HEAD" and answer.stream is not None:
            lane.start(answer.stream.close)
            await _send_content(send, replace(answer, stream=None))
        elif answer.stream is None:
            with self._answers.share() as share:
                if len(answer.content) > PIECE:
                    share.add(len(answer.content))
                await _send_content(send, answer)
        else:
            await self._send_stream(lane, send, answer)

    async def upgrade(self, scope: MutableMapping[str, Any]) -> HttpAnswer:
        """What Django makes of a request to become a WebSocket: a session, or its refusal."""
        environ = environ_of(scope, b"") | {UPGRADES: True}
        try:
            answer = await self._lane.admit(partial(self._respond, environ), discard=_discard)
        except ThreadsBusy:
            REFUSALS.labels("threads_busy").inc()
            return _busy()
        if answer.stream is not None:
            self._lane.start(answer.stream.close)
            return replace(answer, stream=None)
        return answer

    async def run(self, session: SessionAnswer, socket: CallerSocket) -> None:
        """Run a session to its end, or until the process stops."""
        if self._stopping:  # since Django was asked
            await socket.close(RESTARTS, STOPS)
            return
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            await session.session(socket)
        except CallerLeft:
            pass
        except asyncio.CancelledError:
            if not (self._stopping and task in self._streams):
                raise
            task.uncancel()
            await socket.close(RESTARTS, STOPS)
        except Exception as error:
            log.exception("session_failed")
            if is_database_away(error):
                await socket.close(RESTARTS, "PostgreSQL does not answer at the moment. Try again.")
                return
            await socket.close(FAILED, "The service failed; its log has more.")
        finally:
            self._streams.discard(task)

    async def _answer(
        self, lane: ThreadLane, scope: MutableMapping[str, Any], receive: Receive
    ) -> HttpAnswer:
        if lane.is_full:  # said before the body is read
            raise ThreadsBusy
        with self._bodies.share() as share:
            pieces: list[bytes] = []
            size, more = 0, True
            while more and size <= self._body_bytes:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BodyMissing
                if piece := message.get("body", b""):
                    pieces.append(piece)
                    size += len(piece)
                    share.add(len(piece))
                more = message.get("more_body", False)
            share.keep()
            body = b"".join(pieces)
            pieces.clear()
            return await self._answer_in_turn(lane, scope, body)

    async def _answer_in_turn(
        self, lane: ThreadLane, scope: MutableMapping[str, Any], body: bytes
    ) -> HttpAnswer:
        """Run Django, again if the request had to wait for its turn.

        The turn lasts until its thread has ended, whether or not the caller is still there. It includes the
        wait for a thread: that is in the queue of all requests, lasts ``QUEUE_SECONDS`` at most, and ends if
        the caller goes. So a turn that waits keeps no thread idle, and no user has more than one.
        """
        answer = await lane.admit(partial(self._begin, environ_of(scope, body), None), discard=_discard)
        while isinstance(answer, Place):
            place = answer
            try:
                await _turn_of(place)
                run = partial(self._begin, environ_of(scope, body), place)
            except BaseException:
                place.leave()
                raise
            answer = await lane.admit(run, discard=_discard, end=place.leave)
        return answer

    def _begin(self, environ: dict[str, Any], place: Place | None) -> HttpAnswer | Place:
        """Run Django, in a thread; a place if the request must wait for its turn."""
        try:
            with allow_waiting(place):
                return self._respond(environ)
        except Parked as parked:
            return parked.place

    def _respond(self, environ: dict[str, Any]) -> HttpAnswer:
        started: list[tuple[int, Headers]] = []

        def start(status: str, headers: Iterable[tuple[str, str]], _error: object = None) -> None:
            encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            started.append((int(status[:3]), encoded))

        response = self._wsgi(environ, start)
        status, headers = started[0]
        if isinstance(response, SessionAnswer):
            response.close()
            return HttpAnswer(status, headers, session=response)
        if response.streaming:
            return HttpAnswer(status, headers, stream=response)
        try:
            content = b"" if environ["REQUEST_METHOD"] == "HEAD" else response.content
            return HttpAnswer(status, headers, content)
        finally:
            response.close()

    async def _send_stream(self, lane: ThreadLane, send: Send, answer: HttpAnswer) -> None:
        response = answer.stream
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        task = asyncio.current_task()
        assert task is not None
        if response.is_async:
            pieces, close = aiter(response), response.close
            self._streams.add(task)
        elif hasattr(response, "block_size"):
            pieces, close = _from_file(response), response.close
        else:
            stream = _SyncStream(response)
            pieces, close = _in_thread(lane, stream, user=getattr(response, "turn_user", "")), stream.close
        try:
            async for piece in pieces:
                await self._send_piece(send, piece)
        except asyncio.CancelledError:
            if not (self._stopping and task in self._streams):
                raise
            task.uncancel()
        finally:
            self._streams.discard(task)
            lane.start(close)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_piece(self, send: Send, piece: bytes) -> None:
        """Write what a stream gave, which may be a whole text, as an answer of its size."""
        with self._answers.share() as share:
            if len(piece) > PIECE:
                share.add(len(piece))
            for start in range(0, len(piece), PIECE):
                part = piece[start : start + PIECE]
                await send({"type": "http.response.body", "body": part, "more_body": True})


class _SyncStream:
    """A stream that threads read, one piece at a time; it is closed when no thread is in it."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._pieces: Iterator[bytes] = iter(response)
        self._lock = threading.Lock()
        self._closed = False

    def read(self) -> bytes | None:
        """The next piece; None at the end."""
        with self._lock:
            piece = None if self._closed else next(self._pieces, None)
        if self._closed:
            self.close()
        return piece

    def close(self) -> None:
        self._closed = True
        if self._lock.acquire(blocking=False):  # else the thread that reads closes it
            try:
                self._response.close()
            finally:
                self._lock.release()


async def _from_file(response: Any) -> AsyncIterator[bytes]:
    """The pieces of a static file, which the loop reads itself.

    Handing each to a thread is more work than the reading, and requests would wait behind a thousand of them.
    """
    response.block_size = PIECE  # 4 KiB otherwise
    for piece in response:
        yield piece


async def _in_thread(lane: ThreadLane, stream: _SyncStream, *, user: str) -> AsyncIterator[bytes]:
    """The pieces, each made by a thread; with a user, each in a turn of theirs."""
    while (piece := await (_read_in_turn(lane, stream, user) if user else lane.run(stream.read))) is not None:
        yield piece


async def _read_in_turn(lane: ThreadLane, stream: _SyncStream, user: str) -> bytes | None:
    """The next piece. A process that stops lets nobody wait, and finishes what it has begun."""
    place = process_turns().next_piece(user)
    try:
        await asyncio.shield(asyncio.wrap_future(place.outcome))
    except BaseException:
        place.leave()
        raise
    return await lane.run(stream.read, end=place.leave)


async def _send_content(send: Send, answer: HttpAnswer) -> None:
    """Write an answer by pieces, each when the client has taken most of those before."""
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    content = answer.content
    for start in range(0, len(content) - PIECE, PIECE):
        piece = content[start : start + PIECE]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    rest = content[(max(len(content) - 1, 0) // PIECE) * PIECE :]
    await send({"type": "http.response.body", "body": rest, "more_body": False})


async def _turn_of(place: Place) -> None:
    """Wait until a place may run, or has waited too long."""
    try:
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(place.outcome)), WAIT_SECONDS)
    except TimeoutError:
        place.expire()


def _discard(answer: HttpAnswer | Place) -> None:
    """Close an answer, or leave a place, whose caller has gone."""
    if isinstance(answer, Place):
        answer.leave()
    elif answer.stream is not None:
        with suppress(Exception):
            answer.stream.close()


def _busy() -> HttpAnswer:
    """The answer of a process whose threads and queue are full."""
    message = f"The service has as many requests as it can take. Try again in {RETRY_SECONDS} seconds."
    return _json(503, _error("SERVER", message), ("Retry-After", str(RETRY_SECONDS)))


def _error(code: str, message: str) -> dict[str, Any]:
    """The one shape of errors, for a request that Django never saw."""
    return {
        "message": message,
        "error_code": code,
        "workflow_id": None,
        "details": [],
        "request_id": uuid.uuid4().hex,
    }


def _json(status: int, body: dict[str, Any], *headers: tuple[str, str]) -> HttpAnswer:
    content = json.dumps(body).encode()
    all_headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(content))),
        ("Cache-Control", NO_STORE),
        ("Vary", ", ".join(OF_LOGIN)),
        *headers,
    ]
    return HttpAnswer(status, [(name.encode(), value.encode()) for name, value in all_headers], content)
