"""How processes of one run speak with the clusters in memory: frames on a socket in the run's own directory.

A request is one frame, the pickled method and arguments. Objects come back as JSON, as an API server sends
them, so whoever reads them pays for the service's own decoding. A watch is plain lines of JSON until
its end. Nothing else may write to that socket: the directory is the user's alone.
"""

import pickle
import socket
import struct
from collections.abc import Iterator
from typing import Any, Self

from cluster.errors import ClusterError, ClusterUnreachable

JSON, VALUE, ERROR = b"j", b"v", b"e"
_HEAD = struct.Struct("!cI")
CHUNK = 65536


def send(connection: socket.socket, mark: bytes, body: bytes) -> None:
    connection.sendall(_HEAD.pack(mark, len(body)) + body)


def receive(connection: socket.socket) -> tuple[bytes, bytes]:
    """One frame; raises ClusterUnreachable if the other side has gone."""
    mark, size = _HEAD.unpack(_exactly(connection, _HEAD.size))
    return mark, _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = connection.recv(min(left, CHUNK * 16))
        if not part:
            raise ClusterUnreachable("the clusters in memory have gone")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def packed(value: Any) -> bytes:
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def unpacked(body: bytes) -> Any:
    return pickle.loads(body)  # noqa: S301 -- written by another process of this run


def packed_error(error: ClusterError) -> bytes:
    """An error with its fields, which pickle alone would lose."""
    fields = {
        name: getattr(error, name) for name in ("request", "status", "reason", "retry_after", "maybe_applied")
    }
    return packed((type(error), error.message, fields))


def unpacked_error(body: bytes) -> ClusterError:
    kind, message, fields = unpacked(body)
    error: ClusterError = kind(message, **fields)
    return error


class SocketChunks:
    """The lines of a watch as they come; ``close`` may be called from any thread and ends a blocked read."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        while not self._closed:
            try:
                chunk = self._connection.recv(CHUNK)
            except OSError as failure:
                if self._closed:
                    return
                raise ClusterUnreachable(f"the stream broke: {failure}") from failure
            if not chunk:
                return
            yield chunk

    def close(self) -> None:
        self._closed = True
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it ended before

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        self._connection.close()
