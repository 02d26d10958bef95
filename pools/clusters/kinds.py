"""The kinds of objects that scheduler backends bring, as the cluster edge takes them.

``cluster.kinds`` lists what the service itself handles. What a scheduler has besides (pod groups, queues,
topologies) is known to its scheduler backend alone, so every place that watches, makes or sweeps such
objects asks here, and one that a package adds is followed like the built-in ones.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cluster import kinds
from cluster.kinds import PRIORITY_CLASS, Kind
from scheduling.backends.base import ResourceKind, SchedulerBackend
from scheduling.backends.registry import installed


def as_kind(resource: ResourceKind) -> Kind:
    group, _, version = resource.api_version.rpartition("/")
    return Kind(resource.kind, group, version, resource.plural, resource.namespaced)


def pod_group_kind(scheduler: SchedulerBackend) -> Kind | None:
    """The kind of a scheduler's pod groups; None for one that has none."""
    return as_kind(scheduler.pod_group) if scheduler.pod_group else None


def pod_group_kinds() -> tuple[Kind, ...]:
    """Of all schedulers."""
    found = {kind for scheduler in installed().values() if (kind := pod_group_kind(scheduler))}
    return tuple(sorted(found, key=_api))


def pool_kinds() -> tuple[Kind, ...]:
    """Kinds of the objects that pools need, of all schedulers."""
    found = {as_kind(one) for scheduler in installed().values() for one in scheduler.pool_kinds}
    return (PRIORITY_CLASS, *sorted(found, key=_api))


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """The kind of an object by its ``apiVersion`` and ``kind``. Raises ValueError for one nobody knows."""
    asked = (str(manifest.get("apiVersion")), str(manifest.get("kind")))
    for resource in _brought():
        if (resource.api_version, resource.kind) == asked:
            return as_kind(resource)
    return kinds.kind_of(manifest)


def _brought() -> Iterator[ResourceKind]:
    for scheduler in installed().values():
        if scheduler.pod_group:
            yield scheduler.pod_group
        yield from scheduler.pool_kinds


def _api(kind: Kind) -> tuple[str, str]:
    return kind.api_version, kind.name
