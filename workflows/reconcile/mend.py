"""Making again what somebody deleted of a gang that still waits for its place.

Its pods belong to a pod group by name, and without it no scheduler places them; without the ComputeDomain
there is no template for their claims. The gang would wait until its queue timeout, which may be two months
away. Once a pod has a node neither is made again: a scheduler that counts from nothing might take the gang
for one that is too small and evict it, and claims in use name the ComputeDomain that is gone. Nor is a pod,
whose end is its task's.

Seen from the observer's rows, because a look must cost a waiting gang no call; made with a create, which
meets whatever is there after all.
"""

from cluster.kinds import COMPUTE_DOMAIN
from workflows.reconcile import observed
from workflows.reconcile.apply import carry_out
from workflows.reconcile.follow import UNSEEN_GRACE, Sight
from workflows.reconcile.leased import LeasedCluster
from workflows.reconcile.outcomes import Failed, Retry
from workflows.reconcile.plan import Create
from workflows.reconcile.seen import pod_group_kind
from workflows.reconcile.values import GroupView
from workflows.statuses import TaskStatus


def mend(view: GroupView, sight: Sight, cluster: LeasedCluster) -> Retry | Failed | None:
    """Make the gang's ComputeDomain and its pod groups again if none is there. Raises ClusterError."""
    if not _waits(view, sight):
        return None
    steps: list[Create] = []
    if view.placement.nvlink and not observed.domain_seen(view):
        domain = view.renderer.compute_domain()
        steps += [Create(COMPUTE_DOMAIN, (domain,))] if domain else []
    kind = pod_group_kind(view.placement)
    if kind is not None and not observed.pod_groups(view):
        attempts = sorted({task.attempt for task in view.tasks})
        groups = tuple(group for attempt in attempts for group in view.renderer.gangs[attempt].pod_groups)
        steps += [Create(kind, groups)] if groups else []
    return carry_out(steps, cluster=cluster, grace_seconds=None)


def _waits(view: GroupView, sight: Sight) -> bool:
    """Whether all that is left of the gang has no node, for longer than an observer takes to see it."""
    made_at = view.row.created_in_cluster_at
    if made_at is None or view.now - made_at < UNSEEN_GRACE:
        return False
    left = [task for task in view.tasks if task.live]
    pods = [sight.pods.get(task.pod_name) for task in left]
    return (
        bool(left)
        and not any(task.node_name for task in view.tasks)
        and all(task.status == TaskStatus.SCHEDULING for task in left)
        and all(pod is not None and not pod.gone and not pod.deleting and not pod.node_name for pod in pods)
    )
