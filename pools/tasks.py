"""Background work on configuration: probes of backends, and syncs of clusters with pools.

Messages are notifications and the rows are the truth, so a late, lost or doubled message is harmless: beat
sends all of them again every few seconds (``periodic``). Each message is about one backend or cluster, so
that a cluster that is down delays no other; a cluster that does not answer is only probed. Threads
of a worker know no time limit (Celery's are for processes), so each run has a deadline of its own, after
which it begins no further call.
"""

from dataclasses import replace

import structlog
from celery import shared_task

from cluster import concurrency
from cluster.errors import ClusterError, ClusterUnreachable, DeadlinePassed
from pools import conditions
from pools.clusters.connect import access_of, cluster_for, guard_for
from pools.clusters.probe import PROBE_SECONDS, READ_SECONDS, Address, Probe, ensure_namespace, probe_cluster
from pools.clusters.quotas import read_quotas
from pools.conditions import Condition
from pools.models import Backend
from pools.selectors import installation
from pools.services import composites, declared, sync
from pools.services.observed import record_probe
from scheduling.backends.registry import installed
from web.operation.periodic import Periodic

log = structlog.get_logger(__name__)


@shared_task(base=Periodic, name="pools.apply_declared")
def apply_declared() -> None:
    """Apply the declared file if there is one and it changed."""
    declared.apply()


@shared_task(base=Periodic, name="pools.probe_backends")
def probe_backends() -> None:
    """Enqueue a probe of each address at which a backend may still have something in its cluster."""
    rows = Backend.objects.filter(cleaned_at=None).order_by("kubeconfig", "context", "pk")
    for pk in rows.distinct("kubeconfig", "context").values_list("pk", flat=True):
        probe_backend.delay(pk)


@shared_task(name="pools.probe_backend")
def probe_backend(backend_id: int) -> None:
    """Probe a backend's cluster, and every other backend at the same address.

    An address has one slot, so backends that were probed one by one would take it from each other.
    """
    named = Backend.objects.filter(pk=backend_id, cleaned_at=None).first()
    if named is None:
        return
    with concurrency.PROBES.slot(access_of(named)) as free:
        if not free:  # another probe goes through the same backends
            return
        same = Backend.objects.filter(cleaned_at=None, kubeconfig=named.kubeconfig, context=named.context)
        silent: Probe | None = None
        for backend in same.order_by("pk"):
            probe = _probe(backend, silent)
            silent = None if probe is None or probe.reachable else probe


def _probe(backend: Backend, silent: Probe | None) -> Probe | None:
    """Probe a backend, create its namespace, and record both.

    ``silent`` is a probe of the same address that just got no answer.
    """
    scheduler = installed().get(backend.scheduler_type)
    if scheduler is None:
        return silent
    address = Address.of(backend)
    cluster = cluster_for(backend, read_seconds=READ_SECONDS, seconds=PROBE_SECONDS)
    probe = silent or probe_cluster(
        cluster, scheduler, namespace=address.namespace, installation=installation()
    )
    if probe.reachable:
        probe = replace(probe, quotas=read_quotas(cluster, address.namespace))
    lives = probe.reachable and not backend.deleted_at
    more = [ensure_namespace(cluster, backend.namespace), *_writes_allowed(backend)] if lives else []
    record_probe(backend.pk, probe, address=address, more=more)
    return probe


@shared_task(name="pools.try_composites")
def try_composites(backend_id: int) -> None:
    """Try whether a backend's scheduler holds composite pod groups."""
    backend = Backend.objects.filter(pk=backend_id, deleted_at=None).first()
    if backend is None:
        return
    cluster = cluster_for(backend, read_seconds=READ_SECONDS, seconds=PROBE_SECONDS)
    try:
        composites.record_condition(backend.pk, composites.try_composites(backend, cluster))
    except ClusterError as error:
        composites.record_failure(backend.pk, error)
        log.warning("composites_not_tried", backend=backend.name, error=str(error))


def _writes_allowed(backend: Backend) -> list[Condition]:
    """Whether this database may write in the backend's namespace; nothing of a cluster that gives no answer.

    The next probe says of that one that it is not reachable.
    """
    try:
        guard = guard_for(backend, read_seconds=READ_SECONDS, seconds=PROBE_SECONDS)
        verdict = guard.examine(backend.namespace)
    except (ClusterUnreachable, DeadlinePassed):
        return []
    except ClusterError as error:
        message = f"Its mark could not be read or written, and nothing is written without it: {error}"
        return [Condition(type="WritesAllowed", status="Unknown", reason=error.code, message=message)]
    if not verdict.allowed:
        log.error("writes_suspended", backend=backend.name, reason=verdict.reason, message=verdict.message)
    return [verdict.condition()]


@shared_task(base=Periodic, name="pools.sync_clusters")
def sync_clusters() -> None:
    """Enqueue a sync of each cluster that answers through a backend."""
    rows = Backend.objects.filter(cleaned_at=None, cluster__isnull=False)
    answering = {
        str(row.cluster_id) for row in rows if conditions.status_of(row.conditions, "Reachable") == "True"
    }
    for uid in sorted(answering):
        sync_cluster.delay(uid)


@shared_task(base=Periodic, name="pools.sync_cluster")
def sync_cluster(uid: str) -> None:
    """Bring queues, topologies and priorities of one cluster in line."""
    sync.sync_cluster(uid)


@shared_task(name="pools.sync_backend")
def sync_backend(backend_id: int) -> None:
    """Bring the cluster of one backend in line, if it was ever reached."""
    if uid := Backend.objects.filter(pk=backend_id).values_list("cluster_id", flat=True).first():
        sync.sync_cluster(uid)
