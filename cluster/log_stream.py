"""The log of a pod, followed on an event loop.

Web follows the logs of many pods at a time, for an hour each; a thread for every one of them would cost more
memory than the text. So each stream is a coroutine with a connection of its own. Credentials are read in a
thread, because they may be files or the output of a program.

A stream keeps little while its reader waits, and the rest of the log waits in the cluster. asyncio (Python
3.11 to 3.14, ``asyncio.sslproto``) gives each TLS connection a buffer of 256 KiB, whatever is read, and lets
as much again wait in it undecrypted: of a thousand streams that is half a GiB.
"""

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp

from cluster import api_requests, errors, metrics, reachability
from cluster.connection import Access, Connection, connection_for, forget
from cluster.errors import ClusterUnreachable

_BUFFER = 4 * 1024

sslproto.SSLProtocol.max_size = _BUFFER


@asynccontextmanager
async def opened(
    access: Access, request: api_requests.Request, *, connect_seconds: float
) -> AsyncIterator[AsyncIterator[bytes]]:
    """The chunks of a log once the server has answered; they end with the log. Raises ClusterError."""
    async with AsyncExitStack() as stack:
        with metrics.timed(request):
            reply = await _reply(stack, access, request, connect_seconds)
        stack.callback(_leave, reply)
        yield _chunks(reply, request)


async def _reply(
    stack: AsyncExitStack, access: Access, request: api_requests.Request, connect_seconds: float
) -> aiohttp.ClientResponse:
    for last in (False, True):
        connection, tls, token = await asyncio.to_thread(_credentials, access)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)
        session = await stack.enter_async_context(_session(tls, token, timeout))
        try:
            reply = await stack.enter_async_context(
                session.request(
                    request.method,
                    connection.base_url + request.path,
                    allow_redirects=False,
                    proxy=connection.proxy,
                    proxy_headers=connection.proxy_headers,
                    server_hostname=connection.server_name,
                )
            )
            refusal = b"" if reply.status < 300 else await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as failure:
            reachability.note(access, replied=False)
            reason = failure or type(failure).__name__
            raise ClusterUnreachable(f"no reply: {reason}", request=str(request)) from failure
        reachability.note(access, replied=True)
        if reply.status < 300:
            if tls is not None and (transport := _transport(reply)) is not None:
                transport.set_read_buffer_limits(high=_BUFFER)
            return reply
        if reply.status != 401 or last:
            raise errors.from_reply(reply.status, refusal, headers=dict(reply.headers), request=str(request))
        forget(access)
    raise AssertionError("unreachable: the last round returns or raises")


def _transport(reply: aiohttp.ClientResponse) -> Any:
    """The connection that a reply is still read from; None once it has ended."""
    return None if reply.connection is None else reply.connection.transport


def _leave(reply: aiohttp.ClientResponse) -> None:
    """Hang up on a log that goes on: to end TLS in order would mean to read it until the server is silent."""
    if (transport := _transport(reply)) is not None:
        transport.abort()


def _credentials(access: Access) -> tuple[Connection, ssl.SSLContext | None, str | None]:
    connection = connection_for(access)
    return connection, connection.tls(), connection.authorization()


def _session(
    tls: ssl.SSLContext | None, token: str | None, timeout: aiohttp.ClientTimeout
) -> aiohttp.ClientSession:
    """A session for one stream. It hangs up when it ends; ``force_close`` would wait for the server."""
    headers = {"Accept": "*/*", "User-Agent": api_requests.USER_AGENT}
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls if tls is not None else True),
        headers=headers | ({"Authorization": token} if token is not None else {}),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("Accept-Encoding",),
        auto_decompress=False,
        read_bufsize=_BUFFER,
        timeout=timeout,
    )


async def _chunks(reply: aiohttp.ClientResponse, request: api_requests.Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in reply.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as failure:
        raise ClusterUnreachable(f"the stream broke: {failure}", request=str(request)) from failure
