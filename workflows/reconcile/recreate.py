"""Making again what somebody deleted of a gang that still waits for its place.

Its pods belong to a pod group by name, and without it no scheduler places them; without the ComputeDomain
there is no template for their claims; and a gang of which a pod is missing is not placed at all. It would
wait until its queue timeout, which may be two months away. So all three are made again, a pod under its own
name and as the same try, since it was never seen with a node and so cannot have run.

Once a pod has a node nothing is made again: a scheduler that counts from nothing might take the gang for one
that is too small and evict it, claims in use name the ComputeDomain that is gone, and the end of a pod that
may have run is its task's.

Seen from the observer's rows, because a look must cost a waiting gang no call; made with a create, which
meets whatever is there after all.
"""

from collections.abc import Sequence
from datetime import datetime

from cluster.kinds import COMPUTE_DOMAIN, POD
from scheduling.sentences import listing
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile import observations
from workflows.reconcile.apply import apply
from workflows.reconcile.create import desired_group
from workflows.reconcile.follow import UNSEEN_GRACE, ObservedPods
from workflows.reconcile.group_reader import pod_group_kind
from workflows.reconcile.group_view import GroupView, TaskView
from workflows.reconcile.leased import LeasedCluster
from workflows.reconcile.outcomes import Failed, RequeueAfter, Retry
from workflows.reconcile.plan import Create
from workflows.services.lease import Lease
from workflows.services.record import Changes, Note, record

SOON = 2.0


def recreate_missing(
    view: GroupView, observed: ObservedPods, lost: Sequence[TaskView], lease: Lease, cluster: LeasedCluster
) -> RequeueAfter | Retry | Failed | None:
    """Make what is missing of the gang again, ``lost`` pods last. Raises ClusterError."""
    if not _waits(view, observed, lost):
        return None
    steps: list[Create] = []
    if view.placement.nvlink and not observations.compute_domain_observed(view):
        domain = view.renderer.compute_domain()
        steps += [Create(COMPUTE_DOMAIN, (domain,))] if domain else []
    kind = pod_group_kind(view.placement)
    if kind is not None and not observations.pod_groups(view):
        attempts = sorted({task.attempt for task in view.tasks})
        groups = tuple(group for attempt in attempts for group in view.renderer.gangs[attempt].pod_groups)
        steps += [Create(kind, groups)] if groups else []
    if trouble := apply(steps, cluster=cluster, grace_seconds=None):
        return trouble
    return _recreate_pods(view, observed, lost, lease, cluster) if lost else None


def next_missing_check(view: GroupView) -> datetime | None:
    """When what is missing of a gang that was just made may first be told from what nobody has seen yet."""
    made_at = view.row.created_in_cluster_at
    if made_at is None or view.row.status != TaskStatus.SCHEDULING or view.now - made_at >= UNSEEN_GRACE:
        return None
    return made_at + UNSEEN_GRACE


def _recreate_pods(
    view: GroupView, observed: ObservedPods, lost: Sequence[TaskView], lease: Lease, cluster: LeasedCluster
) -> RequeueAfter | Retry | Failed | None:
    """Make pods again, once the template of their claims is there."""
    if view.placement.nvlink and not (
        observations.compute_domain_observed(view) and observations.claim_template_observed(view)
    ):
        return RequeueAfter(seconds=SOON)
    pods = desired_group(view, tuple(lost)).pods
    if trouble := apply([Create(POD, pods)], cluster=cluster, grace_seconds=None):
        return trouble
    times = sorted(str(observed.gone_at.get(task.pod_name)) for task in lost)
    said = (
        f"Somebody deleted the pods of {listing(task.name for task in lost)} while the group waited for its "
        "place: they were made again."
    )
    record(lease, Changes(notes=(Note(key=f"again:{times[-1]}", reason="PodsMadeAgain", message=said),)))
    return None


def _waits(view: GroupView, observed: ObservedPods, lost: Sequence[TaskView]) -> bool:
    """Whether all that is left of the gang has no node, for longer than an observer takes to see it."""
    made_at = view.row.created_in_cluster_at
    if made_at is None or view.now - made_at < UNSEEN_GRACE:
        return False
    gone = {task.pk for task in lost}
    left = [task for task in view.tasks if task.live]
    pods = [observed.pods.get(task.pod_name) for task in left if task.pk not in gone]
    return (
        bool(left)
        and not any(task.node_name for task in view.tasks)
        and all(task.status == TaskStatus.SCHEDULING for task in left)
        and all(pod is not None and not pod.gone and not pod.deleting and not pod.node_name for pod in pods)
    )
