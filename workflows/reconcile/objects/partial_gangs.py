"""Pods of a gang whose other pods the cluster refuses.

A quota or an admission policy decides pod by pod, so several gangs in one namespace may each get a part of
what all of them need, and none could ever run. A gang that is not complete after some seconds gives back what
it has: its pods are deleted as they were read, so none that was bound since. Of the gangs of a namespace that
are refused only the first keeps its pods for these seconds, that of the highest priority or the oldest. All
try again, each after a pause of its own that grows.
"""

from dataclasses import replace

from django.db.models import Q

from cluster.interface import DeleteTarget
from cluster.kinds import POD
from scheduling.backends.priorities import PRIORITIES
from scheduling.sentences import count_of
from web.crashpoints import reached
from workflows.explain.reasons import Why
from workflows.models import TaskGroup
from workflows.reconcile.objects.apply import retry_for
from workflows.reconcile.objects.room import asks_first
from workflows.reconcile.observe.binding import bound_pods
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.reconcile.view.outcomes import Retry
from workflows.services.changes import Note
from workflows.services.lease import Lease
from workflows.services.record import record

TRIES_TO_COMPLETE = 3
"""Refused tries after which the first gang gives back its pods, too: about four seconds."""


def give_back(view: GroupView, refused: Retry, lease: Lease, cluster: LeasedCluster) -> Retry:
    """Delete the pods of a gang that is refused others; the outcome says so. Raises ClusterError.

    Nothing is deleted of a gang that was complete once, whose pods may have begun, or that is still tried.
    """
    if view.row.created_in_cluster_at is not None:
        return refused
    pods = GroupReader(cluster, view.uuid, view.placement).pod_observations()
    if not pods or (lease.failures < TRIES_TO_COMPLETE and not _is_behind(view)):
        return refused
    waits_for_node = asks_first(view.placement) is None
    if any(pod.phase != "Pending" for pod in pods.values()):
        return refused
    if waits_for_node and bound_pods(view, cluster, pods).may_be_any:
        return refused
    targets = [
        DeleteTarget(pod.name, pod.namespace, pod.uid, pod.resource_version)
        for pod in pods.values()
        if not pod.deleting
    ]
    for outcome in cluster.delete_many(POD, targets, grace_seconds=0):
        if outcome.error is not None:
            return retry_for(outcome.error)
    reached("gave-back-pods")
    message = (
        f"The cluster refuses some of its pods, so it gives back {count_of(len(targets), 'pod')} that it had."
    )
    attempt = view.row.attempt_number
    record(lease, [Note(key=f"gave-back:{attempt}", reason="PodsGivenBack", message=message, warning=True)])
    return replace(refused, trouble=f"{refused.trouble} The pods that it had are given back until then.")


def _is_behind(view: GroupView) -> bool:
    """Whether another gang of the namespace is refused, too, and comes first."""
    priority = view.placement.priority
    higher = [name for name, value in PRIORITIES.items() if value > PRIORITIES[priority]]
    time, uuid = view.row.submit_time, view.uuid
    older = Q(submit_time__lt=time) | Q(submit_time=time, pk__lt=uuid)
    refused = TaskGroup.objects.filter(
        backend__cluster_id=view.backend.cluster_id,
        placement__namespace=view.placement.terms.namespace,
        waiting_why=Why.NOT_MADE,
        created_in_cluster_at=None,
        released_at=None,
        stop_status="",
    )
    first = Q(workflow__priority__in=higher) | (Q(workflow__priority=priority) & older)
    return refused.filter(first).exclude(pk=uuid).exists()
