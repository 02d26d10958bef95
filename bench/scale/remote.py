"""``cluster.interface.ClusterApi`` over a cluster in memory that another process holds.

It passes the contract tests that the real gateway passes (``tests/cluster/test_contract.py``). Objects are
decoded as the gateway decodes them; only HTTP with its TLS is left out, which ``create_rate`` measures.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from bench.scale import wire
from cluster.errors import ClusterUnreachable
from cluster.interface import Channels, Listing, Obj, Stream, T
from cluster.kinds import Kind
from cluster.storable import decode
from cluster.stream import EventStream

CALL_SECONDS = 23.0


def _forwarded(method: str) -> Callable[..., Any]:
    """A call that the cluster in memory answers with one value."""

    def call(self: "RemoteCluster", *arguments: Any, **options: Any) -> Any:
        return self._call(method, *arguments, **options)

    return call


@dataclass(frozen=True, slots=True)
class RemoteCluster:
    """One cluster of the process that listens at ``path``; each call has a connection of its own."""

    path: str
    cluster: str

    get = _forwarded("get")
    create = _forwarded("create")
    apply = _forwarded("apply")
    patch = _forwarded("patch")
    patch_status = _forwarded("patch_status")
    delete = _forwarded("delete")
    delete_many = _forwarded("delete_many")
    read_crd_schema = _forwarded("read_crd_schema")
    discover = _forwarded("discover")
    kube_system_uid = _forwarded("kube_system_uid")
    server_version = _forwarded("server_version")
    server_time = _forwarded("server_time")

    @property
    def call_seconds(self) -> float:
        return CALL_SECONDS

    def create_many(self, kind: Kind, objs: Sequence[Obj], **options: Any) -> Any:
        return self._call("create_many", kind, list(objs), **options)  # they may be rendered when read

    def list(self, kind: Kind, **selection: Any) -> Listing[Obj]:
        return self.scan(kind, lambda obj: obj, **selection)

    def scan(
        self, kind: Kind, reduce: Callable[[Obj], T], *, metadata_only: bool = False, **selection: Any
    ) -> Listing[T]:
        """Read pages until one says that it is the last."""
        left_out = {"spec", "status", "data"} if metadata_only else ()
        items: Any = []
        with self._request("scan", kind, **selection) as connection:
            while True:
                page = _answer(connection)
                for obj in page["items"]:
                    items.append(reduce({key: obj[key] for key in obj if key not in left_out}))
                if not page["metadata"].get("continue"):
                    return Listing(tuple(items), str(page["metadata"]["resourceVersion"]))

    def watch(self, kind: Kind, **options: Any) -> Stream[Obj]:
        return EventStream(cast("Any", self._stream("watch", kind, **options)))

    def logs(self, pod: str, **options: Any) -> Stream[bytes]:
        return self._stream("logs", pod, **options)

    @asynccontextmanager
    async def follow_log(self, pod: str, **options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        stream = await asyncio.to_thread(self.logs, pod, follow=True, **options)
        with stream:
            yield _in_threads(iter(stream))

    def open_exec(self, pod: str, **options: Any) -> AbstractAsyncContextManager[Channels]:
        raise NotImplementedError("the simulated clusters run no commands")

    open_forward = open_exec

    def control(self, method: str, *arguments: Any) -> Any:
        """The requests of the bench to the world itself."""
        return self._call(f"_{method}", *arguments)

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        with self._request(method, *arguments, **options) as connection:
            return _answer(connection)

    def _stream(self, method: str, *arguments: Any, **options: Any) -> wire.SocketChunks:
        connection = self._request(method, *arguments, **options)
        try:
            _answer(connection)
        except BaseException:
            connection.close()
            raise
        return wire.SocketChunks(connection)

    def _request(self, method: str, *arguments: Any, **options: Any) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.path)
            wire.send(connection, wire.VALUE, wire.packed((self.cluster, method, arguments, options)))
        except OSError as failure:
            connection.close()
            raise ClusterUnreachable(f"no connection: {failure}") from failure
        return connection


async def _in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk


def _answer(connection: socket.socket) -> Any:
    mark, body = wire.receive(connection)
    if mark == wire.ERROR:
        raise wire.unpacked_error(body)
    return decode(body) if mark == wire.JSON else wire.unpacked(body)
