"""Following the logs of a workflow that runs, as they come, until it ends.

A thread for each pod reads whole lines into a queue. The request's own thread writes them out and, between
lines, reads the rows: new tries join, a try whose pod was deleted is read from the store, and the end of the
workflow is noticed. The pods of one request and the queued lines are bounded: a slow caller slows the readers
and through them the pods' streams.

A stream that breaks off while its task runs (a proxy's idle limit, an API server that restarts) is opened
again, and a line says so: Kubernetes gives no position to resume from.

It ends when the workflow has ended, when the caller has disconnected, or after ``OSMO_LOG_FOLLOW_SECONDS``.
No keep-alive text is written, since the text is for people; the connection itself tells whether the caller
is still there.

Rejected: polling each pod's last lines, which costs API server and kubelet a request per pod and second, and
repeats or loses lines.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from cluster.errors import ClusterError
from cluster.interface import ClusterApi, Stream
from workflows.lifecycle.statuses import BACKLOG, TERMINAL
from workflows.logs.read import is_over, kept_lines, marked
from workflows.logs.text import whole_lines
from workflows.models import Task

MOST_PODS = 30
WAITING_LINES = 1000
ROWS_SECONDS = 2.0
AGAIN_SECONDS = 3.0
LATE_SECONDS = 20.0  # for a pod's last lines once its task has ended
RELEASED_SECONDS = 1.0  # the same once nothing of its group is left

log = structlog.get_logger(__name__)

Tries = Callable[[], Sequence[Task]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """``lines`` bounds the first lines of each task; ``prefixed``: lines carry their task's name."""

    lines: int
    prefixed: bool
    seconds: float


@dataclass(slots=True)
class _PodReader:
    """One pod's log, read by a thread of its own."""

    task: Task
    again: bool
    stream: Stream[bytes] | None = None  # there once the cluster has answered
    stopped: bool = False
    ended_at: float | None = None
    late_at: float = float("inf")


@dataclass(slots=True)
class _Follower:
    cluster: ClusterApi
    request: FollowRequest
    readers: dict[int, _PodReader] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)  # whose log has been shown to its end
    left_out: set[int] = field(default_factory=set)
    through_at: float | None = None
    lines: queue.Queue[tuple[Task, bytes]] = field(default_factory=lambda: queue.Queue(maxsize=WAITING_LINES))

    def update(self, tasks: Sequence[Task]) -> Iterator[bytes]:
        """Start readers for new tries and yield the logs of those that are over."""
        now = time.monotonic()
        for task in tasks:
            if task.pk in self.finished or (task.status in BACKLOG and not is_over(task)):
                continue
            reader = self.readers.get(task.pk)
            ends = task.status in TERMINAL or is_over(task)
            if reader is not None and reader.ended_at is None:
                is_released = task.group.released_at is not None
                self._wait_for_the_last(
                    reader, ends=ends, seconds=RELEASED_SECONDS if is_released else LATE_SECONDS
                )
            elif reader is not None and reader.stream is not None and ends:
                self._end(task.pk)
            elif is_over(task):
                self.finished.add(task.pk)
                for line in kept_lines(task, lines=self.request.lines):
                    yield marked(task, line, prefixed=self.request.prefixed)
            elif reader is None or now - (reader.ended_at or now) > AGAIN_SECONDS:
                yield from self._begin(task, again=reader is not None and reader.stream is not None)

    def _wait_for_the_last(self, reader: _PodReader, *, ends: bool, seconds: float) -> None:
        """Leave a stream some time to end by itself once its task has."""
        now = time.monotonic()
        if ends:
            reader.late_at = min(reader.late_at, now + seconds)
        if now >= reader.late_at:
            self._end(reader.task.pk)

    def _begin(self, task: Task, *, again: bool) -> Iterator[bytes]:
        if sum(reader.ended_at is None for reader in self.readers.values()) >= MOST_PODS:
            if task.pk not in self.left_out:
                self.left_out.add(task.pk)
                note = f"{MOST_PODS} tasks are followed at a time; task_name={task.name} gives this one."
                yield marked(task, note.encode(), prefixed=self.request.prefixed)
            return
        reader = _PodReader(task=task, again=again)
        self.readers[task.pk] = reader
        threading.Thread(target=self._read, args=(reader,), name="follow", daemon=True).start()

    def _end(self, pk: int) -> None:
        self.finished.add(pk)
        self.readers[pk].stopped = True
        if stream := self.readers[pk].stream:
            stream.close()

    def _read(self, reader: _PodReader) -> None:
        """Hand over one pod's lines until its stream ends; touches no database: it is a thread."""
        task = reader.task
        try:
            stream = self.cluster.logs(
                task.pod_name,
                namespace=str(task.group.placement["namespace"]),
                tail_lines=0 if reader.again else self.request.lines,
                follow=True,
            )
            reader.stream = stream
            with stream as chunks:
                if reader.stopped:  # before there was a stream to close
                    return
                for line in whole_lines(chunks):
                    if reader.stopped:
                        break
                    if reader.again:
                        reader.again = False
                        self._hand(reader, b"(followed again; lines before this one may be missing)")
                    self._hand(reader, line)
        except ClusterError as error:
            log.info("log_stream_ended", pod=task.pod_name, error=str(error))
        finally:
            reader.ended_at = time.monotonic()

    def _hand(self, reader: _PodReader, line: bytes) -> None:
        while not reader.stopped:
            with suppress(queue.Full):
                self.lines.put((reader.task, line), timeout=1.0)
                return

    def new_lines(self, *, seconds: float) -> Iterator[bytes]:
        """Lines as they come, for some seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                task, line = self.lines.get(timeout=left)
            except queue.Empty:
                return
            yield marked(task, line, prefixed=self.request.prefixed)

    def queued_lines(self) -> Iterator[bytes]:
        """Lines that were read and are not shown yet."""
        with suppress(queue.Empty):
            while True:
                task, line = self.lines.get_nowait()
                yield marked(task, line, prefixed=self.request.prefixed)

    @property
    def reading(self) -> bool:
        return any(reader.ended_at is None and pk not in self.finished for pk, reader in self.readers.items())

    def is_through(self, tasks: Sequence[Task]) -> bool:
        """Whether all tasks have ended and been shown, or were waited for long enough."""
        if not all(task.status in TERMINAL for task in tasks):
            self.through_at = None
            return False
        if self.through_at is None:
            self.through_at = time.monotonic() + LATE_SECONDS
        are_finished = not self.reading and all(task.pk in self.finished for task in tasks)
        return are_finished or time.monotonic() > self.through_at

    def stop(self) -> None:
        for pk in self.readers:
            self._end(pk)


def follow_logs(
    tries: Tries, *, cluster: ClusterApi, request: FollowRequest, is_connected: Callable[[], bool]
) -> Iterator[bytes]:
    """The lines of all tasks as they come, until all have ended.

    ``tries`` reads the latest try of each task anew; ``is_connected`` says whether the caller is still there.
    """
    follower = _Follower(cluster, request)
    until = time.monotonic() + request.seconds
    try:
        while is_connected():
            tasks = tries()
            yield from follower.update(tasks)
            if follower.is_through(tasks):
                yield from follower.queued_lines()
                return
            if (left := until - time.monotonic()) <= 0:
                yield from follower.queued_lines()
                yield f"(followed for {request.seconds:g} seconds; ask again to go on)\n".encode()
                return
            yield from follower.new_lines(seconds=min(ROWS_SECONDS, left))
    finally:
        follower.stop()
