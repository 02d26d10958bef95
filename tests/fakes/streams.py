"""What a cluster in memory answers piece by piece: watches and logs."""

import time
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Self

from cluster.errors import ClusterUnreachable
from cluster.interface import Obj
from cluster.storable import storable


class FakeStream:
    """A watch of the cluster in memory; ends at its time, when closed, or when cut."""

    def __init__(self, cluster, kind, version, wanted, until) -> None:
        self._cluster, self._kind, self._version = cluster, kind, version
        self._wanted, self._until = wanted, until
        self.cut = False
        self._closed = False

    def __iter__(self) -> Iterator[Obj]:
        cluster = self._cluster
        if self._version < cluster._oldest:
            status = {
                "kind": "Status",
                "code": 410,
                "reason": "Expired",
                "message": "too old resource version",
            }
            yield {"type": "ERROR", "object": status}
            return
        while True:
            with cluster._news:
                known = bisect_right(cluster._events, self._version, key=itemgetter(0))
                fresh = cluster._events[known:]
                if not fresh and not self._closed and not self.cut:
                    if (left := self._until - time.monotonic()) <= 0:
                        return
                    cluster._news.wait(min(left, 0.5))
                    continue
                if self._closed:
                    return
                if self.cut:
                    raise ClusterUnreachable("the stream broke: cut")
            for version, kind, event, obj in fresh:
                self._version = version
                if kind == self._kind and self._wanted(obj):
                    yield {"type": event, "object": storable(obj)}
                elif kind == self._kind and event == "MODIFIED" and (before := self._before(version, obj)):
                    yield {"type": "DELETED", "object": storable(before)}
            mark = {"metadata": {"resourceVersion": str(self._version)}}
            yield {"type": "BOOKMARK", "object": mark}

    def _before(self, version: int, obj: Obj) -> Obj | None:
        """The object as it was before this version, if it was selected then and no longer is."""
        uid, at = obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
        for earlier, kind, _, before in reversed(self._cluster._events):
            if earlier < version and kind == self._kind and before["metadata"]["uid"] == uid:
                as_of = {**before, "metadata": {**before["metadata"], "resourceVersion": at}}
                return as_of if self._wanted(before) else None
        return None

    def close(self) -> None:
        with self._cluster._news:
            self._closed = True
            self._cluster._streams.discard(self)
            self._cluster._news.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class FakeLog:
    def __init__(self, text: bytes) -> None:
        self._text = text

    def __iter__(self) -> Iterator[bytes]:
        if self._text:
            yield self._text

    def close(self) -> None:
        self._text = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
