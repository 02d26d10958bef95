"""Bulk writes on few connections: creating and deleting the pods of a gang.

The API server answers a create in some milliseconds, and eight connections increase the rate; with more, the
two ends on one machine only wait for each other (measured: 546/s on 1 connection, 1,094/s on 8, 1,190/s on
32). A thread pool around the plain client reaches half of that, because every request costs it 0.5 ms under
the interpreter's lock. So this is an event loop with ``aiohttp`` on connections of its own.

The loop runs in one thread of the process, for all threads that write, and keeps a session for each way to a
cluster: a gang of a few pods would pay more for its TLS connections than for its requests. A session ends
with the ``Connection`` whose credentials it has, and each of its connections when idle for ``KEPT_SECONDS``.

Every request is accounted for: one that was begun and got no reply is UNKNOWN, one that was never begun is
UNSENT; the caller reads the object of the first and repeats the second. After a failed connection no further
one is tried, because a dead server would cost a timeout for each object. A reply that asks to wait (429, or
5xx with Retry-After) is honoured within the deadline; a write that was applied in the meantime is EXISTS.
Bodies are encoded before the first is sent, so an object that has no JSON fails the whole call with nothing
sent.

Rejected: retrying after a lost reply. Only the caller can tell its own object from another one.
"""

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp

from cluster import api_requests, errors, metrics
from cluster.clock import boot_seconds
from cluster.connection import Connection
from cluster.errors import ClusterError, ClusterUnreachable, DeadlinePassed
from cluster.interface import WriteOutcome, WriteResult

T = TypeVar("T")

CONNECTIONS = 8  # for one call
CONNECT_SECONDS = 3.0
KEPT_SECONDS = 15.0
END_SECONDS = 1.0
WAIT_SECONDS = 1.0  # where the server asks us to come back and does not say when
WAIT_SECONDS_MAX = 30.0

NamedRequest = tuple[str, str, api_requests.Request]  # namespace, name, and the encoded request
Read = Callable[[bytes], tuple[WriteResult, str]]
"""Of the body of a good reply: the result, and the uid of what was created."""


def run(
    connection: Connection,
    requests: Sequence[NamedRequest],
    *,
    read: Read,
    refused: Callable[[ClusterError], WriteResult],
    deadline: float,
    reply_seconds: float,
) -> list[WriteOutcome]:
    """Send all requests before ``deadline``; returns the outcome of each, in order."""
    if not requests:
        return []
    clients = _clients_of_process()
    connection.tls()  # reads files, which the loop must not wait for
    sending = _BulkWrite(
        clients=clients,
        connection=connection,
        requests=requests,
        read=read,
        refused=refused,
        deadline=deadline,
        reply_seconds=reply_seconds,
    )
    return clients.wait(sending.all())


class _Clients:
    """The event loop of this process, in a thread of its own, and the sessions that are kept on it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._sessions: dict[int, aiohttp.ClientSession] = {}  # by the identity of the connection
        self._ending: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._loop.run_forever, name="bulk writes", daemon=True).start()
        atexit.register(self._close)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop, and wait for it in this thread; it ends with the wait."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def session(self, connection: Connection) -> aiohttp.ClientSession:
        """The session of a connection; to be called on the loop."""
        key = id(connection)
        if key not in self._sessions:
            self._sessions[key] = _session(connection)
            weakref.finalize(connection, self._leave, key).atexit = False
        return self._sessions[key]

    def _leave(self, key: int) -> None:
        """End the session of a connection that nobody has any more; the parent's go on after a fork."""
        if os.getpid() == self._pid:
            self._loop.call_soon_threadsafe(self._end, key)

    def _end(self, key: int) -> None:
        if (session := self._sessions.pop(key, None)) is None:
            return  # they have all ended
        ending = self._loop.create_task(session.close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _close(self) -> None:
        """End all sessions when the process exits: aiohttp warns of each that nobody closed."""
        if os.getpid() == self._pid:
            ending = asyncio.run_coroutine_threadsafe(self._end_all(), self._loop)
            with suppress(TimeoutError):
                ending.result(END_SECONDS)

    async def _end_all(self) -> None:
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in sessions), return_exceptions=True)


_clients: dict[int, _Clients] = {}  # by process: a fork has no thread for the loop of its parent
_guard = threading.Lock()


def _unlock_after_fork() -> None:
    global _guard  # noqa: PLW0603 -- a thread of the parent may have held it
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_unlock_after_fork)


def _clients_of_process() -> _Clients:
    with _guard:
        if (pid := os.getpid()) not in _clients:
            _clients[pid] = _Clients()
        return _clients[pid]


def _session(connection: Connection) -> aiohttp.ClientSession:
    tls = connection.tls()
    headers = {
        "Accept": api_requests.METADATA,
        "Content-Type": api_requests.JSON,
        "User-Agent": api_requests.USER_AGENT,
    }
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, ssl=tls if tls is not None else True, keepalive_timeout=KEPT_SECONDS
        ),
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("Accept-Encoding",),
        auto_decompress=False,
    )


@dataclass(slots=True)
class _BulkWrite:
    clients: _Clients
    connection: Connection
    requests: Sequence[NamedRequest]
    read: Read
    refused: Callable[[ClusterError], WriteResult]
    deadline: float
    reply_seconds: float
    outcomes: list[WriteOutcome | None] = field(default_factory=list)
    dead: ClusterError | None = None  # why nothing more is sent

    async def all(self) -> list[WriteOutcome]:
        self.outcomes = [None] * len(self.requests)
        turns = iter(range(len(self.requests)))
        workers = min(CONNECTIONS, len(self.requests))
        session = self.clients.session(self.connection)
        working = [asyncio.create_task(self._work(session, turns)) for _ in range(workers)]
        try:
            await asyncio.gather(*working)
        finally:  # nothing is sent once one has failed
            for task in working:
                task.cancel()
            await asyncio.wait(working)
            outcomes = [outcome for outcome in self.outcomes if outcome is not None]
            metrics.count_bulk(self.requests[0][2], (outcome.wrote.value for outcome in outcomes))
        return outcomes

    async def _work(self, session: aiohttp.ClientSession, turns: Iterator[int]) -> None:
        for turn in turns:  # shared by all workers: each takes the next
            namespace, name, request = self.requests[turn]
            wrote, uid, error = await self._write_one(session, request)
            self.outcomes[turn] = WriteOutcome(namespace, name, wrote, uid, error)

    async def _write_one(
        self, session: aiohttp.ClientSession, request: api_requests.Request
    ) -> tuple[WriteResult, str, ClusterError | None]:
        if (reason := self.dead or self._too_late()) is not None:
            return WriteResult.UNSENT, "", reason
        while True:
            try:
                status, headers, body = await self._send(session, request)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as failure:
                self.dead = ClusterUnreachable(f"no connection: {failure}", request=str(request))
                self.dead.__cause__ = failure
                return WriteResult.UNSENT, "", self.dead
            except (aiohttp.ClientError, TimeoutError, OSError) as failure:
                lost = ClusterUnreachable(
                    f"no reply: {failure or type(failure).__name__}",
                    request=str(request),
                    maybe_applied=True,
                )
                lost.__cause__ = failure
                return WriteResult.UNKNOWN, "", lost
            if status < 300:
                return self._good(request, body)
            error = errors.from_reply(status, body, headers=headers, request=str(request))
            if not await self._waited(error):
                return (WriteResult.UNKNOWN if error.maybe_applied else self.refused(error)), "", error

    def _good(
        self, request: api_requests.Request, body: bytes
    ) -> tuple[WriteResult, str, ClusterError | None]:
        try:
            return *self.read(body), None
        except (ValueError, KeyError, TypeError, AttributeError) as failure:
            odd = ClusterUnreachable(
                f"the reply is not what an API server says: {body[:200]!r}",
                request=str(request),
                maybe_applied=True,
            )
            odd.__cause__ = failure
            return WriteResult.UNKNOWN, "", odd

    async def _send(
        self, session: aiohttp.ClientSession, request: api_requests.Request
    ) -> tuple[int, dict[str, str], bytes]:
        left = max(self.deadline - boot_seconds(), 0.001)
        options: dict[str, Any] = {}
        if (token := self.connection.authorization()) is not None:
            options["headers"] = {"Authorization": token}
        if self.connection.proxy is not None:
            options["proxy"] = self.connection.proxy
            options["proxy_headers"] = self.connection.proxy_headers
        if self.connection.server_name is not None:
            options["server_hostname"] = self.connection.server_name
        async with session.request(
            request.method,
            self.connection.base_url + request.path,
            data=request.body,
            timeout=aiohttp.ClientTimeout(
                total=min(left, self.reply_seconds + CONNECT_SECONDS), sock_connect=CONNECT_SECONDS
            ),
            allow_redirects=False,
            **options,
        ) as reply:
            body = await reply.read()
            return reply.status, dict(reply.headers) if reply.status >= 300 else {}, body

    async def _waited(self, error: ClusterError) -> bool:
        """Wait as the server asks, if it does and the deadline allows; say whether to try again."""
        retry_after = error.retry_after
        if not isinstance(error, errors.TooManyRequests) and (error.status < 500 or retry_after is None):
            return False
        pause = min(WAIT_SECONDS if retry_after is None else retry_after, WAIT_SECONDS_MAX)
        if boot_seconds() + pause >= self.deadline:
            return False
        await asyncio.sleep(pause)
        return True

    def _too_late(self) -> ClusterError | None:
        if boot_seconds() < self.deadline:
            return None
        return DeadlinePassed("not sent: the deadline came first")
