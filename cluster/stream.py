"""Replies that are read while they arrive: logs and watches.

A chunk ends where the network cut it, not at the end of a line, and one line may span many chunks; so lines
are assembled here, and the tail of a stream that was cut off is dropped rather than misread. A reader may
block for minutes; ``close`` shuts its socket down, and is the only method that another thread or a signal
handler may call.

Rejected: the client's ``Watch.stream``. It raises KeyError on an ERROR event, exactly when the resource
version has expired, and never advances the version when it does not deserialise (kubernetes 37).
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Self

import urllib3
from urllib3.exceptions import HTTPError

from cluster.errors import ClusterUnreachable
from cluster.interface import Obj
from cluster.storable import decode

CHUNK = 65536


class HttpStream:
    """The body of a reply, read while it arrives. Another thread may call ``close`` to end the read."""

    def __init__(self, reply: urllib3.BaseHTTPResponse, *, request: str) -> None:
        self._reply = reply
        self._request = request
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            while not self._closed and (chunk := self._reply.read1(CHUNK)):
                yield chunk
        except (HTTPError, OSError, ValueError, AttributeError) as failure:
            # ValueError and AttributeError: the file under a read that ``close`` cut short
            if not self._closed:
                raise ClusterUnreachable(f"the stream broke: {failure}", request=self._request) from failure
        finally:
            self._reply.close()

    def close(self) -> None:
        self._closed = True
        with suppress(ValueError, RuntimeError, OSError):  # it ended before we came
            self._reply.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        self._reply.close()


class EventStream:
    """A watch: one JSON document per line of the stream."""

    def __init__(self, chunks: HttpStream) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[Obj]:
        for line in lines(self._chunks):
            try:
                event = decode(line)
            except ValueError as failure:
                raise ClusterUnreachable(f"not a watch event: {line[:200]!r}") from failure
            if not isinstance(event, dict):
                raise ClusterUnreachable(f"not a watch event: {line[:200]!r}")
            yield event

    def close(self) -> None:
        self._chunks.close()

    def __enter__(self) -> Self:
        self._chunks.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._chunks.__exit__(*exc)


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Assemble chunks into lines. A last line without its end is dropped: its sender was cut off."""
    pending: list[bytes] = []
    for chunk in chunks:
        *complete, remainder = chunk.split(b"\n")
        for line in complete:
            pending.append(line)
            if text := b"".join(pending).strip():
                yield text
            pending.clear()
        if remainder:
            pending.append(remainder)
