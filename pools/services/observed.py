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
from pools.selectors import freshness_of
from pools.services.composites import begins_trial, composites_condition
from pools.services.recording import enqueue
from pools.values.completeness import OTHERS, Completeness, devices_problem
from scheduling.backends.facets import gang_resource
from scheduling.backends.registry import installed, traits_of
from scheduling.nodes.devices import CLASSES, NOT_SERVED, SLICES, UNLISTED
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
    if (cluster := backend.cluster) is None:
        return
    yield from _foreign_usage_condition(cluster)
    yield from _queues_condition(backend, cluster)
    yield from _slices_condition(backend, cluster)
    yield from _gangs_condition(backend, cluster)
    yield from _quarantine_condition(cluster)


def _following(
    type_: str, completeness: Completeness, *, doubt: str, reason: str = "Forbidden"
) -> list[Condition]:
    """Whether all of a kind is followed, with what is in doubt otherwise; none before the first try."""
    if completeness.is_known:
        return [Condition(type=type_, status="True", reason="Followed")]
    if not completeness.problem:
        return []
    return [Condition(type=type_, status="False", reason=reason, message=f"{doubt}: {completeness.problem}")]


def _foreign_usage_condition(cluster: Cluster) -> list[Condition]:
    """Whether other tenants' pods are followed."""
    doubt = (
        "Other tenants' usage of the nodes is not known and counts as free, because the observer may not "
        "follow them"
    )
    return _following("OthersSeen", Completeness.of(cluster.completeness, OTHERS), doubt=doubt)


def _queues_condition(backend: Backend, cluster: Cluster) -> list[Condition]:
    """Whether the queues of the backend's scheduler are followed."""
    scheduler = installed().get(backend.scheduler_type)
    if scheduler is None or scheduler.queues is None:
        return []
    doubt = (
        "What is in use in the scheduler's queues is not known, so a verdict's quota is unknown, because the "
        "observer may not follow them"
    )
    completeness = Completeness.of(cluster.completeness, scheduler.queues.queue.crd)
    return _following("QueuesSeen", completeness, doubt=doubt)


def _slices_condition(backend: Backend, cluster: Cluster) -> list[Condition]:
    """Whether devices of DRA drivers are followed; no condition where nothing needs them."""
    slices, classes = (Completeness.of(cluster.completeness, kind) for kind in (SLICES, CLASSES))
    lost, followed = [], False
    if Pool.objects.filter(backend_id=backend.pk, nvlink=True).exists():
        followed = slices.is_known
        if slices.problem:
            lost.append(
                "Which nodes offer an NVLink channel is not known, so a claim that none can meet is a "
                f"warning alone, because ResourceSlices are not followed: {slices.problem}"
            )
    if traits_of(backend.scheduler_type).gives_devices and classes.problem != NOT_SERVED:
        problem = devices_problem(cluster.completeness)
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


def _gangs_condition(backend: Backend, cluster: Cluster) -> list[Condition]:
    """Whether gangs of others are followed where the backend asks for it."""
    scheduler = installed().get(backend.scheduler_type)
    if not backend.follow_others or scheduler is None or scheduler.foreign is None:
        return []
    completeness = Completeness.of(cluster.completeness, gang_resource(scheduler.foreign))
    doubt = "Gangs that others submitted are not known, because they cannot be followed"
    return _following("GangsSeen", completeness, doubt=doubt, reason="NotFollowed")


def _quarantine_condition(cluster: Cluster) -> list[Condition]:
    """Whether all objects of its cluster can be recorded; no condition before the observer's first try."""
    if cluster.heartbeat_at is None:
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
    work = f"{count_of(left, 'task group')} {agree(left, 'is', 'are')} not released"
    message = (
        f"The address now leads to another cluster than {backend.cluster_id}, where {work}: point it back, "
        f"or wait for {agree(left, 'it', 'them')}."
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
