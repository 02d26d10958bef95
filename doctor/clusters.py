"""Reading both sides: the clusters first, then the rows in one snapshot. Writes nothing.

Clusters are listed live, by our installation's label, in all namespaces where that is allowed, else in those
that backends and groups name. A cluster that cannot be listed whole is left out and named: what nobody saw
is never taken for gone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
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
from doctor.facts import Facts, Seen, Thing
from doctor.rows import read_rows
from pools.clusters.connect import cluster_for
from pools.clusters.kinds import parent_of, pod_group_kinds, scheduler_pool_kinds, topology_labels
from pools.models import Backend, Installation
from scheduling import names
from web.times import read_instant
from workflows.manifests.labels import RETRY, TASK
from workflows.models import TaskGroup
from workflows.services.record import database_now
from workflows.values.observation import DOMAIN_LABEL, group_of

MADE_BY_OTHERS = (RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLooked:
    """A backend whose cluster could not be looked at, and why."""

    backend: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    facts: Facts
    not_looked: tuple[NotLooked, ...]


def gather(*, backend: str = "", history: timedelta) -> Gathered:
    """Read everything that is unfinished, what ended within ``history``, and every cluster of ours.

    With ``backend`` only that backend's cluster and the groups that belong to it.
    """
    installation = Installation.objects.values_list("uuid", flat=True).first() or UUID(int=0)
    seen, not_looked = _clusters(_backends(backend), installation)
    mentioned = {thing.group for one in seen for thing in one.things if thing.group}
    claimants = {thing.pod for one in seen for thing in one.things if thing.pod}
    rows = read_rows(
        installation=installation,
        clusters=None if not backend else [one.cluster for one in seen] + _uids(backend),
        mentioned=mentioned,
        claimants=claimants,
        history=history,
    )
    facts = Facts(
        now=rows.now,
        installation=installation,
        groups=rows.groups,
        workflows=rows.workflows,
        pools=rows.pools,
        seen=tuple(seen),
        owners=rows.owners,
        backwards=rows.backwards,
    )
    return Gathered(facts=facts, not_looked=tuple(not_looked))


def _backends(name: str) -> Sequence[Backend]:
    rows = Backend.objects.filter(cleaned_at=None).order_by("deleted_at", "pk")
    return list(rows.filter(name=name) if name else rows)


def _uids(name: str) -> list[str]:
    return [str(row.cluster_id) for row in _backends(name) if row.cluster_id]


def _clusters(backends: Iterable[Backend], installation: UUID) -> tuple[list[Seen], list[NotLooked]]:
    """Each cluster once, through the first of its backends that can list it."""
    seen: dict[str, Seen] = {}
    failed: list[tuple[str, NotLooked]] = []
    for backend in backends:
        uid = str(backend.cluster_id or "")
        if uid in seen:
            continue
        if not uid and not TaskGroup.objects.filter(backend=backend, touched_cluster=True).exists():
            continue  # never reached, so nothing of ours is there
        try:
            cluster = cluster_for(backend)
            found = cluster.kube_system_uid()
            if uid and found != uid:
                reason = f"its address leads to cluster {found}, not {uid}"
                failed.append((uid, NotLooked(backend=backend.name, reason=reason)))
                continue
            if found not in seen:
                seen[found] = look(cluster, uid=found, backend=backend.name, installation=installation)
        except ClusterError as error:
            failed.append((uid, NotLooked(backend=backend.name, reason=str(error))))
    return list(seen.values()), [why for uid, why in failed if uid not in seen]


def look(cluster: ClusterApi, *, uid: str, backend: str, installation: UUID) -> Seen:
    """List everything with our mark. Raises ClusterError."""
    began = database_now()
    label = f"{names.INSTALLATION_LABEL}={installation.hex}"
    things: list[Thing] = []
    missing = set()
    for kind in _kinds():
        try:
            things += _scan(cluster, kind, uid, label)
        except NotServed:
            if not kind.group:  # every cluster serves them: somebody in between answers for it
                raise
            missing.add(str(kind))
    for kind in MADE_BY_OTHERS:
        try:
            things += [thing for thing in _scan(cluster, kind, uid, "") if thing.pod or thing.group]
        except NotServed:
            missing.add(str(kind))
    return Seen(cluster=uid, backend=backend, began=began, things=tuple(things), missing=frozenset(missing))


def _kinds() -> tuple[Kind, ...]:
    """The kinds that this product creates, those of all scheduler backends included; pods first."""
    return (POD, *pod_group_kinds(), SERVICE, SECRET, COMPUTE_DOMAIN, *scheduler_pool_kinds())


def _scan(cluster: ClusterApi, kind: Kind, uid: str, label: str) -> Iterator[Thing]:
    reduce = partial(_thing, kind)
    try:
        found = cluster.scan(kind, reduce, label_selector=label).items
    except RequestForbidden:
        if not kind.namespaced:
            raise
        found = ()
        for namespace in _namespaces(uid):
            found += cluster.scan(kind, reduce, namespace=namespace, label_selector=label).items
    return (thing for thing in found if thing is not None)


def _namespaces(uid: str) -> list[str]:
    """Where backends of this cluster make objects, and where their unreleased groups do."""
    backends = Backend.objects.filter(cluster_id=uid, cleaned_at=None)
    frozen = TaskGroup.objects.filter(backend__in=backends, released_at=None).order_by()
    places = set(frozen.values_list("placement__namespace", flat=True).distinct())
    return sorted(places | set(backends.values_list("namespace", flat=True)))


def _thing(kind: Kind, obj: Obj) -> Thing | None:
    """Reduce an object; None for one that others made for others."""
    metadata, labels = obj["metadata"], obj["metadata"].get("labels") or {}
    if kind == RESOURCE_CLAIM_TEMPLATE and DOMAIN_LABEL not in labels:
        return None
    shared = kind in scheduler_pool_kinds()
    return Thing(
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
        parent=parent_of(obj) if shared else "",
        levels=topology_labels(obj),
        pod=_owner(metadata) if kind == RESOURCE_CLAIM else "",
    )


def _owner(metadata: Obj) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((str(one["name"]) for one in owners if one.get("kind") == "Pod"), "")
