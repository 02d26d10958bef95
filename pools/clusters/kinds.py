"""The kinds of objects that scheduler backends bring, as the cluster edge takes them.

``cluster.kinds`` lists what the service itself handles. The other kinds of a scheduler (pod groups, queues,
topologies) are known to its scheduler backend alone, so every place that watches, makes or sweeps such
objects asks here, and one that a package adds is followed like the built-in ones.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cluster import kinds
from cluster.kinds import PRIORITY_CLASS, Kind
from scheduling.backends.base import ResourceKind
from scheduling.backends.facets import JoinedQueues, SchedulerBackend
from scheduling.backends.registry import installed
from scheduling.capabilities import Capability, SchedulerVersion


def as_kind(resource: ResourceKind) -> Kind:
    group, _, version = resource.api_version.rpartition("/")
    return Kind(resource.kind, group, version, resource.plural, resource.namespaced)


def pod_group_kind(scheduler: SchedulerBackend) -> Kind | None:
    """The kind of a scheduler's pod groups; None if it has none."""
    return as_kind(scheduler.pod_group) if scheduler.pod_group else None


def pod_group_kinds() -> tuple[Kind, ...]:
    """Of all schedulers."""
    pod_groups = {kind for scheduler in installed().values() if (kind := pod_group_kind(scheduler))}
    return tuple(sorted(pod_groups, key=_api))


def parent_kinds(scheduler_type: str, version: str) -> tuple[Kind, ...]:
    """The kinds of what may stand above a scheduler's pod groups, in order of creation.

    There is none at a version that does not hold several sets as one gang; ``version`` empty: not known.
    """
    scheduler = installed().get(scheduler_type)
    if scheduler is None:
        return ()
    capabilities = scheduler.rendering.capabilities(SchedulerVersion.parse_known(version))
    return tuple(map(as_kind, scheduler.parents)) if Capability.GANG_MULTI_SET in capabilities else ()


def gang_kinds() -> tuple[Kind, ...]:
    """The kinds of pod groups and of what stands above them, of all schedulers, in order of deletion."""
    parents = [as_kind(kind) for scheduler in installed().values() for kind in reversed(scheduler.parents)]
    return (*pod_group_kinds(), *parents)


def scheduler_pool_kinds() -> tuple[Kind, ...]:
    """Kinds of the objects that schedulers need for pools, of all schedulers."""
    resources = {
        as_kind(resource) for scheduler in installed().values() for resource in scheduler.rendering.pool_kinds
    }
    return tuple(sorted(resources, key=_api))


def pool_kinds() -> tuple[Kind, ...]:
    """Kinds of the objects that pools need: priority classes, and those of all schedulers."""
    return (PRIORITY_CLASS, *scheduler_pool_kinds())


def owned_kinds() -> tuple[Kind, ...]:
    """Kinds of the queues that the service makes where a backend asks for it; each after those that it names.

    A cluster of whose backends none ever did is not read for them, and needs no right to.
    """
    return tuple(as_kind(kind) for queues in _joined_queues() for kind in queues.owned_kinds)


def _joined_queues() -> Iterator[JoinedQueues]:
    return (scheduler.joined_queues for scheduler in installed().values() if scheduler.joined_queues)


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """The kind of an object by its ``apiVersion`` and ``kind``. Raises ValueError for an unknown one."""
    for resource in _scheduler_kinds():
        if _is_of(resource, manifest):
            return as_kind(resource)
    return kinds.kind_of(manifest)


def parent_of(pool_object: Mapping[str, Any]) -> str:
    """The object of the same kind that this one stands below, as its scheduler says; empty for none."""
    for scheduler in installed().values():
        if any(_is_of(resource, pool_object) for resource in scheduler.rendering.pool_kinds):
            return scheduler.rendering.above(pool_object)
    return ""


def children_of(pool_object: Mapping[str, Any]) -> tuple[str, ...]:
    """The objects of the same kind that stand below this one, as its status has them."""
    for scheduler in installed().values():
        if scheduler.queues and any(_is_of(kind, pool_object) for kind in scheduler.rendering.pool_kinds):
            return scheduler.queues.children_of(pool_object)
    return ()


def leads_to(pool_object: Mapping[str, Any]) -> tuple[tuple[Kind, str], ...]:
    """The objects that this one names and cannot be without: its parent, or what a queue of ours leads to."""
    if queues := _owning(pool_object):
        return tuple((as_kind(kind), name) for kind, name in queues.leads_to(pool_object) if name)
    parent = parent_of(pool_object)
    return ((kind_of(pool_object), parent),) if parent else ()


def removable_fields(pool_object: Mapping[str, Any]) -> tuple[str, ...]:
    """Fields of its spec that are ours also where they are not set."""
    if queues := _owning(pool_object):
        return queues.removable_in(pool_object)
    for scheduler in installed().values():
        if scheduler.queues and _is_of(scheduler.queues.queue, pool_object):
            return scheduler.queues.removable
    return ()


def whole_fields(pool_object: Mapping[str, Any]) -> tuple[str, ...]:
    """Fields of its spec to which nobody may add anything."""
    queues = _owning(pool_object)
    return queues.whole_fields if queues else ()


def _owning(pool_object: Mapping[str, Any]) -> JoinedQueues | None:
    """The queues of the service's own of which this is one, or something that they lead to."""
    owning = (q for q in _joined_queues() if any(_is_of(kind, pool_object) for kind in q.owned_kinds))
    return next(owning, None)


def topology_labels(manifest: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The node labels that a scheduler's topology object lists, broadest first; None for another kind."""
    for scheduler in installed().values():
        topologies = scheduler.topologies
        if topologies and scheduler.owns_topologies and _is_of(topologies.kind, manifest):
            return topologies.levels_in(manifest)
    return None


def _scheduler_kinds() -> Iterator[ResourceKind]:
    for scheduler in installed().values():
        if scheduler.pod_group:
            yield scheduler.pod_group
        yield from scheduler.parents
        yield from scheduler.rendering.pool_kinds
    for queues in _joined_queues():
        yield from queues.owned_kinds


def _is_of(resource: ResourceKind, manifest: Mapping[str, Any]) -> bool:
    return manifest.get("kind") == resource.kind and manifest.get("apiVersion") == resource.api_version


def _api(kind: Kind) -> tuple[str, str]:
    return kind.api_version, kind.name
