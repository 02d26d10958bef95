"""Follow a kind without end: list, watch from there, and list again whenever in doubt.

A watch ends every few minutes, is cut by load balancers, falls behind and gets 410, and after any of these an
object may have vanished unnoticed. The consumer learns three things: a complete list (``Synced``: an object
that is not in it is gone), a change, and a deletion. ``Synced`` comes at the start, after every 410 and from
time to time, so that no fault leaves a deleted object for longer than ``relist_seconds``. Between
``Disconnected`` and ``Reconnected`` there is no news: the consumer's objects are old, not wrong.

After a cut the watch continues from the last version it received, so a cut alone costs no list. Each object
is passed through ``reduce`` while its page is read: 10,000 pods in full are hundreds of megabytes. Those of a
list pass through ``reduce_listed`` instead, where there is one. For a ``Deleted``, ``reduce`` gets the object
as it was last. An event of 410 comes in two forms, as a status of the request and as an ERROR event in a
stream of 200 (observed on 1.36). Both are an ``Expired`` here.

Rejected: the client's SharedInformer (it cannot list custom resources and requests no bookmarks) and
``sendInitialEvents`` (1.36 serves it, older API servers refuse it; it would be a second path to test).
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic

from cluster import errors
from cluster.errors import ClusterError, ClusterUnreachable, Expired
from cluster.interface import ClusterApi, Obj, Stream, T
from cluster.kinds import Kind

RELIST_SECONDS = 600.0
WATCH_SECONDS = 240
BACKOFF_FIRST = 0.5
BACKOFF_MAX = 30.0
TOO_SHORT_SECONDS = 1.0  # a stream that ends sooner and says nothing did not end by the clock


@dataclass(frozen=True, slots=True)
class Synced(Generic[T]):
    """A complete list at ``resource_version``; an object that is not in it is gone."""

    items: tuple[T, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """Added or modified."""

    item: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    item: T


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The cluster cannot be followed now; sent once for each kind of error, however often it is tried."""

    error: ClusterError


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The cluster is followed again; the missed events come next, or a list."""

    list_follows: bool = False


WatchEvent = Synced[T] | Changed[T] | Deleted[T] | Disconnected | Reconnected


def backoff(attempt: int, *, spread: float) -> float:
    """Seconds to wait before try number ``attempt`` (from 1); ``spread`` in [0, 1) sets clients apart."""
    full = min(BACKOFF_FIRST * 2.0 ** min(attempt - 1, 16), BACKOFF_MAX)
    return full * (0.5 + spread / 2)


class Watch(Generic[T]):
    """One kind of one cluster, followed by one thread; ``stop`` may come from any other."""

    def __init__(
        self,
        cluster: ClusterApi,
        kind: Kind,
        *,
        reduce: Callable[[Obj], T],
        reduce_listed: Callable[[Obj], T] | None = None,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        relist_seconds: float = RELIST_SECONDS,
        watch_seconds: int = WATCH_SECONDS,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._reduce = reduce
        self._reduce_listed = reduce_listed or reduce
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._relist_seconds = relist_seconds
        self._watch_seconds = watch_seconds
        self._now = now
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._stream: Stream[Obj] | None = None
        self._version = ""  # empty: list before watching
        self._listed_at = 0.0
        self._failures = 0  # in a row; an event or a stream's proper end ends it
        self._down: type[ClusterError] | None = None  # from Disconnected until Reconnected

    def stop(self) -> None:
        """End ``events`` soon, a blocked read included."""
        self._stopped.set()
        if (stream := self._stream) is not None:
            stream.close()

    def relist(self) -> None:
        """List next, and do not continue from the last version; for the consumer of ``events``."""
        self._version = ""

    def events(self) -> Iterator[WatchEvent[T]]:
        """Yield events until stopped. Raises only what ``reduce`` raises."""
        while not self._stopped.is_set():
            try:
                if not self._version or self._now() - self._listed_at >= self._relist_seconds:
                    yield from self._list()
                yield from self._follow()
            except Expired as error:
                self._version = ""
                self._failures += 1
                if self._failures > 1:  # the first costs nothing but a list
                    yield from self._pause(error)
            except ClusterError as error:
                self._failures += 1
                yield from self._pause(error)

    def _list(self) -> Iterator[WatchEvent[T]]:
        listing = self._cluster.scan(
            self._kind,
            self._reduce_listed,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        self._version = listing.resource_version
        self._listed_at = self._now()
        yield from self._up(list_follows=True)
        yield Synced(listing.items, listing.resource_version)

    def _follow(self) -> Iterator[WatchEvent[T]]:
        """Watch until the server ends the stream; raises if it cannot continue."""
        left = self._relist_seconds - (self._now() - self._listed_at)
        began = self._now()
        with self._cluster.watch(
            self._kind,
            resource_version=self._version,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=max(1, min(self._watch_seconds, int(left))),
        ) as stream:
            self._stream = stream
            has_events = False
            try:
                if self._stopped.is_set():  # stop came before there was a stream to close
                    return
                yield from self._up()
                for event in stream:
                    has_events = True
                    yield from self._understand(event)
            finally:
                self._stream = None
        if not has_events and self._now() - began < TOO_SHORT_SECONDS and not self._stopped.is_set():
            raise ClusterUnreachable("the watch ended at once without a word")
        self._failures = 0

    def _understand(self, watch_event: Obj) -> Iterator[WatchEvent[T]]:
        event, obj = watch_event.get("type"), watch_event.get("object") or {}
        if event == "ERROR":
            raise errors.from_status(obj, request=f"watch {self._kind.plural}")
        version = (obj.get("metadata") or {}).get("resourceVersion")
        if event not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} or not version:
            raise ClusterUnreachable(f"not a watch event: {watch_event!r:.200}")
        self._failures = 0
        if event == "DELETED":
            yield Deleted(self._reduce(obj))
        elif event != "BOOKMARK":
            yield Changed(self._reduce(obj))
        self._version = str(version)

    def _up(self, *, list_follows: bool = False) -> Iterator[WatchEvent[T]]:
        if self._down:
            self._down = None
            yield Reconnected(list_follows)

    def _pause(self, error: ClusterError) -> Iterator[WatchEvent[T]]:
        if self._stopped.is_set():
            return
        if self._down is not type(error):
            self._down = type(error)
            yield Disconnected(error)
        pause = backoff(self._failures, spread=random.random())  # noqa: S311 - sets clients apart
        self._wait(max(pause, error.retry_after or 0.0))
