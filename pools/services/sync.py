"""Reconciliation of the shared objects of a cluster with configuration: queues, topologies, priorities.

The unit is the cluster, because two backends of one cluster share PriorityClasses and the content-addressed
Topologies; the desired objects are the union over its backends. Each run is level driven: observe by our
installation's label, read what is desired, plan (pure), apply. The order matters: only what was observed
before the configuration was read, and is not in it, may be deleted. So a queue that another run creates
meanwhile is never taken for an orphan.

A Topology of ours whose levels differ from those its name stands for was made by hand, since the schema lets
nobody edit them. It would place gangs against their requirements, so it is deleted and created again at once,
whoever waits on it: a pending gang finds none for a moment and keeps waiting.

A queue is deleted after its children, and only once its own status shows none: KAI 0.14 and later refuse it
before. Until then the deletion is postponed to the next run.

Objects without our label are never touched. A foreign object under a name that we need is reported (condition
``ForeignObjects``) and left alone. Queues and topologies that unreleased task groups name outlive their pool,
because its deletion ends no group.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

import structlog

from cluster import concurrency
from cluster.errors import AlreadyExists, ClusterError, ClusterUnreachable, NotServed
from cluster.interface import MERGE_PATCH, ClusterApi, Obj
from cluster.kinds import PRIORITY_CLASS, Kind
from pools import selectors
from pools.clusters.connect import access_of, cluster_for
from pools.clusters.kinds import (
    children_of,
    kind_of,
    parent_of,
    pool_kinds,
    removable_fields,
    topology_labels,
)
from pools.conditions import Condition
from pools.documents.backend import queues_of
from pools.interfaces import usage
from pools.models import Backend, Pool
from pools.services.observed import record_cleaned, record_sync
from scheduling import names
from scheduling.backends.base import Manifest, PoolRequest, QueueSettings, TopologyOwner
from scheduling.backends.priorities import class_names, priority_classes
from scheduling.backends.registry import installed
from scheduling.levels import Level
from scheduling.sentences import first, plain_listing

log = structlog.get_logger(__name__)

Name = tuple[Kind, str]

SYNC_SECONDS = 120.0  # for all calls of one sync


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredObjects:
    """The desired objects, and the queues that may stay because unreleased groups name them.

    ``foreign_parents`` are somebody else's objects that ours stand below.
    """

    objects: Mapping[Name, Manifest]
    kept_queues: AbstractSet[str]
    foreign_parents: AbstractSet[Name] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedObjects:
    """The observed objects with our label, foreign objects under names of ours, and the kinds not served."""

    own: Mapping[Name, Obj]
    foreign: Mapping[Name, Obj] = field(default_factory=dict)
    unserved: AbstractSet[Kind] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """The actions that remove the difference; ``deletes`` has observed objects, children before parents.

    ``replaces`` pairs an observed object that cannot be edited with the manifest that replaces it, ``clears``
    one that has fields too many with the merge patch that removes them.
    """

    creates: tuple[Manifest, ...] = ()
    replaces: tuple[tuple[Obj, Manifest], ...] = ()
    updates: tuple[Manifest, ...] = ()
    clears: tuple[tuple[Obj, Manifest], ...] = ()
    deletes: tuple[Obj, ...] = ()
    foreign: tuple[str, ...] = ()


def plan(desired: DesiredObjects, observed: ObservedObjects) -> SyncPlan:
    """Decide on the actions. An object that is as desired needs none."""
    creates, replaces, updates, clears, foreign = [], [], [], [], []
    for name, manifest in desired.objects.items():
        kind = name[0]
        if kind in observed.unserved:
            continue
        if own := observed.own.get(name):
            if _lists_other_levels(own, manifest):
                replaces.append((own, manifest))
            elif not _satisfies(own, manifest):
                updates.append(_with_uid(manifest, own))
            if superfluous := _superfluous(own, manifest):
                clears.append((own, superfluous))
        elif other := observed.foreign.get(name):
            if not _substitutes(other, manifest):
                foreign.append(f"{kind.name} {name[1]}")
        else:
            creates.append(manifest)
    queues = _queues_to_keep(desired, observed)
    orphans = [
        obj for name, obj in observed.own.items() if name not in desired.objects and name not in queues
    ]
    return SyncPlan(
        creates=tuple(creates),
        replaces=tuple(replaces),
        updates=tuple(updates),
        clears=tuple(clears),
        deletes=tuple(sorted(orphans, key=_children_first)),
        foreign=tuple(sorted(foreign)),
    )


def _queues_to_keep(desired: DesiredObjects, observed: ObservedObjects) -> set[Name]:
    """Queues in use, with their parents."""
    used = {name for name in observed.own if name[1] in desired.kept_queues}
    parents = {(name[0], parent_of(observed.own[name])) for name in used}
    return used | parents


def _children_first(obj: Obj) -> tuple[bool, str]:
    return not parent_of(obj), str(obj["metadata"]["name"])


def _superfluous(own: Obj, manifest: Manifest) -> Manifest:
    """The merge patch that removes fields of ours which are not set any more; empty for none."""
    spec, desired = own.get("spec") or {}, manifest.get("spec") or {}
    fields = [name for name in removable_fields(manifest) if name in spec and name not in desired]
    return {"spec": dict.fromkeys(fields)} if fields else {}


def _lists_other_levels(own: Obj, manifest: Manifest) -> bool:
    """Whether both are topology objects, of different levels."""
    return topology_labels(own) != topology_labels(manifest)


def _satisfies(observed: Any, desired: Any) -> bool:
    """Whether an object has everything desired; the server adds defaults and fields of its own."""
    if isinstance(desired, Mapping):
        return isinstance(observed, Mapping) and all(
            _satisfies(observed.get(k), v) for k, v in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(observed, list)
            and len(observed) == len(desired)
            and all(_satisfies(a, b) for a, b in zip(observed, desired, strict=True))
        )
    return bool(observed == desired or (desired is False and observed is None))


def _with_uid(manifest: Manifest, own: Obj) -> Manifest:
    """The manifest for this very object: an apply to a new one under the same name is refused."""
    return {**manifest, "metadata": {**manifest["metadata"], "uid": own["metadata"]["uid"]}}


def _substitutes(other: Obj, manifest: Manifest) -> bool:
    """Whether a foreign object does what ours would; OSMO's chart brings the same priorities."""
    bare = {key: value for key, value in manifest.items() if key not in {"metadata", "description"}}
    return manifest["kind"] == PRIORITY_CLASS.name and _satisfies(other, bare)


def read_desired(uid: str, installation: UUID) -> DesiredObjects:
    """Read what configuration and running work need in a cluster."""
    pools = (
        Pool.objects.filter(backend__cluster_id=uid, backend__deleted_at=None)
        .select_related("backend__cluster")
        .prefetch_related("topology_keys")
    )
    queues = _queue_settings(pools)
    manifests = [
        manifest
        for pool in pools
        for manifest in pool_objects(pool, installation, queues=queues[pool.backend_id])
    ]
    for name, labels in sorted(usage().needed_topologies(uid)):
        owner = installed().get(name)
        if isinstance(owner, TopologyOwner):
            manifests.append(owner.topology_of(installation, [Level(label, label) for label in labels]))
    manifests += priority_classes(installation, _priority_class_names(uid))
    objects = {(kind_of(manifest), manifest["metadata"]["name"]): manifest for manifest in manifests}
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
    if cluster is None or cluster.nodes_synced_at is None:
        return -1
    return float(selectors.gpus_of(pools))


def pool_objects(
    pool: Pool, installation: UUID, *, queues: QueueSettings | None = None
) -> Sequence[Manifest]:
    """The cluster-scoped objects a pool needs; ``queues`` are the settings of its backend."""
    scheduler = installed().get(pool.backend.scheduler_type)
    if scheduler is None:
        return ()
    return scheduler.pool_objects(pool_request(pool, installation, queues=queues))


def pool_request(pool: Pool, installation: UUID, *, queues: QueueSettings | None = None) -> PoolRequest:
    """A pool as its scheduler takes it; ``queues`` are the settings of its backend."""
    gpu = pool.resources.get("gpu") or {}
    return PoolRequest(
        namespace=pool.backend.namespace,
        pool=pool.name,
        installation=installation,
        levels=selectors.pool_levels(pool),
        gpu_guarantee=gpu.get("guarantee", -1),
        gpu_maximum=gpu.get("maximum", -1),
        gpu_weight=gpu.get("weight", 1),
        external_topology=pool.topology_name,
        queues=queues or queues_of(pool.backend),
    )


def _priority_class_names(uid: str) -> AbstractSet[str]:
    """Those of the cluster's backends, and those that running work was submitted with."""
    backends = Backend.objects.filter(cluster_id=uid, deleted_at=None)
    prefixes = {queues_of(backend).prefix for backend in backends}
    own = {name for prefix in prefixes for name in class_names(prefix)}
    return own | usage().needed_priority_classes(uid)


def observe(cluster: ClusterApi, installation: UUID) -> ObservedObjects:
    """List the objects with our label."""
    own: dict[Name, Obj] = {}
    unserved = set()
    for kind in pool_kinds():
        try:
            listing = cluster.list(kind, label_selector=f"{names.INSTALLATION_LABEL}={installation.hex}")
        except NotServed:
            unserved.add(kind)
            continue
        own |= {(kind, obj["metadata"]["name"]): obj for obj in listing.items}
    return ObservedObjects(own=own, unserved=unserved)


def _with_foreign(cluster: ClusterApi, desired: DesiredObjects, observed: ObservedObjects) -> ObservedObjects:
    """Look up the desired names that no object of ours has."""
    names_to_find = [n for n in desired.objects if n not in observed.own and n[0] not in observed.unserved]
    foreign = {name: obj for name in names_to_find if (obj := cluster.get(*name)) is not None}
    return ObservedObjects(own=observed.own, foreign=foreign, unserved=observed.unserved)


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
        _call(errors, partial(cluster.apply, kind_of(manifest), manifest, force=True))
    for obj, patch in steps.clears:
        uid = {"metadata": {"uid": obj["metadata"]["uid"]}}
        name = obj["metadata"]["name"]
        _call(errors, partial(cluster.patch, kind_of(obj), name, uid | patch, patch_type=MERGE_PATCH))
    for obj in steps.deletes:
        _call(errors, partial(_delete, cluster, obj, postponed))
    return SyncResult(errors, postponed)


def _delete(cluster: ClusterApi, obj: Obj, postponed: list[str]) -> None:
    """Delete an object unless its status still shows children; their deletion may just have begun."""
    kind, meta = kind_of(obj), obj["metadata"]
    if children_of(obj):
        obj = cluster.get(kind, meta["name"]) or {}
        if children := children_of(obj):
            names_of_children = plain_listing(sorted(children), limit=3)
            postponed.append(
                f"{kind.name} {meta['name']} still has {names_of_children} below it; it goes after that."
            )
            return
    cluster.delete(kind, meta["name"], uid=meta["uid"])


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
    observed = observe(cluster, installation)
    desired = read_desired(uid, installation)
    steps = plan(desired, _with_foreign(cluster, desired, observed))
    result = apply(cluster, steps)
    if absent := _absent_parents(cluster, desired, observed):
        message = f"Create it, or correct queue_settings.parent: there is no {', '.join(absent)}."
        return [_failed("ParentNotFound", message), _foreign(steps.foreign)], False
    return [_outcome(result, observed.unserved, desired), _foreign(steps.foreign)], result.clean


def _absent_parents(cluster: ClusterApi, desired: DesiredObjects, observed: ObservedObjects) -> list[str]:
    """Somebody else's queues that pools of ours should stand below, and that do not exist."""
    served = sorted(
        (name for name in desired.foreign_parents if name[0] not in observed.unserved), key=lambda n: n[1]
    )
    return [f"{kind.name} {name}" for kind, name in served if cluster.get(kind, name) is None]


def _outcome(result: SyncResult, unserved: Iterable[Kind], desired: DesiredObjects) -> Condition:
    if result.errors:
        listed, others = first(result.errors, 3)
        return _failed(result.errors[0].code, "; ".join([*map(str, listed), *filter(None, [others])]))
    if result.postponed:
        return _failed("ChildrenLeft", " ".join(result.postponed[:3]))
    if missing := sorted(str(kind) for kind in unserved if any(name[0] == kind for name in desired.objects)):
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
