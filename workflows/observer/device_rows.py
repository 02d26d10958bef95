"""Writing slices and device classes, and what follows from them for nodes.

What a node offers is counted when something of it changes and stands in the node's row, so no reader counts
devices. A class, and a slice that is not one node's, concern every node of the cluster; other slices those of
their pools: a pool that is not whole is not counted on any of its nodes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q

from pools.models import Node, ObservedDeviceClass, ObservedSlice
from scheduling.nodes.devices import NO_DEVICES, DeviceClass, NodeDevices, SliceDevices, devices_of
from workflows.values.amounts import is_zero
from workflows.values.observation import ClassSeen, SliceSeen

_SLICE_FIELDS = (
    *("node", "has_channel", "driver", "pool", "generation", "pool_slices", "kinds", "doubt"),
    *("resource_version", "seen_at"),
)
OFFERS_CHANNEL = Exists(
    ObservedSlice.objects.filter(cluster_id=OuterRef("cluster_id"), node=OuterRef("name"), has_channel=True)
)
"""Whether a slice gives a node a channel."""


def write_devices(
    cluster: str, slices: Sequence[SliceSeen], classes: Sequence[ClassSeen], now: datetime
) -> None:
    """Write slices and classes, and what the nodes that they concern offer now."""
    nodes = _write_slices(cluster, slices, now) if slices else set()
    if classes:
        _write_classes(cluster, classes, now)
    if nodes or classes:
        count_devices(cluster, None if classes or "" in nodes else nodes)


def count_devices(cluster: str, names: Collection[str] | None) -> None:
    """Write what these nodes offer by their slices, all nodes for None."""
    nodes = Node.objects.filter(cluster_id=cluster)
    rows = nodes if names is None else nodes.filter(name__in=names)
    by_node = offered_by(cluster, names)
    changed = []
    for row in rows.only("name", "allocatable", "devices"):
        before = NodeDevices.from_json(row.devices)
        own = {name: amount for name, amount in row.allocatable.items() if name not in before.counted}
        allocatable, devices = with_devices(own, by_node.get(row.name, NO_DEVICES))
        if (allocatable, devices.as_json()) != (row.allocatable, row.devices):
            row.allocatable, row.devices = allocatable, devices.as_json()
            changed.append(row)
    Node.objects.bulk_update(changed, ["allocatable", "devices"], batch_size=500)


def with_devices(allocatable: Mapping[str, Any], devices: NodeDevices) -> tuple[dict[str, Any], NodeDevices]:
    """A node's amounts with the devices that count: those of resources that no device plugin offers.

    ``allocatable`` is the node's own. The devices come with those that do not count set apart.
    """
    every = {**devices.beside, **devices.counted}
    counted = {name: count for name, count in every.items() if is_zero(allocatable.get(name, "0"))}
    beside = {name: count for name, count in every.items() if name not in counted}
    amounts = {**allocatable, **{name: str(count) for name, count in counted.items()}}
    return amounts, replace(devices, counted=counted, beside=beside)


def offered_by(cluster: str, names: Collection[str] | None) -> dict[str, NodeDevices]:
    """What nodes offer by slices, by their names; all nodes that a slice names, for None."""
    rows = ObservedSlice.objects.filter(cluster_id=cluster)
    own = rows if names is None else rows.filter(Q(node__in=names) | Q(node=""))
    by_node: dict[str, list[SliceDevices]] = defaultdict(list)
    for row in own:
        by_node[row.node].append(_slice_of(row))
    shared = by_node.pop("", [])
    if shared:
        everywhere = names or Node.objects.filter(cluster_id=cluster).values_list("name", flat=True)
        by_node = defaultdict(list, {name: [*by_node.get(name, ()), *shared] for name in everywhere})
    if not by_node:
        return {}
    classes = [_class_of(row) for row in ObservedDeviceClass.objects.filter(cluster_id=cluster)]
    pools = _pools(cluster, (piece for pieces in by_node.values() for piece in pieces))
    return {name: devices_of(pieces, pools=pools, classes=classes) for name, pieces in by_node.items()}


def _pools(cluster: str, slices: Iterable[SliceDevices]) -> dict[tuple[str, str], tuple[int, int]]:
    """The newest generation of each pool of these slices, and how many slices of it are known."""
    rows = ObservedSlice.objects.filter(cluster_id=cluster, pool__in={piece.pool for piece in slices})
    counts = rows.values_list("driver", "pool", "generation").annotate(Count("pk")).order_by("generation")
    return {(driver, pool): (generation, count) for driver, pool, generation, count in counts}


def _slice_of(row: ObservedSlice) -> SliceDevices:
    return SliceDevices(
        driver=row.driver,
        pool=row.pool,
        generation=row.generation,
        pool_slices=row.pool_slices,
        node=row.node,
        kinds=tuple((tuple((key, value) for key, value in attributes), n) for attributes, n in row.kinds),
        doubt=row.doubt,
    )


def _class_of(row: ObservedDeviceClass) -> DeviceClass:
    return DeviceClass(
        name=row.name, resource=row.resource, selectors=tuple(row.selectors), created=row.created
    )


def _write_slices(cluster: str, slices: Sequence[SliceSeen], now: datetime) -> set[str]:
    """Write slices, and which nodes have a channel; returns the nodes whose devices may differ."""
    before = ObservedSlice.objects.filter(cluster_id=cluster, name__in=[piece.name for piece in slices])
    pools = {*before.values_list("pool", flat=True)}
    nodes = {*before.values_list("node", flat=True)}
    present = {piece.name: piece for piece in slices if piece.devices and not piece.absent}
    before.exclude(name__in=present).delete()
    rows = [_row(cluster, piece, piece.devices, now) for piece in present.values() if piece.devices]
    ObservedSlice.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=("cluster", "name"),
        update_fields=_SLICE_FIELDS,
        batch_size=500,
    )
    pools |= {row.pool for row in rows}
    nodes |= {row.node for row in rows}
    nodes |= {
        *ObservedSlice.objects.filter(cluster_id=cluster, pool__in=pools).values_list("node", flat=True)
    }
    changed = Node.objects.alias(offers=OFFERS_CHANNEL).filter(cluster_id=cluster, name__in=nodes)
    changed.exclude(offers_channel=OFFERS_CHANNEL).update(offers_channel=OFFERS_CHANNEL, channel_since=now)
    return nodes


def _row(cluster: str, piece: SliceSeen, devices: SliceDevices, now: datetime) -> ObservedSlice:
    return ObservedSlice(
        cluster_id=cluster,
        name=piece.name,
        node=devices.node,
        has_channel=piece.has_channel,
        driver=devices.driver,
        pool=devices.pool,
        generation=devices.generation,
        pool_slices=devices.pool_slices,
        kinds=devices.kinds,
        doubt=devices.doubt,
        resource_version=piece.resource_version,
        seen_at=now,
    )


def _write_classes(cluster: str, classes: Sequence[ClassSeen], now: datetime) -> None:
    present = {change.name: change for change in classes if change.device_class and not change.absent}
    gone = [change.name for change in classes if change.name not in present]
    ObservedDeviceClass.objects.filter(cluster_id=cluster, name__in=gone).delete()
    ObservedDeviceClass.objects.bulk_create(
        (
            ObservedDeviceClass(
                cluster_id=cluster,
                name=name,
                resource=change.device_class.resource,
                selectors=change.device_class.selectors,
                created=change.device_class.created,
                resource_version=change.resource_version,
                seen_at=now,
            )
            for name, change in present.items()
            if change.device_class
        ),
        update_conflicts=True,
        unique_fields=("cluster", "name"),
        update_fields=("resource", "selectors", "created", "resource_version", "seen_at"),
    )
