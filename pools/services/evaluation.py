"""When to evaluate the conditions of pools, and the writing of the results.

Whatever conditions depend on raises a counter in the cluster's row: the observer raises it for labels and
topology objects, ``recording`` for configuration. Beat checks every two seconds which counters have moved, so
five thousand events cost one evaluation; a slow sweep evaluates the others. The counter is read before the
rows, so a later commit makes it differ and is evaluated next time. Rejected: a message for each event, which
needs a debounce with a memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from pools import conditions, selectors
from pools.clusters.capabilities import capabilities_of, counts_by_flavor
from pools.conditions import Condition, aged
from pools.conditions.topology import TYPES, EvaluatedPool, TopologyObject, evaluate
from pools.models import Cluster, Node, ObservedResource, Pool
from pools.pod_templates.applied import node_selection
from pools.services.pool_objects import queue_of
from pools.values.completeness import NODES, Completeness, where_known
from scheduling.backends.facets import SchedulerBackend, TopologyObjects
from scheduling.backends.registry import installed, traits_of
from scheduling.queues.joined_queues import JoinedQueue, Readings
from scheduling.topology.levels import Levels

TopologyLabels = Mapping[tuple[str, str], tuple[str, ...]]
"""Labels of topology objects, by resource and name."""

QUIET_SECONDS: Final = 30.0
"""After so long a cluster without news is evaluated again: some conditions depend on time."""


def clusters_due() -> list[str]:
    """Clusters that changed since their last evaluation, or whose last evaluation is old."""
    stale = Now() - timedelta(seconds=QUIET_SECONDS)
    due = ~Q(changes=F("evaluated_changes")) | Q(evaluated_at=None) | Q(evaluated_at__lt=stale)
    rows = Cluster.objects.filter(due, where_known(NODES), backends__cleaned_at=None)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    """What schedulers read levels from: topology objects, and queues that gangs join.

    ``entries`` say which kinds were listed completely: an object of theirs without a row is absent.
    """

    entries: Mapping[str, Any]
    topologies: TopologyLabels
    queues: Readings

    def has_all(self, kind: str) -> bool:
        """Whether the objects of a kind were listed completely: one without a row is absent."""
        return Completeness.of(self.entries, kind).is_known

    def joined_queue(
        self, scheduler_type: str, namespace: str, name: str, *, selector: Mapping[str, str]
    ) -> JoinedQueue | None:
        """The queue of this name, for gangs of a scheduler that select nodes by these labels.

        None where its gangs join none, or while not all was listed that the queue leads to.
        """
        scheduler = installed().get(scheduler_type)
        if scheduler is None or (queues := scheduler.joined_queues) is None:
            return None
        if not all(map(self.has_all, _kinds_read_by(scheduler))):
            return None
        return queues.joined_queue(namespace, name, selector=selector, objects=self.queues)


def _kinds_read_by(scheduler: SchedulerBackend) -> set[str]:
    """The kinds of topology objects, and of queues that its gangs join with what these lead to."""
    kinds = [*scheduler.joined_queues.joined_kinds] if scheduler.joined_queues else []
    kinds += [scheduler.topologies.kind] if scheduler.topologies else []
    return {kind.crd for kind in kinds}


def objects_of(uid: str) -> ClusterObjects:
    """The observations of a cluster. Two queries."""
    entries = Cluster.objects.values_list("completeness", flat=True).get(pk=uid)
    kinds = set[str]().union(*map(_kinds_read_by, installed().values()))
    rows = ObservedResource.objects.filter(cluster_id=uid, resource__in=kinds)  # slices are many
    readings = {
        (resource, name): reading
        for resource, name, reading in rows.values_list("resource", "name", "reading")
    }
    return ClusterObjects(
        entries=entries,
        topologies={
            key: tuple(reading["labels"]) for key, reading in readings.items() if "labels" in reading
        },
        queues={key: reading for key, reading in readings.items() if "settings" in reading},
    )


def evaluate_pools(uid: str, *, nodes: Mapping[str, Mapping[str, str]]) -> int:
    """Evaluate the pools of a cluster with these nodes; returns how many pools changed."""
    objects, installation = objects_of(uid), selectors.installation()
    rows = Pool.objects.filter(backend__cluster_id=uid, backend__deleted_at=None)
    pools = list(rows.select_related("backend").prefetch_related("topology_keys", "platforms").order_by("pk"))
    evaluated = [_evaluated(pool, objects, installation) for pool in pools]
    verdicts, freshness = evaluate(evaluated, nodes), selectors.freshness_of(uid)
    return sum(
        _record(pool, [aged.by(freshness, condition) for condition in verdicts[pool.name]]) for pool in pools
    )


def _evaluated(pool: Pool, objects: ClusterObjects, installation: UUID) -> EvaluatedPool:
    scheduler, levels = installed().get(pool.backend.scheduler_type), selectors.pool_levels(pool)
    joins = scheduler is not None and scheduler.joined_queues is not None
    queue = objects.joined_queue(
        pool.backend.scheduler_type,
        pool.backend.namespace,
        queue_of(pool, installation),
        selector=node_selection(pool),
    )
    topologies: tuple[TopologyObject, ...] | None = ()
    if scheduler is not None and joins:
        topologies = _of_queue(scheduler, queue, levels, objects)
    elif scheduler is not None and scheduler.topologies is not None:
        topologies = _named_or_own(pool, scheduler.topologies, levels, objects, installation)
    return EvaluatedPool(
        name=pool.name,
        scheduler=pool.backend.scheduler_name,
        node_selector=node_selection(pool),
        levels=levels,
        paths=capabilities_of(pool.backend).by_paths,
        external=joins or pool.topology_source == Pool.TopologySource.EXTERNAL,
        topologies=topologies,
        joins=joins,
        queue=queue,
        counts_by_flavor=counts_by_flavor(pool.backend.scheduler_type, backend=pool.backend),
        hides_unlabelled=traits_of(pool.backend.scheduler_type).hides_unlabelled,
    )


def _of_queue(
    scheduler: SchedulerBackend, queue: JoinedQueue | None, levels: Levels, objects: ClusterObjects
) -> tuple[TopologyObject, ...] | None:
    """The topology objects that a pool's queue leads to; None while they were not listed."""
    if queue is None or scheduler.joined_queues is None or scheduler.topologies is None:
        return None
    needed, resource = scheduler.joined_queues.levels_needed(levels), scheduler.topologies.kind.crd
    return tuple(
        TopologyObject(name=name, levels=needed, labels=objects.topologies.get((resource, name)))
        for name in queue.topologies
    )


def _named_or_own(
    pool: Pool, of_scheduler: TopologyObjects, levels: Levels, objects: ClusterObjects, installation: UUID
) -> tuple[TopologyObject, ...] | None:
    """The objects that a pool relies on: the external one, or one of ours for each cut of its levels."""
    resource, of_levels = of_scheduler.kind.crd, of_scheduler.of_levels
    if of_levels is None:
        return ()
    if not objects.has_all(resource):
        return None
    if pool.topology_source == Pool.TopologySource.EXTERNAL:
        names = {pool.topology_name: levels}
    else:
        cuts = [levels[: rank + 1] for rank in range(len(levels))]
        names = {of_levels(installation, cut)["metadata"]["name"]: cut for cut in cuts}
    return tuple(
        TopologyObject(name=name, levels=cut, labels=objects.topologies.get((resource, name)))
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
