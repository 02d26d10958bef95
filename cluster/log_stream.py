"""The log of a pod, followed on an event loop.

Web follows the logs of many pods at a time, for an hour each; a thread for every one of them would cost more
memory than the text. So each stream is a coroutine with a connection of its own. Credentials are read in a
thread, because they may be files or the output of a program.

A stream keeps little while its reader waits, and the rest of the log waits in the cluster. asyncio (Python
3.11 to 3.14, ``asyncio.sslproto``) gives each TLS connection a buffer of 256 KiB, whatever is read, and lets
as much again wait in it undecrypted: of a thousand streams that is half a GiB.
"""

from asyncio import sslproto
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from cluster import api_requests, errors, loop_calls, metrics
from cluster.connection import Access
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
            call = loop_calls.Call(access, request, connect_seconds=connect_seconds, buffer=_BUFFER)
            reply = await call.result(stack, _reply)
        stack.callback(_leave, reply)
        yield _chunks(reply, request)


async def _reply(stack: AsyncExitStack, call: loop_calls.OpenCall) -> aiohttp.ClientResponse:
    reply = await stack.enter_async_context(
        call.session.request(call.request.method, call.url, allow_redirects=False, **call.options)
    )
    if reply.status >= 300:
        raise errors.from_reply(
            reply.status, await reply.read(), headers=dict(reply.headers), request=str(call.request)
        )
    call.bound_waiting(reply, _BUFFER)
    return reply


def _leave(reply: aiohttp.ClientResponse) -> None:
    """Hang up on a log that goes on: to end TLS in order would mean to read it until the server is silent."""
    if (transport := loop_calls.transport(reply)) is not None:
        transport.abort()


async def _chunks(reply: aiohttp.ClientResponse, request: api_requests.Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in reply.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as failure:
        raise ClusterUnreachable(f"the stream broke: {failure}", request=str(request)) from failure
