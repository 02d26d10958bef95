"""Recording the health of a group's ComputeDomain: a condition, and an event when it changes.

Each task keeps when its node joined the domain and since when it is out of it: a domain's status has no
times, and a daemon that restarts must not end a task. How long is too long is decided where pods are read.

A ComputeDomain that somebody deleted under placed tasks does not come back, because their claims name its
uid: a new one of its name is another, whatever its labels. That it is gone is read from the cluster itself
and never from the observer's rows alone, which may be old; the condition keeps the conclusion.
"""

from collections.abc import Sequence

from pools import conditions
from scheduling.nodes.suspects import NodeFault
from workflows.lifecycle.domain_health import (
    NVLINK_READY,
    ChannelTask,
    DomainHealth,
    Membership,
    deleted_domain,
    health_of,
    membership,
)
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import Turn
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView, TaskView, claims_channels
from workflows.services.changes import Change, DomainOfPods, NewMembership, NodeFailed, Note


def record_domain_health(turn: Turn) -> Turn:
    """Keep the condition NVLinkReady; its first True and every change after that are events.

    It begins once every task with a claim has a node, since a scheduler binds a gang pod by pod, or when the
    domain is deleted. It is looked at again when a node has just left the domain, or when that was deleted.
    Raises ClusterError.
    """
    view = turn.view
    tasks = _channel_tasks(view, turn.observed) if view.placement.nvlink else []
    health = _health(turn, tasks) if tasks else None
    if health is None:
        return turn
    changes: list[Change] = _adoption(view, health)
    members = membership([task for task in tasks if task.holds], health)
    if members.joined or members.left:
        changes.append(NewMembership(members))
        changes += _faults(view, members)
    condition = health.condition
    before = conditions.status_of(view.row.conditions, NVLINK_READY)
    begins = before or health.is_deleted or not claims_channels(_unplaced(turn))
    is_new = bool(begins) and conditions.differs(view.row.conditions, condition)
    if is_new:
        changes.append(condition)
        is_news = before != condition.status and (before or not health.unready)
        if health.is_deleted or (is_news and not health.is_unknown):
            changes.append(_note(view, health))
    if changes:
        turn.record(changes)
    turn = turn.learn(domain=health)
    if health.is_deleted and is_new:
        return turn.at(view.now)
    after = observations.lost_after(view) if members.left else None
    return turn.at(view.now + after) if after else turn


def _adoption(view: GroupView, health: DomainHealth) -> list[Change]:
    """Note whose channels the pods claim, where that is not known."""
    uid = "" if view.domain_uid or health.is_deleted else observations.compute_domain_uid(view)
    return [DomainOfPods(uid)] if uid else []


def _channel_tasks(view: GroupView, observed: ObservedPods) -> list[ChannelTask]:
    """The live tasks whose present pods claim a channel and have a node."""
    pods = ((task, observed.pods.get(task.pod_name)) for task in view.live)
    return [
        ChannelTask(
            pk=task.pk,
            node=pod.node_name,
            holds=pod.phase in ("Pending", "Running"),
            runs=task.status == TaskStatus.RUNNING and not pod.deleting,
            placed_at=task.initializing_start_time,
            joined_at=task.nvlink_joined_at,
            left_at=task.nvlink_left_at,
        )
        for task, pod in pods
        if pod is not None and pod.node_name and not pod.absent and pod.digest.get("claims")
    ]


def _unplaced(turn: Turn) -> list[TaskView]:
    """The live tasks that wait for the first node of their attempt."""
    pods = turn.observed.pods
    first = [task for task in turn.view.live if not task.replaces]
    return [task for task in first if not ((pod := pods.get(task.pod_name)) and pod.node_name)]


def _health(turn: Turn, tasks: Sequence[ChannelTask]) -> DomainHealth | None:
    """The domain's health; None if it was never observed, or is not now. Raises ClusterError.

    The cluster is asked once, when the observer's rows first lack the domain.
    """
    view = turn.view
    if turn.observed.observer_silent:
        return None
    nodes = observations.compute_domain_nodes(view)
    if nodes is not None:
        holding = [task for task in tasks if task.holds]
        return health_of(nodes, holding, now=view.now) if holding else None
    reader = GroupReader(turn.cluster, view.uuid, view.placement)
    is_deleted = observations.domain_was_deleted(view) or reader.lacks_domain(view.domain_uid)
    return deleted_domain([task.node for task in tasks]) if is_deleted else None


def _faults(view: GroupView, members: Membership) -> list[Change]:
    """The nodes that left, of a group that is never tried again: others count with the loss of the task."""
    if view.placement.attempts:
        return []
    nodes = {task.node_name for task in view.tasks if task.pk in members.left and task.node_name}
    return [NodeFailed(node=node, fault=NodeFault.NVLINK) for node in sorted(nodes)]


def _note(view: GroupView, health: DomainHealth) -> Note:
    status = health.condition.status
    return Note(
        key=f"nvlink:{status}:{view.now.isoformat()}",
        reason=_event_of(health),
        message=f"Group {view.row.name}: {health.sentence}",
        warning=bool(health.unready),
    )


def _event_of(health: DomainHealth) -> str:
    if health.is_deleted:
        return "ComputeDomainDeleted"
    return "NVLinkNodesNotReady" if health.unready else NVLINK_READY
