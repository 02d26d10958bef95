"""A Service on one port of this machine: each connection goes to a ready endpoint, in turns.

As with kube-proxy, who is ready is read from EndpointSlices, a connection stays where it went, and one that
fails is not tried elsewhere.
"""

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import urllib3

from localcluster.api import Api, ApiError
from localcluster.kubelet.container_files import local_address
from localcluster.ports import LOOPBACK

POLL_SECONDS = 0.05
PIECE = 65536


class Relay:
    """Listens while it is open; ``url`` is where."""

    def __init__(self, api: Api, namespace: str, service: str) -> None:
        self._api = api
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._query = {"labelSelector": f"kubernetes.io/service-name={service}"}
        self._ready: list[tuple[str, int]] = []
        self._turn = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._opened, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"relay of {service}", daemon=True)
        self.url = ""

    def ready(self) -> list[tuple[str, int]]:
        """Address and port of each endpoint that gets connections now."""
        return list(self._ready)

    def __enter__(self) -> Self:
        self._thread.start()
        self._opened.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(10)

    def _run(self) -> None:
        self._main = self._loop.create_task(self._serve())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._main)
        self._loop.run_until_complete(self._hang_up())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _hang_up(self) -> None:
        """Close every connection that is open, and wait until nobody reads from one."""
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connect, LOOPBACK, 0)
        self.url = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        self._opened.set()
        async with server:
            while True:
                with suppress(ApiError, urllib3.exceptions.HTTPError):  # the last answer stands
                    self._ready = await asyncio.to_thread(self._ready_now)
                await asyncio.sleep(POLL_SECONDS)

    def _ready_now(self) -> list[tuple[str, int]]:
        slices, _ = self._api.list(self._path, query=self._query)
        return [
            (local_address(address), port["port"])
            for group in slices
            for endpoint in group.get("endpoints") or []
            if endpoint["conditions"].get("ready")
            for address in endpoint["addresses"]
            for port in group["ports"]
        ]

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self._turn += 1
            host, port = self._ready[self._turn % len(self._ready)]
            inner, outer = await asyncio.open_connection(host, port)
        except (OSError, ZeroDivisionError):  # nobody is ready, or the one chosen has gone
            writer.transport.abort()
            return
        self._writers |= {outer, writer}
        await asyncio.gather(_pump(reader, outer), _pump(inner, writer))
        self._writers -= {outer, writer}
        outer.close()
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    with suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()
