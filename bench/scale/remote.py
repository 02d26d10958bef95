"""``cluster.interface.ClusterApi`` over a cluster in memory that another process holds.

It passes the contract tests that the real gateway passes (``tests/cluster/test_contract.py``). Objects are
decoded as the gateway decodes them; what is left out is HTTP with its TLS, which ``create_rate`` measures.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from bench.scale import wire
from cluster.errors import ClusterUnreachable
from cluster.interface import (
    FIELD_MANAGER,
    DeleteTarget,
    Deletion,
    Listing,
    Obj,
    PatchType,
    Propagation,
    Stream,
    T,
    WriteOutcome,
)
from cluster.kinds import Kind
from cluster.storable import decode
from cluster.stream import EventStream

CALL_SECONDS = 23.0


@dataclass(frozen=True, slots=True)
class RemoteCluster:
    """One cluster of the process that listens at ``path``; each call has a connection of its own."""

    path: str
    cluster: str

    @property
    def call_seconds(self) -> float:
        return CALL_SECONDS

    def get(self, kind: Kind, name: str, *, namespace: str = "") -> Obj | None:
        return cast("Obj | None", self._call("get", kind, name, namespace=namespace))

    def list(
        self, kind: Kind, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing[Obj]:
        return self.scan(
            kind,
            lambda obj: obj,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    def scan(
        self,
        kind: Kind,
        reduce: Callable[[Obj], T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> Listing[T]:
        """Read pages until one says that it is the last."""
        left_out = {"spec", "status", "data"} if metadata_only else ()
        selection = {"label_selector": label_selector, "field_selector": field_selector}
        items: Any = []
        with self._request("scan", kind, namespace=namespace, **selection) as connection:
            while True:
                page = _answer(connection)
                for obj in page["items"]:
                    items.append(reduce({key: obj[key] for key in obj if key not in left_out}))
                if not page["metadata"].get("continue"):
                    return Listing(tuple(items), str(page["metadata"]["resourceVersion"]))

    def watch(
        self,
        kind: Kind,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
    ) -> Stream[Obj]:
        connection = self._request(
            "watch",
            kind,
            resource_version=resource_version,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )
        try:
            _answer(connection)
        except BaseException:
            connection.close()
            raise
        return EventStream(cast("Any", wire.SocketChunks(connection)))

    def create(self, kind: Kind, obj: Obj, *, dry_run: bool = False) -> Obj:
        return cast("Obj", self._call("create", kind, obj, dry_run=dry_run))

    def create_many(self, kind: Kind, objs: Sequence[Obj], *, deadline: float) -> Sequence[WriteOutcome]:
        return cast("Sequence[WriteOutcome]", self._call("create_many", kind, list(objs), deadline=deadline))

    def apply(
        self,
        kind: Kind,
        obj: Obj,
        *,
        force: bool,
        field_manager: str = FIELD_MANAGER,
        dry_run: bool = False,
    ) -> Obj:
        options = {"force": force, "field_manager": field_manager, "dry_run": dry_run}
        return cast("Obj", self._call("apply", kind, obj, **options))

    def patch(
        self, kind: Kind, name: str, body: Obj | Sequence[Obj], *, patch_type: PatchType, namespace: str = ""
    ) -> Obj:
        return cast("Obj", self._call("patch", kind, name, body, patch_type=patch_type, namespace=namespace))

    def delete(
        self,
        kind: Kind,
        name: str,
        *,
        uid: str | None,
        namespace: str = "",
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation = "Background",
    ) -> Deletion:
        deletion = self._call(
            "delete",
            kind,
            name,
            uid=uid,
            namespace=namespace,
            resource_version=resource_version,
            grace_seconds=grace_seconds,
            propagation=propagation,
        )
        return cast("Deletion", deletion)

    def delete_many(
        self,
        kind: Kind,
        targets: Sequence[DeleteTarget],
        *,
        deadline: float,
        grace_seconds: int | None = None,
        propagation: Propagation = "Background",
    ) -> Sequence[WriteOutcome]:
        options = {"deadline": deadline, "grace_seconds": grace_seconds, "propagation": propagation}
        return cast("Sequence[WriteOutcome]", self._call("delete_many", kind, targets, **options))

    def logs(
        self,
        pod: str,
        *,
        namespace: str,
        container: str = "",
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
    ) -> Stream[bytes]:
        options = {
            "namespace": namespace,
            "container": container,
            "tail_lines": tail_lines,
            "limit_bytes": limit_bytes,
            "follow": follow,
            "previous": previous,
            "timestamps": timestamps,
        }
        connection = self._request("logs", pod, **options)
        try:
            _answer(connection)
        except BaseException:
            connection.close()
            raise
        return wire.SocketChunks(connection)

    @asynccontextmanager
    async def follow_log(
        self, pod: str, *, namespace: str, tail_lines: int | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        stream = await asyncio.to_thread(
            self.logs, pod, namespace=namespace, tail_lines=tail_lines, follow=True
        )
        with stream:
            yield _in_threads(iter(stream))

    def read_crd_schema(self, kind: Kind) -> Obj | None:
        return cast("Obj | None", self._call("read_crd_schema", kind))

    def discover(self, group: str, version: str) -> frozenset[str] | None:
        return cast("frozenset[str] | None", self._call("discover", group, version))

    def kube_system_uid(self) -> str:
        return str(self._call("kube_system_uid"))

    def server_version(self) -> str:
        return str(self._call("server_version"))

    def server_time(self) -> datetime:
        return cast("datetime", self._call("server_time"))

    def control(self, method: str, *arguments: Any) -> Any:
        """What the bench asks of the world itself."""
        return self._call(f"_{method}", *arguments)

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        with self._request(method, *arguments, **options) as connection:
            return _answer(connection)

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
