"""A call to an API server from an event loop, for what lasts: logs that are followed, sessions in pods.

Credentials are read in a thread, because they may be files, and again once after a 401. Each call has a
connection of its own, which ends with the caller's stack.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
from kubernetes.utils.keepalive import tcp_keepalive_socket_options

from cluster import api_requests, errors, reachability
from cluster.connection import Access, Connection, connection_for, forget
from cluster.errors import ClusterUnreachable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A request with the session that makes it, and what aiohttp needs to know besides."""

    session: aiohttp.ClientSession
    request: api_requests.Request
    url: str
    options: dict[str, Any]

    def bound_waiting(self, reply: aiohttp.ClientResponse, size: int) -> None:
        """Let no more than this wait undecrypted, in bytes."""
        if self.url.startswith("https") and (connection := transport(reply)) is not None:
            connection.set_read_buffer_limits(high=size)


def transport(reply: aiohttp.ClientResponse) -> Any:
    """The connection that a reply is still read from; None once it has ended."""
    return None if reply.connection is None else reply.connection.transport


Make = Callable[[AsyncExitStack, OpenCall], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class Call:
    """One request; ``buffer`` bounds what is read before anybody asks for it."""

    access: Access
    request: api_requests.Request
    connect_seconds: float
    buffer: int

    async def result(self, stack: AsyncExitStack, make: Make[T]) -> T:
        """What ``make`` returns; it raises a ClusterError for a refusal. Raises ClusterError."""
        for last in (False, True):
            connection, tls, token = await asyncio.to_thread(_credentials, self.access)
            session = await stack.enter_async_context(self._session(tls, token))
            options = {
                "proxy": connection.proxy,
                "proxy_headers": connection.proxy_headers,
                "server_hostname": connection.server_name,
            }
            call = OpenCall(session, self.request, connection.base_url + self.request.path, options)
            try:
                reply = await make(stack, call)
            except errors.Unauthorized:
                reachability.note(self.access, replied=True)
                if last:
                    raise
                forget(self.access)
            except errors.ClusterError:
                reachability.note(self.access, replied=True)
                raise
            except (aiohttp.ClientError, TimeoutError, OSError) as failure:
                reachability.note(self.access, replied=False)
                reason = failure or type(failure).__name__
                raise ClusterUnreachable(f"no reply: {reason}", request=str(self.request)) from failure
            else:
                reachability.note(self.access, replied=True)
                return reply
        raise AssertionError("unreachable: the last round returns or raises")

    def _session(self, tls: ssl.SSLContext | None, token: str | None) -> aiohttp.ClientSession:
        """A session for one call. It hangs up when it ends; ``force_close`` would wait for the server."""
        headers = {"Accept": "*/*", "User-Agent": api_requests.USER_AGENT}
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ssl=tls if tls is not None else True, socket_factory=_with_keepalive
            ),
            headers=headers | ({"Authorization": token} if token is not None else {}),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding",),
            auto_decompress=False,
            read_bufsize=self.buffer,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.connect_seconds),
        )


def _credentials(access: Access) -> tuple[Connection, ssl.SSLContext | None, str | None]:
    connection = connection_for(access)
    return connection, connection.tls(), connection.authorization()


def _with_keepalive(address: Any) -> socket.socket:
    """A socket that finds out that its silent peer has died."""
    new = socket.socket(*address[:3])
    for option in tcp_keepalive_socket_options():
        new.setsockopt(*option)
    return new
