"""Writing objects of the cluster's own, and what follows from them for pools and nodes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q

from pools.models import ClusterObject
from scheduling.nodes.devices import CLASSES, SLICES
from workflows.observer.device_rows import note_classes, note_slices
from workflows.values.observation import ResourceSeen

_CONFIGURATION = ("labels", "settings")
"""Of topology objects and of queues: what conditions of pools follow from, and not usage alone."""
_BEFORE = (*_CONFIGURATION, "node", "pool")

Key = tuple[str, str]


def write_resources(cluster: str, resources: Sequence[ResourceSeen], now: datetime) -> bool:
    """Write these objects; True if something changed that conditions of pools follow from."""
    if not resources:
        return False
    before, after = _before(cluster, resources), {_key(seen): seen for seen in resources}
    _write(cluster, [*after.values()], now)
    slices = [key for key in after if key[0] == SLICES]
    if slices:
        readings = [reading for key in slices for reading in (before.get(key), after[key].reading) if reading]
        note_slices(cluster, readings, now)
    if any(resource == CLASSES for resource, _ in after):
        note_classes(cluster)
    return any(_configuration(before.get(key)) != _configuration(_of(seen)) for key, seen in after.items())


def _key(seen: ResourceSeen) -> Key:
    return seen.resource, seen.name


def _of(seen: ResourceSeen) -> Mapping[str, Any] | None:
    return None if seen.absent else seen.reading


def _configuration(reading: Mapping[str, Any] | None) -> list[Any]:
    return [(reading or {}).get(name) for name in _CONFIGURATION]


def _before(cluster: str, resources: Sequence[ResourceSeen]) -> dict[Key, dict[str, Any]]:
    """The parts of their rows from which something follows."""
    rows = ClusterObject.objects.filter(
        cluster_id=cluster,
        resource__in={seen.resource for seen in resources},
        name__in={seen.name for seen in resources},
    )
    columns = rows.values_list("resource", "name", *(f"reading__{name}" for name in _BEFORE))
    return {(resource, name): dict(zip(_BEFORE, values, strict=True)) for resource, name, *values in columns}


def _write(cluster: str, resources: Sequence[ResourceSeen], now: datetime) -> None:
    gone = Q()
    for resource in {seen.resource for seen in resources if seen.absent}:
        names = [seen.name for seen in resources if seen.absent and seen.resource == resource]
        gone |= Q(resource=resource, name__in=names)
    if gone:
        ClusterObject.objects.filter(gone, cluster_id=cluster).delete()
    ClusterObject.objects.bulk_create(
        (
            ClusterObject(
                cluster_id=cluster,
                resource=seen.resource,
                name=seen.name,
                uid=seen.uid,
                reading=seen.reading,
                resource_version=seen.resource_version,
                seen_at=now,
            )
            for seen in resources
            if not seen.absent
        ),
        update_conflicts=True,
        unique_fields=("cluster", "resource", "name"),
        update_fields=("uid", "reading", "resource_version", "seen_at"),
        batch_size=500,
    )
