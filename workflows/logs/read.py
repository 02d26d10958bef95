"""The text of a workflow's logs: from pods while they exist, from the store afterwards.

In place of a missing log stands a sentence with the reason. With several tasks, each line carries its task's
name. A request reads a bounded number of tasks and says how many it left out; a cluster that does not answer
gives one sentence, not an endless wait.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import structlog
from django.conf import settings
from django.db.models import QuerySet

from cluster.errors import ClusterError, ClusterUnreachable, ObjectNotFound
from cluster.interface import ClusterApi
from scheduling import names
from scheduling.sentences import one_line
from workflows.lifecycle.statuses import BACKLOG, LIVE_ORDER, TaskStatus
from workflows.logs.errors import StoreFailed
from workflows.logs.store import installed_store, name_of
from workflows.logs.text import kept_in_place, unpack, whole_lines
from workflows.models import Task

MOST_TASKS = 50

_WELL = frozenset({TaskStatus.COMPLETED, TaskStatus.RESCHEDULED, *LIVE_ORDER})

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """``lines`` bounds what is read of each task; ``failed_only`` keeps to tasks that failed."""

    lines: int
    failed_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTries:
    """Those of some tries that one request reads, of a workflow of any width.

    ``left_out`` counts those beyond them; ``prefixed``: there is more than one try, read or not.
    """

    tries: Sequence[Task]
    left_out: int
    prefixed: bool

    @classmethod
    def of(cls, tries: QuerySet[Task], *, failed_only: bool) -> Self:
        """The first of ``selectors.tries_of``. Three queries at most."""
        chosen = tries.exclude(status__in=_WELL) if failed_only else tries
        first = list(chosen[:MOST_TASKS])
        left_out = chosen.count() - MOST_TASKS if len(first) == MOST_TASKS else 0
        return cls(tries=first, left_out=left_out, prefixed=len(first) > 1 or tries[1:].exists())


def read_logs(read: ReadTries, *, cluster: ClusterApi, request: LogRequest) -> Iterator[bytes]:
    """The logs of tasks one after the other, as whole lines.

    Raises nothing for a cluster or store that fails in between: a sentence says so there.
    """
    if not read.tries:
        yield b"No task has failed.\n" if request.failed_only else b"The workflow has no such task.\n"
    for task in read.tries:
        try:
            for line in _task_lines(task, cluster=cluster, request=request):
                yield marked(task, line, prefixed=read.prefixed)
        except ClusterUnreachable as error:
            yield one_line(f"The cluster does not answer: {error.message}").encode() + b"\n"
            return
    if read.left_out > 0:
        yield f"{read.left_out} more tasks were left out; task_name=<name> gives one of them.\n".encode()


def marked(task: Task, line: bytes, *, prefixed: bool) -> bytes:
    """A line with its end, and its task's name before it where several tasks speak."""
    return f"[{task.name}] ".encode() + kept_in_place(line) + b"\n" if prefixed else line + b"\n"


def is_over(task: Task) -> bool:
    """Whether no pod of it can be asked any more: its log is in the store, or nowhere."""
    return bool(task.log_state) or task.group.released_at is not None


def pod_namespace(task: Task) -> str:
    """Where its pod is; ``selectors.tries_of`` reads it with the row, instead of a whole placement."""
    return str(vars(task)["pod_namespace"])


def _task_lines(task: Task, *, cluster: ClusterApi, request: LogRequest) -> Iterator[bytes]:
    if request.failed_only:
        code = "" if task.exit_code is None else f", exit code {task.exit_code}"
        yield one_line(f"{task.status}{code}: {task.failure_message or 'no message'}").encode()
    if is_over(task):
        yield from kept_lines(task, lines=request.lines)
    elif task.status in BACKLOG:
        yield b"It has no pod yet."
    else:
        yield from _pod_lines(task, cluster=cluster, request=request)


def _pod_lines(task: Task, *, cluster: ClusterApi, request: LogRequest) -> Iterator[bytes]:
    try:
        with cluster.logs(
            task.pod_name,
            namespace=pod_namespace(task),
            container=names.container(task.name),
            tail_lines=request.lines,
        ) as chunks:
            yield from whole_lines(chunks)
    except ObjectNotFound:
        task.refresh_from_db(fields=["log_state", "log_note"])  # it may have gone into the store just now
        if task.log_state:
            yield from kept_lines(task, lines=request.lines)
        else:
            yield f"Pod {task.pod_name} is not in the cluster, so it has no log.".encode()
    except ClusterUnreachable:
        raise
    except ClusterError as error:
        yield one_line(f"Its log cannot be read: {error.message}").encode()


def kept_lines(task: Task, *, lines: int | None) -> Iterator[bytes]:
    """The last lines of what is kept of a try's log, or why there is none."""
    if task.log_state != Task.LogState.STORED:
        yield one_line(_why_not(task)).encode()
        return
    name = name_of(workflow=task.group.workflow_id, task_uuid=task.task_uuid, retry_id=task.retry_id)
    try:
        content = installed_store().get(name)
        text = unpack(content) if content is not None else None
    except (StoreFailed, OSError, EOFError, zlib.error) as error:
        log.warning("log_not_read", name=name, error=str(error), store=settings.ENV.log_store)
        yield b"Its log is kept, and cannot be read from the store now."
        return
    if text is None:
        yield b"Its log was kept, and is not in the store any more."
        return
    stored_lines = text.removesuffix(b"\n").split(b"\n") if text else []
    yield from stored_lines if lines is None else stored_lines[-lines:]


def _why_not(task: Task) -> str:
    if task.scheduling_start_time is None and task.status == TaskStatus.COMPLETED:
        return "It has no pod of its own: it had completed in the workflow that this one restarts."
    if task.scheduling_start_time is None and not task.log_note:
        return "It never had a pod."
    if task.log_state == Task.LogState.UNREAD:
        return f"Its log is not kept: {task.log_note}."
    if task.log_state == Task.LogState.DROPPED:
        return f"Its log is not kept any more: {task.log_note}."
    return f"Pod {task.pod_name} is gone, and its log was not read."
