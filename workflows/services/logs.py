"""The text of a workflow's logs, read from its pods while they live.

Logs are not stored: a pod that is gone took its log with it, and the text says so instead of being
empty. Each line of several tasks carries its task's name. A request reads a bounded number of pods, and
names what it left out; a cluster that does not answer is one sentence, not an endless wait.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cluster.errors import ClusterError, NotFound, Unreachable
from cluster.interface import Cluster
from workflows.models import Task
from workflows.statuses import LIVE_ORDER, TaskStatus

MOST_TASKS = 50
LONGEST_LINE = 64 * 1024

_NOT_MADE = frozenset({TaskStatus.SUBMITTING, TaskStatus.WAITING, TaskStatus.PROCESSING})
_WELL = frozenset({TaskStatus.COMPLETED, TaskStatus.RESCHEDULED, *LIVE_ORDER})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """``lines`` bounds what is read of each task; ``failed_only`` keeps to tasks that failed."""

    lines: int
    failed_only: bool


def read_logs(tasks: Sequence[Task], *, cluster: Cluster, wanted: LogRequest) -> Iterator[bytes]:
    """The logs of tasks one after the other, as whole lines.

    Each task comes with its group. Raises nothing for a cluster that fails in between: it is said there.
    """
    chosen = [task for task in tasks if not wanted.failed_only or task.status not in _WELL]
    if not chosen:
        yield b"No task has failed.\n" if wanted.failed_only else b"The workflow has no such task.\n"
    prefixed = len(tasks) > 1
    for task in chosen[:MOST_TASKS]:
        try:
            for line in _task_lines(task, cluster=cluster, wanted=wanted):
                yield (f"[{task.name}] ".encode() if prefixed else b"") + line + b"\n"
        except Unreachable as error:
            yield f"The cluster does not answer: {error.message}\n".encode()
            return
    if len(chosen) > MOST_TASKS:
        left = len(chosen) - MOST_TASKS
        yield f"{left} more tasks were left out; task_name=<name> gives one of them.\n".encode()


def _task_lines(task: Task, *, cluster: Cluster, wanted: LogRequest) -> Iterator[bytes]:
    if wanted.failed_only:
        code = "" if task.exit_code is None else f", exit code {task.exit_code}"
        yield f"{task.status}{code}: {task.failure_message or 'no message'}".encode()
    if task.group.released_at is not None:
        yield f"Pod {task.pod_name} is gone, and its log with it.".encode()
    elif task.status in _NOT_MADE:
        yield b"It has no pod yet."
    else:
        yield from _pod_lines(task, cluster=cluster, wanted=wanted)


def _pod_lines(task: Task, *, cluster: Cluster, wanted: LogRequest) -> Iterator[bytes]:
    namespace = str(task.group.placement["namespace"])
    try:
        with cluster.logs(task.pod_name, namespace=namespace, tail_lines=wanted.lines) as chunks:
            yield from _whole_lines(chunks)
    except NotFound:
        yield f"Pod {task.pod_name} is not in the cluster, so it has no log.".encode()
    except Unreachable:
        raise
    except ClusterError as error:
        yield f"Its log cannot be read: {error.message}".encode()


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines out of chunks, without their ends; one that never ends is cut."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        while len(rest) > LONGEST_LINE:
            yield rest[:LONGEST_LINE]
            rest = rest[LONGEST_LINE:]
    if rest:
        yield rest
