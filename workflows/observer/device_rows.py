"""What follows from slices and device classes for nodes.

What a node offers is counted when something of it changes and stands in the node's row, so no reader counts
devices. A class, and a slice that is not one node's, concern every node of the cluster; other slices those of
their pools: a pool that is not whole is not counted on any of its nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef
from django.db.models.fields.json import KeyTextTransform

from pools.models import Node, ObservedResource
from scheduling.nodes.devices import (
    CLASSES,
    NO_DEVICES,
    SLICES,
    DeviceClass,
    NodeDevices,
    SliceDevices,
    devices_of,
)
from workflows.values.amounts import is_zero

_SLICES = ObservedResource.objects.filter(resource=SLICES).alias(
    of_node=KeyTextTransform("node", "reading"), of_pool=KeyTextTransform("pool", "reading")
)
OFFERS_CHANNEL = Exists(
    _SLICES.filter(cluster_id=OuterRef("cluster_id"), of_node=OuterRef("name"), reading__has_channel=True)
)
"""Whether a slice gives a node a channel."""


def note_slices(cluster: str, readings: Sequence[Mapping[str, Any]], now: datetime) -> set[str]:
    """Write which nodes have a channel now; returns those whose devices may differ.

    ``readings`` are of the slices as they are and were.
    """
    nodes = {str(reading["node"]) for reading in readings}
    of_pools = _SLICES.filter(cluster_id=cluster, of_pool__in={str(reading["pool"]) for reading in readings})
    nodes |= {*of_pools.values_list("reading__node", flat=True)}
    changed = Node.objects.alias(offers=OFFERS_CHANNEL).filter(cluster_id=cluster, name__in=nodes)
    changed.exclude(offers_channel=OFFERS_CHANNEL).update(offers_channel=OFFERS_CHANNEL, channel_since=now)
    return nodes


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
    rows = _SLICES.filter(cluster_id=cluster)
    own = rows if names is None else rows.filter(of_node__in=[*names, ""])
    by_node: dict[str, list[SliceDevices]] = defaultdict(list)
    for reading in own.values_list("reading", flat=True):
        by_node[reading["node"]].append(_slice_of(reading))
    shared = by_node.pop("", [])
    if shared:
        everywhere = names or Node.objects.filter(cluster_id=cluster).values_list("name", flat=True)
        by_node = defaultdict(list, {name: [*by_node.get(name, ()), *shared] for name in everywhere})
    if not by_node:
        return {}
    named = ObservedResource.objects.filter(cluster_id=cluster, resource=CLASSES)
    classes = [_class_of(reading) for reading in named.values_list("reading", flat=True)]
    pools = _pools(cluster, (piece for pieces in by_node.values() for piece in pieces))
    return {name: devices_of(pieces, pools=pools, classes=classes) for name, pieces in by_node.items()}


def _pools(cluster: str, slices: Iterable[SliceDevices]) -> dict[tuple[str, str], tuple[int, int]]:
    """The newest generation of each pool of these slices, and how many slices of it are known."""
    rows = _SLICES.filter(cluster_id=cluster, of_pool__in={piece.pool for piece in slices})
    columns = rows.values_list("reading__driver", "reading__pool", "reading__generation")
    counts = Counter((driver, pool, generation) for driver, pool, generation in columns)
    return {(driver, pool): (generation, n) for (driver, pool, generation), n in sorted(counts.items())}


def _slice_of(reading: Mapping[str, Any]) -> SliceDevices:
    kinds = tuple((tuple((key, value) for key, value in pairs), n) for pairs, n in reading["kinds"])
    return SliceDevices(**{**_fields_of(SliceDevices, reading), "kinds": kinds})


def _class_of(reading: Mapping[str, Any]) -> DeviceClass:
    return DeviceClass(**{**_fields_of(DeviceClass, reading), "selectors": tuple(reading["selectors"])})


def _fields_of(kind: type, reading: Mapping[str, Any]) -> dict[str, Any]:
    """What this release reads of a reading: an observer of the next one may write more."""
    return {field.name: reading[field.name] for field in fields(kind) if field.name in reading}
