"""Reconciliation of the shared objects of a cluster with configuration: queues, topologies, priorities.

The unit is the cluster, because two backends of one cluster share PriorityClasses and the content-addressed
Topologies; the desired objects are the union over its backends. Each run is level driven: observe by our
installation's label, read what is desired, plan (``sync_plan``), apply. The order matters: only what was
observed before the configuration was read, and is not in it, may be deleted. So a queue that another run
creates meanwhile is never taken for an orphan.

A queue is deleted after its children, and only once its own status shows none: KAI 0.14 and later refuse it
before. Until then the deletion is postponed to the next run.

Queues of the service's own among joined ones are read only in a cluster of whose backends one ever asked for
them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

import structlog

from cluster import concurrency
from cluster.errors import AlreadyExists, ClusterError, ClusterUnreachable, NotServed, RequestForbidden
from cluster.interface import ClusterApi, Deletion, Obj
from cluster.kinds import Kind
from pools import selectors
from pools.clusters.connect import access_of, cluster_for
from pools.clusters.kinds import children_of, kind_of, owned_kinds, parent_of, pool_kinds
from pools.conditions import Condition
from pools.documents.backend import queues_of
from pools.interfaces import usage
from pools.models import Backend, ConfigRevision, Pool
from pools.services.observed import record_cleaned, record_sync
from pools.services.pool_objects import pool_objects
from pools.services.sync_plan import DesiredObjects, Name, ObservedObjects, SyncPlan, name_of, plan
from pools.values.completeness import NODES, Completeness
from scheduling import names
from scheduling.backends.base import QueueSettings
from scheduling.backends.priorities import class_names, priority_classes
from scheduling.backends.registry import installed
from scheduling.sentences import first, plain_listing
from scheduling.topology.levels import Level

log = structlog.get_logger(__name__)

SYNC_SECONDS = 120.0  # for all calls of one sync


def read_desired(uid: str, installation: UUID) -> DesiredObjects:
    """Read what configuration and running work need in a cluster."""
    pools = (
        Pool.objects.filter(backend__cluster_id=uid, backend__deleted_at=None)
        .select_related("backend__cluster")
        .prefetch_related("topology_keys", "platforms")
    )
    queues = _queue_settings(pools)
    manifests = [
        manifest
        for pool in pools
        for manifest in pool_objects(pool, installation, queues=queues[pool.backend_id])
    ]
    for name, labels in sorted(usage().needed_topologies(uid)):
        scheduler = installed().get(name)
        topologies = scheduler.topologies if scheduler else None
        if topologies and topologies.of_levels:
            manifests.append(topologies.of_levels(installation, [Level(label, label) for label in labels]))
    manifests += priority_classes(installation, _priority_class_names(uid))
    objects = {name_of(manifest): manifest for manifest in manifests}
    parents = {(kind, parent) for (kind, _), manifest in objects.items() if (parent := parent_of(manifest))}
    return DesiredObjects(
        objects=objects,
        kept_queues=usage().needed_queues(uid),
        foreign_parents=parents - objects.keys(),
    )


def _queue_settings(pools: Iterable[Pool]) -> dict[int, QueueSettings]:
    """The settings by backend. Backends that share a parent queue guarantee there the most that any does."""
    below: dict[str, list[Pool]] = defaultdict(list)
    for pool in pools:
        below[queues_of(pool.backend).parent_queue(pool.backend.namespace)].append(pool)
    settings: dict[int, QueueSettings] = {}
    for sharing in below.values():
        own = {
            pool.backend_id: queues_of(pool.backend, node_gpus=partial(_node_gpus, sharing))
            for pool in sharing
        }
        quotas = [queues.parent_gpus for queues in own.values()]
        most = -1 if min(quotas) < 0 else max(quotas)
        settings |= {pk: replace(queues, parent_gpus=most) for pk, queues in own.items()}
    return settings


def _node_gpus(pools: Sequence[Pool]) -> float:
    """The GPUs of the nodes of these pools of one cluster; -1 until the nodes were listed once."""
    cluster = pools[0].backend.cluster
    if cluster is None or not Completeness.of(cluster.completeness, NODES).is_known:
        return -1
    return float(selectors.gpus_of(pools))


def _priority_class_names(uid: str) -> AbstractSet[str]:
    """Those of the cluster's backends, and those that running work was submitted with."""
    backends = Backend.objects.filter(cluster_id=uid, deleted_at=None)
    prefixes = {queues_of(backend).prefix for backend in backends}
    own = {name for prefix in prefixes for name in class_names(prefix)}
    return own | usage().needed_priority_classes(uid)


def observe(cluster: ClusterApi, installation: UUID, *, with_owned: bool) -> ObservedObjects:
    """List the objects with our label; queues of ours and what they lead to all together, or none of them."""
    own: dict[Name, Obj] = {}
    unserved: set[Kind] = set()
    refused: dict[Kind, ClusterError] = {}
    for kind in pool_kinds():
        try:
            own |= _list(cluster, [kind], installation)
        except NotServed:
            unserved.add(kind)
    owned = owned_kinds()
    try:
        own |= _list(cluster, owned if with_owned else (), installation)
    except NotServed:
        unserved.update(owned)
    except RequestForbidden as error:
        refused = dict.fromkeys(owned, error)
    left_out = frozenset() if with_owned else frozenset(owned)
    return ObservedObjects(own=own, unserved=unserved, refused=refused, left_out=left_out)


def _list(cluster: ClusterApi, kinds: Iterable[Kind], installation: UUID) -> dict[Name, Obj]:
    label = f"{names.INSTALLATION_LABEL}={installation.hex}"
    listings = [cluster.list(kind, label_selector=label) for kind in kinds]
    return {name_of(obj): obj for listing in listings for obj in listing.items}


def _with_foreign(cluster: ClusterApi, desired: DesiredObjects, observed: ObservedObjects) -> ObservedObjects:
    """Look up the desired names that no object of ours has."""
    missing = {
        name: manifest
        for name, manifest in desired.objects.items()
        if name not in observed.own and name[0] not in observed.unread
    }
    foreign = {
        name: obj for name, manifest in missing.items() if (obj := _get(cluster, manifest)) is not None
    }
    return replace(observed, foreign=foreign)


def _get(cluster: ClusterApi, obj: Obj) -> Obj | None:
    """The object of this kind and name that is there now."""
    metadata = obj["metadata"]
    return cluster.get(kind_of(obj), metadata["name"], namespace=metadata.get("namespace", ""))


def asked_for_queues(uid: str) -> bool:
    """Whether a backend of the cluster ever had queues of ours, by its configuration or an earlier one."""
    backends = Backend.objects.filter(cluster_id=uid)
    if any(queues_of(backend).own for backend in backends):
        return True
    earlier = ConfigRevision.objects.filter(
        config_type=ConfigRevision.Type.BACKEND, name__in=[backend.name for backend in backends]
    )
    return earlier.filter(content__queue_settings__own_queues=True).exists()


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The refusals, and the deletions that the next run must try again, as sentences."""

    errors: Sequence[ClusterError] = ()
    postponed: Sequence[str] = ()

    @property
    def clean(self) -> bool:
        return not self.errors and not self.postponed


def apply(cluster: ClusterApi, steps: SyncPlan) -> SyncResult:
    """Carry out the plan; a refusal stops no other action, an unreachable cluster stops all."""
    errors: list[ClusterError] = []
    postponed: list[str] = []
    for manifest in steps.creates:
        _call(errors, partial(cluster.create, kind_of(manifest), manifest))
    for obj, manifest in steps.replaces:
        name = obj["metadata"]["name"]
        log.warning("topology_replaced", name=name, found=obj.get("spec"))
        _call(errors, partial(cluster.delete, kind_of(obj), name, uid=obj["metadata"]["uid"]))
        _call(errors, partial(cluster.create, kind_of(manifest), manifest))
    for manifest in steps.updates:
        _call(errors, partial(cluster.apply, kind_of(manifest), manifest))
    for obj, patch in steps.clears:
        uid = {"metadata": {"uid": obj["metadata"]["uid"]}}
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        change = partial(cluster.patch, kind_of(obj), name, uid | patch)
        _call(errors, partial(change, namespace=namespace))
    for obj in steps.deletes:
        _call(errors, partial(_delete, cluster, obj, postponed))
    return SyncResult(errors, postponed)


def _delete(cluster: ClusterApi, obj: Obj, postponed: list[str]) -> None:
    """Delete an object unless its status still shows children; their deletion may just have begun."""
    kind, meta = kind_of(obj), obj["metadata"]
    if children_of(obj):
        obj = _get(cluster, obj) or {}
        if children := children_of(obj):
            names_of_children = plain_listing(sorted(children), limit=3)
            postponed.append(
                f"{kind.name} {meta['name']} still has {names_of_children} below it; it goes after that."
            )
            return
    deletion = cluster.delete(kind, meta["name"], namespace=meta.get("namespace", ""), uid=meta["uid"])
    if kind in owned_kinds() and deletion is Deletion.ACCEPTED:
        postponed.append(f"{kind.name} {meta['name']} is deleted, and stays until its scheduler lets it go.")


def _call(errors: list[ClusterError], call: Callable[[], object]) -> None:
    try:
        call()
    except AlreadyExists:
        pass  # created meanwhile, by another run or a foreign client: the next run finds out
    except ClusterUnreachable:
        raise
    except ClusterError as error:
        errors.append(error)


def sync_cluster(uid: str) -> None:
    """Bring one cluster in line and record the result on its backends. Raises nothing about the cluster."""
    backends = list(Backend.objects.filter(cluster_id=uid, cleaned_at=None).order_by("deleted_at", "pk"))
    deleted_backends = [
        row.pk for row in backends if row.deleted_at and not usage().unreleased_groups(row.pk)
    ]
    news: list[Condition] = []
    for backend in sorted(backends, key=lambda row: row.deleted_at is not None):
        try:
            with concurrency.WORK.slot(access_of(backend)) as free:
                if not free:  # beat asks again in some seconds
                    return
                news, clean = _sync(cluster_for(backend, seconds=SYNC_SECONDS), uid)
        except ClusterError as error:
            news = [_failed(error.code, str(error))]
            continue
        if clean:
            record_cleaned(deleted_backends)
        break
    if news:
        record_sync(uid, news)


def _sync(cluster: ClusterApi, uid: str) -> tuple[list[Condition], bool]:
    """Bring a cluster in line with one backend's credentials; True if nothing is left to do."""
    reached_uid = cluster.kube_system_uid()
    if reached_uid != uid:
        return [_failed("AnotherCluster", f"The address leads to cluster {reached_uid}, not {uid}.")], False
    installation = selectors.installation()
    observed = observe(cluster, installation, with_owned=asked_for_queues(uid))
    desired = read_desired(uid, installation)
    steps = plan(desired, _with_foreign(cluster, desired, observed))
    result = apply(cluster, steps)
    if absent := _absent_parents(cluster, desired, observed):
        message = f"Create it, or correct queue_settings.parent: there is no {', '.join(absent)}."
        return [_failed("ParentNotFound", message), _foreign(steps.foreign)], False
    clean = result.clean and not steps.ending
    return [_outcome(result, observed, desired, steps), _foreign(steps.foreign)], clean


def _absent_parents(cluster: ClusterApi, desired: DesiredObjects, observed: ObservedObjects) -> list[str]:
    """Somebody else's queues that pools of ours should stand below, and that do not exist."""
    served = sorted(
        (name for name in desired.foreign_parents if name[0] not in observed.unread), key=lambda n: n[1]
    )
    return [f"{kind.name} {name}" for kind, name in served if cluster.get(kind, name) is None]


def _outcome(
    result: SyncResult, observed: ObservedObjects, desired: DesiredObjects, steps: SyncPlan
) -> Condition:
    refusals = [observed.refused[kind] for kind, _ in desired.objects if kind in observed.refused]
    for error in refusals[:1]:
        message = (
            "queue_settings.own_queues is set, and the service may not keep queues in this cluster. Apply "
            f"deploy/rbac/kueue-queues.yaml (the chart's rights.kueueQueues), or set it to false: {error}"
        )
        return _failed(error.code, message)
    if result.errors:
        listed, others = first(result.errors, 3)
        return _failed(result.errors[0].code, "; ".join([*map(str, listed), *filter(None, [others])]))
    if result.postponed:
        return _failed("ChildrenLeft", " ".join(result.postponed[:3]))
    if steps.ending:
        message = (
            f"Somebody has deleted {plain_listing(steps.ending, limit=3)}, which pools here need: made again "
            "once the scheduler has let it go."
        )
        return _failed("Deleted", message)
    kinds = {kind for kind, _ in desired.objects}
    if missing := sorted(map(str, observed.unserved & kinds)):
        return _failed("NotServed", f"The cluster does not serve {', '.join(missing)}.")
    return Condition(type="Synced", status="True", reason="InLine")


def _failed(reason: str, message: str) -> Condition:
    return Condition(type="Synced", status="False", reason=reason, message=message)


def _foreign(named: Sequence[str]) -> Condition:
    if not named:
        return Condition(type="ForeignObjects", status="False", reason="None")
    message = (
        f"Not created by this installation and left alone: {', '.join(named)}. Pools that need them are not "
        "served until they are renamed or removed."
    )
    return Condition(type="ForeignObjects", status="True", reason="NameTaken", message=message)
