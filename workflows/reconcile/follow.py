"""From pods to statuses: what one look at a running group's observations means.

Pure. Every task that lives is read from its pod; exit actions turn endings into retries; the lead ends its
siblings; timers end the group; then the group's own status follows. What cannot be known yet is left alone
and looked at again: a pod that nobody has seen (``unseen``), or one that vanished a moment ago whose
scheduler may still be saying why.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pools.conditions import Condition
from scheduling import names
from workflows.lifecycle.derive import LatestTry, ends_siblings, group_status
from workflows.lifecycle.evictions import eviction_message
from workflows.lifecycle.exit_actions import ExitAction, exit_action
from workflows.lifecycle.pod_status import Reading, read_gone, read_pod
from workflows.lifecycle.statuses import TERMINAL, TaskStatus, may_move
from workflows.reconcile.group_view import GroupView, TaskView
from workflows.services.record import Changes, NewTry, TaskMove
from workflows.values.observation import PodSeen

UNSEEN_GRACE = timedelta(seconds=10)
VANISHED_GRACE = timedelta(seconds=2)
_OBSERVABLE = (TaskStatus.SCHEDULING, TaskStatus.INITIALIZING, TaskStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPods:
    """What is known of a group's pods by name, and since when each is gone.

    ``complete`` says that a pod that is not in ``pods`` is not in the cluster, ``heard`` that an observer is
    at work. ``evictions`` are what the scheduler said of evicting, oldest first, ``nodes_gone`` nodes that
    the cluster has no more. ``exit_actions`` are the tasks' own, by row.
    """

    pods: Mapping[str, PodSeen]
    gone_at: Mapping[str, datetime]
    complete: bool = False
    heard: bool = True
    nodes_gone: Collection[str] = ()
    evictions: Sequence[str] = ()
    exit_actions: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What to record, when to look again without news, and the pods that nobody has seen.

    ``lost`` are tasks of a gang without any place whose pods are gone: they are made again.
    """

    changes: Changes
    recheck: datetime | None
    unseen: tuple[str, ...] = ()
    lost: tuple[TaskView, ...] = ()


def follow(view: GroupView, observed: ObservedPods, *, editable: Callable[[], bool]) -> Assessment:
    """Read the group. ``editable`` tells, on a retry, whether its pod groups can be edited as they run."""
    read = _TaskReader(view, observed)
    moves = {task.pk: move for task in view.tasks if (move := read.move(task)) is not None}
    ends = ends_siblings(
        _latest_tries(view.tasks, moves), ignore_nonlead_status=view.row.ignore_nonlead_status
    )
    if ends is not None:
        moves |= _ended(view.tasks, moves, ends)
    tries, attempt = ((), None) if ends is not None else _tries(view, moves, editable=editable)
    members = _latest_tries(view.tasks, moves)
    status = group_status(members, ignore_nonlead_status=view.row.ignore_nonlead_status)
    changes = Changes(
        tasks=tuple(moves.values()),
        tries=tries,
        attempt=attempt,
        group=str(status) if may_move(view.row.status, status) else "",
        message=_message(view.tasks, moves) if status in TERMINAL else "",
        conditions=tearing_down() if status in TERMINAL else (),
    )
    return Assessment(changes=changes, recheck=read.recheck, unseen=tuple(read.unseen), lost=tuple(read.lost))


def timed_out(view: GroupView) -> tuple[TaskStatus, str] | None:
    """The status and message with which the group's time is up, if it is."""
    for status, message, deadline in _deadlines(view):
        if deadline <= view.now:
            return status, message
    return None


def next_deadline(view: GroupView) -> datetime | None:
    return min((deadline for _, _, deadline in _deadlines(view)), default=None)


def _deadlines(view: GroupView) -> list[tuple[TaskStatus, str, datetime]]:
    row, placement = view.row, view.placement
    if row.status == TaskStatus.PROCESSING and row.touched_at:  # a gang is never left half made for good
        said = f"It could not be made within its queue timeout of {placement.queue_timeout:g} seconds."
        until = row.touched_at + timedelta(seconds=placement.queue_timeout)
        return [(TaskStatus.FAILED_QUEUE_TIMEOUT, f"{said} {row.waiting_reason}".strip(), until)]
    if row.status == TaskStatus.SCHEDULING and row.scheduling_start_time:
        said = f"It was not placed within its queue timeout of {placement.queue_timeout:g} seconds."
        until = row.scheduling_start_time + timedelta(seconds=placement.queue_timeout)
        return [(TaskStatus.FAILED_QUEUE_TIMEOUT, said, until)]
    if row.status == TaskStatus.RUNNING and row.start_time:
        said = f"It ran longer than its execution timeout of {placement.exec_timeout:g} seconds."
        until = row.start_time + timedelta(seconds=placement.exec_timeout)
        return [(TaskStatus.FAILED_EXEC_TIMEOUT, said, until)]
    return []


def end_all(view: GroupView, *, status: TaskStatus, message: str, code: int | None = None) -> Changes:
    """End the group and every task of it that lives."""
    return Changes(
        tasks=tuple(
            TaskMove(pk=task.pk, status=str(status), code=code, message=message)
            for task in view.tasks
            if task.live
        ),
        group=str(status),
        message=message,
        conditions=tearing_down(),
    )


def tearing_down() -> tuple[Condition, ...]:
    return (Condition(type="Released", status="False", reason="TearingDown"),)


class _TaskReader:
    """Reads tasks one by one, collecting when to look again and whose pods nobody has seen."""

    def __init__(self, view: GroupView, observed: ObservedPods) -> None:
        self._view, self._observed = view, observed
        self.recheck: datetime | None = None
        self.unseen: list[str] = []
        self.lost: list[TaskView] = []
        self._waits_whole = observed.heard and _waits_whole(view, observed)
        self._pod_names = frozenset(task.pod_name for task in view.tasks)

    def move(self, task: TaskView) -> TaskMove | None:
        if task.status not in _OBSERVABLE:
            return None
        pod = self._observed.pods.get(task.pod_name)
        reading = self._present(pod) if pod is not None and not pod.gone else self._absent(task, pod)
        if reading is None:
            return None
        if reading.recheck:
            self._again(reading.recheck)
        status = self._status(task, reading)
        if status == task.status and (
            pod is None or (pod.node_name, pod.pod_ip) == (task.node_name, task.pod_ip)
        ):
            return None
        return TaskMove(
            pk=task.pk,
            status=str(status),
            code=reading.code,
            message=reading.message if reading.code is not None else "",
            node_name=pod.node_name if pod else "",
            pod_ip=pod.pod_ip if pod else "",
        )

    def _present(self, pod: PodSeen) -> Reading | None:
        return read_pod(pod, now=self._view.now)

    def _absent(self, task: TaskView, pod: PodSeen | None) -> Reading | None:
        now = self._view.now
        if pod is None and not self._observed.complete:
            self.unseen.append(task.pod_name)
            self._again((task.scheduling_since or now) + UNSEEN_GRACE)
            return None
        said = eviction_message(task.pod_name, evictions=self._observed.evictions, peers=self._pod_names)
        last = read_pod(pod, now=now) if pod is not None else None
        known = (last is not None and last.code is not None) or said
        since = self._observed.gone_at.get(task.pod_name)
        if not known and since is not None and now - since < VANISHED_GRACE:
            self._again(since + VANISHED_GRACE)
            return None
        if not known and self._waits_whole:
            self.lost.append(task)
            self._again(now + VANISHED_GRACE)
            return None
        node_gone = pod is not None and pod.node_name in self._observed.nodes_gone
        return read_gone(pod, evicted=said, now=now, node_gone=node_gone)

    def _again(self, at: datetime) -> None:
        self.recheck = at if self.recheck is None else min(self.recheck, at)

    def _status(self, task: TaskView, reading: Reading) -> TaskStatus:
        if reading.code is None:
            return reading.status
        placement = self._view.placement
        own = self._observed.exit_actions.get(task.pk, {})
        action = exit_action(reading.code, own, placement.default_exit_actions)
        if action == ExitAction.COMPLETE:
            return TaskStatus.COMPLETED
        if action == ExitAction.RESCHEDULE and task.retry_id < placement.max_retry_per_task:
            return TaskStatus.RESCHEDULED
        if action is not None and reading.status == TaskStatus.COMPLETED:
            return TaskStatus.FAILED
        return reading.status


def _waits_whole(view: GroupView, observed: ObservedPods) -> bool:
    """Whether the gang waits and no task of it, finished ones included, was ever seen with a node."""
    return (
        view.row.status == TaskStatus.SCHEDULING
        and not any(task.node_name for task in view.tasks)
        and not any(pod.node_name for pod in observed.pods.values())
    )


def _latest_tries(tasks: Sequence[TaskView], moves: Mapping[int, TaskMove]) -> list[LatestTry]:
    """The latest tries as they will be; one that is tried again counts as not finished."""
    found = []
    for task in tasks:
        move = moves.get(task.pk)
        status = move.status if move else task.status
        again = status == TaskStatus.RESCHEDULED
        placed = status == TaskStatus.COMPLETED or bool(task.node_name or (move and move.node_name))
        found.append(LatestTry(str(TaskStatus.PROCESSING) if again else status, task.lead, placed))
    return found


def _ended(
    tasks: Sequence[TaskView], moves: Mapping[int, TaskMove], status: TaskStatus
) -> dict[int, TaskMove]:
    """The moves of those that had not finished when the group was decided."""
    message = "" if status == TaskStatus.COMPLETED else "Another task of the group failed."
    found = {}
    for task in tasks:
        now = moves[task.pk].status if task.pk in moves else task.status
        if now not in TERMINAL or now == TaskStatus.RESCHEDULED:
            found[task.pk] = TaskMove(pk=task.pk, status=str(status), message=message)
    return found


def _tries(
    view: GroupView, moves: Mapping[int, TaskMove], *, editable: Callable[[], bool]
) -> tuple[tuple[NewTry, ...], int | None]:
    """A new try for each task that is rescheduled, and the group's attempt if it is a new one."""
    again = [t for t in view.tasks if t.pk in moves and moves[t.pk].status == TaskStatus.RESCHEDULED]
    if not again:
        return (), None
    attempt = view.row.attempt
    if not editable() and not _whole(view.tasks, moves, {task.attempt for task in again}):
        attempt += 1
    tries = tuple(
        NewTry(
            after=task.pk,
            retry_id=task.retry_id + 1,
            pod_name=names.pod(task.task_uuid, retry=task.retry_id + 1),
            attempt=attempt if attempt != view.row.attempt else task.attempt,
        )
        for task in again
    )
    return tries, (attempt if attempt != view.row.attempt else None)


def _whole(tasks: Sequence[TaskView], moves: Mapping[int, TaskMove], attempts: Collection[int]) -> bool:
    """Whether the pod groups of these attempts get all their pods back: nobody finished or left."""
    if len({task.attempt for task in tasks}) > 1:
        return False
    statuses = [moves[t.pk].status if t.pk in moves else t.status for t in tasks if t.attempt in attempts]
    return all(status not in TERMINAL or status == TaskStatus.RESCHEDULED for status in statuses)


def _message(tasks: Sequence[TaskView], moves: Mapping[int, TaskMove]) -> str:
    """Why the group ended, in the words of the task that decided it: the lead first, then any other."""
    failed = [
        (not task.lead, f"Task {task.name}: {moves[task.pk].message}")
        for task in tasks
        if task.pk in moves
        and moves[task.pk].code is not None
        and moves[task.pk].status not in (TaskStatus.COMPLETED, TaskStatus.RESCHEDULED)
        and moves[task.pk].message
    ]
    return min(failed)[1] if failed else ""
