"""Keeping the logs of pods that have ended, before they are deleted.

Driven by rows: a try whose ``log_state`` is empty has an unread log. A sweep finds pods that ended while
their group goes on and claims a few of them for a while (``log_try_at``), so a lost message or a worker that
dies loses nothing. The step that deletes pods first reads their unread logs (``keep_before_delete``), for a
bounded time: a kubelet that does not answer keeps its GPUs no longer than ``HOLD_SECONDS``, and a note in
place of the log says why it is missing.

Each log is written in the order row, object, state. A crash in between leaves a row without an object, or an
object under the name that the next reader writes again; the sweep of the store finds both. Nothing is read
or written inside a transaction.

One reader keeps at most one log (``OSMO_LOG_BYTES``) and a chunk in memory, and ``READERS`` work at a time
for one group. After a kubelet failed once, the other pods of its node are skipped for that turn: otherwise
one dead node with eight pods would use up the time of all others.

Rejected: a message per pod, since 10,000 that end at once would fill the queue; and reading after the
delete, since nothing holds a pod whose containers have ended.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection

from cluster.errors import ClusterError, ClusterUnreachable, Invalid, ObjectNotFound, WriteConflict
from cluster.interface import ClusterApi, Stream
from pools.selectors import workflow_limits
from scheduling import names
from scheduling.sentences import in_seconds
from workflows.logs.errors import StoreFailed
from workflows.logs.store import LogStore, installed_store, name_of
from workflows.logs.text import bounded_text, pack
from workflows.metrics import LOG_BYTES, LOGS
from workflows.models import Task

READERS = 8
HOLD_SECONDS = 30.0
FORCED_SECONDS = 5.0
READ_MOST = 32 * 2**20  # of one log, of which the beginning and the end are kept
NOTE = 300

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLog:
    """A try whose log nobody has read yet."""

    pk: int
    pod_name: str
    node_name: str
    namespace: str
    container: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOutcome:
    """The outcome of reading one log: its size in the store, or why it is not there.

    ``final``: another attempt is useless. ``silent``: the cluster did not answer.
    """

    pk: int
    size: int = 0
    trouble: str = ""
    final: bool = True
    silent: bool = False


def keep_before_delete(pods: Collection[str], *, group: UUID, cluster: ClusterApi, forced: bool) -> None:
    """Read and keep the unread logs of these pods of a group; one that cannot be read in time is given up.

    ``forced``: the deletion may wait for ``FORCED_SECONDS`` only. Raises ClusterUnreachable if the API
    server itself does not answer: then nothing can be deleted either, and nothing is given up.
    """
    logs = _unread_logs(_OF_PODS, [group, list(pods)])
    if not logs:
        return
    seconds = FORCED_SECONDS if forced else HOLD_SECONDS
    outcomes = _read_all(logs, cluster=cluster, seconds=seconds)
    if not any(outcome.size for outcome in outcomes) and any(outcome.silent for outcome in outcomes):
        cluster.kube_system_uid()  # raises if all of it is silent
    answered = {outcome.pk for outcome in outcomes}
    late = f"the log could not be read before its pod was deleted: not within {in_seconds(seconds)}"
    record(outcomes, final=True)
    record(
        [LogOutcome(pk=unread.pk, trouble=late) for unread in logs if unread.pk not in answered], final=True
    )


def keep_ended(tasks: Sequence[int], *, cluster: ClusterApi, seconds: float) -> None:
    """Read and keep the logs of tries that have ended; a read that fails now is tried again later."""
    record(
        _read_all(_unread_logs(_OF_TRIES, [list(tasks)]), cluster=cluster, seconds=seconds),
        final=False,
    )


_UNREAD = """
    SELECT t.id, t.pod_name, t.node_name, g.placement ->> 'namespace', g.workflow_id, t.task_uuid, t.retry_id,
           t.name
      FROM workflows_task AS t JOIN workflows_taskgroup AS g ON g.uuid = t.group_id WHERE t.log_state = ''
"""
_OF_PODS = f"{_UNREAD} AND t.group_id = %s AND t.pod_name = ANY(%s)"
_OF_TRIES = f"{_UNREAD} AND t.id = ANY(%s::bigint[])"
_BEGIN = """
    INSERT INTO workflows_keptlog (name, task_id, size, begun_at)
    SELECT new.name, new.task, 0, statement_timestamp()
      FROM unnest(%s::text[], %s::bigint[]) AS new(name, task)
        ON CONFLICT (name) DO UPDATE SET begun_at = excluded.begun_at
"""


def _unread_logs(query: str, values: Sequence[Any]) -> list[UnreadLog]:
    """The unread logs of these tries, each with a row of its object in the store."""
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        logs = [
            UnreadLog(
                pk=pk,
                pod_name=pod,
                node_name=node,
                namespace=namespace,
                container=names.container(task_name),
                name=name_of(workflow=workflow, task_uuid=task, retry_id=retry),
            )
            for pk, pod, node, namespace, workflow, task, retry, task_name in cursor.fetchall()
        ]
        if logs:
            cursor.execute(_BEGIN, [[unread.name for unread in logs], [unread.pk for unread in logs]])
    return _in_turns(logs)


def _in_turns(logs: list[UnreadLog]) -> list[UnreadLog]:
    """One of each node first, then the second of each, so that a silent node is met once and not in a row."""
    by_node: dict[str, int] = {}
    turns = []
    for unread in logs:
        turns.append((by_node.setdefault(unread.node_name, 0), unread))
        by_node[unread.node_name] += 1
    return [unread for _, unread in sorted(turns, key=lambda turn: turn[0])]


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

    def read(self, unread: UnreadLog) -> LogOutcome | None:
        """Read and store one log; None if the time was up before. Touches no database: it is a thread."""
        if self.over or time.monotonic() > self.until:
            return None
        if unread.node_name and unread.node_name in self.silent_nodes:
            trouble = (
                f"the log could not be read before its pod was deleted: node {unread.node_name} gives none"
            )
            return LogOutcome(pk=unread.pk, trouble=trouble, final=False)
        try:
            content = self._content(unread)
            if self.over:
                return None
            self.store.put(unread.name, content)
        except (ClusterError, StoreFailed) as error:
            return None if self.over else self._failed(unread, error)
        return LogOutcome(pk=unread.pk, size=len(content))

    def _failed(self, unread: UnreadLog, error: ClusterError | StoreFailed) -> LogOutcome:
        if isinstance(error, StoreFailed):
            log.warning("log_not_stored", pod=unread.pod_name, error=str(error))
            LOGS.labels("store_failed").inc()
            return LogOutcome(pk=unread.pk, trouble=f"the store of logs failed: {error}", final=False)
        if isinstance(error, ObjectNotFound):
            return LogOutcome(pk=unread.pk, trouble="its pod was gone before its log was read")
        if isinstance(error, (Invalid, WriteConflict)):
            return LogOutcome(pk=unread.pk, trouble=f"its container did not start: {error.message}")
        if unread.node_name:
            self.silent_nodes.add(unread.node_name)
        silent = isinstance(error, ClusterUnreachable)
        trouble = f"the log could not be read before its pod was deleted: {error.message}"
        return LogOutcome(pk=unread.pk, trouble=trouble, final=False, silent=silent)

    def _content(self, unread: UnreadLog) -> bytes:
        most: int = settings.ENV.log_bytes
        stream = self.cluster.logs(
            unread.pod_name,
            namespace=unread.namespace,
            container=unread.container,
            tail_lines=self.lines,
            limit_bytes=READ_MOST,
        )
        with self.lock:
            self.open[unread.pk] = stream
        try:
            with stream as chunks:
                text = bounded_text(chunks, most=most)
        finally:
            with self.lock:
                self.open.pop(unread.pk, None)
        first = f"(osmo-topology: only the last {self.lines} lines were read)\n".encode()
        return pack((first if text.lines >= self.lines else b"") + text.text)

    def stop(self) -> None:
        """End every read that goes on; a request still open ends by itself and is not recorded."""
        self.over = True
        with self.lock:
            for stream in self.open.values():
                stream.close()


def _read_all(logs: Sequence[UnreadLog], *, cluster: ClusterApi, seconds: float) -> list[LogOutcome]:
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
    futures: list[Future[LogOutcome | None]] = [pool.submit(turn.read, unread) for unread in logs]
    finished, _ = wait(futures, timeout=seconds)
    turn.stop()
    pool.shutdown(wait=False, cancel_futures=True)
    return [outcome for future in finished if (outcome := future.result()) is not None]


def record(outcomes: Sequence[LogOutcome], *, final: bool) -> None:
    """Record outcomes. ``final``: the pods are about to be deleted, so there is no further attempt."""
    for portion in _portions(outcomes):
        sizes = {outcome.pk: outcome.size for outcome in portion if outcome.size}
        notes = {
            outcome.pk: outcome.trouble
            for outcome in portion
            if not outcome.size and (final or outcome.final)
        }
        _record_kept(sizes)
        _record_unread(notes)
        LOGS.labels("kept").inc(len(sizes))
        LOGS.labels("unread").inc(len(notes))
        LOG_BYTES.inc(sum(sizes.values()))


def _portions(outcomes: Sequence[LogOutcome]) -> Iterator[Sequence[LogOutcome]]:
    for start in range(0, len(outcomes), 500):
        yield outcomes[start : start + 500]


_KEEP = """
    WITH new AS (SELECT * FROM unnest(%(tasks)s::bigint[], %(sizes)s::bigint[]) AS new(task, size)),
         kept AS (UPDATE workflows_keptlog AS kept SET size = new.size, stored_at = statement_timestamp()
                    FROM new WHERE kept.task_id = new.task)
    UPDATE workflows_task AS task SET log_state = %(state)s, log_try_at = NULL
      FROM new WHERE task.id = new.task
"""


def _record_kept(sizes: dict[int, int]) -> None:
    if not sizes:
        return
    values: dict[str, Any] = {
        "tasks": list(sizes),
        "sizes": list(sizes.values()),
        "state": Task.LogState.STORED.value,
    }
    with connection.cursor() as cursor:
        cursor.execute(_KEEP, values)


def _record_unread(notes: dict[int, str]) -> None:
    if not notes:
        return
    rows = list(Task.objects.filter(pk__in=notes, log_state="").only("pk"))
    for row in rows:
        row.log_state, row.log_note = Task.LogState.UNREAD, notes[row.pk][:NOTE]
    Task.objects.bulk_update(rows, ["log_state", "log_note"])
