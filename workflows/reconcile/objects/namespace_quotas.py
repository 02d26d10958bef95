"""Waiting for a namespace's quota before the pods of a gang are made.

An API server refuses pods one by one, so a gang is made only once the quotas that may be read have room for
all of it. Gangs that wait for them go in the order of priority, then of age: what an earlier one would get
now counts as used. One that could not begin now is passed over at first, so that no room stays empty for it;
later room is kept for it, if it could begin once gangs of ours have ended. Quotas are read only where the
last probe saw some, or pods were refused.
"""

from collections.abc import Sequence
from datetime import timedelta

from cluster.kinds import RESOURCE_QUOTA
from pools.clusters.quotas import UNREADABLE, see_quota
from scheduling.fit.node_index import total
from scheduling.fit.snapshot import RESOURCES
from scheduling.queues.namespace_quota import QUOTA_RESOURCES, NamespaceQuota, QuotaAmounts, shortages
from workflows.explain.reasons import Why
from workflows.feasibility.capacity.known_usage import cluster_usage
from workflows.feasibility.verdict.sentences import bound_sentence
from workflows.models import TaskGroup
from workflows.reconcile.objects.partial_gangs import groups_before
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import QuotaWait
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView, TaskView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.values.pod_usage import usage_of

PASSED_OVER = timedelta(minutes=5)
"""For how long gangs that come later may go before one that could not begin."""

MOST_BEFORE = 100
"""Gangs that wait before one, and are looked at."""


def quota_wait(view: GroupView, tasks: Sequence[TaskView], cluster: LeasedCluster) -> QuotaWait | None:
    """What the pods of these tasks, of a gang that was never complete, wait for. Raises ClusterError."""
    was_refused = view.row.waiting_why in (Why.NAMESPACE_QUOTA, Why.NOT_MADE)
    if view.row.created_in_cluster_at is not None or not (view.backend.card.get("quotas") or was_refused):
        return None
    try:
        listed = cluster.scan(RESOURCE_QUOTA, see_quota, namespace=view.placement.terms.namespace)
    except UNREADABLE:
        return None
    quotas = [quota for quota in listed if quota is not None]
    if not quotas:
        return None
    reader = GroupReader(cluster, view.uuid, view.placement)
    pods = reader.pod_observations() if view.row.touched_cluster else {}
    requested = _requested(view, [task for task in tasks if task.pod_name not in pods])
    short, behind = shortages(quotas, requested), ""
    if not short:
        short, behind = (
            shortages(_after_earlier(view, quotas), requested),
            " Gangs that go first are counted.",
        )
    if not short:
        return None
    text = bound_sentence(short[0])
    return QuotaWait(f"{text[0].upper()}{text[1:]}{behind}", requested, pods)


def _requested(view: GroupView, tasks: Sequence[TaskView]) -> QuotaAmounts:
    """The amounts that the pods of these tasks ask for."""
    missing = {task.name for task in tasks}
    usages = (
        usage_of(view.renderer.pod(task_try)["spec"])
        for task_try in view.values.tasks
        if task_try.name in missing
    )
    sums = [sum(amounts) for amounts in zip(*usages, strict=True)]
    return {name: float(amount) for name, amount in zip(QUOTA_RESOURCES, sums, strict=False)}


def _after_earlier(view: GroupView, quotas: list[NamespaceQuota]) -> list[NamespaceQuota]:
    """The quotas once the gangs that wait before it have what they would get now, or is kept for them."""
    before = groups_before(view, Why.NAMESPACE_QUOTA).values_list("waiting_evidence", "waiting_since")
    every, without_ours = quotas, None
    for evidence, since in before[:MOST_BEFORE]:
        requested = evidence.get("namespace_quota", {}).get("requested", {})
        waits_long = since is not None and view.now - since >= PASSED_OVER
        fits = not shortages(quotas, requested)
        if not fits and waits_long:
            without_ours = without_ours or _without_ours(view, every)
            fits = not shortages(without_ours, requested)
        if fits:
            quotas = [quota.after(requested) for quota in quotas]
    return quotas


def _without_ours(view: GroupView, quotas: Sequence[NamespaceQuota]) -> list[NamespaceQuota]:
    """The quotas once all gangs of ours in the namespace have ended."""
    cluster = observations.cluster_of(view)
    usage = cluster_usage(cluster, others_known=False).groups
    own = TaskGroup.objects.filter(
        pk__in=usage.keys(), backend__cluster_id=cluster, placement__namespace=view.placement.terms.namespace
    )
    sums = total(usage[pk].amounts for pk in own.values_list("pk", flat=True))
    amounts = {name: -float(sums[place]) for place, name in enumerate(RESOURCES) if name in QUOTA_RESOURCES}
    return [quota.after(amounts) for quota in quotas]
