"""Sessions in a pod on an event loop: the numbered channels of one WebSocket of the API server.

``pods/exec`` numbers stdin, stdout, stderr, the end (a ``Status``) and the terminal's size. Since Kubernetes
1.30 the API server speaks v5 whatever the kubelet does, and a command's faults come on the channel of the
end; with v4 they come as the answer to the handshake.

``pods/portforward`` numbers a connection's bytes and the text of its failure; each begins with two bytes
that repeat the port. It has no half-close, so one socket is one connection.

A pod's name may pass to another pod, so its uid is compared before and after.

A session keeps little while its reader waits, as a followed log does (``log_stream``). aiohttp (3.14) lets
512 KiB of a WebSocket's messages wait besides, and takes that from a constant alone.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import aiohttp

from cluster import api_requests, errors, loop_calls, metrics
from cluster.connection import Access
from cluster.errors import ClusterUnreachable, NotServed, ObjectNotFound
from cluster.storable import decode

STDIN, STDOUT, STDERR, END, RESIZE = range(5)
EXEC_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
DATA, FAILURE = range(2)
FORWARD_PROTOCOLS: Final = ("v4.channel.k8s.io",)
PORT_BYTES = 2
CLOSE: Final = 255
"""Of v5: the byte behind it names a channel on which nothing more is sent."""

HANDSHAKE_SECONDS = 20.0
CLOSE_SECONDS = 2.0
MOST_MESSAGE = 2**20
"""As much as OSMO's client takes at once; kubelets send 32 KiB."""

_NODE_AWAY = "the pod's node did not answer the API server"
_REFUSALS: Final = {
    403: "the service may not do this in the cluster: get and create on pods/exec and pods/portforward",
    502: _NODE_AWAY,
    503: _NODE_AWAY,
    504: _NODE_AWAY,
}
"""What a refused handshake means: aiohttp (3.14) does not keep its body."""

_BUFFER = 16 * 1024

aiohttp.client.DEFAULT_CHUNK_SIZE = _BUFFER  # type: ignore[attr-defined]  # see above


class PodChannels:
    """One open session."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse[Any], request: api_requests.Request, *, preamble: int
    ) -> None:
        self._socket, self._request = socket, request
        self._preambles = defaultdict[int, int](lambda: preamble)
        self.protocol = socket.protocol or ""

    async def receive(self) -> tuple[int, bytes] | None:
        """The next message with its channel; None when the pod's side has ended it.

        Raises ClusterUnreachable where the connection is lost: whoever ends it says so first.
        """
        while True:
            message = await self._socket.receive()
            if message.type is aiohttp.WSMsgType.BINARY and message.data:
                if message.data[0] != CLOSE:
                    return message.data[0], self._content(message.data)
            elif message.type is aiohttp.WSMsgType.ERROR:
                raise ClusterUnreachable(f"the session broke: {message.data}", request=str(self._request))
            elif message.type is aiohttp.WSMsgType.CLOSE:
                return None
            elif message.type not in {aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT}:
                raise ClusterUnreachable("the connection to the cluster was lost", request=str(self._request))

    def _content(self, message: bytes) -> bytes:
        """A message without its channel, and without what each channel begins with."""
        cut = min(self._preambles[message[0]], len(message) - 1)
        self._preambles[message[0]] -= cut
        return message[1 + cut :]

    async def send(self, channel: int, data: bytes) -> None:
        """Send once most of what was sent before is taken. Raises ClusterUnreachable."""
        try:
            await self._socket.send_bytes(bytes((channel,)) + data)
        except (aiohttp.ClientError, OSError) as failure:
            raise ClusterUnreachable(f"the session broke: {failure}", request=str(self._request)) from failure

    async def end_input(self) -> None:
        """Say that no more stdin comes. Raises ClusterUnreachable, NotServed where v5 is not spoken."""
        if self.protocol != EXEC_PROTOCOLS[0]:
            raise NotServed(
                "the API server cannot pass on the end of input, which needs Kubernetes 1.30",
                request=str(self._request),
            )
        await self.send(CLOSE, bytes((STDIN,)))


@asynccontextmanager
async def opened(
    access: Access,
    pod: api_requests.Request,
    request: api_requests.Request,
    *,
    uid: str,
    protocols: Sequence[str],
    connect_seconds: float,
    preamble: int = 0,
) -> AsyncIterator[PodChannels]:
    """A session in the pod with this uid; each channel begins with ``preamble`` bytes, which are cut off.

    Raises ClusterError, ObjectNotFound if the pod is another one.
    """
    call = partial(loop_calls.Call, access, connect_seconds=connect_seconds, buffer=_BUFFER)

    async def check() -> None:
        async with AsyncExitStack() as stack:
            await call(request=pod).result(stack, partial(_check, uid=uid))

    await check()
    async with AsyncExitStack() as stack:
        with metrics.timed(request):
            socket = await call(request=request).result(stack, partial(_connected, protocols=protocols))
        await check()  # the name may have passed on meanwhile
        yield PodChannels(socket, request, preamble=preamble)


async def _check(stack: AsyncExitStack, call: loop_calls.OpenCall, *, uid: str) -> None:
    """Raise ObjectNotFound unless the pod has this uid and is not being deleted."""
    async with asyncio.timeout(HANDSHAKE_SECONDS):
        reply = await stack.enter_async_context(
            call.session.request("GET", call.url, allow_redirects=False, **call.options)
        )
        body = await reply.read()
    if reply.status >= 300:
        raise errors.from_reply(reply.status, body, headers=dict(reply.headers), request=str(call.request))
    try:
        metadata = decode(body)["metadata"]
        is_same = metadata["uid"] == uid and not metadata.get("deletionTimestamp")
    except (ValueError, TypeError, LookupError, AttributeError) as failure:
        raise ClusterUnreachable("the reply is not the pod", request=str(call.request)) from failure
    if not is_same:
        raise ObjectNotFound("the pod was replaced or is being deleted", request=str(call.request))


async def _connected(
    stack: AsyncExitStack, call: loop_calls.OpenCall, *, protocols: Sequence[str]
) -> aiohttp.ClientWebSocketResponse[Any]:
    connecting = call.session.ws_connect(
        call.url,
        protocols=protocols,
        timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
        max_msg_size=MOST_MESSAGE,
        **call.options,
    )
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            socket: aiohttp.ClientWebSocketResponse[Any] = await stack.enter_async_context(connecting)
    except aiohttp.WSServerHandshakeError as refusal:
        words = _REFUSALS.get(refusal.status, "")
        raise errors.from_reply(
            refusal.status, words.encode(), headers=dict(refusal.headers or {}), request=str(call.request)
        ) from refusal
    if socket.protocol not in protocols:
        raise ClusterUnreachable(
            f"the API server speaks none of {', '.join(protocols)}", request=str(call.request)
        )
    call.bound_waiting(socket._response, _BUFFER)  # noqa: SLF001 -- aiohttp has no public way to it
    return socket
