"""Writing objects of the cluster's own, and what follows from them for pools and nodes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q

from pools.models import ObservedResource
from scheduling.nodes.devices import CLASSES, SLICES
from workflows.observer.device_rows import count_devices, note_slices
from workflows.values.observation import ResourceSeen

_CONFIGURATION = ("labels", "settings")
"""Of topology objects and of queues: what conditions of pools follow from, and not usage alone."""
_BEFORE = (*_CONFIGURATION, "node", "pool")

Key = tuple[str, str]


def write_resources(cluster: str, resources: Sequence[ResourceSeen], now: datetime) -> bool:
    """Write these objects; True if something changed that conditions of pools follow from."""
    if not resources:
        return False
    before, after = _before(cluster, resources), {_key(entry): entry for entry in resources}
    _write(cluster, [*after.values()], now)
    slices = [key for key in after if key[0] == SLICES]
    readings = [reading for key in slices for reading in (before.get(key), after[key].reading) if reading]
    nodes = note_slices(cluster, readings, now) if readings else set()
    are_classes = any(resource == CLASSES for resource, _ in after)
    if nodes or are_classes:
        count_devices(cluster, None if are_classes or "" in nodes else nodes)
    return any(_configuration(before.get(key)) != _configuration(_of(entry)) for key, entry in after.items())


def _key(entry: ResourceSeen) -> Key:
    return entry.resource, entry.name


def _of(entry: ResourceSeen) -> Mapping[str, Any] | None:
    return None if entry.absent else entry.reading


def _configuration(reading: Mapping[str, Any] | None) -> list[Any]:
    return [(reading or {}).get(name) for name in _CONFIGURATION]


def _before(cluster: str, resources: Sequence[ResourceSeen]) -> dict[Key, dict[str, Any]]:
    """The parts of their rows from which something follows."""
    rows = ObservedResource.objects.filter(
        cluster_id=cluster,
        resource__in={entry.resource for entry in resources},
        name__in={entry.name for entry in resources},
    )
    columns = rows.values_list("resource", "name", *(f"reading__{name}" for name in _BEFORE))
    return {(resource, name): dict(zip(_BEFORE, values, strict=True)) for resource, name, *values in columns}


def _write(cluster: str, resources: Sequence[ResourceSeen], now: datetime) -> None:
    gone = Q()
    for resource in {entry.resource for entry in resources if entry.absent}:
        names = [entry.name for entry in resources if entry.absent and entry.resource == resource]
        gone |= Q(resource=resource, name__in=names)
    if gone:
        ObservedResource.objects.filter(gone, cluster_id=cluster).delete()
    ObservedResource.objects.bulk_create(
        (
            ObservedResource(
                cluster_id=cluster,
                resource=entry.resource,
                name=entry.name,
                uid=entry.uid,
                reading=entry.reading,
                resource_version=entry.resource_version,
                seen_at=now,
            )
            for entry in resources
            if not entry.absent
        ),
        update_conflicts=True,
        unique_fields=("cluster", "resource", "name"),
        update_fields=("uid", "reading", "resource_version", "seen_at"),
        batch_size=500,
    )
