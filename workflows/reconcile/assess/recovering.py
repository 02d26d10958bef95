"""What a group's losses lead to, as changes of its rows. Pure.

A loss that the cluster causes often reaches the service after the failures of peers that it led to. So a
failure is held back for a while if a peer's pod is being deleted, until it is known why; and for a moment in
an NVLink domain of several nodes, since what its controller reports may come after the end of a collective.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pools.values.recovery import MOST_AVOIDED, RESPONSES, Loss, RecoveryPolicy, Response
from scheduling import names
from scheduling.nodes.node_health import NodeHealth
from scheduling.sentences import as_sentence, in_seconds, listing, plural
from workflows.lifecycle.domain_health import DOMAIN_DELETED, DOMAIN_LOST_NODE
from workflows.lifecycle.kubelet_reasons import NodeEnd
from workflows.lifecycle.loss_response import History, LostTask, Recovery, recover, recover_without_pods
from workflows.lifecycle.pod_status import OF_THE_ROOM, ROOM_BUSY, ROOM_REJECTED, PodReading, last_end
from workflows.lifecycle.statuses import TERMINAL, TaskStatus
from workflows.reconcile.view.group_view import GroupView, TaskView
from workflows.services.changes import Change, NewAttempt, NewAvoidedNodes, NewTry, RunClock, TaskMove
from workflows.values.observation import PodSeen

HELD_BACK = timedelta(seconds=90)
HELD_STEP = timedelta(seconds=1)
DOMAIN_NEWS = timedelta(seconds=10)
"""How long after a task failed its domain's controller may report a node that it lost before."""
PEERS_TAKEN = timedelta(seconds=2)
"""How long after a pod was taken from a gang the news may come that its peers are taken, too."""
PEERS_ENDING = timedelta(seconds=40)
"""For how long such a peer is waited for: a pod usually has 30 s to end, and KAI evicts the rest after 60."""
PEER_AWAY = "peer_on_node_away"


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Failures that do not count yet: when to reconcile again, and a sentence that says what is awaited."""

    look_again: datetime
    sentence: str


def held_back(
    view: GroupView, pods: Mapping[str, PodSeen], losses: Mapping[int, LostTask]
) -> HeldBack | None:
    """Failures that wait until it is known why the pod of a peer is deleted; None if they count now."""
    if not view.placement.attempts or not losses:
        return None
    if any(lost.loss != Loss.FAILED for lost in losses.values()):
        return None
    peers = [task for task in view.live if task.pk not in losses]
    if not _is_one_ending(peers, pods):
        return None
    ends = _ends(view, pods, losses)
    if not ends or abs(view.now - max(ends)) >= HELD_BACK:
        return None
    until = "it is known why the pod of a peer is being deleted"
    return HeldBack(view.now + HELD_STEP, _held_sentence(losses, until))


def awaits_domain(
    view: GroupView, pods: Mapping[str, PodSeen], losses: Mapping[int, LostTask]
) -> HeldBack | None:
    """Failures that the loss of the group's NVLink domain may have caused, before that is known."""
    policy = view.placement.recovery
    if not view.placement.attempts or policy.node_lost == Response.FAIL:
        return None
    if any(lost.loss != Loss.FAILED for lost in losses.values()):
        return None
    is_shared = sum(task.nvlink_joined_at is not None for task in view.tasks) > 1
    if not is_shared or all(lost.action is not None for lost in losses.values()):
        return None
    ends = _ends(view, pods, losses)
    if not ends or abs(view.now - min(ends)) >= DOMAIN_NEWS:
        return None
    at = min(ends) + DOMAIN_NEWS
    until = f"its NVLink domain is known to be whole, at {at:%H:%M:%S} UTC"
    return HeldBack(at, _held_sentence(losses, until))


def awaits_peers(
    view: GroupView,
    pods: Mapping[str, PodSeen],
    gone_at: Mapping[str, datetime],
    losses: Mapping[int, LostTask],
) -> HeldBack | None:
    """Preempted tasks that would be replaced alone, before it is known whether their peers go with them.

    A scheduler takes the pods of a gang one by one. Nothing is said of the first moment, which is short. A
    loss by a node never waits: its cause is read from the node as it is now.
    """
    lost_at = {task.name: gone_at.get(task.pod_name) for task in view.live if task.pk in losses}
    times = [at for at in lost_at.values() if at is not None]
    peers = [task for task in view.live if task.pk not in losses]
    if not times or not peers or any(lost.loss != Loss.PREEMPTED for lost in losses.values()):
        return None
    until = min(times) + PEERS_ENDING
    if view.now < (moment := min(max(times) + PEERS_TAKEN, until)):
        return HeldBack(moment, "")
    if view.now >= until or not _is_one_ending(peers, pods):
        return None
    names = sorted(name for name, at in lost_at.items() if at is not None)
    task, has = plural(len(names), "task"), "has" if len(names) == 1 else "have"
    sentence = (
        f"The {task} {listing(names)} {has} no pod any more, and the pod of a peer is being deleted. "
        "What follows is decided when that is gone, too."
    )
    return HeldBack(min(view.now + HELD_STEP, until), sentence)


def _is_one_ending(tasks: Sequence[TaskView], pods: Mapping[str, PodSeen]) -> bool:
    """Whether the pod of one of these tasks is there and being deleted."""
    return any(pod.deleting and not pod.absent for task in tasks if (pod := pods.get(task.pod_name)))


def _held_sentence(losses: Mapping[int, LostTask], until: str) -> str:
    names = sorted(lost.name for lost in losses.values())
    return f"{plural(len(names), 'Task')} {listing(names)} failed. What follows is decided when {until}."


def _ends(view: GroupView, pods: Mapping[str, PodSeen], losses: Mapping[int, LostTask]) -> Sequence[datetime]:
    """When the last container of each of these pods ended."""
    names = (task.pod_name for task in view.tasks if task.pk in losses)
    times = (last_end(pods[name]) for name in names if name in pods)
    return [time for time in times if time is not None]


def attributed(
    view: GroupView,
    nodes: Mapping[str, NodeHealth],
    losses: Mapping[int, LostTask],
    *,
    out_of_domain: Collection[str] = (),
    domain_deleted: bool = False,
) -> Mapping[int, LostTask]:
    """The losses, with failures beside a peer on a node that fails as losses of that node.

    It fails if it is away, or if it has left the group's NVLink domain (``out_of_domain``, by pod); so does
    the node of the failed task itself that had left before. Without the domain no node is to blame.
    """
    if not view.placement.attempts:
        return losses
    peers = [task for task in view.live if task.pk not in losses]
    away = sorted({task.node_name for task in peers if (node := nodes.get(task.node_name)) and node.is_away})
    if away:
        sentence = f"A peer of it was on a node that is away. {nodes[away[0]].sentence(away[0])}"
        return _blamed(losses, away[0], evidence=PEER_AWAY, sentence=sentence)
    if domain_deleted:
        sentence = "The group's ComputeDomain was deleted from outside."
        return _blamed(losses, "", evidence=DOMAIN_DELETED, sentence=sentence)
    left = sorted(task.node_name for task in view.live if task.pod_name in out_of_domain)
    if not left:
        return losses
    sentence = f"Node {left[0]} had left the group's NVLink domain."
    return _blamed(losses, left[0], evidence=DOMAIN_LOST_NODE, sentence=sentence)


def _blamed(
    losses: Mapping[int, LostTask], node: str, *, evidence: str, sentence: str
) -> Mapping[int, LostTask]:
    """The losses, with failures that no exit action names as losses of this node."""
    return {
        pk: replace(
            lost,
            loss=Loss.NODE_LOST,
            evidence=evidence,
            node=node,
            message=f"{lost.message} {sentence}",
        )
        if lost.loss == Loss.FAILED and lost.action is None
        else lost
        for pk, lost in losses.items()
    }


def replacement_overdue(view: GroupView) -> LostTask | None:
    """The loss of a task whose replacement found no place beside its peers in time; None if none is."""
    policy = view.placement.recovery
    until = _patience_ends(view)
    overdue = [task for task in view.tasks if (end := until.get(task.pk)) and end <= view.now]
    if not overdue:
        return None
    task = overdue[0]
    return LostTask(
        pk=task.pk,
        name=task.name,
        lead=task.lead,
        status=str(TaskStatus.FAILED_BACKEND_ERROR),
        message=f"Its replacement got no place beside its peers in {in_seconds(policy.replace_patience)}.",
        loss=Loss(task.replaced_after or Loss.NODE_LOST),  # empty for one that was made anew for its pins
        evidence="no_place_beside_peers",
    )


def next_patience_end(view: GroupView) -> datetime | None:
    """When the next replacement will have waited too long; None if none waits."""
    return min((end for end in _patience_ends(view).values() if end > view.now), default=None)


def _patience_ends(view: GroupView) -> dict[int, datetime]:
    """By when each waiting replacement needs a place; none while no peer holds a node meanwhile."""
    policy = view.placement.recovery
    is_alone = any(getattr(policy, word) == Response.TASK for word in RESPONSES)
    if not is_alone or not any(task.node_name for task in view.live):
        return {}
    limit = timedelta(seconds=policy.replace_patience)
    waiting = [task for task in view.scheduling if task.replaces]
    return {
        task.pk: task.scheduling_start_time + limit
        for task in waiting
        if task.scheduling_start_time and not task.node_name
    }


def recovery_of(
    view: GroupView,
    moves: Mapping[int, TaskMove],
    losses: Mapping[int, LostTask],
    *,
    history: Callable[[], History],
) -> Recovery | None:
    """What follows the losses; None if nothing is tried again that exit actions do not already."""
    if not view.placement.attempts or _lead_completed(view, moves):
        return None
    policy = view.placement.recovery
    lost_tasks = list(losses.values())
    if not lost_tasks and (overdue := replacement_overdue(view)):
        again = Response.REQUEUE
        lost_tasks, policy = [overdue], replace(policy, preempted=again, node_lost=again, failed=again)
    if not lost_tasks:
        return None
    of_room = {lost.evidence for lost in lost_tasks} & OF_THE_ROOM
    if ROOM_REJECTED in of_room:  # it would be rejected again
        return None
    if of_room:
        ran = _was_whole(view, moves, losses) if of_room == {ROOM_BUSY} else _has_run(view, moves)
        policy = _as_a_whole(policy, ran=ran)
    elif view.keeps_nodes and any(lost.evidence == DOMAIN_LOST_NODE for lost in lost_tasks):
        policy = _as_a_whole(policy, ran=True)  # the node is kept for the task, and must not be used again
    return recover(
        lost_tasks,
        policy,
        tasks=len(view.tasks),
        ignore_nonlead_status=view.row.ignore_nonlead_status,
        history=history,
    )


def _as_a_whole(policy: RecoveryPolicy, *, ran: bool) -> RecoveryPolicy:
    """The policy for a gang that has no room any more: where a task would be tried again alone, all are.

    A gang of which no pod had a node has not run, and is tried again within the bounds of its policy.
    """

    def of_gang(loss: Loss) -> Response:
        response = policy.response(loss)
        return Response.REQUEUE if not ran or response == Response.TASK else response

    return replace(
        policy,
        preempted=of_gang(Loss.PREEMPTED),
        node_lost=of_gang(Loss.NODE_LOST),
        failed=of_gang(Loss.FAILED) if policy.failed or not ran else None,
    )


def _has_run(view: GroupView, moves: Mapping[int, TaskMove]) -> bool:
    """Whether a pod of the present attempt may have run."""
    return any(task.node_name for task in view.tasks) or any(move.node_name for move in moves.values())


def _was_whole(view: GroupView, moves: Mapping[int, TaskMove], losses: Mapping[int, LostTask]) -> bool:
    """Whether all tasks of the present attempt had nodes at once, or one of them has ended by itself."""
    if view.row.ran_since is not None or any(task.replaces or not task.live for task in view.tasks):
        return True
    busy = {pk for pk, lost in losses.items() if lost.evidence == ROOM_BUSY}
    return any(move.status in TERMINAL for pk, move in moves.items() if pk not in busy)


def _lead_completed(view: GroupView, moves: Mapping[int, TaskMove]) -> bool:
    statuses = [moves[t.pk].status if t.pk in moves else t.status for t in view.tasks if t.lead]
    return TaskStatus.COMPLETED in statuses


def recovery_without_pods(view: GroupView, reading: PodReading, *, history: History) -> Recovery:
    """What follows where a gang that has no pods yet lost its room."""
    task = view.tasks[0]
    cause = LostTask(
        pk=task.pk,
        name=task.name,
        lead=task.lead,
        status=str(reading.status),
        message=reading.message,
        loss=reading.loss,
        evidence=reading.evidence,
    )
    return recover_without_pods(cause, view.placement.recovery, history)


def new_attempt(
    view: GroupView,
    moves: Mapping[int, TaskMove],
    recovery: Recovery,
    *,
    out_of_domain: Sequence[str],
) -> list[Change]:
    """The changes that end the present attempt and begin the next one.

    ``out_of_domain`` are the nodes that left the group's NVLink domain in any attempt and are not back.
    """
    cause = recovery.cause
    reason = as_sentence(f"Task {cause.name}: {cause.message}")
    ended = [_end_of_try(task, moves.get(task.pk), reason) for task in view.live]
    tries = [_first_try(task, generation=view.row.generation + 1) for task in view.tasks]
    attempt = NewAttempt(
        loss=str(cause.loss),
        evidence=cause.evidence,
        status=cause.status,
        message=reason,
        counted=recovery.counted,
        pause=recovery.pause,
        in_vain=recovery.in_vain,
        avoided_nodes=_avoided(view, recovery, out_of_domain),
    )
    return [*ended, *tries, attempt]


def _end_of_try(task: TaskView, move: TaskMove | None, reason: str) -> TaskMove:
    """A try ends with its attempt; one that has just ended itself keeps its exit code and its words."""
    status = str(TaskStatus.RESCHEDULED)
    if move is None or move.status not in TERMINAL:
        message = f"Its group is tried again as a whole. {reason}"
        node, address = (move.node_name, move.pod_ip) if move else ("", "")
        return TaskMove(
            pk=task.pk, status=status, message=message, node_name=node, pod_ip=address, uncounted=True
        )
    return TaskMove(
        pk=task.pk,
        status=status,
        code=move.code,
        message=move.message,
        node_name=move.node_name,
        pod_ip=move.pod_ip,
        uncounted=move.status != TaskStatus.RESCHEDULED,
    )


def next_try(task: TaskView, *, generation: int) -> NewTry:
    """The try that follows this one."""
    retry = task.retry_id + 1
    pod_name = names.pod(task.task_uuid, retry=retry)
    return NewTry(
        after=task.pk,
        retry_id=retry,
        pod_name=pod_name,
        generation=generation,
        first_retry=task.first_retry,
    )


def _first_try(task: TaskView, *, generation: int) -> NewTry:
    """The try that follows this one and begins an attempt."""
    following = next_try(task, generation=generation)
    return replace(following, first_retry=following.retry_id)


def _avoided(view: GroupView, recovery: Recovery, out_of_domain: Sequence[str]) -> Sequence[str]:
    """The nodes that the next attempt avoids, those of the last losses first.

    Two kinds are avoided whatever the policy says. One that is out of the NVLink domain: Kubernetes would use
    it again. One to which a pod could not be bound, or whose kubelet refused it, and those before it: their
    scheduler does not see what is wrong with them, and would assign the same ones again.
    """
    most, evidence = view.placement.recovery.avoid_nodes, recovery.cause.evidence
    last = [*recovery.nodes, *view.row.avoided_nodes, *out_of_domain]
    always = {*out_of_domain, *(recovery.nodes[:1] if evidence == DOMAIN_LOST_NODE else ())}
    if evidence in {ROOM_BUSY, NodeEnd.REFUSED}:
        always |= {*recovery.nodes, *view.row.avoided_nodes}
    nodes = [node for rank, node in enumerate(dict.fromkeys(last)) if rank < most or node in always]
    return nodes[:MOST_AVOIDED]


def avoided_by_replacement(
    view: GroupView, recovery: Recovery, *, out_of_domain: Sequence[str]
) -> list[Change]:
    """What a replacement avoids: a node that left the NVLink domain alone, or refused the pod.

    Their scheduler would use them again.
    """
    is_seen = recovery.cause.evidence not in {DOMAIN_LOST_NODE, NodeEnd.REFUSED}
    nodes = () if is_seen else _avoided(view, recovery, out_of_domain)
    return [NewAvoidedNodes(nodes)] if nodes and list(nodes) != view.row.avoided_nodes else []


def run_clock(view: GroupView, moves: Mapping[int, TaskMove], *, status: TaskStatus) -> list[Change]:
    """Start the clock of the run once all live tasks have nodes, and stop it when one has none."""
    if not view.placement.attempts:
        return []
    runs = status == TaskStatus.RUNNING and all(_has_node(t, moves.get(t.pk)) for t in view.tasks)
    if runs == (view.row.ran_since is not None):
        return []
    return [RunClock(view.now if runs else None)]


def _has_node(task: TaskView, move: TaskMove | None) -> bool:
    if move is not None and move.status == TaskStatus.RESCHEDULED:
        return False
    is_over = (move.status if move else task.status) in TERMINAL
    return is_over or bool(task.node_name or (move and move.node_name))
