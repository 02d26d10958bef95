"""Pods of a gang whose other pods the cluster refuses.

A quota or an admission policy decides pod by pod, so several gangs in one namespace may each get a part of
what all of them need, and none could ever run. A gang that is not complete after some seconds gives back what
it has: its pods are deleted as they were read, so none that was bound since. Of the gangs of a namespace that
are refused only the first keeps its pods for these seconds, that of the highest priority or the oldest. All
try again, each after a pause of its own that grows.
"""

from collections.abc import Mapping
from dataclasses import replace

from django.db.models import Case, Q, QuerySet, When

from cluster.interface import DeleteTarget, WriteResult
from cluster.kinds import POD
from scheduling.backends.priorities import PRIORITIES
from scheduling.sentences import count_of
from workflows.explain.reasons import Why
from workflows.models import TaskGroup
from workflows.reconcile.objects.room import asks_first
from workflows.reconcile.observe.binding import bound_pods
from workflows.reconcile.turn import Turn
from workflows.reconcile.view.group_reader import GroupReader, pod_group_kind
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.outcomes import Failed, Retry
from workflows.services.changes import Note
from workflows.values.observation import PodSeen

TRIES_TO_COMPLETE = 3
"""Refused tries after which the first gang gives back its pods, too: about four seconds."""


def without_parts(turn: Turn, outcome: Retry | Failed) -> Retry | Failed:
    """The outcome, once a gang that was refused some pods has given back the others. Raises ClusterError."""
    view = turn.view
    if not isinstance(outcome, Retry) or not outcome.refused or view.row.created_in_cluster_at is not None:
        return outcome
    if turn.lease.failures < TRIES_TO_COMPLETE and not _is_behind(view):
        return outcome
    pods = GroupReader(turn.cluster, view.uuid, view.placement).pod_observations()
    if not give_back(turn, pods, cause=outcome.trouble):
        return outcome
    trouble = outcome.trouble.rstrip(".")
    return replace(outcome, trouble=f"{trouble}. The pods that it had are given back until then.")


def give_back(turn: Turn, pods: Mapping[str, PodSeen], *, cause: str) -> bool:
    """Delete these pods of a gang that was never complete; False if one may have begun. Raises ClusterError.

    Where a scheduler binds each pod of a gang that it has admitted, some may run already; they end as in a
    preemption, and so does the gang's admission. Logs are not kept: the same tries begin anew, and the log of
    a try is kept once.
    """
    view, cluster = turn.view, turn.cluster
    was_admitted = asks_first(view.placement) is not None
    if not was_admitted and pods and bound_pods(view, cluster, pods).may_be_any:
        return False
    if any(pod.phase not in ("Pending", "Running") for pod in pods.values()):
        return False
    targets = [
        DeleteTarget(pod.name, pod.namespace, pod.uid, None if was_admitted else pod.resource_version)
        for pod in pods.values()
        if not pod.deleting
    ]
    for outcome in cluster.delete_many(POD, targets, grace_seconds=None if was_admitted else 0):
        if outcome.error is not None and outcome.wrote is not WriteResult.ABSENT:
            raise outcome.error
    if was_admitted:
        _leave_queue(turn)
    if targets:
        count = count_of(len(targets), "pod")
        message = f"It gives back {count} that it had, because it cannot have all: {cause}"
        key = f"gave-back:{view.row.attempt_number}"
        turn.record([Note(key=key, reason="PodsGivenBack", message=message, warning=True)])
    return True


def _leave_queue(turn: Turn) -> None:
    """Delete what asks for the gang's room, which others may need meanwhile."""
    view, cluster = turn.view, turn.cluster
    kind = pod_group_kind(view.placement)
    if kind is None:
        return
    for group in GroupReader(cluster, view.uuid, view.placement).pod_groups().values():
        if not group.deleting:
            cluster.delete(kind, group.name, namespace=view.placement.terms.namespace, uid=group.uid)


def _is_behind(view: GroupView) -> bool:
    """Whether another gang of the namespace is refused, too, and comes first."""
    return groups_before(view, Why.NOT_MADE, Why.NAMESPACE_QUOTA).exists()


def groups_before(view: GroupView, *reasons: Why) -> QuerySet[TaskGroup]:
    """The gangs of its namespace that wait for these reasons and come first, in order; none was ever made."""
    priority = view.placement.priority
    higher = [name for name, value in PRIORITIES.items() if value > PRIORITIES[priority]]
    time, uuid = view.row.submit_time, view.uuid
    older = Q(submit_time__lt=time) | Q(submit_time=time, pk__lt=uuid)
    waiting = TaskGroup.objects.filter(
        backend__cluster_id=view.backend.cluster_id,
        placement__namespace=view.placement.terms.namespace,
        waiting_why__in=reasons,
        created_in_cluster_at=None,
        released_at=None,
        stop_status="",
    )
    first = Q(workflow__priority__in=higher) | (Q(workflow__priority=priority) & older)
    rank = Case(*(When(workflow__priority=name, then=value) for name, value in PRIORITIES.items()), default=0)
    return waiting.filter(first).exclude(pk=uuid).order_by(rank.desc(), "submit_time", "pk")
