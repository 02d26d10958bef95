"""Reading the facts about a backend's cluster. Writes nothing and raises nothing about the cluster.

Reviews of rights are sent as creates, and an API server keeps none of them. Nodes come from the observer's
rows, and from the cluster only until the observer has listed them once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from cluster.errors import ClusterError, NotServed
from cluster.interface import ClusterApi, Obj
from cluster.kinds import NODE, RESOURCE_SLICE, Kind
from pools import selectors
from pools.clusters.connect import cluster_for
from pools.clusters.kinds import as_kind
from pools.clusters.probe import PROBE_SECONDS, READ_SECONDS, Probe, probe_cluster
from pools.documents.backend import queues_of, shard_of
from pools.models import Backend, Pool
from pools.pod_templates.applied import node_selection
from pools.preflight.checks import CHANNEL_CLASS
from pools.preflight.documents import read_document
from pools.preflight.facts import CheckedPool, ClusterFacts
from pools.preflight.rights import COMMANDS, COMMON, GANGS, PORTS, QUEUES, Right
from pools.values.completeness import NODES, Completeness
from scheduling.backends.base import ObjectQuery
from scheduling.backends.facets import SchedulerBackend
from scheduling.backends.registry import installed
from scheduling.kubernetes_syntax import GPU, selects
from scheduling.nodes.channels import CHANNEL_DRIVER, node_with_channel
from scheduling.preflight import Observed, Reading, Unread

T = TypeVar("T")

ACCESS_REVIEW = Kind(
    "SelfSubjectAccessReview", "authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False
)
SELF_REVIEW = Kind("SelfSubjectReview", "authentication.k8s.io", "v1", "selfsubjectreviews", namespaced=False)
DEVICE_CLASS = Kind("DeviceClass", "resource.k8s.io", "v1", "deviceclasses", namespaced=False)


def read_cluster(backend: Backend, *, seconds: float = PROBE_SECONDS) -> ClusterFacts:
    """Read the facts; no call begins later than ``seconds`` from now."""
    cluster = cluster_for(backend, read_seconds=READ_SECONDS, seconds=seconds)
    scheduler = installed().get(backend.scheduler_type)
    probe = _probe(cluster, backend, scheduler)
    silent = Unread(probe.problem) if probe.problem else None

    def read(fact: Callable[[], T]) -> Reading[T]:
        return _read(silent, fact)

    return ClusterFacts(
        backend=backend.name,
        namespace=backend.namespace,
        scheduler=scheduler,
        scheduler_type=backend.scheduler_type,
        scheduler_name=backend.scheduler_name,
        shard=next(iter(shard_of(backend).values()), ""),
        probe=probe,
        username=read(lambda: _username(cluster)),
        rights=read(lambda: _rights(cluster, backend)),
        device_class=read(lambda: cluster.get(DEVICE_CLASS, CHANNEL_CLASS) is not None),
        channels=read(lambda: _channels(cluster)),
        pools=_read(None, lambda: _pools(cluster, backend)),
        installed=_installed(cluster, scheduler, silent),
        clock=read(lambda: _clock(cluster)),
    )


def _read(silent: Unread | None, fact: Callable[[], T]) -> Reading[T]:
    if silent:
        return silent
    try:
        return fact()
    except ClusterError as error:
        return Unread(str(error).rstrip("."), is_served=not isinstance(error, NotServed))


def _probe(cluster: ClusterApi, backend: Backend, scheduler: SchedulerBackend | None) -> Probe:
    if scheduler is None:  # its package was taken away
        version = _read(None, cluster.server_version)
        return (
            Probe(problem=version.reason)
            if isinstance(version, Unread)
            else Probe(kubernetes_version=version)
        )
    installation = selectors.installation()
    return probe_cluster(cluster, scheduler, namespace=backend.namespace, installation=installation)


def _username(cluster: ClusterApi) -> str:
    review = cluster.create(SELF_REVIEW, {})
    return str(((review.get("status") or {}).get("userInfo") or {}).get("username") or "")


def _rights(cluster: ClusterApi, backend: Backend) -> dict[Right, bool]:
    rights = COMMON.union(*_rights_of_roles(backend))
    return {right: _is_granted(cluster, right, backend.namespace) for right in sorted(rights)}


def _rights_of_roles(backend: Backend) -> Iterator[Iterable[Right]]:
    """Those that only some backends need, as far as this one does."""
    pools = Pool.objects.filter(backend=backend)
    if queues_of(backend).own:
        yield QUEUES.rights()
    if pools.filter(allow_exec=True).exists():
        yield COMMANDS.rights()
    if pools.filter(allow_port_forward=True).exists():
        yield PORTS.rights()
    scheduler = installed().get(backend.scheduler_type)
    if backend.follow_others and scheduler is not None and scheduler.foreign is not None:
        groups = {"", *(as_kind(kind).group for kind in scheduler.foreign.kinds)}
        yield (right for right in GANGS.rights() if right.group in groups)


def _is_granted(cluster: ClusterApi, right: Right, namespace: str) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name or (namespace if resource == "namespaces" else ""),
        "namespace": namespace if right.in_namespace else "",
    }
    review = cluster.create(ACCESS_REVIEW, {"spec": {"resourceAttributes": attributes}})
    return bool((review.get("status") or {}).get("allowed"))


def _channels(cluster: ClusterApi) -> frozenset[str]:
    """The nodes with a ResourceSlice that has a channel."""
    selector = f"spec.driver={CHANNEL_DRIVER}"
    slices = cluster.scan(RESOURCE_SLICE, node_with_channel, field_selector=selector)
    return frozenset(node for node in slices.items if node)


def _clock(cluster: ClusterApi) -> float:
    """The API server's time less ours; the request's duration is divided between both ways."""
    before = datetime.now(UTC)
    server = cluster.server_time()
    return (server - before - (datetime.now(UTC) - before) / 2).total_seconds()


def _installed(cluster: ClusterApi, scheduler: SchedulerBackend | None, silent: Unread | None) -> Observed:
    if scheduler is None or scheduler.installation is None:
        return {}
    queries = scheduler.installation.installation_queries
    return {query.key: _read(silent, partial(_observed, cluster, query)) for query in queries}


def _observed(cluster: ClusterApi, query: ObjectQuery) -> Reading[tuple[Obj, ...]]:
    objects = _objects(cluster, query)
    if not query.document:
        return objects
    documents = [read_document(obj, query.document) for obj in objects]
    unread = next((document for document in documents if isinstance(document, Unread)), None)
    return unread or tuple(document for document in documents if not isinstance(document, Unread))


def _objects(cluster: ClusterApi, query: ObjectQuery) -> tuple[Obj, ...]:
    kind = as_kind(query.resource)
    if query.name:
        obj = cluster.get(kind, query.name, namespace=query.namespace)
        return () if obj is None else (obj,)
    return cluster.list(kind, namespace=query.namespace).items


def _pools(cluster: ClusterApi, backend: Backend) -> tuple[CheckedPool, ...]:
    rows = Pool.objects.filter(backend=backend).prefetch_related("topology_keys").order_by("name")
    entries = backend.cluster.completeness if backend.cluster else {}
    pools = list(rows.select_related("backend"))
    if Completeness.of(entries, NODES).is_known or not pools:
        return tuple(map(_observed_pool, pools))
    nodes = cluster.scan(NODE, _node).items
    return tuple(_listed_pool(pool, nodes) for pool in pools)


_Node = tuple[str, Mapping[str, str], Mapping[str, str]]


def _node(obj: Obj) -> _Node:
    metadata = obj["metadata"]
    return metadata["name"], metadata.get("labels") or {}, (obj.get("status") or {}).get("allocatable") or {}


def _observed_pool(pool: Pool) -> CheckedPool:
    nodes = selectors.pool_nodes(pool)
    return CheckedPool(
        name=pool.name,
        nvlink=pool.nvlink,
        levels=selectors.pool_levels(pool),
        nodes=nodes.count(),
        labels={name: label.nodes for name, label in selectors.label_counts(pool).items()},
        gpu_nodes=_with_gpus(nodes.values_list("name", "allocatable")) if pool.nvlink else frozenset(),
    )


def _listed_pool(pool: Pool, nodes: Iterable[_Node]) -> CheckedPool:
    members = [node for node in nodes if selects(node_selection(pool), node[1])]
    return CheckedPool(
        name=pool.name,
        nvlink=pool.nvlink,
        levels=selectors.pool_levels(pool),
        nodes=len(members),
        labels=Counter(label for _, labels, _ in members for label in labels),
        gpu_nodes=_with_gpus((name, allocatable) for name, _, allocatable in members),
    )


def _with_gpus(nodes: Iterable[tuple[str, Mapping[str, str]]]) -> frozenset[str]:
    return frozenset(name for name, allocatable in nodes if str(allocatable.get(GPU, "0")) != "0")
