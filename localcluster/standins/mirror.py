"""Local copies of collections of the API server, kept up by list and watch, and the loop over them.

Objects are turned into values as they arrive; only values are kept, and ``changed`` is called only if one
really differs, so a stand-in sleeps through heartbeats, its own echoes, and objects that it reads as None.
A stream that ends is taken up where it stopped; anything else (410, a refused connection, a server that
restarts) lists again, with growing pauses. A kind the server does not serve yet is asked for until it does.

``put`` enters the answer of a write at once; an older version that arrives later does not overwrite it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import urllib3

from localcluster.api import Access, Api, ApiError, Json

PAGE = 500
WATCH_SECONDS = 300
LONGEST_PAUSE = 2.0
MOST_CYCLE_PAUSE_SECONDS = 1.0  # KAI begins a cycle each second

log = logging.getLogger(__name__)

T = TypeVar("T")
Key = tuple[str, str]


@dataclass(slots=True)
class Mirror(Generic[T]):
    """``path`` is the collection's, ``read`` turns an object into a value."""

    api: Api
    path: str
    read: Callable[[Json], T]
    changed: Callable[[], None]
    stop: threading.Event
    synced: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _items: dict[Key, tuple[int, str, T]] = field(default_factory=dict)
    """By namespace and name: resourceVersion, uid, value."""

    def start(self) -> None:
        """Begin in a thread that ends with the process or with ``stop``."""
        threading.Thread(target=self._run, name=f"mirror {self.path}", daemon=True).start()

    def values(self) -> tuple[T, ...]:
        """Return all values, in no particular order."""
        with self._lock:
            return tuple(value for _, _, value in self._items.values())

    def put(self, body: Json, *, create: bool = False) -> None:
        """Enter the answer to a write, unless something newer is known.

        Only what was just created (``create``) may be unknown here; anything else unknown is gone.
        """
        key, version, uid = _identity(body)
        value = self.read(body)
        with self._lock:
            cached = self._items.get(key)
            if (create and cached is None) or (cached and cached[1] == uid and cached[0] < version):
                self._items[key] = (version, uid, value)

    def _run(self) -> None:
        pause = 0.1
        while not self.stop.is_set():
            try:
                version = self._list()
                pause = 0.1
                self.synced.set()
                self._follow(version)
            except (ApiError, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                if not (isinstance(error, ApiError) and error.code == 410):
                    log.warning("%s: %s; listing again in %.1f s", self.path, error, pause)
                    self.stop.wait(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)

    def _list(self) -> str:
        items: dict[Key, tuple[int, str, T]] = {}
        version = ""
        for page in self._pages():
            version = page["metadata"]["resourceVersion"]
            for body in page.get("items") or []:
                key, number, uid = _identity(body)
                items[key] = (number, uid, self.read(body))
        with self._lock:
            same = {k: v[1:] for k, v in items.items()} == {k: v[1:] for k, v in self._items.items()}
            self._items = items
        if not same or not self.synced.is_set():
            self.synced.set()
            self.changed()
        return version

    def _pages(self) -> Iterator[Json]:
        query: dict[str, object] = {"limit": PAGE}
        while True:
            page = self.api.call("GET", self.path, query=query)
            yield page
            if not (token := page["metadata"].get("continue")):
                return
            query = {"limit": PAGE, "continue": token}

    def _follow(self, version: str) -> None:
        """Apply events until the stream breaks; a stream that merely ended is opened again."""
        while not self.stop.is_set():
            for kind, body in self.api.watch(self.path, resource_version=version, seconds=WATCH_SECONDS):
                version = body["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    self._apply(kind, body)

    def _apply(self, kind: str, body: Json) -> None:
        key, version, uid = _identity(body)
        with self._lock:
            cached = self._items.get(key)
            if kind == "DELETED":
                if cached is None or cached[1] != uid:
                    return
                del self._items[key]
                if cached[2] is None:
                    return
            else:
                if cached is not None and cached[1] == uid and cached[0] >= version:
                    return
                value = self.read(body)
                self._items[key] = (version, uid, value)
                if cached is not None and cached[1:] == (uid, value):
                    return
                if value is None and (cached is None or cached[2] is None):
                    return
        self.changed()


class Mirrors:
    """The mirrors of one API server that a stand-in decides on.

    ``changed`` is set when one of them differs.
    """

    def __init__(self, access: Access, *, connections: int) -> None:
        self.api = Api(access, connections=connections)
        self.stop = threading.Event()
        self.changed = threading.Event()
        self._mirrors: list[Mirror[Any]] = []

    def mirror(self, path: str, read: Callable[[Json], T]) -> Mirror[T]:
        """Add the mirror of one collection."""
        mirror = Mirror(api=self.api, path=path, read=read, changed=self.changed.set, stop=self.stop)
        self._mirrors.append(mirror)
        return mirror

    def start_mirrors(self) -> None:
        """Start all and wait until each has listed once, or until the end."""
        for mirror in self._mirrors:
            mirror.start()
        for mirror in self._mirrors:
            while not mirror.synced.wait(0.2) and not self.stop.is_set():
                continue

    def run_cycles(self, cycle: Callable[[], float | None], *, period: float) -> None:
        """Do ``cycle`` after each change, and when it wants to look again, until ``shut_down``.

        Cycles keep a distance of ``period`` seconds and take at most half of the time, so a burst of changes
        costs a few cycles and not one each. After a long cycle ``MOST_CYCLE_PAUSE_SECONDS`` suffice: a longer
        pause would decide the pace of all that waits for the next one.
        """
        wake_at: float | None = None
        while not self.stop.is_set():
            self.changed.wait(None if wake_at is None else max(wake_at - time.time(), 0))
            if self.stop.is_set():
                return
            self.changed.clear()
            started = time.monotonic()
            wake_at = cycle()
            self.stop.wait(max(period, min(time.monotonic() - started, MOST_CYCLE_PAUSE_SECONDS)))

    def shut_down(self) -> None:
        """End the work at its next step; safe from a signal handler."""
        self.stop.set()
        self.changed.set()


def _identity(body: Json) -> tuple[Key, int, str]:
    meta = body["metadata"]
    return (meta.get("namespace", ""), meta["name"]), int(meta["resourceVersion"]), meta["uid"]
