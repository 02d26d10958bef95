"""Keeping the logs of pods that have ended, before they are deleted.

Driven by rows: a try whose ``log_state`` is empty has a log that nobody has read. Two ways lead here. Pods
that ended while their group goes on are found by a sweep, which claims a few of them for a while
(``log_try_at``), so a lost message or a worker that dies loses nothing. And whoever deletes pods reads
first what is still open of them (``keep_before_delete``), for a bounded time: a kubelet that does not answer
keeps its GPUs no longer than ``HOLD_SECONDS``, and what was not read is said in the place of the log.

The order of one log is row, object, state: a crash in between leaves a row without an object or an object
under the name that the next reader writes again, and the sweep of the store finds both. Nothing is read or
written inside a transaction.

One reader holds at most one log (``OSMO_LOG_BYTES``) and a chunk in memory, and ``READERS`` work at a time
for one group. Pods of a node whose kubelet failed once are not asked in the same turn again: without that
one dead node of eight pods would use up the time of all others.

Rejected: a message per pod, since 10,000 that end at once would fill the queue; and reading after the
delete, since nothing holds a pod whose containers have ended.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Lock

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from cluster.errors import ClusterError, ClusterUnreachable, Invalid, ObjectNotFound, WriteConflict
from cluster.interface import ClusterApi, Stream
from pools.selectors import workflow_limits
from workflows.logs.errors import StoreFailed
from workflows.logs.store import LogStore, installed_store, name_of
from workflows.logs.text import gather, pack
from workflows.metrics import LOG_BYTES, LOGS
from workflows.models import KeptLog, Task

READERS = 8
HOLD_SECONDS = 30.0
FORCED_SECONDS = 5.0
READ_MOST = 32 * 2**20  # of one log, of which the beginning and the end are kept
NOTE = 300

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLog:
    """A try whose log nobody has read yet."""

    pk: int
    pod_name: str
    node_name: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of one log: bytes in the store, or why there are none.

    ``final``: asking again is of no use. ``silent``: nobody answered.
    """

    pk: int
    size: int = 0
    trouble: str = ""
    final: bool = True
    silent: bool = False


def keep_before_delete(pods: Collection[str], *, cluster: ClusterApi, forced: bool) -> None:
    """Read and keep what is open of these pods' logs; what cannot be read in time is given up.

    ``forced``: their deletion may wait for ``FORCED_SECONDS`` only. Raises Unreachable if the API server
    itself does not answer: then nothing can be deleted either, and nothing is given up.
    """
    logs = _open_logs(Task.objects.filter(pod_name__in=pods))
    if not logs:
        return
    seconds = FORCED_SECONDS if forced else HOLD_SECONDS
    done = _read_all(logs, cluster=cluster, seconds=seconds)
    if not any(one.size for one in done) and any(one.silent for one in done):
        cluster.kube_system_uid()  # raises if all of it is silent
    told = {one.pk for one in done}
    late = f"the log could not be read before its pod was deleted: not within {seconds:g} seconds"
    record(done, final=True)
    record([Done(pk=one.pk, trouble=late) for one in logs if one.pk not in told], final=True)


def keep_ended(tasks: Sequence[int], *, cluster: ClusterApi, seconds: float) -> None:
    """Read and keep the logs of tries that have ended; what fails now is tried again later."""
    record(
        _read_all(_open_logs(Task.objects.filter(pk__in=tasks)), cluster=cluster, seconds=seconds),
        final=False,
    )


def _open_logs(tasks: QuerySet[Task]) -> list[OpenLog]:
    rows = tasks.filter(log_state="").values_list(
        "pk",
        "pod_name",
        "node_name",
        "group__placement__namespace",
        "group__workflow_id",
        "task_uuid",
        "retry_id",
    )
    found = [
        OpenLog(
            pk=pk,
            pod_name=pod,
            node_name=node,
            namespace=str(namespace),
            name=name_of(workflow=workflow, task_uuid=task, retry_id=retry),
        )
        for pk, pod, node, namespace, workflow, task, retry in rows
    ]
    KeptLog.objects.bulk_create(
        [KeptLog(name=one.name, task_id=one.pk) for one in found],
        batch_size=1000,
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["begun_at"],
    )
    return _in_turns(found)


def _in_turns(logs: list[OpenLog]) -> list[OpenLog]:
    """One of each node first, then the second of each, so that a silent node is met once and not in a row."""
    seen: dict[str, int] = {}
    turns = []
    for one in logs:
        turns.append((seen.setdefault(one.node_name, 0), one))
        seen[one.node_name] += 1
    return [one for _, one in sorted(turns, key=lambda turn: turn[0])]


@dataclass(slots=True)
class _Turn:
    """The readers of one turn: what they share, and how they are stopped."""

    cluster: ClusterApi
    store: LogStore
    lines: int
    until: float
    silent_nodes: set[str] = field(default_factory=set)
    open: dict[int, Stream[bytes]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    over: bool = False

    def read(self, one: OpenLog) -> Done | None:
        """Read and store one log; None if the time was up before. Touches no database: it is a thread."""
        if self.over or time.monotonic() > self.until:
            return None
        if one.node_name and one.node_name in self.silent_nodes:
            trouble = f"the log could not be read before its pod was deleted: node {one.node_name} gives none"
            return Done(pk=one.pk, trouble=trouble, final=False)
        try:
            content = self._content(one)
            if self.over:
                return None
            self.store.put(one.name, content)
        except (ClusterError, StoreFailed) as error:
            return None if self.over else self._failed(one, error)
        return Done(pk=one.pk, size=len(content))

    def _failed(self, one: OpenLog, error: ClusterError | StoreFailed) -> Done:
        if isinstance(error, StoreFailed):
            log.warning("log_not_stored", pod=one.pod_name, error=str(error))
            LOGS.labels("store_failed").inc()
            return Done(pk=one.pk, trouble=f"the store of logs failed: {error}", final=False)
        if isinstance(error, ObjectNotFound):
            return Done(pk=one.pk, trouble="its pod was gone before its log was read")
        if isinstance(error, (Invalid, WriteConflict)):
            return Done(pk=one.pk, trouble=f"its container did not start: {error.message}")
        if one.node_name:
            self.silent_nodes.add(one.node_name)
        silent = isinstance(error, ClusterUnreachable)
        trouble = f"the log could not be read before its pod was deleted: {error.message}"
        return Done(pk=one.pk, trouble=trouble, final=False, silent=silent)

    def _content(self, one: OpenLog) -> bytes:
        most: int = settings.ENV.log_bytes
        stream = self.cluster.logs(
            one.pod_name, namespace=one.namespace, tail_lines=self.lines, limit_bytes=READ_MOST
        )
        with self.lock:
            self.open[one.pk] = stream
        try:
            with stream as chunks:
                found = gather(chunks, most=most)
        finally:
            with self.lock:
                self.open.pop(one.pk, None)
        first = f"(osmo-topology: only the last {self.lines} lines were read)\n".encode()
        return pack((first if found.lines >= self.lines else b"") + found.text)

    def stop(self) -> None:
        """End every read that goes on; what is still asked for ends by itself and is not recorded."""
        self.over = True
        with self.lock:
            for stream in self.open.values():
                stream.close()


def _read_all(logs: Sequence[OpenLog], *, cluster: ClusterApi, seconds: float) -> list[Done]:
    """Read and store the logs, several at a time; those that were not done in time are left out."""
    if not logs:
        return []
    turn = _Turn(
        cluster=cluster,
        store=installed_store(),
        lines=workflow_limits().max_log_lines,
        until=time.monotonic() + seconds,
    )
    pool = ThreadPoolExecutor(max_workers=min(READERS, len(logs)), thread_name_prefix="logs")
    futures: list[Future[Done | None]] = [pool.submit(turn.read, one) for one in logs]
    finished, _ = wait(futures, timeout=seconds)
    turn.stop()
    pool.shutdown(wait=False, cancel_futures=True)
    return [done for future in finished if (done := future.result()) is not None]


def record(done: Sequence[Done], *, final: bool) -> None:
    """Write down what became of logs. ``final``: their pods are about to go, so nothing is tried again."""
    for some in _portions(done):
        kept = {one.pk: one.size for one in some if one.size}
        unread = {one.pk: one.trouble for one in some if not one.size and (final or one.final)}
        with transaction.atomic():
            _record_kept(kept)
            _record_unread(unread)
        LOGS.labels("kept").inc(len(kept))
        LOGS.labels("unread").inc(len(unread))
        LOG_BYTES.inc(sum(kept.values()))


def _portions(done: Sequence[Done]) -> Iterator[Sequence[Done]]:
    for start in range(0, len(done), 500):
        yield done[start : start + 500]


def _record_kept(kept: dict[int, int]) -> None:
    if not kept:
        return
    rows = list(KeptLog.objects.filter(task__in=kept))
    for row in rows:
        row.size = kept[row.task_id or 0]
    KeptLog.objects.bulk_update(rows, ["size"])
    KeptLog.objects.filter(task__in=kept).update(stored_at=Now())
    Task.objects.filter(pk__in=kept).update(log_state=Task.LogState.STORED, log_try_at=None)


def _record_unread(unread: dict[int, str]) -> None:
    if not unread:
        return
    rows = list(Task.objects.filter(pk__in=unread, log_state="").only("pk"))
    for row in rows:
        row.log_state, row.log_note = Task.LogState.UNREAD, unread[row.pk][:NOTE]
    Task.objects.bulk_update(rows, ["log_state", "log_note"])
