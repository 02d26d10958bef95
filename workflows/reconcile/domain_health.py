"""Recording the health of a group's ComputeDomain: a condition, and an event when it changes.

Each task keeps when its node joined the domain and since when it is out of it: a domain's status has no
times, and a daemon that restarts must not end a task. How long is too long is decided where pods are read.

A ComputeDomain that somebody deleted under placed tasks does not come back, because their claims name its
uid. That it is gone is read from the cluster itself and never from the observer's rows alone, which may be
old; the condition keeps the conclusion.
"""

from collections.abc import Mapping
from datetime import datetime

from pools import conditions
from scheduling.suspects import NodeFault
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
from workflows.reconcile import observations
from workflows.reconcile.follow import ObservedPods
from workflows.reconcile.group_reader import GroupReader
from workflows.reconcile.group_view import GroupView
from workflows.reconcile.leased import LeasedCluster
from workflows.services.lease import Lease
from workflows.services.record import Change, NewMembership, NodeFailed, Note, record


def observed_health(view: GroupView, observed: ObservedPods) -> DomainHealth | None:
    """The domain's health; None while no pod that claims a channel has a node, or no domain was observed."""
    if not view.placement.nvlink:
        return None
    nodes = set(_claiming(observed).values())
    domain = observations.compute_domain_nodes(view) if nodes else None
    return None if domain is None else health_of(domain, nodes)


def _claiming(observed: ObservedPods) -> Mapping[str, str]:
    """The nodes of present pods that claim a channel, by pod."""
    return {
        name: pod.node_name
        for name, pod in observed.pods.items()
        if pod.node_name
        and not pod.absent
        and pod.phase in ("Pending", "Running")
        and pod.digest.get("claims")
    }


def _deleted_health(view: GroupView, observed: ObservedPods, cluster: LeasedCluster) -> DomainHealth | None:
    """The health of a domain that was deleted under placed tasks; None if it was not. Raises ClusterError.

    The cluster is asked once, when the observer's rows first lack the domain.
    """
    nodes = set(_claiming(observed).values())
    if not view.placement.nvlink or not nodes or observed.observer_silent:
        return None
    if observations.compute_domain_nodes(view) is not None:
        return None
    reader = GroupReader(cluster, view.uuid, view.placement)
    is_deleted = observations.domain_was_deleted(view) or reader.lacks_domain()
    return deleted_domain(nodes) if is_deleted else None


def record_domain_health(
    view: GroupView, observed: ObservedPods, lease: Lease, cluster: LeasedCluster
) -> datetime | None:
    """Keep the condition NVLinkReady; its first True and every change after that are events.

    Returns when to look again because a node has just left the domain, or because it was deleted.
    Raises ClusterError.
    """
    health = observed_health(view, observed) or _deleted_health(view, observed, cluster)
    if health is None:
        return None
    changes: list[Change] = []
    members = _membership(view, observed, health)
    if members.joined or members.left:
        changes.append(NewMembership(members))
        changes += _faults(view, members)
    condition = health.condition
    is_new = conditions.differs(view.row.conditions, condition)
    if is_new:
        changes.append(condition)
        before = conditions.status_of(view.row.conditions, NVLINK_READY)
        if health.is_deleted or (before != condition.status and (before or not health.unready)):
            changes.append(_note(view, health))
    if changes:
        record(lease, changes)
    if health.is_deleted and is_new:
        return view.now
    after = observations.lost_after(view) if members.left else None
    return view.now + after if after else None


def _membership(view: GroupView, observed: ObservedPods, health: DomainHealth) -> Membership:
    nodes = _claiming(observed)
    tasks = (
        ChannelTask(
            pk=task.pk,
            node=nodes[task.pod_name],
            runs=task.status == TaskStatus.RUNNING,
            joined_at=task.nvlink_joined_at,
            left_at=task.nvlink_left_at,
        )
        for task in view.tasks
        if task.live and task.pod_name in nodes
    )
    return membership(tasks, health)


def _faults(view: GroupView, members: Membership) -> list[Change]:
    """The nodes that left, of a group that is never tried again: others count with the loss of the task."""
    if view.placement.has_attempts:
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
