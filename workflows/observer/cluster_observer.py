"""One cluster, followed and written by a thread of its own for as long as it holds the cluster's lease.

A process may be bounded to so many clusters (``places``); the others are then left to other observers.

Clusters share nothing here: neither a queue nor a transaction, so the changes of one cannot hold up another.
With the lease the streams begin anew from the rows; when it is lost they end, and waiting changes are
dropped, because the next holder lists everything. A batch that the database does not take because it is away
is tried again while the streams wait; objects whose contents cause the refusal are kept in quarantine.
"""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial

import structlog
from django.db import Error, close_old_connections, connection, transaction

from pools.clusters.connect import cluster_for
from pools.models import Backend, Cluster
from scheduling.nodes.devices import CLASSES, SLICES
from workflows import metrics
from workflows.observer.foreign_usage import ForeignPodFollower, ForeignUsageSums
from workflows.observer.gang_rows import gangs_of, write_each, write_gangs
from workflows.observer.gang_streams import gang_follower
from workflows.observer.inbox import BATCH, Batch, ForeignUsageChanges, Inbox, Observation, key_of
from workflows.observer.lease import (
    TAKE_SECONDS,
    ObserverLease,
    ObserverLeaseLost,
    hold,
    release,
    take,
)
from workflows.observer.quarantine import Quarantine, lies_in_contents, write_apart
from workflows.observer.sources import Followed, foreign_usage_sums, sources_of
from workflows.observer.streams import Follower, Source
from workflows.observer.waiting_gangs import GangChanges, WaitingGangs
from workflows.observer.writer import write, write_foreign_usage
from workflows.values.observation import UnreadableObject

HOLD_SECONDS = 1.0
"""How often the lease is renewed while nothing is to be written."""
REACHABLE_SECONDS = 5.0
PAUSE_SECONDS = 1.0
STOP_SECONDS = 5.0
GANG_SECONDS = 1.0
"""How long gangs of others are collected before they are written."""
NOT_LISTED = "They have not been listed since the observer began to follow the cluster."

log = structlog.get_logger(__name__)

StreamKey = tuple[str, str, str, str, str, str, str, str]
"""Cluster, kubeconfig, context, kind, namespace, label selector, field selector, schedulers of gangs."""


@dataclass(slots=True)
class ClusterObserver:
    """Follows a cluster until ``stop``."""

    followed: Followed
    """Replaced when the cluster's backends change."""

    places: threading.Semaphore
    """Free places of the process, of which a cluster takes one for as long as it is followed."""

    stopped: threading.Event = field(default_factory=threading.Event)
    inbox: Inbox = field(default_factory=Inbox)
    quarantine: Quarantine = field(default_factory=Quarantine)
    followers: dict[StreamKey, Follower] = field(default_factory=dict)
    _retired: list[Follower] = field(default_factory=list)
    _foreign_usage: ForeignUsageSums | None = None
    _gangs: WaitingGangs | None = None
    _gangs_written_at: float = float("-inf")
    _in_line: Followed | None = None
    _reported: dict[str, object] | None = None
    _reachable_at: float = float("-inf")
    _thread: threading.Thread | None = None

    @property
    def uid(self) -> str:
        return self.followed.uid

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"cluster {self.uid}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End soon; may come from any thread."""
        self.stopped.set()
        self.inbox.close()

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join(self, timeout: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self.stopped.is_set():
            if self.places.acquire(blocking=False):
                try:
                    self._take_and_follow()
                finally:
                    self.places.release()
            self.stopped.wait(TAKE_SECONDS)

    def _take_and_follow(self) -> None:
        """Follow the cluster if no other observer does."""
        close_old_connections()
        try:
            if lease := take(self.uid):
                self._follow(lease)
        except Error as error:
            log.warning("cluster_not_followed", cluster=self.uid, error=str(error))
        except Exception:  # a fault of one cluster is tried again, and is no other's trouble
            log.exception("cluster_observer_failed", cluster=self.uid)
        finally:
            connection.close()

    def _follow(self, lease: ObserverLease) -> None:
        """Follow and write until stopped or until another observer has the lease."""
        log.info("cluster_taken", cluster=self.uid)
        self.inbox, self.quarantine = Inbox(), Quarantine()
        self._in_line = self._reported = None
        self._foreign_usage = foreign_usage_sums(self.uid)
        self._gangs = None
        for kind in (SLICES, CLASSES):
            self.inbox.incomplete(kind, NOT_LISTED)
        try:
            while not self.stopped.is_set():
                self._bring_in_line(lease)
                self._write(lease, self.inbox.take(timeout=HOLD_SECONDS))
                self._write_gangs(lease)
            release(lease)
        except ObserverLeaseLost:
            log.warning("cluster_lost", cluster=self.uid)
        finally:
            self._end()

    def _bring_in_line(self, lease: ObserverLease) -> None:
        """Start the streams that are missing and stop those that nobody needs."""
        followed = self.followed
        if followed is not self._in_line:
            self._gangs = gangs_of(lease, followed.others, before=self._gangs)
            sources = sources_of(followed, self._gangs)
            streams = {_key(followed.backend, source): source for source in sources}
            kinds = {source.completeness for source in streams.values()}
            for key in self.followers.keys() - streams.keys():
                log.info("stream_stopped", cluster=key[0], kind=key[3], namespace=key[4])
                follower = self.followers.pop(key)
                follower.stop()
                self._retired.append(follower)
                if (kind := follower.completeness) and kind not in kinds:
                    self.inbox.incomplete(kind, None)
            self._retired = [follower for follower in self._retired if follower.alive]
            for key in streams.keys() - self.followers.keys():
                log.info("stream_started", cluster=key[0], kind=key[3], namespace=key[4])
                self.followers[key] = self._follower(streams[key], followed.backend)
                self.followers[key].start()
            self._in_line = followed
        if time.monotonic() - self._reachable_at >= REACHABLE_SECONDS:
            self._reachable_at = time.monotonic()
            if any(follower.connected for follower in self.followers.values()):
                self.inbox.note_reachable()

    def _follower(self, source: Source, backend: Backend) -> Follower:
        connect = partial(cluster_for, backend)
        if self._gangs is not None and source.gangs:
            return gang_follower(source, connect=connect, inbox=self.inbox, gangs=self._gangs)
        if self._foreign_usage is None or not source.foreign:
            return Follower(source, connect=connect, inbox=self.inbox)
        return ForeignPodFollower(source, connect=connect, inbox=self.inbox, sums=self._foreign_usage)

    def _write(self, lease: ObserverLease, batch: Batch) -> None:
        foreign_usage = batch.foreign_usage
        batch.changes = list(self.quarantine.admitted(batch.changes))
        self._until_written(lambda: self._write_rows(lease, batch))
        if foreign_usage and not self.stopped.is_set():
            self._write_foreign_usage(lease, foreign_usage)

    def _until_written(self, attempt: Callable[[], None]) -> None:
        while not self.stopped.is_set():
            close_old_connections()
            try:
                attempt()
            except Error as error:
                log.warning("batch_not_written", cluster=self.uid, error=str(error))
                self.stopped.wait(PAUSE_SECONDS)
            else:
                return

    def _write_rows(self, lease: ObserverLease, batch: Batch) -> None:
        """Write a batch, with the objects that cannot be written left out and reported."""

        def write_part(part: Batch) -> None:
            with metrics.batch() as ending, transaction.atomic():
                hold(lease)
                write(self.uid, part)
                ending.outcome = "written"

        errors: dict[Hashable, str] = {
            key_of(change): change.error for change in batch.unreadable if not change.absent
        }
        for change, error in write_apart(batch, write_part):
            errors[key_of(change)] = f"{type(error).__name__}: {error}"
        for change in batch.changes:
            if message := errors.get(key_of(change)):
                self._keep_aside(change, message)
            else:
                self.quarantine.drop(change)
        self._report(lease)

    def _write_foreign_usage(self, lease: ObserverLease, changes: ForeignUsageChanges) -> None:
        """Write the usage of other tenants' pods on its own: a failure does not delay our own changes."""

        def write_part(part: ForeignUsageChanges) -> None:
            with transaction.atomic():
                hold(lease)
                write_foreign_usage(self.uid, part)

        try:
            write_part(changes)
        except Error as error:
            log.warning("others_not_written", cluster=self.uid, error=str(error))
            if not lies_in_contents(error):
                self.inbox.put_back(changes)
                return
            for node, usage in changes.usage.items():
                try:
                    write_part(ForeignUsageChanges({node: usage}))
                except Error as fault:
                    if not lies_in_contents(fault):
                        raise
                    log.warning("usage_not_written", cluster=self.uid, node=node, error=str(fault))
                    metrics.QUARANTINED.labels(self.uid, "usage").inc()

    def _write_gangs(self, lease: ObserverLease) -> None:
        """Write gangs of others about once a second, on their own: a failure delays nothing else."""
        if self._gangs is None or time.monotonic() - self._gangs_written_at < GANG_SECONDS:
            return
        self._gangs_written_at = time.monotonic()
        changes = self._gangs.take(most=BATCH)

        def write_part(part: GangChanges) -> None:
            with transaction.atomic():
                hold(lease)
                write_gangs(self.uid, part)

        try:
            if changes.gangs or changes.state:
                write_part(changes)
        except Error as error:
            log.warning("gangs_not_written", cluster=self.uid, error=str(error))
            if not lies_in_contents(error):
                self._gangs.put_back(changes)
                return
            write_each(self.uid, changes, write_part)

    def _keep_aside(self, change: Observation, error: str) -> None:
        self.quarantine.add(change, error)
        kind = (
            change.kind
            if isinstance(change, UnreadableObject)
            else type(change).__name__.removesuffix("Seen")
        )
        metrics.QUARANTINED.labels(self.uid, kind).inc()
        log.warning("object_kept_aside", cluster=self.uid, kind=kind, error=error)

    def _report(self, lease: ObserverLease) -> None:
        """Put the quarantine into the cluster's row when it has changed."""
        summary = self.quarantine.summary()
        if summary != self._reported:
            with transaction.atomic():
                hold(lease)
                Cluster.objects.filter(pk=self.uid).update(quarantine=summary)
            self._reported = summary

    def _end(self) -> None:
        """End every stream; the changes that they still put are dropped."""
        self.inbox.close()
        followers = [*self.followers.values(), *self._retired]
        self.followers, self._retired = {}, []
        for follower in followers:
            follower.stop()
        until = time.monotonic() + STOP_SECONDS
        for follower in followers:
            follower.join(max(0.0, until - time.monotonic()))


def _key(backend: Backend, source: Source) -> StreamKey:
    place = (source.cluster_uid, backend.kubeconfig, backend.context, str(source.kind), source.namespace)
    return (*place, source.label_selector, source.field_selector, source.gangs)
