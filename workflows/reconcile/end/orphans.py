"""Orphans: objects of ours in a cluster that no row desires. The last safety net.

Causes are a create that landed after its lease had ended, and a manifest copied by hand. A database that was
put back to yesterday knows too little to sweep, and its deletes are refused (``pools.clusters.guard``). An
object that has our installation's label and names a group that is unknown, released or at home elsewhere is
deleted after a grace, pods first and the ComputeDomain only when no pod of its group is left. Objects of
other installations, and ours that belong to no group (queues, topologies), stay.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from django.db import connection

from cluster.errors import (
    ClusterError,
    ClusterUnreachable,
    NotServed,
    RequestForbidden,
    WritesSuspended,
    WritesUnconfirmed,
)
from cluster.interface import ClusterApi, Obj, serves
from cluster.kinds import COMPUTE_DOMAIN, POD, SECRET, SERVICE, Kind
from pools.clusters.kinds import gang_kinds
from pools.models import Backend, Installation
from scheduling import names
from web.times import read_instant
from workflows.homes import homes_of
from workflows.metrics import ORPHANS_FOUND
from workflows.models import TaskGroup
from workflows.services.steps import database_now

GRACE = timedelta(minutes=2)

_NEXT_NAMESPACE = """
    SELECT placement->>'namespace' FROM workflows_taskgroup
     WHERE backend_id = %s AND placement->>'namespace' > %s ORDER BY placement->>'namespace' LIMIT 1
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Orphan:
    kind: Kind
    namespace: str
    name: str
    uid: str
    group: UUID | None
    created: datetime | None
    deleting: bool


def kinds_to_sweep() -> tuple[Kind, ...]:
    """The kinds of objects that groups have, in order of deletion."""
    return (POD, *gang_kinds(), SERVICE, SECRET, COMPUTE_DOMAIN)


def namespaces_of(cluster_uid: str) -> set[str]:
    """The namespaces in which groups of this cluster have or had objects.

    Each is one step of an index, so it does not matter how many groups there ever were.
    """
    backends = list(Backend.objects.filter(cluster_id=cluster_uid).values_list("pk", "namespace"))
    namespaces = {namespace for _, namespace in backends}
    with connection.cursor() as cursor:
        for backend_id, _ in backends:
            after = ""
            while True:
                cursor.execute(_NEXT_NAMESPACE, [backend_id, after])
                row = cursor.fetchone()
                if row is None:
                    break
                after = row[0]
                namespaces.add(after)
    return namespaces


def sweep(cluster: ClusterApi, *, uid: str, namespaces: Iterable[str]) -> int:
    """Delete the orphans in these namespaces of cluster ``uid``; returns how many deletes were sent.

    A namespace that cannot be listed whole is left alone, and a delete that is refused stops no other one.
    Raises ClusterUnreachable, and WritesSuspended or WritesUnconfirmed once the other namespaces are swept.
    """
    installation = Installation.objects.values_list("uuid", flat=True).first()
    if installation is None:
        return 0
    label = f"{names.INSTALLATION_LABEL}={installation.hex},{names.GROUP_LABEL}"
    sent, not_permitted = 0, None
    for namespace in sorted(namespaces):
        try:
            sent += _sweep(cluster, label, uid=uid, namespace=namespace)
        except (WritesSuspended, WritesUnconfirmed) as error:
            not_permitted = error
    if not_permitted is not None:
        raise not_permitted
    return sent


def _sweep(cluster: ClusterApi, label: str, *, uid: str, namespace: str) -> int:
    try:
        labelled = list(_labelled(cluster, namespace, label))
    except ClusterUnreachable:
        raise
    except ClusterError as error:
        log.warning("namespace_not_swept", namespace=namespace, error=str(error))
        return 0
    sent = 0
    for orphan in _deletable(labelled, uid=uid, namespace=namespace, now=database_now()):
        log.warning("orphan_found", kind=str(orphan.kind), name=orphan.name, group=str(orphan.group))
        sent += _delete(cluster, orphan)
    return sent


def _delete(cluster: ClusterApi, orphan: Orphan) -> bool:
    """Delete it; False if the cluster refused."""
    try:
        cluster.delete(orphan.kind, orphan.name, namespace=orphan.namespace, uid=orphan.uid)
    except (ClusterUnreachable, WritesSuspended, WritesUnconfirmed):
        raise
    except ClusterError as error:
        log.warning("orphan_not_deleted", kind=str(orphan.kind), name=orphan.name, error=str(error))
        return False
    ORPHANS_FOUND.labels(str(orphan.kind)).inc()
    return True


def _labelled(cluster: ClusterApi, namespace: str, label: str) -> Iterator[Orphan]:
    for kind in kinds_to_sweep():
        try:
            reduce = partial(_orphan, kind)
            yield from cluster.scan(
                kind, reduce, namespace=namespace, label_selector=label, metadata_only=True
            ).items
        except NotServed:
            if kind == POD:  # every cluster serves pods: the answer came from a proxy
                raise
            continue  # then it has no object of the kind
        except RequestForbidden:  # said before the cluster looks whether it serves the kind
            if kind not in gang_kinds() or serves(cluster, kind):
                raise


def _orphan(kind: Kind, obj: Obj) -> Orphan:
    metadata = obj["metadata"]
    text = (metadata.get("labels") or {}).get(names.GROUP_LABEL, "")
    try:
        group = UUID(text)
    except ValueError:
        group = None
    return Orphan(
        kind,
        metadata.get("namespace", ""),
        metadata["name"],
        metadata["uid"],
        group,
        read_instant(metadata.get("creationTimestamp")),
        "deletionTimestamp" in metadata,
    )


def _deletable(labelled: list[Orphan], *, uid: str, namespace: str, now: datetime) -> Iterator[Orphan]:
    """Of each undesired group: its pods, or when none is left the other objects, the ComputeDomain last."""
    desired = _desired({obj.group for obj in labelled if obj.group}, uid=uid, namespace=namespace)
    groups: dict[UUID | None, list[Orphan]] = defaultdict(list)
    for obj in labelled:
        if obj.group not in desired:
            groups[obj.group].append(obj)
    for orphans in groups.values():
        pods = [orphan for orphan in orphans if orphan.kind == POD]
        for orphan in pods or orphans:
            if not orphan.deleting and orphan.created is not None and now - orphan.created > GRACE:
                yield orphan


def _desired(groups: set[UUID], *, uid: str, namespace: str) -> set[UUID]:
    """The unreleased groups that may have objects there: those at home there, and of no known cluster yet."""
    unreleased = TaskGroup.objects.filter(pk__in=groups, released_at=None).values_list("pk", flat=True)
    return {
        group
        for group, home in homes_of(unreleased).items()
        if home.namespace == namespace and home.cluster in (uid, "")
    }
