"""The observer process: keeps the right streams running and the inbox flowing into the database.

Which clusters there are is asked of the rows every few seconds, so backends that come, go or change their
namespace are followed without a restart. A batch that the database refuses is kept and tried again, while
the streams wait.
"""

import threading
import time
from dataclasses import dataclass, field
from functools import partial

import structlog
from django.db import DatabaseError, close_old_connections, connection

from pools.clusters.connect import cluster_for
from pools.models import Backend
from workflows import metrics
from workflows.observer.foreign_usage import ForeignPodFollower
from workflows.observer.inbox import Batch, ForeignUsageChanges, Inbox
from workflows.observer.sources import Followed, clusters_to_follow, sources_of
from workflows.observer.streams import Follower
from workflows.observer.writer import write, write_foreign_usage

ROWS_SECONDS = 5.0
DATABASE_PAUSE = 1.0
STOP_SECONDS = 5.0

log = structlog.get_logger(__name__)

StreamKey = tuple[str, str, str, str, str]  # cluster, kubeconfig, context, kind, namespace


@dataclass(slots=True)
class Observer:
    """Follows until ``stop``; ``run`` belongs to one thread, ``stop`` may come from a signal."""

    inbox: Inbox = field(default_factory=Inbox)
    stopped: threading.Event = field(default_factory=threading.Event)
    followers: dict[StreamKey, Follower] = field(default_factory=dict)
    retired: list[Follower] = field(default_factory=list)
    refreshed_at: float = field(default=float("-inf"))

    def run(self) -> None:
        """Follow and write until stopped, then end every stream."""
        metrics.INBOX_CHANGES.set_function(self.inbox.size)
        try:
            while not self.stopped.is_set():
                self._refresh_sources()
                for cluster, batch in self.inbox.take(timeout=1.0).items():
                    self._write(cluster, batch)
        finally:
            self._end()
            connection.close()

    def stop(self) -> None:
        self.stopped.set()
        self.inbox.close()

    def _refresh_sources(self) -> None:
        if time.monotonic() - self.refreshed_at < ROWS_SECONDS:
            return
        close_old_connections()
        try:
            clusters = clusters_to_follow()
            self._bring_in_line(clusters)
        except DatabaseError as error:
            log.warning("rows_not_read", error=str(error))
        self.refreshed_at = time.monotonic()
        for key, follower in self.followers.items():
            if follower.connected:
                self.inbox.note_reachable(key[0])

    def _bring_in_line(self, clusters: list[Followed]) -> None:
        """Start the streams that are missing and stop those that nobody needs."""
        streams = {
            _key(followed.backend, source.cluster_uid, str(source.kind), source.namespace): (
                source,
                followed.backend,
            )
            for followed in clusters
            for source in sources_of(followed)
        }
        for key in self.followers.keys() - streams.keys():
            log.info("stream_stopped", cluster=key[0], kind=key[3], namespace=key[4])
            follower = self.followers.pop(key)
            follower.stop()
            self.retired.append(follower)
        self.retired = [follower for follower in self.retired if follower.alive]
        for key in streams.keys() - self.followers.keys():
            source, backend = streams[key]
            log.info("stream_started", cluster=key[0], kind=key[3], namespace=key[4])
            kind = ForeignPodFollower if source.foreign else Follower
            follower = kind(source, connect=partial(cluster_for, backend), inbox=self.inbox)
            self.followers[key] = follower
            follower.start()

    def _write(self, cluster: str, batch: Batch) -> None:
        while not self.stopped.is_set():
            close_old_connections()
            try:
                with metrics.batch() as ending:
                    write(cluster, batch)
                    ending.outcome = "written"
            except DatabaseError as error:
                log.warning("batch_not_written", cluster=cluster, error=str(error))
                self.stopped.wait(DATABASE_PAUSE)
            else:
                break
        if batch.foreign_usage and not self.stopped.is_set():
            self._write_foreign_usage(cluster, batch.foreign_usage)

    def _write_foreign_usage(self, cluster: str, changes: ForeignUsageChanges) -> None:
        """Write the usage of other tenants' pods on its own: a failure does not delay our own changes."""
        try:
            write_foreign_usage(cluster, changes)
        except DatabaseError as error:
            log.warning("others_not_written", cluster=cluster, error=str(error))
            self.inbox.put_back(cluster, changes)

    def _end(self) -> None:
        everyone = [*self.followers.values(), *self.retired]
        for follower in everyone:
            follower.stop()
        until = time.monotonic() + STOP_SECONDS
        for follower in everyone:
            follower.join(max(0.0, until - time.monotonic()))


def _key(backend: Backend, cluster: str, kind: str, namespace: str) -> StreamKey:
    return (cluster, backend.kubeconfig, backend.context, kind, namespace)
