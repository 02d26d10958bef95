"""Rows of the gangs that others submitted. They are forgotten where nobody follows them any more."""

from collections.abc import Callable, Sequence

import structlog
from django.db import DatabaseError, connection, transaction
from django.db.models import Func
from django.utils import timezone

from pools.models import Backend, Cluster
from pools.values.completeness import GANGS, merged
from scheduling.backends.facets import SchedulerBackend, gang_resource
from scheduling.backends.registry import installed
from web.times import read_instant
from workflows import metrics
from workflows.models import ObservedGang
from workflows.observer.lease import ObserverLease, hold
from workflows.observer.quarantine import lies_in_contents
from workflows.observer.waiting_gangs import GangChanges, WaitingGangs
from workflows.services.steps import database_now

_DELETE = """
    DELETE FROM workflows_observedgang
     USING unnest(%s::text[], %s::text[], %s::text[]) AS absent(resource, namespace, name)
     WHERE cluster_id = %s AND workflows_observedgang.resource = absent.resource
       AND workflows_observedgang.namespace = absent.namespace
       AND workflows_observedgang.name = absent.name
"""

log = structlog.get_logger(__name__)


def gangs_of(
    lease: ObserverLease, schedulers: Sequence[SchedulerBackend], *, before: WaitingGangs | None
) -> WaitingGangs | None:
    """The memory of the gangs of these schedulers, beginning with what has rows; None without any."""
    if not schedulers:
        return None
    if before is not None and before.name == ",".join(scheduler.name for scheduler in schedulers):
        return before
    if before is not None:  # what is there of another scheduler is not known yet
        with transaction.atomic():
            hold(lease)
            Cluster.objects.filter(pk=lease.cluster).update(completeness=_unknown())
    rows = ObservedGang.objects.filter(cluster_id=lease.cluster)
    return WaitingGangs(schedulers, rows.values_list("resource", "namespace", "name"))


def forget_unfollowed() -> None:
    """Delete the rows of clusters of which no living backend follows gangs of others."""
    following = Backend.objects.filter(deleted_at=None, follow_others=True, cluster__isnull=False)
    others = Cluster.objects.exclude(pk__in=following.values("cluster_id"))
    ObservedGang.objects.filter(cluster__in=others).delete()
    others.filter(completeness__has_any_keys=_kinds()).update(completeness=_unknown(), gangs_omitted=0)


def _kinds() -> list[str]:
    foreign = [scheduler.foreign for scheduler in installed().values() if scheduler.foreign]
    return [GANGS, *(gang_resource(facet) for facet in foreign)]


def _unknown() -> Func:
    return merged(dict.fromkeys(_kinds()), now=timezone.now())


def write_gangs(cluster: str, changes: GangChanges) -> None:
    """Write gangs, and whether they are all known. Called in a transaction."""
    now = database_now()
    absent = [key for key, gang in changes.gangs.items() if gang is None]
    if absent:
        with connection.cursor() as cursor:
            cursor.execute(_DELETE, [*map(list, zip(*absent, strict=True)), cluster])
    ObservedGang.objects.bulk_create(
        (
            ObservedGang(
                cluster_id=cluster,
                resource=gang.resource,
                namespace=gang.namespace,
                name=gang.name,
                uid=gang.uid,
                created_at=read_instant(gang.created),
                queue=str((gang.obj or {}).get("queue") or "")[:253],  # no object has a longer name
                content=gang.to_json(),
                pods=sum(pods.count for pods in gang.pods),
                seen_at=now,
            )
            for _, gang in sorted(changes.gangs.items())  # in one order: two observers cannot deadlock
            if gang is not None
        ),
        update_conflicts=True,
        unique_fields=("cluster", "resource", "namespace", "name"),
        update_fields=("uid", "created_at", "queue", "content", "pods", "seen_at"),
        batch_size=500,
    )
    if state := changes.state:
        all_gangs = "" if set(state.problems.values()) <= {""} else None
        completeness = merged({**state.problems, GANGS: all_gangs}, now=now)
        Cluster.objects.filter(pk=cluster).update(completeness=completeness, gangs_omitted=state.omitted)


def write_each(cluster: str, changes: GangChanges, write: Callable[[GangChanges], None]) -> None:
    """Write changes one by one, leaving out those that cannot be written."""
    parts = [GangChanges({key: gang}) for key, gang in changes.gangs.items()]
    for part in [*parts, GangChanges(state=changes.state)]:
        try:
            write(part)
        except DatabaseError as error:
            if not lies_in_contents(error):
                raise
            log.warning("gang_not_written", cluster=cluster, error=type(error).__name__)
            metrics.QUARANTINED.labels(cluster, "gang").inc()
