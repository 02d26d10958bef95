"""Following the logs of a workflow that runs, as they come, until it ends.

Everything here is a coroutine of web's event loop: one for each pod, which reads whole lines into a queue,
and the request's own, which writes them out and, between lines, reads the rows: new tries join, a try whose
pod was deleted is read from the store, and the end of the workflow is noticed. So a process has a thousand
followers without a thread for any. Two threads read rows and store; the more followers there are, the less
often each reads the rows. A slow caller slows the readers and through them the pods' streams: one reader of a
request at a time makes text of what it read, and the queue holds a few pieces. The pods of one request are
bounded, and those that all requests of a process, and of a user, read beyond the first of each.

A stream that breaks off while its task runs (a proxy's idle limit, an API server that restarts) is opened
again, and a line says so: Kubernetes gives no position to resume from.

It ends when the workflow has ended, when the caller has disconnected (the server cancels it then), or after
``OSMO_LOG_FOLLOW_SECONDS``. No keep-alive text is written, since the text is for people.

Rejected: polling each pod's last lines, which costs API server and kubelet a request per pod and second, and
repeats or loses lines.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import structlog
from django.conf import settings

from cluster.errors import ClusterError
from cluster.interface import ClusterApi
from scheduling import names
from scheduling.sentences import in_seconds
from web.database.row_threads import run_in
from workflows.lifecycle.statuses import BACKLOG, TERMINAL
from workflows.logs.read import is_over, kept_lines, marked, pod_namespace
from workflows.logs.text import LineCutter
from workflows.models import Task

MOST_PODS = 30
USERS_OF_PODS = 5  # of the pods beyond the first of each request, one user reads one in so many
QUEUED_PIECES = 4
PIECE = 16 * 1024  # and one line more
ROWS_SECONDS = 2.0
ROWS_PER_SECOND = 50  # reads of rows by all followers of a process
TASKS_PER_SECOND = 2500  # in these reads, about an eighth of a core
MOST_REST_SECONDS = 60.0  # between two reads of one follower, however many there are
AGAIN_SECONDS = 3.0
LATE_SECONDS = 20.0  # for a pod's last lines once its task has ended
RELEASED_SECONDS = 1.0  # the same once nothing of its group is left

log = structlog.get_logger(__name__)

Tries = Callable[[], Sequence[Task]]
T = TypeVar("T")

_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="follow")
_further_pods: dict[asyncio.Task[None], str] = {}
"""The pods that this process reads beyond the first of each request, with their readers' users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """``lines`` bounds the first lines of each task; ``prefixed``: lines carry their task's name."""

    user: str
    lines: int
    prefixed: bool
    seconds: float


@dataclass(slots=True)
class _PodReader:
    """One pod's log, read by a coroutine of its own."""

    task: Task
    again: bool
    job: asyncio.Task[None] | None = None
    has_text: bool = False  # some text of it has been queued
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
    pieces: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(maxsize=QUEUED_PIECES))
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # of the readers, to queue text

    def update(self, tasks: Sequence[Task]) -> Iterator[Callable[[], bytes]]:
        """Start readers for new tries and yield what reads the text of those that are over."""
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
            elif reader is not None and reader.has_text and ends:
                self._end(task.pk)
            elif is_over(task):
                self.finished.add(task.pk)
                yield lambda task=task: self._kept_text(task)  # type: ignore[misc]  # the loop's task
            elif reader is None or now - (reader.ended_at or now) > AGAIN_SECONDS:
                yield from self._begin(task, again=reader is not None and reader.has_text)

    def _kept_text(self, task: Task) -> bytes:
        return self._text(task, kept_lines(task, lines=self.request.lines))

    def _text(self, task: Task, lines: Iterable[bytes]) -> bytes:
        return b"".join(self._marked_pieces(task, lines))

    def _marked_pieces(self, task: Task, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines' text by pieces: a short line with its task's name is many times as long."""
        piece = bytearray()
        for line in lines:
            piece += marked(task, line, prefixed=self.request.prefixed)
            if len(piece) >= PIECE:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)

    def _wait_for_the_last(self, reader: _PodReader, *, ends: bool, seconds: float) -> None:
        """Leave a stream some time to end by itself once its task has; one without text is not its log."""
        now = time.monotonic()
        if ends:
            reader.late_at = min(reader.late_at, now + seconds)
        if now >= reader.late_at and reader.job:
            reader.job.cancel()

    def _begin(self, task: Task, *, again: bool) -> Iterator[Callable[[], bytes]]:
        read = sum(reader.ended_at is None for reader in self.readers.values())
        if read >= MOST_PODS or (read and not _is_room(self.request.user)):
            if task.pk not in self.left_out:
                self.left_out.add(task.pk)
                note = f"{read} tasks are followed at a time now; task_name={task.name} gives this one."
                yield lambda: self._text(task, [note.encode()])
            return
        reader = _PodReader(task=task, again=again)
        self.readers[task.pk] = reader
        reader.job = asyncio.create_task(self._read(reader), name="follow")
        if read:
            _further_pods[reader.job] = self.request.user
            reader.job.add_done_callback(_further_pods.pop)

    def _end(self, pk: int) -> None:
        self.finished.add(pk)
        if job := self.readers[pk].job:
            job.cancel()

    async def _read(self, reader: _PodReader) -> None:
        """Queue one pod's lines until its stream ends."""
        task, cutter = reader.task, LineCutter()
        try:
            async with self.cluster.follow_log(
                task.pod_name,
                namespace=pod_namespace(task),
                container=names.container(task.name),
                tail_lines=0 if reader.again else self.request.lines,
            ) as chunks:
                async for chunk in chunks:
                    async with self.turn:
                        await self._queue(reader, cutter.lines(chunk))
                await self._queue(reader, cutter.rest())
        except ClusterError as error:
            log.info("log_stream_ended", pod=task.pod_name, error=str(error))
        finally:
            reader.ended_at = time.monotonic()
            with suppress(asyncio.QueueFull):
                self.pieces.put_nowait(b"")  # the rows may tell more now

    async def _queue(self, reader: _PodReader, lines: list[bytes]) -> None:
        if not lines:
            return
        if reader.again:
            reader.again = False
            lines = [b"(followed again; lines before this one may be missing)", *lines]
        reader.has_text = True
        for piece in self._marked_pieces(reader.task, lines):
            await self.pieces.put(piece)

    async def new_pieces(self, *, seconds: float, least: float = 0.0) -> AsyncIterator[bytes]:
        """Text as it comes, for some seconds or until a stream ends, but not for less than ``least``."""
        begin = time.monotonic()
        until, earliest = begin + max(seconds, least), begin + least
        while (left := until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    piece = await self.pieces.get()
            except TimeoutError:
                return
            if piece:
                yield piece
            else:
                until = earliest

    async def queued_pieces(self) -> AsyncIterator[bytes]:
        """Text that was read and is not shown yet, and what its readers were about to queue."""
        while not self.pieces.empty():
            yield self.pieces.get_nowait()
            await asyncio.sleep(0)

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

    def rows_seconds(self, followers: int) -> float:
        """Seconds until the rows are read again: soon if they are about to tell of an end."""
        if self.through_at is not None or any(
            reader.ended_at is not None and pk not in self.finished for pk, reader in self.readers.items()
        ):
            return ROWS_SECONDS
        return max(ROWS_SECONDS, followers / ROWS_PER_SECOND)

    def stop(self) -> None:
        for pk in self.readers:
            self._end(pk)


def rest_seconds(tasks: int, followers: int) -> float:
    """Least time between two reads of so many tasks' rows: next to none for a narrow workflow."""
    return min(MOST_REST_SECONDS, tasks * followers / TASKS_PER_SECOND)


def _is_room(user: str) -> bool:
    """Whether a user may follow a further pod: there is a bound for all, and a part of it for each user."""
    most = settings.ENV.log_followers
    own = sum(follower == user for follower in _further_pods.values())
    return len(_further_pods) < most and own < math.ceil(most / USERS_OF_PODS)


async def follow_logs(
    tries: Tries, *, cluster: ClusterApi, request: FollowRequest, followers: Callable[[], int]
) -> AsyncIterator[bytes]:
    """The lines of all tasks as they come, until all have ended.

    ``tries`` reads the latest try of each task anew, in a thread; ``followers`` counts those of this process.
    """
    follower = _Follower(cluster, request)
    until = time.monotonic() + request.seconds
    try:
        while True:
            tasks = await _in_thread(tries)
            for kept_text in follower.update(tasks):
                yield await _in_thread(kept_text)
            is_through, left = follower.is_through(tasks), until - time.monotonic()
            if is_through or left <= 0:
                async for piece in follower.queued_pieces():
                    yield piece
                if not is_through:
                    yield f"(followed for {in_seconds(request.seconds)}; ask again to go on)\n".encode()
                return
            rest = min(rest_seconds(len(tasks), followers()), left)
            del tasks  # a workflow has up to thousands, and most of the time a follower waits
            seconds = min(follower.rows_seconds(followers()), left)
            async for piece in follower.new_pieces(seconds=seconds, least=rest):
                yield piece
    finally:
        follower.stop()


async def _in_thread(function: Callable[[], T]) -> T:
    """Run what reads rows or the store."""
    return await run_in(_threads, function)
