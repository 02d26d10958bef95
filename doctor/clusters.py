"""The clusters as they are: everything with our installation's label, listed live. Writes nothing.

Lists run over all namespaces where that is allowed, else over those that backends and groups name. A cluster
that cannot be listed completely is left out and named: an object that was not listed never counts as gone.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from uuid import UUID

from cluster.errors import ClusterError, NotServed, RequestForbidden
from cluster.interface import ClusterApi, Obj
from cluster.kinds import (
    COMPUTE_DOMAIN,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    SECRET,
    SERVICE,
    Kind,
)
from doctor.facts import ClusterObject, ObservedCluster, UnreadCluster
from pools.clusters.connect import cluster_for
from pools.clusters.kinds import (
    gang_kinds,
    leads_to,
    owned_kinds,
    pod_group_kinds,
    scheduler_pool_kinds,
    topology_labels,
)
from pools.models import Backend
from pools.services.sync import asked_for_queues
from scheduling import names
from web.times import read_instant
from workflows.manifests.labels import RETRY, TASK
from workflows.models import TaskGroup
from workflows.services.steps import database_now
from workflows.values.observation import DOMAIN_LABEL, group_of

MADE_BY_OTHERS = (RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE)


def _backends(name: str) -> Sequence[Backend]:
    rows = Backend.objects.filter(cleaned_at=None).order_by("deleted_at", "pk")
    return list(rows.filter(name=name) if name else rows)


def cluster_uids(backend: str) -> list[str]:
    """The clusters that backends of this name lead to; of all backends for an empty name."""
    return [str(row.cluster_id) for row in _backends(backend) if row.cluster_id]


def list_clusters(backend: str, *, installation: UUID) -> tuple[list[ObservedCluster], list[UnreadCluster]]:
    """List each cluster once, through the first of its backends that can; ``backend`` limits it to one."""
    observed: dict[str, ObservedCluster] = {}
    failures: list[tuple[str, UnreadCluster]] = []
    for row in _backends(backend):
        uid = str(row.cluster_id or "")
        if uid in observed:
            continue
        if not uid and not TaskGroup.objects.filter(backend=row, touched_cluster=True).exists():
            continue  # never reached, so it has no object of ours
        try:
            cluster = cluster_for(row)
            actual = cluster.kube_system_uid()
            if uid and actual != uid:
                reason = f"its address leads to cluster {actual}, not {uid}"
                failures.append((uid, UnreadCluster(backend=row.name, reason=reason)))
            elif actual not in observed:
                observed[actual] = list_cluster(
                    cluster, uid=actual, backend=row.name, installation=installation
                )
        except ClusterError as error:
            failures.append((uid, UnreadCluster(backend=row.name, reason=str(error))))
    return list(observed.values()), [unread for uid, unread in failures if uid not in observed]


def list_cluster(cluster: ClusterApi, *, uid: str, backend: str, installation: UUID) -> ObservedCluster:
    """List everything with our label. Raises ClusterError."""
    listed_at = database_now()
    label = f"{names.INSTALLATION_LABEL}={installation.hex}"
    objects: list[ClusterObject] = []
    unserved = set()
    queues = _queues(cluster, uid, label) if asked_for_queues(uid) else None
    objects += queues or ()
    for kind in _kinds():
        try:
            objects += _scan(cluster, kind, uid, label)
        except NotServed:
            if not kind.group:  # every cluster serves core kinds: something in between answered
                raise
            unserved.add(str(kind))
    for kind in MADE_BY_OTHERS:
        try:
            objects += [obj for obj in _scan(cluster, kind, uid, "") if obj.pod or obj.group]
        except NotServed:
            unserved.add(str(kind))
    return ObservedCluster(
        uid=uid,
        backend=backend,
        listed_at=listed_at,
        objects=tuple(objects),
        unserved=frozenset(unserved),
        unread_queues=queues is None,
    )


def _queues(cluster: ClusterApi, uid: str, label: str) -> list[ClusterObject] | None:
    """The queues that the service makes, and what they lead to; None where these may not be listed."""
    try:
        return [obj for kind in owned_kinds() for obj in _scan(cluster, kind, uid, label)]
    except (NotServed, RequestForbidden):  # condition Synced says so
        return None


def _kinds() -> tuple[Kind, ...]:
    """The kinds that this product creates, those of all scheduler backends included; pods first."""
    return (POD, *gang_kinds(), SERVICE, SECRET, COMPUTE_DOMAIN, *scheduler_pool_kinds())


def _scan(cluster: ClusterApi, kind: Kind, uid: str, label: str) -> Iterator[ClusterObject]:
    scan = partial(
        cluster.scan,
        kind,
        partial(_cluster_object, kind),
        label_selector=label,
        metadata_only=kind == SECRET,  # nothing is read in its contents
    )
    try:
        objects = scan().items
    except RequestForbidden:
        if not kind.namespaced:
            raise
        objects = ()
        for namespace in _namespaces(uid):
            objects += scan(namespace=namespace).items
    return (obj for obj in objects if obj is not None)


def _namespaces(uid: str) -> list[str]:
    """Where backends of this cluster create objects, and where their unreleased groups do."""
    backends = Backend.objects.filter(cluster_id=uid, cleaned_at=None)
    frozen = TaskGroup.objects.filter(backend__in=backends, released_at=None).order_by()
    group_namespaces = set(frozen.values_list("placement__namespace", flat=True).distinct())
    return sorted(group_namespaces | set(backends.values_list("namespace", flat=True)))


def _cluster_object(kind: Kind, obj: Obj) -> ClusterObject | None:
    """Reduce an object; None for one that belongs to other tenants."""
    metadata, labels = obj["metadata"], obj["metadata"].get("labels") or {}
    if kind == RESOURCE_CLAIM_TEMPLATE and DOMAIN_LABEL not in labels:
        return None
    is_queue = kind in owned_kinds()
    shared = is_queue or kind in scheduler_pool_kinds()
    return ClusterObject(
        api=str(kind),
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        group=None if kind == RESOURCE_CLAIM else group_of(metadata),
        created=read_instant(metadata.get("creationTimestamp")),
        deleting_since=read_instant(metadata.get("deletionTimestamp")),
        task=labels.get(TASK, "") if kind == POD else "",
        retry=labels.get(RETRY, "") if kind == POD else "",
        phase=str((obj.get("status") or {}).get("phase") or "Pending") if kind == POD else "",
        node=str((obj.get("spec") or {}).get("nodeName") or "") if kind == POD else "",
        is_pod_group=kind in pod_group_kinds(),
        is_shared=shared,
        leads_to=tuple((str(named), name) for named, name in leads_to(obj)) if shared else (),
        levels=None if is_queue else topology_labels(obj),
        spec=obj.get("spec") or {} if is_queue else None,
        pod=_owner(metadata) if kind == RESOURCE_CLAIM else "",
    )


def _owner(metadata: Obj) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((str(owner["name"]) for owner in owners if owner.get("kind") == "Pod"), "")
