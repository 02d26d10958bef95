"""From pods to statuses: the changes that the observed pods of a running group lead to.

Pure. Every live task is read from its pod; exit actions turn endings into retries; the lead ends its
siblings; timers end the group; then the group's own status follows. A task that cannot be judged yet is left
alone and checked again: a pod that the observer has not reported (``unobserved``), or one that vanished a
moment ago, about which an event of its scheduler may still come.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, cached_property

from pools.conditions import Condition
from pools.values.recovery import Loss, Response
from scheduling.backends.base import Eviction, RoomLoss
from scheduling.backends.evictions import eviction_of
from scheduling.backends.registry import installed
from scheduling.nodes.node_health import NodeHealth
from scheduling.sentences import as_sentence
from web.times import naive_utc
from workflows.explain.obstacles import BusyNode
from workflows.lifecycle.derive import LatestTry, ends_siblings, group_status
from workflows.lifecycle.domain_health import Membership
from workflows.lifecycle.evidence import DeletionTraces, may_be_preempted
from workflows.lifecycle.exit_actions import ExitAction, exit_action
from workflows.lifecycle.loss_response import History, LostTask, Recovery
from workflows.lifecycle.pod_status import (
    BACKEND_CODE,
    NO_TRACES,
    OF_THE_ROOM,
    ROOM_BUSY,
    START_TIMEOUT_CODE,
    UNEXPLAINED,
    PodReading,
    ended_by_deletion,
    last_end,
    not_started,
    of_preempted_gang,
    read_domain_deleted,
    read_gone,
    read_lost,
    read_out_of_domain,
    read_pod,
    read_preempted,
    read_unbound,
    read_without_room,
)
from workflows.lifecycle.statuses import CREATED, TERMINAL, TaskStatus, may_move
from workflows.reconcile.assess.deadlines import start_deadline, start_timeout
from workflows.reconcile.assess.recovering import (
    HeldBack,
    attributed,
    avoided_by_replacement,
    awaits_domain,
    awaits_peers,
    held_back,
    new_attempt,
    next_patience_end,
    next_try,
    recovery_of,
    run_clock,
)
from workflows.reconcile.view.group_view import GroupView, TaskView
from workflows.services.changes import (
    Change,
    GroupMove,
    NewGeneration,
    NewMembership,
    NewTry,
    NodeFailed,
    TaskMove,
)
from workflows.values.observation import PodSeen

UNSEEN_GRACE = timedelta(seconds=10)
VANISHED_GRACE = timedelta(seconds=2)
SUCCESSOR_GRACE = timedelta(seconds=6)
"""How long the pod of a group that preempted another may take to get its node, once that is free."""
KEPT_GRACE = timedelta(minutes=5)
"""For how long a pod that was deleted and has ended may stay; its group does not run meanwhile."""
OBSERVER_GRACE = timedelta(minutes=5)
"""After its last sign, for how long an observer may come back and explain what happened meanwhile."""
TAKEN_ALONG = "A peer that it must sit beside joins a new pod group. It joins that too."
TEARING_DOWN = Condition(type="Released", status="False", reason="TearingDown")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPods:
    """A group's pods by name, as last observed."""

    pods: Mapping[str, PodSeen]

    gone_at: Mapping[str, datetime]
    """Since when each is absent."""

    settled: Collection[str] = ()
    """Running pods of which the rows of their tasks say all that there is; nothing is read from them."""

    complete: bool = False
    """Whether a pod that is not in ``pods`` is not in the cluster."""

    observer_silent: bool = False
    """Whether no observer is at work."""

    heartbeat_at: datetime | None = None
    """Since when none is, if one ever was."""

    nodes_gone: Collection[str] = ()
    """Nodes that were removed from the cluster."""

    evictions: Sequence[str] = ()
    """The messages of the scheduler's evictions, oldest first."""

    exit_actions: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """The tasks' own, by row."""

    uncounted_tries: Mapping[int, int] = field(default_factory=dict)
    """How many earlier tries of a task do not count as retries, by row."""

    nodes: Mapping[str, NodeHealth] = field(default_factory=dict)
    """Those of its pods that are not healthy."""

    lost_after: timedelta | None = None
    """After how long a node that is away is lost."""

    out_of_domain: Mapping[str, datetime] = field(default_factory=dict)
    """Pods whose node has left the group's ComputeDomain, and since when."""

    domain_deleted: bool = False
    """Whether somebody deleted the ComputeDomain under them."""

    unfollowed: tuple[datetime, datetime] | None = None
    """The time in which nobody followed the cluster, if these pods were missed after it."""

    traces: DeletionTraces = NO_TRACES
    """They may explain why pods were deleted."""

    room_lost: RoomLoss | None = None
    """How the gang lost the room that its scheduler had given it."""

    busy: Mapping[str, BusyNode] = field(default_factory=dict)
    """Pods that cannot be bound to the nodes that its scheduler gave them."""

    def of(self, pods: Iterable[str]) -> "ObservedPods":
        """The same of these pods alone."""
        return replace(self, pods={name: self.pods[name] for name in pods if name in self.pods})


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What to record, when to reconcile again without a notification, and the pods not observed yet.

    ``lost`` are tasks of a gang without any place whose pods are gone: they are created again.
    ``held_back`` says which losses do not count yet and what is waited for, empty for none.
    """

    changes: tuple[Change, ...]
    recheck: datetime | None
    unobserved: tuple[str, ...] = ()
    lost: tuple[TaskView, ...] = ()
    held_back: str = ""


def follow(
    view: GroupView,
    observed: ObservedPods,
    *,
    editable: Callable[[], bool],
    history: Callable[[], History] = History,
    placed: Callable[[], Collection[str]] = frozenset,
) -> Assessment:
    """Derive the group's changes.

    ``editable`` says, on a retry, whether running pod groups can be edited, ``history`` what the group
    recovered from before. ``placed`` asks the cluster which pods have nodes: a try that has one, which is not
    observed yet, must not be replaced for the sake of a peer.
    """
    history = cache(history)
    reader = _TaskReader(view, observed)
    read = (task for task in view.live if task.pod_name not in observed.settled)
    moves = {task.pk: move for task in read if (move := reader.move(task)) is not None}
    recovery, delay = _judged(view, observed, moves, reader.losses, history=history)
    if delay is not None:
        moves = {pk: move for pk, move in moves.items() if pk not in reader.losses}
        reader.hold_back(delay.look_again)
    if recovery is not None and recovery.response == Response.REQUEUE:
        attempt = new_attempt(view, moves, recovery, out_of_domain=history().out_of_domain)
        changes_of_attempt = (*_left_unnoted(view, observed), *attempt, *reader.failures)
        return Assessment(changes=changes_of_attempt, recheck=None)
    moves |= _alone_again(moves, recovery) | _given_up(moves, recovery)
    members = _latest_tries(view.tasks, moves)
    is_ended_by_policy = recovery is not None and recovery.response == Response.FAIL
    ignores = view.row.ignore_nonlead_status and not is_ended_by_policy
    ends = ends_siblings(members, ignore_nonlead_status=ignores)
    if ends is not None:
        moves |= _ended(view.tasks, moves, ends)
        members = _latest_tries(view.tasks, moves)
    after = recovery.cause.loss if recovery is not None else None
    tries, generation = ((), None) if ends is not None else _tries(view, moves, after, editable=editable)
    if generation is not None:
        peers = _peers_along(view, moves)
        if peers and not {task.pod_name for task in peers}.isdisjoint(placed()):
            return Assessment(changes=(), recheck=view.now + VANISHED_GRACE)
        moves |= {task.pk: move_along(task) for task in peers}
        tries += tuple(next_try(task, generation=generation) for task in peers)
        members = _latest_tries(view.tasks, moves)
    status = group_status(members, ignore_nonlead_status=ignores)
    changes: list[Change] = [*moves.values(), *tries, *run_clock(view, moves, status=status)]
    changes += reader.failures
    if recovery is not None and recovery.response == Response.TASK:
        changes += _left_unnoted(view, observed)
        changes += avoided_by_replacement(view, recovery, out_of_domain=history().out_of_domain)
    if generation is not None:
        changes.append(NewGeneration(generation))
    if may_move(view.status, status):
        message = _message(view.tasks, moves) if status in TERMINAL else ""
        message = f"{as_sentence(message)} {recovery.refused}".strip() if recovery and message else message
        changes.append(GroupMove(status=str(status), message=message))
    if status in TERMINAL:
        changes.append(TEARING_DOWN)
    return Assessment(
        changes=tuple(changes),
        recheck=min(filter(None, (reader.recheck, next_patience_end(view))), default=None),
        unobserved=tuple(reader.unobserved),
        lost=tuple(reader.lost),
        held_back=delay.sentence if delay is not None else "",
    )


def _judged(
    view: GroupView,
    observed: ObservedPods,
    moves: Mapping[int, TaskMove],
    losses: Mapping[int, LostTask],
    *,
    history: Callable[[], History],
) -> tuple[Recovery | None, HeldBack | None]:
    """What follows the losses, by what caused each; or until when they are held back."""
    if (delay := held_back(view, observed.pods, losses)) is not None:
        return None, delay
    attributed_losses = attributed(
        view,
        observed.nodes,
        losses,
        out_of_domain=observed.out_of_domain,
        domain_deleted=observed.domain_deleted,
    )
    waits = attributed_losses and not observed.observer_silent
    if waits and (delay := awaits_domain(view, observed.pods, attributed_losses)) is not None:
        return None, delay
    recovery = recovery_of(view, moves, attributed_losses, history=history)
    if recovery is None or recovery.response != Response.TASK:
        return recovery, None
    delay = awaits_peers(view, observed.pods, observed.gone_at, attributed_losses)
    return (recovery if delay is None else None), delay


def _left_unnoted(view: GroupView, observed: ObservedPods) -> list[Change]:
    """Nodes that are out of the domain by its last report, which no row says yet."""
    tasks = [t for t in view.tasks if t.pod_name in observed.out_of_domain and t.nvlink_left_at is None]
    return [NewMembership(Membership(left=tuple(task.pk for task in tasks)))] if tasks else []


def end_all(
    tries: Iterable[int], *, status: TaskStatus, message: str, code: int | None = None
) -> list[Change]:
    """End a group and these tries, which are the live ones of its tasks."""
    moves = [TaskMove(pk=pk, status=str(status), code=code, message=message) for pk in tries]
    return [*moves, GroupMove(status=str(status), message=message), TEARING_DOWN]


class _TaskReader:
    """Reads tasks one by one, and collects when to read again, unobserved pods and lost tasks."""

    def __init__(self, view: GroupView, observed: ObservedPods) -> None:
        self._view, self._observed = view, observed
        self.recheck: datetime | None = None
        self.unobserved: list[str] = []
        self.lost: list[TaskView] = []
        self.losses: dict[int, LostTask] = {}
        self.failures: list[NodeFailed] = []
        self._unplaced = not observed.observer_silent and _is_unplaced(view, observed)
        self._start_timeout = start_timeout(view)

    @cached_property
    def _pod_names(self) -> frozenset[str]:
        return frozenset(task.pod_name for task in self._view.tasks)

    def move(self, task: TaskView) -> TaskMove | None:
        if task.status not in CREATED:
            return None
        pod = self._observed.pods.get(task.pod_name)
        present = pod if pod is not None and not pod.absent else None
        reading = self._present(task, present) if present else self._absent(task, pod)
        if reading is None:
            return None
        if reading.recheck:
            self.recheck_at(reading.recheck)
        if reading.fault is not None and pod is not None and pod.node_name:
            self.failures.append(NodeFailed(node=pod.node_name, fault=reading.fault))
        status = self._status(task, reading)
        if reading.code is not None and status != TaskStatus.COMPLETED:
            self.losses[task.pk] = self._loss(task, reading, status)
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

    def _loss(self, task: TaskView, reading: PodReading, status: TaskStatus) -> LostTask:
        pod, action = self._observed.pods.get(task.pod_name), self._action(task, reading)
        if action == ExitAction.RESCHEDULE and status != TaskStatus.RESCHEDULED:
            action = None  # no tries are left
        return LostTask(
            pk=task.pk,
            name=task.name,
            lead=task.lead,
            status=str(TaskStatus.FAILED if status == TaskStatus.RESCHEDULED else status),
            message=reading.message,
            loss=reading.loss,
            evidence=reading.evidence,
            node=task.node_name or self._node_of(pod, reading),
            action=action,
        )

    def _node_of(self, pod: PodSeen | None, reading: PodReading) -> str:
        """The node of a pod, or that to which it could not be bound."""
        if pod is None:
            return ""
        busy = self._observed.busy.get(pod.name) if reading.evidence == ROOM_BUSY else None
        return busy.node if busy else pod.node_name

    def _action(self, task: TaskView, reading: PodReading) -> ExitAction | None:
        if reading.code is None or reading.evidence in OF_THE_ROOM:
            return None
        task_actions = self._observed.exit_actions.get(task.pk, {})
        return exit_action(reading.code, task_actions, self._view.placement.default_exit_actions)

    def _present(self, task: TaskView, pod: PodSeen) -> PodReading | None:
        """Read the pod; one that cannot be read, or that never says since when it starts, ends in time."""
        if self._view.placement.attempts and ended_by_deletion(pod):
            return self._on_lost_node(pod) or self._ended_and_present(task, pod)
        reading = read_pod(pod, now=self._view.now, start_timeout=self._start_timeout)
        if (reading is None or reading.code is None) and (lost := self._lost(pod)):
            return lost
        if reading is None or reading.status in (TaskStatus.SCHEDULING, TaskStatus.INITIALIZING):
            deadline = start_deadline(task, self._start_timeout)
            if deadline is not None and deadline <= self._view.now:
                reading = not_started(pod, self._start_timeout)
        if reading is not None and reading.code == START_TIMEOUT_CODE and self._view.row.waiting_reason:
            return replace(reading, message=f"{reading.message} {self._view.row.waiting_reason}")
        return reading

    def _ended_and_present(self, task: TaskView, pod: PodSeen) -> PodReading | None:
        """How a pod ended that was deleted; None for a while, for why is known once it is gone."""
        now, ended_at = self._view.now, last_end(pod)
        if ended_at is None or now - ended_at < KEPT_GRACE:
            self.recheck_at(now + VANISHED_GRACE)
            return None
        gone = self._gone(pod, eviction=self._eviction(task.pod_name), deleted=True, since=None)
        sentence = f"The pod has ended and is still there: a finalizer holds it, or node {pod.node_name}."
        return replace(gone, message=f"{gone.message} {sentence}") if gone else None

    def _lost(self, pod: PodSeen) -> PodReading | None:
        """How a pod ends that has not ended itself, but is lost; None while it is not."""
        if self._observed.room_lost is not None:
            return read_without_room(self._observed.room_lost)
        return self._on_lost_node(pod) or self._out_of_domain(pod) or self._unbound(pod)

    def _unbound(self, pod: PodSeen) -> PodReading | None:
        """How a pod ends that cannot be bound to its assigned node; None while it may be."""
        busy = self._observed.busy.get(pod.name)
        if busy is None or not self._view.placement.attempts:
            return None
        if busy.until <= self._view.now:
            return read_unbound(busy.verdict)
        self.recheck_at(busy.until)
        return None

    def _out_of_domain(self, pod: PodSeen) -> PodReading | None:
        """How a pod ends whose domain was deleted, or whose node is out of it for as long as a lost one."""
        if self._observed.domain_deleted and pod.digest.get("claims") and not pod.deleting:
            return read_domain_deleted(pod)
        since, lost_after = self._observed.out_of_domain.get(pod.name), self._observed.lost_after
        if since is None or lost_after is None or pod.deleting:
            return None
        if since + lost_after <= self._view.now:
            return read_out_of_domain(pod, since=since, lost_after=lost_after)
        self.recheck_at(since + lost_after)
        return None

    def _on_lost_node(self, pod: PodSeen) -> PodReading | None:
        """How a pod ends whose node is lost, None while it is not; read again when it would be."""
        node, lost_after = self._observed.nodes.get(pod.node_name), self._observed.lost_after
        lost_at = node.lost_at(lost_after) if node else None
        if node is None or lost_after is None or lost_at is None:
            return None
        if lost_at <= self._view.now:
            return read_lost(pod, node, lost_after=lost_after)
        self.recheck_at(lost_at)
        return None

    def _absent(self, task: TaskView, pod: PodSeen | None) -> PodReading | None:
        now = self._view.now
        if pod is None and not self._observed.complete:
            self.unobserved.append(task.pod_name)
            self.recheck_at((task.scheduling_start_time or now) + UNSEEN_GRACE)
            return None
        eviction = self._eviction(task.pod_name)
        limit = self._start_timeout
        deleted = self._view.placement.attempts and pod is not None and ended_by_deletion(pod)
        last = read_pod(pod, now=now, start_timeout=limit) if pod is not None and not deleted else None
        explained = (last is not None and last.code is not None) or eviction is not None
        explained = explained or self._observed.room_lost is not None
        since = self._observed.gone_at.get(task.pod_name)
        if not explained and since is not None and now - since < VANISHED_GRACE:
            self.recheck_at(since + VANISHED_GRACE)
            return None
        if not explained and (observer_until := self._observer_may_explain(since)):
            self.recheck_at(observer_until)
            return None
        if not explained and self._view.row.repinning:  # deleted by this service, which makes it again
            return None
        if not explained and self._unplaced:
            self.lost.append(task)
            self.recheck_at(now + VANISHED_GRACE)
            return None
        return self._gone(pod, eviction=eviction, deleted=deleted, since=since)

    def _observer_may_explain(self, since: datetime | None) -> datetime | None:
        """How long a pod that is missed while no observer is at work waits for one; None if not at all."""
        observed = self._observed
        if since is not None or not observed.observer_silent or not self._view.placement.attempts:
            return None
        until = observed.heartbeat_at + OBSERVER_GRACE if observed.heartbeat_at else None
        return until if until is not None and until > self._view.now else None

    def _gone(
        self, pod: PodSeen | None, *, eviction: Eviction | None, deleted: bool, since: datetime | None
    ) -> PodReading | None:
        """How a pod ended that is gone and is not made again as the same try."""
        node_gone = pod is not None and pod.node_name in self._observed.nodes_gone
        node = self._observed.nodes.get(pod.node_name) if pod is not None else None
        gone = read_gone(
            pod,
            eviction=eviction,
            now=self._view.now,
            start_timeout=self._start_timeout,
            node_gone=node_gone,
            node=node,
            deleted=deleted,
            traces=self._observed.traces,
            gone_at=since,
        )
        if gone.evidence == UNEXPLAINED and self._observed.room_lost is not None:
            return read_without_room(self._observed.room_lost)
        if gone.evidence == UNEXPLAINED and self._preemption is not None:
            return of_preempted_gang(self._preemption)
        if gone.evidence == UNEXPLAINED and since is not None and self._may_be_preempted(pod, since):
            self.recheck_at(since + SUCCESSOR_GRACE)
            return None
        if gone.evidence != UNEXPLAINED or self._observed.unfollowed is None:
            return gone
        return replace(gone, message=f"{gone.message} {self._unfollowed_sentence(self._observed.unfollowed)}")

    @cached_property
    def _preemption(self) -> PodReading | None:
        """How a peer ended that its scheduler preempted."""
        return next(filter(None, map(read_preempted, self._observed.pods.values())), None)

    def _may_be_preempted(self, pod: PodSeen | None, since: datetime) -> bool:
        """Whether the group that took its place may get it in a moment."""
        if pod is None or self._view.now - since >= SUCCESSOR_GRACE:
            return False
        return may_be_preempted(pod, self._observed.traces)

    def _unfollowed_sentence(self, period: tuple[datetime, datetime]) -> str:
        """The sentence on what its scheduler may have done while nobody looked."""
        begin, end = (naive_utc(time, precision="seconds") for time in period)
        text = f"The service did not follow the cluster from {begin} to {end} UTC"
        scheduler = installed().get(self._view.placement.terms.scheduler_type)
        if scheduler is None or not scheduler.read_back.stale:
            return f"{text}."
        return (
            f"{text}. Its scheduler may have evicted the gang meanwhile: it does so when a task ends and the "
            "gang's minimum is not lowered within a grace period."
        )

    def _eviction(self, pod: str) -> Eviction | None:
        scheduler = installed().get(self._view.placement.terms.scheduler_type)
        texts = scheduler.texts if scheduler else None
        return eviction_of(texts, pod, messages=self._observed.evictions, peers=self._pod_names)

    def hold_back(self, until: datetime) -> None:
        """Read again then; the failures of nodes are recorded with the losses."""
        self.failures = []
        self.recheck_at(until)

    def recheck_at(self, at: datetime) -> None:
        self.recheck = at if self.recheck is None else min(self.recheck, at)

    def _status(self, task: TaskView, reading: PodReading) -> TaskStatus:
        if reading.code is None:
            return reading.status
        placement = self._view.placement
        action = self._action(task, reading)
        if action == ExitAction.COMPLETE:
            return TaskStatus.COMPLETED
        retries = task.retry_id - self._observed.uncounted_tries.get(task.pk, 0)
        if action == ExitAction.RESCHEDULE and retries < placement.max_retry_per_task:
            return TaskStatus.RESCHEDULED
        if action is not None and reading.status == TaskStatus.COMPLETED:
            return TaskStatus.FAILED
        return reading.status


def _alone_again(moves: Mapping[int, TaskMove], recovery: Recovery | None) -> dict[int, TaskMove]:
    """The moves of tasks that are tried again alone by the policy, which does not count them as retries."""
    alone = recovery.alone if recovery is not None and recovery.response == Response.TASK else ()
    return {
        pk: replace(moves[pk], status=str(TaskStatus.RESCHEDULED), uncounted=True)
        for pk in alone
        if moves[pk].status != TaskStatus.RESCHEDULED
    }


def _given_up(moves: Mapping[int, TaskMove], recovery: Recovery | None) -> dict[int, TaskMove]:
    """The end of a task whose replacement got no place, where no attempt may follow."""
    if recovery is None or recovery.response != Response.FAIL or recovery.cause.pk in moves:
        return {}
    cause = recovery.cause
    return {cause.pk: TaskMove(pk=cause.pk, status=cause.status, code=BACKEND_CODE, message=cause.message)}


def _is_unplaced(view: GroupView, observed: ObservedPods) -> bool:
    """Whether the gang waits and no task of it, finished ones included, ever had a node."""
    return (
        view.status == TaskStatus.SCHEDULING
        and not view.has_node
        and not any(pod.node_name for pod in observed.pods.values())
    )


def _latest_tries(tasks: Sequence[TaskView], moves: Mapping[int, TaskMove]) -> list[LatestTry]:
    """The latest tries as they will be, alike ones once; one that is tried again counts as not finished."""
    tries = {(task.status, task.lead, bool(task.node_name)) for task in tasks if task.pk not in moves}
    tries |= {
        (move.status, task.lead, bool(task.node_name or move.node_name))
        for task in tasks
        if (move := moves.get(task.pk)) is not None
    }
    return [
        LatestTry(
            str(TaskStatus.PROCESSING) if status == TaskStatus.RESCHEDULED else status,
            lead,
            has_node or status == TaskStatus.COMPLETED,
        )
        for status, lead, has_node in tries
    ]


def _ended(
    tasks: Sequence[TaskView], moves: Mapping[int, TaskMove], status: TaskStatus
) -> dict[int, TaskMove]:
    """The moves of those that had not finished when the group was decided."""
    message = "" if status == TaskStatus.COMPLETED else "Another task of the group failed."
    ended = {}
    for task in tasks:
        now = moves[task.pk].status if task.pk in moves else task.status
        if now not in TERMINAL or now == TaskStatus.RESCHEDULED:
            ended[task.pk] = TaskMove(pk=task.pk, status=str(status), message=message)
    return ended


def _tries(
    view: GroupView, moves: Mapping[int, TaskMove], after: Loss | None, *, editable: Callable[[], bool]
) -> tuple[tuple[NewTry, ...], int | None]:
    """A new try for each task that is rescheduled, and the group's generation if it is a new one.

    ``after`` is the loss that the group recovers from.
    """
    again = _again(view, moves)
    if not again:
        return (), None
    generation = view.row.generation
    if not editable() and not _is_complete(view.tasks, moves, {task.generation for task in again}):
        generation += 1
    is_new = generation != view.row.generation
    tries = tuple(
        replace(
            next_try(task, generation=generation if is_new else task.generation),
            replaced_after=str(after or "") if moves[task.pk].uncounted else "",
        )
        for task in again
    )
    return tries, (generation if is_new else None)


def _again(view: GroupView, moves: Mapping[int, TaskMove]) -> list[TaskView]:
    """The tasks that are tried again."""
    return [t for t in view.tasks if t.pk in moves and moves[t.pk].status == TaskStatus.RESCHEDULED]


def _peers_along(view: GroupView, moves: Mapping[int, TaskMove]) -> list[TaskView]:
    """The tasks that go on, still have no node, and must sit beside those that are tried again.

    Nothing holds two tries to each other that have no nodes and join two pod groups.
    """
    waiting = [
        task
        for task in view.live
        if not task.node_name
        and ((move := moves.get(task.pk)) is None or (move.status not in TERMINAL and not move.node_name))
    ]
    return waiting if waiting and view.values.requires_domain else []


def move_along(task: TaskView) -> TaskMove:
    """The end of a peer's try; that of the next one follows."""
    return TaskMove(pk=task.pk, status=str(TaskStatus.RESCHEDULED), message=TAKEN_ALONG)


def _is_complete(
    tasks: Sequence[TaskView], moves: Mapping[int, TaskMove], generations: Collection[int]
) -> bool:
    """Whether the pod groups of these generations get all their pods back: no task finished or left."""
    if len({task.generation for task in tasks}) > 1:
        return False
    statuses = [
        moves[t.pk].status if t.pk in moves else t.status for t in tasks if t.generation in generations
    ]
    return all(status not in TERMINAL or status == TaskStatus.RESCHEDULED for status in statuses)


def _message(tasks: Sequence[TaskView], moves: Mapping[int, TaskMove]) -> str:
    """Why the group ended, as the task that decided it says: the lead first, then any other."""
    failed = [
        (not task.lead, f"Task {task.name}: {moves[task.pk].message}")
        for task in tasks
        if task.pk in moves
        and moves[task.pk].code is not None
        and moves[task.pk].status not in (TaskStatus.COMPLETED, TaskStatus.RESCHEDULED)
        and moves[task.pk].message
    ]
    return min(failed)[1] if failed else ""
