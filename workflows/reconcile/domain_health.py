"""Recording the health of a group's ComputeDomain: a condition, and an event when it changes."""

from pools import conditions
from scheduling.suspects import NodeFault
from workflows.lifecycle.domain_health import NVLINK_READY, DomainHealth, domain_nodes, health_of
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile import observations
from workflows.reconcile.follow import ObservedPods
from workflows.reconcile.group_view import GroupView
from workflows.services.lease import Lease
from workflows.services.record import Change, NodeFailed, Note, record


def observed_health(view: GroupView, observed: ObservedPods) -> DomainHealth | None:
    """The domain's health; None while no pod that claims a channel has a node, or no domain was observed."""
    if not view.placement.nvlink:
        return None
    nodes = {
        pod.node_name
        for pod in observed.pods.values()
        if pod.node_name
        and not pod.absent
        and pod.phase in ("Pending", "Running")
        and pod.digest.get("claims")
    }
    digest = observations.compute_domain_digest(view) if nodes else None
    return None if digest is None else health_of(domain_nodes(digest.get("status")), nodes)


def record_domain_health(view: GroupView, observed: ObservedPods, lease: Lease) -> None:
    """Keep the condition NVLinkReady; its first True and every change after that are events."""
    health = observed_health(view, observed)
    if health is None:
        return
    condition = health.condition
    if not conditions.differs(view.row.conditions, condition):
        return
    before = conditions.status_of(view.row.conditions, NVLINK_READY)
    changes: list[Change] = [condition]
    if before != condition.status and (before or not health.unready):
        changes.append(
            Note(
                key=f"nvlink:{condition.status}:{view.now.isoformat()}",
                reason="NVLinkNodesNotReady" if health.unready else NVLINK_READY,
                message=f"Group {view.row.name}: {health.sentence}",
                warning=bool(health.unready),
            )
        )
    if before == "True" and health.unready:
        started = {task.node_name for task in view.tasks if task.status == TaskStatus.RUNNING}
        failed = started.intersection(health.unready)
        changes += [NodeFailed(node=node, fault=NodeFault.NVLINK) for node in sorted(failed)]
    record(lease, changes)
