"""The observer process: a thread for each cluster that there is.

Which clusters there are is asked of the rows every few seconds, so backends that come, go or change their
namespace are followed without a restart.
"""

import threading
import time
from dataclasses import dataclass, field

import structlog
from django.db import DatabaseError, close_old_connections, connection

from web.operation.pulse import Loop
from workflows import metrics
from workflows.observer.cluster_observer import STOP_SECONDS, ClusterObserver, StreamKey
from workflows.observer.gang_rows import forget_unfollowed
from workflows.observer.sources import Followed, clusters_to_follow
from workflows.observer.streams import Follower

ROWS_SECONDS = 5.0
ALL = 1_000_000

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Observer:
    """Follows until ``stop``; ``run`` belongs to one thread, ``stop`` may come from a signal."""

    most: int
    """How many clusters it follows at most; 0: all that no other observer follows."""
    stopped: threading.Event = field(default_factory=threading.Event)
    clusters: dict[str, ClusterObserver] = field(default_factory=dict)
    retired: list[ClusterObserver] = field(default_factory=list)
    refreshed_at: float = field(default=float("-inf"))
    loop: Loop = field(default_factory=lambda: Loop("the observer"))
    places: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.places = threading.Semaphore(self.most or ALL)

    def run(self) -> None:
        """Follow and write until stopped, then end every stream."""
        metrics.INBOX_CHANGES.set_function(self.waiting_changes)
        try:
            while not self.stopped.is_set():
                self._refresh()
                self.stopped.wait(ROWS_SECONDS)
        finally:
            connection.close()
            self._end()

    def stop(self) -> None:
        self.stopped.set()

    def waiting_changes(self) -> int:
        """How many changes wait to be written."""
        return sum(observer.inbox.size() for observer in list(self.clusters.values()))

    @property
    def followers(self) -> dict[StreamKey, Follower]:
        """The streams of all clusters."""
        return {
            key: follower
            for observer in list(self.clusters.values())
            for key, follower in list(observer.followers.items())
        }

    def _refresh(self) -> None:
        close_old_connections()
        try:
            self._bring_in_line(clusters_to_follow())
            forget_unfollowed()
        except DatabaseError as error:
            log.warning("rows_not_read", error=str(error))
        self.refreshed_at = time.monotonic()
        self.loop.turn()

    def _bring_in_line(self, clusters: list[Followed]) -> None:
        by_uid = {followed.uid: followed for followed in clusters}
        for uid in self.clusters.keys() - by_uid.keys():
            observer = self.clusters.pop(uid)
            observer.stop()
            self.retired.append(observer)
        self.retired = [observer for observer in self.retired if observer.alive]
        for uid, followed in by_uid.items():
            if uid in self.clusters:
                self.clusters[uid].followed = followed
            else:
                self.clusters[uid] = ClusterObserver(followed, self.places)
                self.clusters[uid].start()

    def _end(self) -> None:
        observers = [*self.clusters.values(), *self.retired]
        for observer in observers:
            observer.stop()
        until = time.monotonic() + 2 * STOP_SECONDS
        for observer in observers:
            observer.join(max(0.0, until - time.monotonic()))
