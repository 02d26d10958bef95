"""Writes of what was observed of backends: never configuration, so without history."""

from collections.abc import Iterator
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from pools import conditions
from pools.clusters.probe import Address, Probe, conditions_of
from pools.conditions import Condition, aged
from pools.interfaces import usage
from pools.models import Backend, Cluster, Pool
from pools.selectors import devices_problem_of, freshness_of
from pools.services.composites import begins_trial, composites_condition
from pools.services.recording import enqueue
from scheduling.backends.registry import installed, traits_of
from scheduling.nodes.devices import NOT_SERVED, UNLISTED
from scheduling.sentences import agree, count_of


def note_probe(backend: Backend, probe: Probe, *, more: list[Condition] | None = None) -> bool:
    """Put the result of a probe into the row, unsaved; True if its cluster answers now and did not before."""
    now = timezone.now()
    before = conditions.status_of(backend.conditions, "Reachable")
    news = [*conditions_of(probe), *(more or [])]
    if probe.reachable and backend.cluster_id not in (None, probe.cluster_uid) and backend.pk:
        left = usage().unreleased_groups(backend.pk)
        if left:
            news = [_another_cluster(backend, left)]
            probe = Probe(problem="another cluster", reason="AnotherCluster")
    if probe.reachable:
        _note_cluster(backend, probe, now=now)
        news += composites_condition(backend)
    freshness = freshness_of(backend.cluster_id)
    news += [aged.by(freshness, condition) for condition in _observed_conditions(backend)]
    present = [c for c in backend.conditions if backend.follow_others or c["type"] != "GangsSeen"]
    backend.conditions = conditions.upsert(present, news, now=now, observed_revision=backend.revision)
    return probe.reachable and before != "True"


def record_probe(
    backend_id: int, probe: Probe, *, address: Address, more: list[Condition] | None = None
) -> bool:
    """Save the result of a probe unless the backend's address changed; True if its cluster answers again."""
    with transaction.atomic():
        backend = Backend.objects.select_for_update().filter(pk=backend_id).first()
        if backend is None or address != Address.of(backend):
            return False
        back = note_probe(backend, probe, more=more)
        if probe.reachable and begins_trial(backend, now=timezone.now()):
            enqueue("pools.try_composites", backend.pk)
        backend.save(update_fields=[*_OBSERVED])
        if back:
            enqueue("pools.sync_backend", backend.pk)
    if back:
        usage().notify_backend(backend_id)
    return back


_OBSERVED = (
    *("card", "cluster", "conditions", "kubernetes_version", "probed_at", "scheduler_version"),
    "composites_tried",
)


def _note_cluster(backend: Backend, probe: Probe, *, now: datetime) -> None:
    backend.cluster, _ = Cluster.objects.get_or_create(uid=probe.cluster_uid)
    backend.kubernetes_version = probe.kubernetes_version
    backend.scheduler_version = probe.scheduler_version or backend.scheduler_version
    backend.card = probe.card()
    backend.probed_at = now


def _observed_conditions(backend: Backend) -> Iterator[Condition]:
    """Those that follow from what its cluster's observer wrote."""
    yield from _foreign_usage_condition(backend)
    yield from _queues_condition(backend)
    yield from _slices_condition(backend)
    yield from _gangs_condition(backend)
    yield from _quarantine_condition(backend)


def _foreign_usage_condition(backend: Backend) -> list[Condition]:
    """Whether other tenants' pods are followed; no condition before the observer's first try."""
    cluster = backend.cluster
    if cluster is None or not (cluster.others_synced_at or cluster.others_problem):
        return []
    if cluster.others_synced_at:
        return [Condition(type="OthersSeen", status="True", reason="Followed")]
    message = (
        "Other tenants' usage of the nodes is not known and counts as free, because the observer may not "
        f"follow them: {cluster.others_problem}"
    )
    return [Condition(type="OthersSeen", status="False", reason="Forbidden", message=message)]


def _queues_condition(backend: Backend) -> list[Condition]:
    """Whether the cluster's queues are followed; no condition before the observer's first try."""
    cluster = backend.cluster
    scheduler = installed().get(backend.scheduler_type)
    if cluster is None or scheduler is None or scheduler.queues is None:
        return []
    if cluster.queues_synced_at:
        return [Condition(type="QueuesSeen", status="True", reason="Followed")]
    if not cluster.queues_problem:
        return []
    message = (
        "What is in use in the scheduler's queues is not known, so a verdict's quota is unknown, because the "
        f"observer may not follow them: {cluster.queues_problem}"
    )
    return [Condition(type="QueuesSeen", status="False", reason="Forbidden", message=message)]


def _slices_condition(backend: Backend) -> list[Condition]:
    """Whether devices of DRA drivers are followed; no condition where nothing needs them."""
    cluster = backend.cluster
    if cluster is None:
        return []
    lost, followed = [], False
    if Pool.objects.filter(backend_id=backend.pk, nvlink=True).exists():
        followed = cluster.slices_synced_at is not None
        if not followed and cluster.slices_problem:
            lost.append(
                "Which nodes offer an NVLink channel is not known, so a claim that none can meet is a "
                f"warning alone, because ResourceSlices are not followed: {cluster.slices_problem}"
            )
    if traits_of(backend.scheduler_type).gives_devices and cluster.classes_problem != NOT_SERVED:
        problem = devices_problem_of(cluster)
        followed = followed or not problem
        if problem not in ("", UNLISTED):
            lost.append(
                "How many GPUs nodes offer by DRA drivers alone is not known, so a verdict that depends on "
                f"it proves nothing, because ResourceSlices or DeviceClasses are not followed: {problem}"
            )
    if lost:
        message = " ".join(lost)
        return [Condition(type="SlicesSeen", status="False", reason="NotFollowed", message=message)]
    return [Condition(type="SlicesSeen", status="True", reason="Followed")] if followed else []


def _gangs_condition(backend: Backend) -> list[Condition]:
    """Whether gangs of others are followed where the backend asks for it; none before the first try."""
    cluster, scheduler = backend.cluster, installed().get(backend.scheduler_type)
    if cluster is None or not backend.follow_others or scheduler is None or scheduler.foreign is None:
        return []
    problem = cluster.gangs_problem_of(scheduler.foreign.kinds[0].crd)
    if problem is None:
        return []
    if not problem:
        return [Condition(type="GangsSeen", status="True", reason="Followed")]
    message = f"Gangs that others submitted are not known, because they cannot be followed: {problem}"
    return [Condition(type="GangsSeen", status="False", reason="NotFollowed", message=message)]


def _quarantine_condition(backend: Backend) -> list[Condition]:
    """Whether all objects of its cluster can be recorded; no condition before the observer's first try."""
    cluster = backend.cluster
    if cluster is None or cluster.heartbeat_at is None:
        return []
    count = cluster.quarantine.get("count", 0)
    if not count:
        return [Condition(type="ObservationsStored", status="True", reason="Stored")]
    first = "; ".join(f"{entry['object']}: {entry['error']}" for entry in cluster.quarantine["objects"])
    message = (
        f"{count_of(count, 'object')} of the cluster cannot be read or written. Nothing new is known of "
        f"{agree(count, 'it', 'them')} until {agree(count, 'it changes', 'they change')}: {first}"
    )
    return [Condition(type="ObservationsStored", status="False", reason="Quarantined", message=message)]


def _another_cluster(backend: Backend, left: int) -> Condition:
    message = (
        f"The address now leads to another cluster than {backend.cluster_id}, where {left} task groups are "
        "not released: point it back, or wait for them."
    )
    return Condition(type="Reachable", status="False", reason="AnotherCluster", message=message)


def record_sync(cluster_uid: str, news: list[Condition]) -> None:
    """Save the result of a sync of a cluster's shared objects on each of its backends.

    Each row is locked in a transaction of its own: changes of configuration lock several backends in an
    order of theirs.
    """
    rows = Backend.objects.filter(cluster_id=cluster_uid, cleaned_at=None).order_by("pk")
    for pk in rows.values_list("pk", flat=True):
        _record_on(pk, cluster_uid, news)


def _record_on(backend_id: int, cluster_uid: str, news: list[Condition]) -> None:
    now = timezone.now()
    with transaction.atomic():
        rows = Backend.objects.select_for_update(no_key=True).filter(pk=backend_id)
        backend = rows.filter(cluster_id=cluster_uid, cleaned_at=None).first()
        if backend is None:
            return
        backend.conditions = conditions.upsert(
            backend.conditions, news, now=now, observed_revision=backend.revision
        )
        backend.synced_at = now
        backend.save(update_fields=["conditions", "synced_at"])


def record_cleaned(backend_ids: list[int]) -> None:
    """Record that nothing of these deleted backends is left in their cluster."""
    Backend.objects.filter(pk__in=backend_ids, deleted_at__isnull=False).update(cleaned_at=timezone.now())
