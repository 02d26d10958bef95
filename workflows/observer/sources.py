"""What to follow of a cluster, from the rows of its backends and groups.

Pods, pod groups, ComputeDomains, their claim templates and events in each namespace that has or had groups;
nodes once, other tenants' pods on them, and the topology objects and queues of its schedulers with what
queues lead to, whoever made them; the slices of its nodes' devices and the classes of devices that name a
resource. Backends of one cluster share all of it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from cluster.errors import ClusterError, NotServed, RequestForbidden
from cluster.kinds import (
    COMPUTE_DOMAIN,
    DEVICE_CLASS,
    EVENT,
    NODE,
    POD,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    Kind,
)
from pools.clusters.kinds import as_kind, parent_kinds, pod_group_kind
from pools.documents.backend import version_of
from pools.models import (
    Backend,
    ForeignUsage,
    Installation,
    Node,
    ObservedResource,
)
from scheduling import names
from scheduling.backends.facets import BoundedQueues, JoinedQueues, SchedulerBackend, TopologyObjects
from scheduling.backends.registry import installed
from scheduling.nodes.devices import CLASSES, SLICES
from workflows.models import ObservedObject, ObservedPod, TaskGroup
from workflows.observer.foreign_usage import BOUND, ForeignUsageSums, see_foreign_pod
from workflows.observer.gang_streams import gang_sources
from workflows.observer.inbox import Observation
from workflows.observer.streams import Reduce, Source
from workflows.observer.waiting_gangs import WaitingGangs
from workflows.values.observation import (
    DOMAIN_LABEL,
    POD_GROUP,
    ForeignUsageSeen,
    NodeSeen,
    ObjectSeen,
    PodSeen,
    ResourceSeen,
    see_claim_template,
    see_class,
    see_compute_domain,
    see_event,
    see_joined,
    see_node,
    see_parent,
    see_pod,
    see_pod_group,
    see_queue,
    see_slice,
    see_topology,
)

FOREIGN_STREAMS = 2
REFUSALS = (RequestForbidden, NotServed)


@dataclass(frozen=True, slots=True)
class Followed:
    """A cluster to follow, through one of its backends."""

    uid: str
    backend: Backend
    namespaces: frozenset[str]
    schedulers: tuple[SchedulerBackend, ...]
    parents: frozenset[tuple[str, Kind]] = frozenset()
    """The namespaces in which objects of a kind may stand above pod groups."""
    others: tuple[SchedulerBackend, ...] = ()
    """The schedulers whose gangs of others are followed."""


def clusters_to_follow() -> list[Followed]:
    """Every cluster of a backend that lives or still has groups there."""
    rows = Backend.objects.filter(cluster__isnull=False, cleaned_at=None).order_by("deleted_at", "pk")
    by_uid: dict[str, list[Backend]] = {}
    for backend in rows:
        by_uid.setdefault(str(backend.cluster_id), []).append(backend)
    return [_followed(uid, backends) for uid, backends in by_uid.items()]


def _followed(uid: str, backends: list[Backend]) -> Followed:
    living = [backend for backend in backends if backend.deleted_at is None]
    groups = TaskGroup.objects.filter(backend__in=backends, released_at=None).order_by()
    columns = ("placement__namespace", "placement__scheduler_type", "placement__scheduler_version")
    rows = groups.values_list(*columns).distinct()
    frozen = {(str(namespace), str(kind), version or "") for namespace, kind, version in rows}
    now = {(backend.namespace, backend.scheduler_type, version_of(backend)) for backend in living}
    named = sorted({kind for _, kind, _ in frozen | now})
    return Followed(
        uid,
        (living or backends)[0],
        frozenset(namespace for namespace, _, _ in frozen | now),
        tuple(scheduler for name in named if (scheduler := installed().get(name))),
        frozenset(
            (namespace, parent)
            for namespace, kind, version in frozen | now
            for parent in parent_kinds(kind, version)
        ),
        others=tuple(
            scheduler
            for name in sorted({backend.scheduler_type for backend in living if backend.follow_others})
            if (scheduler := installed().get(name)) and scheduler.foreign
        ),
    )


def sources_of(followed: Followed, gangs: WaitingGangs | None = None) -> Iterator[Source]:
    """All streams of a cluster; ``gangs``: the memory of those of others, if they are followed."""
    own_label = f"{names.INSTALLATION_LABEL}={_installation()}"
    uid = followed.uid

    def source(
        kind: Kind,
        reduce: Reduce,
        recorded: Callable[[], Iterable[Observation]],
        *,
        namespace: str = "",
        label: str = "",
        resource: str = "",
        lost_after: tuple[type[ClusterError], ...] = (),
    ) -> Source:
        return Source(
            cluster_uid=uid,
            kind=kind,
            namespace=namespace,
            label_selector=label,
            reduce=reduce,
            recorded=recorded,
            resource=resource,
            lost_after=lost_after,
        )

    yield source(NODE, see_node, partial(_recorded_nodes, uid))
    yield from _foreign_sources(followed, own_label)
    if gangs is not None:
        yield from gang_sources(uid, own_label, gangs)
    for topologies in _topologies(followed):
        resource = topologies.kind.crd
        yield source(
            as_kind(topologies.kind),
            partial(see_topology, topologies),
            partial(_recorded_resources, uid, resource),
            resource=resource,
        )
    for joined in _joined_queues(followed):
        for resource_kind in joined.joined_kinds:
            yield source(
                as_kind(resource_kind),
                partial(see_joined, joined, resource_kind),
                partial(_recorded_resources, uid, resource_kind.crd),
                resource=resource_kind.crd,
            )
    for queues in _bounded_queues(followed):
        resource = queues.queue.crd
        yield source(
            as_kind(queues.queue),
            partial(see_queue, queues),
            partial(_recorded_resources, uid, resource),
            resource=resource,
            lost_after=REFUSALS,
        )
    # any cut loses slices, because something follows from what is not there
    slices, classes = partial(_recorded_resources, uid, SLICES), partial(_recorded_resources, uid, CLASSES)
    yield source(RESOURCE_SLICE, see_slice, slices, resource=SLICES, lost_after=(ClusterError,))
    yield source(DEVICE_CLASS, see_class, classes, resource=CLASSES, lost_after=REFUSALS)
    for namespace in sorted(followed.namespaces):
        objects = partial(_recorded_objects, uid, namespace)
        yield source(
            POD, see_pod, partial(_recorded_pods, uid, namespace), namespace=namespace, label=own_label
        )
        yield source(
            COMPUTE_DOMAIN,
            see_compute_domain,
            partial(objects, COMPUTE_DOMAIN),
            namespace=namespace,
            label=own_label,
        )
        yield source(
            RESOURCE_CLAIM_TEMPLATE,
            see_claim_template,
            partial(objects, RESOURCE_CLAIM_TEMPLATE),
            namespace=namespace,
            label=DOMAIN_LABEL,
        )
        for scheduler in followed.schedulers:
            if kind := pod_group_kind(scheduler):
                recorded = partial(_recorded_pod_groups, uid, namespace, kind)
                yield source(
                    kind, pod_group_reducer(scheduler), recorded, namespace=namespace, label=own_label
                )
        yield source(EVENT, event_reducer(followed.schedulers), list, namespace=namespace)
    yield from _parent_sources(followed, own_label)


def _parent_sources(followed: Followed, own_label: str) -> Iterator[Source]:
    """What stands above pod groups."""
    for namespace, kind in sorted(followed.parents, key=str):
        yield Source(
            cluster_uid=followed.uid,
            kind=kind,
            namespace=namespace,
            label_selector=own_label,
            reduce=partial(see_parent, kind.name),
            recorded=partial(_recorded_objects, followed.uid, namespace, kind),
        )


def _foreign_sources(followed: Followed, own_label: str) -> Iterator[Source]:
    """Other tenants' pods: those without our label, and those with it where we have none."""
    elsewhere = [f"metadata.namespace!={namespace}" for namespace in sorted(followed.namespaces)]
    selectors = {own_label.replace("=", "!="): BOUND, own_label: ",".join((BOUND, *elsewhere))}
    for label_selector, field_selector in selectors.items():
        yield Source(
            cluster_uid=followed.uid,
            kind=POD,
            namespace="",
            label_selector=label_selector,
            field_selector=field_selector,
            reduce=see_foreign_pod,
            recorded=list,
            foreign=True,
        )


def pod_group_reducer(scheduler: SchedulerBackend) -> Reduce:
    """What is kept of a scheduler's pod groups: what its backend reads."""
    kind = pod_group_kind(scheduler)
    api = kind.api_version if kind else ""
    return partial(see_pod_group, api=api, read_back=scheduler.read_back)


def event_reducer(schedulers: Iterable[SchedulerBackend]) -> Reduce:
    """Events on pods, ComputeDomains and the pod groups of these schedulers."""
    schedulers = tuple(schedulers)
    pod_groups = {scheduler.pod_group.kind for scheduler in schedulers if scheduler.pod_group}
    annotations = {scheduler.read_back.event_annotation for scheduler in schedulers} - {""}
    kinds = {POD.name, COMPUTE_DOMAIN.name, *pod_groups}
    return partial(see_event, kinds=kinds, annotations=sorted(annotations))


def _topologies(followed: Followed) -> list[TopologyObjects]:
    """The kinds of topology objects in the cluster."""
    facets = [scheduler.topologies for scheduler in followed.schedulers if scheduler.topologies]
    return list({topologies.kind.crd: topologies for topologies in facets}.values())


def _joined_queues(followed: Followed) -> list[JoinedQueues]:
    """The kinds of queues of somebody else's in the cluster."""
    facets = [scheduler.joined_queues for scheduler in followed.schedulers if scheduler.joined_queues]
    return list({queues.joined_kinds: queues for queues in facets}.values())


def _bounded_queues(followed: Followed) -> list[BoundedQueues]:
    """The kinds of queues with bounds in the cluster."""
    facets = [scheduler.queues for scheduler in followed.schedulers if scheduler.queues]
    return list({queues.queue.crd: queues for queues in facets}.values())


def _installation() -> str:
    row, _ = Installation.objects.get_or_create(singleton=True)
    return row.uuid.hex


def _recorded_nodes(uid: str) -> list[Observation]:
    rows = Node.objects.filter(cluster_id=uid).values_list("name", "uid")
    return [
        NodeSeen(name=name, uid=node, labels={}, taints=(), allocatable={}, unschedulable=False, ready=False)
        for name, node in rows
    ]


def foreign_usage_sums(uid: str) -> ForeignUsageSums:
    """The sums for the streams of other tenants' pods, beginning with what the rows have."""
    return ForeignUsageSums(_recorded_foreign_usage(uid), streams=FOREIGN_STREAMS)


def _recorded_foreign_usage(uid: str) -> list[ForeignUsageSeen]:
    rows = ForeignUsage.objects.filter(cluster_id=uid)
    return [
        ForeignUsageSeen(node=node, amounts=(gpu, cpu, memory, storage, pods), shares=shares)
        for node, gpu, cpu, memory, storage, pods, shares in rows.values_list(
            "node", "gpu", "cpu", "memory", "storage", "pods", "shares"
        )
    ]


def _recorded_resources(uid: str, resource: str) -> list[Observation]:
    rows = ObservedResource.objects.filter(cluster_id=uid, resource=resource)
    return [
        ResourceSeen(resource=resource, name=name, uid=object_uid)
        for name, object_uid in rows.values_list("name", "uid")
    ]


def _recorded_pods(uid: str, namespace: str) -> list[Observation]:
    rows = ObservedPod.objects.filter(cluster_id=uid, namespace=namespace, absent=False)
    return [
        PodSeen(namespace=namespace, name=name, uid=pod, group_uuid=group, phase=phase)
        for name, pod, group, phase in rows.values_list("name", "uid", "group_uuid", "phase")
    ]


def _recorded_pod_groups(uid: str, namespace: str, kind: Kind) -> list[Observation]:
    """Pod groups of this API alone: those of another scheduler in this namespace are not in its lists."""
    rows = ObservedObject.objects.filter(
        cluster_id=uid, namespace=namespace, kind=POD_GROUP, digest__api=kind.api_version
    )
    return [
        ObjectSeen(kind=POD_GROUP, namespace=namespace, name=name, uid=object_uid, group_uuid=group)
        for name, object_uid, group in rows.values_list("name", "uid", "group_uuid")
    ]


def _recorded_objects(uid: str, namespace: str, kind: Kind) -> list[Observation]:
    rows = ObservedObject.objects.filter(cluster_id=uid, namespace=namespace, kind=kind.name)
    return [
        ObjectSeen(kind=kind.name, namespace=namespace, name=name, uid=object_uid, group_uuid=group)
        for name, object_uid, group in rows.values_list("name", "uid", "group_uuid")
    ]
