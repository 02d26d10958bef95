"""When to evaluate the conditions of pools, and the writing of the results.

Whatever conditions depend on raises a counter in the cluster's row: the observer raises it for labels and
topology objects, ``recording`` for configuration. Beat checks every two seconds which counters have moved, so
five thousand events cost one evaluation; a slow sweep evaluates the others. The counter is read before the
rows, so a later commit makes it differ and is evaluated next time. Rejected: a message for each event, which
needs a debounce with a memory.
"""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from pools import conditions, selectors
from pools.clusters.capabilities import capabilities_of
from pools.conditions import Condition
from pools.conditions.topology import TYPES, EvaluatedPool, TopologyObject, evaluate
from pools.models import Cluster, Node, ObservedTopology, Pool
from pools.pod_templates.applied import node_selection
from scheduling.backends.base import TopologyOwner
from scheduling.backends.registry import installed
from scheduling.capabilities import Capability

TopologyLabels = Mapping[tuple[str, str], tuple[str, ...]]
"""Labels of topology objects, by resource and name."""


def clusters_due() -> list[str]:
    """Clusters that changed since their last evaluation, or whose last evaluation is old."""
    stale = Now() - timedelta(seconds=settings.ENV.conditions_seconds)
    due = ~Q(changes=F("evaluated_changes")) | Q(evaluated_at=None) | Q(evaluated_at__lt=stale)
    rows = Cluster.objects.filter(due, backends__cleaned_at=None, nodes_synced_at__isnull=False)
    return list(rows.distinct().order_by("pk").values_list("pk", flat=True))


def changes_of(uid: str) -> int:
    """The cluster's counter. Read it before anything else and hand it to ``mark_evaluated``."""
    return int(Cluster.objects.values_list("changes", flat=True).get(pk=uid))


def mark_evaluated(uid: str, *, changes: int) -> None:
    """Record that everything up to the counter value ``changes`` was evaluated."""
    Cluster.objects.filter(pk=uid).update(evaluated_changes=changes, evaluated_at=Now())


def node_labels(uid: str) -> dict[str, Mapping[str, str]]:
    """The labels of all nodes of a cluster, by name. One query."""
    return dict(Node.objects.filter(cluster_id=uid).values_list("name", "labels"))


def topologies_of(uid: str) -> TopologyLabels:
    """The labels that each topology object of a cluster lists. One query."""
    rows = ObservedTopology.objects.filter(cluster_id=uid).values_list("resource", "name", "labels")
    return {(resource, name): tuple(labels) for resource, name, labels in rows}


def topologies_listed(uid: str) -> frozenset[str]:
    """The kinds of topology object that were listed completely: one without a row is absent."""
    return frozenset(Cluster.objects.values_list("topologies_listed", flat=True).get(pk=uid))


def evaluate_pools(uid: str, *, nodes: Mapping[str, Mapping[str, str]]) -> int:
    """Evaluate the pools of a cluster with these nodes; returns how many pools changed."""
    listed, topologies, installation = topologies_listed(uid), topologies_of(uid), selectors.installation()
    rows = Pool.objects.filter(backend__cluster_id=uid, backend__deleted_at=None)
    pools = list(rows.select_related("backend").prefetch_related("topology_keys").order_by("pk"))
    evaluated = [_evaluated(pool, listed, topologies, installation) for pool in pools]
    verdicts = evaluate(evaluated, nodes)
    return sum(_record(pool, verdicts[pool.name]) for pool in pools)


def _evaluated(
    pool: Pool, listed: frozenset[str], topologies: TopologyLabels, installation: UUID
) -> EvaluatedPool:
    return EvaluatedPool(
        name=pool.name,
        scheduler=pool.backend.scheduler_name,
        node_selector=node_selection(pool),
        levels=selectors.pool_levels(pool),
        paths=Capability.TOPOLOGY_PATH_DOMAINS in capabilities_of(pool.backend),
        external=pool.topology_source == Pool.TopologySource.EXTERNAL,
        topologies=_topologies(pool, listed, topologies, installation),
    )


def _topologies(
    pool: Pool, listed: frozenset[str], observed: TopologyLabels, installation: UUID
) -> tuple[TopologyObject, ...] | None:
    """The objects that a pool relies on: the external one, or one of ours for each cut of its levels."""
    owner = installed().get(pool.backend.scheduler_type)
    if not isinstance(owner, TopologyOwner):
        return ()
    resource, levels = owner.topology.crd, selectors.pool_levels(pool)
    if resource not in listed:
        return None
    if pool.topology_source == Pool.TopologySource.EXTERNAL:
        names = {pool.topology_name: levels}
    else:
        cuts = [levels[: rank + 1] for rank in range(len(levels))]
        names = {owner.topology_of(installation, cut)["metadata"]["name"]: cut for cut in cuts}
    return tuple(
        TopologyObject(name=name, levels=cut, labels=observed.get((resource, name)))
        for name, cut in names.items()
    )


def _record(pool: Pool, verdict: list[Condition]) -> bool:
    """Write the conditions unless the pool was configured anew meanwhile; True if they changed."""
    if _upserted(pool, verdict) == pool.conditions:
        return False
    with transaction.atomic():
        row = Pool.objects.select_for_update(no_key=True).filter(pk=pool.pk, revision=pool.revision).first()
        if row is None:
            return False
        row.conditions = _upserted(row, verdict)
        row.save(update_fields=["conditions"])
    return True


def _upserted(pool: Pool, verdict: list[Condition]) -> list[dict[str, object]]:
    evaluated_types = {condition.type for condition in verdict}
    entries = conditions.without(pool.conditions, set(TYPES) - evaluated_types)
    return conditions.upsert(entries, verdict, now=timezone.now(), observed_revision=pool.revision)
