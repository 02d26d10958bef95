"""Writes of backends.

A new address or scheduler is probed before anything is saved, outside every transaction. A cluster that
answers but cannot serve the scheduler is refused; a cluster that does not answer is registered as
unreachable. The row is then checked and written under the lock that saves of pools also take. So between the
check and the write, a scheduler cannot lose the capability that a pool's keys need, in either order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from cluster.configured_files import kubeconfig_places
from cluster.errors import CredentialProgram, UnusableFile
from pools import conditions, selectors
from pools.checks.backend import (
    check_backend,
    check_backend_serves_pools,
    check_scheduler_holds_pools,
    check_scheduler_recovers_pools,
    check_scheduler_shares_pools,
    check_shard,
)
from pools.checks.default_requirements import PoolDefaults, check_scheduler_holds_defaults
from pools.checks.names import check_name
from pools.clusters.capabilities import capabilities_at
from pools.clusters.connect import cluster_for
from pools.clusters.probe import READ_SECONDS, Address, Probe, lacks, probe_cluster
from pools.documents import backend as shape
from pools.documents.default_topology import defaults_of
from pools.documents.reading import beside, merged, read
from pools.documents.recovery import words_of
from pools.interfaces import usage
from pools.models import Backend, ConfigRevision, Pool
from pools.services import notices
from pools.services.addresses import (
    faults_of_namespace,
    faults_of_prefix,
    refuse_kubeconfig_of_others,
    refuse_namespace_of_others,
    refuse_parent_of_others,
)
from pools.services.observed import note_probe
from pools.services.pod_templates import all_templates, apply_to_pools
from pools.services.recording import (
    ConfigChange,
    Saved,
    configuration_change,
    enqueue,
    expect,
    record,
    refuse,
    refuse_declared,
)
from scheduling.backends.registry import installed, joins_queues, owns_topologies
from scheduling.capabilities import check_queue_settings, check_share
from scheduling.errors import Conflict, Fault, NotFound
from scheduling.sentences import agree, count_of, plural

BACKEND = ConfigRevision.Type.BACKEND
SCHEDULER = ("scheduler_settings", "scheduler_type")


def put_backend(*, name: str, document: Any, change: ConfigChange) -> Saved[Backend]:
    """Register a backend or replace its whole configuration."""
    return _save(name, document, change=change, merge=False)


def post_backend(*, name: str, changes: Any, change: ConfigChange) -> Saved[Backend]:
    """Register a backend or change some of its fields, as OSMO's client does."""
    return _save(name, changes, change=change, merge=True)


def delete_backend(*, name: str, change: ConfigChange, force: bool) -> None:
    """Delete a backend. Its row stays, hidden, until nothing of it is left in its cluster.

    Raises Conflict while a pool uses it and, unless ``force``, while it has unreleased task groups.
    """
    with configuration_change(change):
        backend = _locked(name)
        if backend is None:
            raise NotFound(f'There is no backend "{name[:63]}".')
        expect(backend, change)
        if pools := list(backend.pools.values_list("name", flat=True)):
            used = f"{plural(len(pools), 'pool')} {', '.join(pools)}"
            raise Conflict(
                f'Backend "{name}" is used by {used}: move or delete {agree(len(pools), "it", "them")} first.'
            )
        if not force and (left := usage().unreleased_groups(backend.pk)):
            work = f"{count_of(left, 'task group')} that {agree(left, 'is', 'are')} not released"
            cancel = f"cancel {agree(left, 'it', 'them')}"
            raise Conflict(
                f'Backend "{name}" has {work}: wait, {cancel}, or force the deletion, which ends no work.'
            )
        record(config_type=BACKEND, name=name, content=None, change=change)
        backend.deleted_at = timezone.now()
        if backend.cluster_id is None:  # never reached, so nothing was made there
            backend.cleaned_at = backend.deleted_at
        backend.save()
        enqueue("pools.sync_backend", backend.pk)


def probe_address(address: Address) -> Probe | None:
    """Probe an address; None if its scheduler backend does not exist. Never inside a transaction."""
    scheduler = installed().get(address.scheduler_type)
    if scheduler is None:
        return None
    stand_in = Backend(kubeconfig=address.kubeconfig, context=address.context)
    return probe_cluster(
        cluster_for(stand_in, read_seconds=READ_SECONDS),
        scheduler,
        namespace=address.namespace,
        installation=selectors.installation(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBackend:
    """A backend that was read and, at a new address, probed; nothing is written yet."""

    name: str
    written: Any
    merge: bool
    address: Address
    probe: Probe | None


def _save(name: str, written: Any, *, change: ConfigChange, merge: bool) -> Saved[Backend]:
    refuse_declared(change)  # before a cluster is probed
    prepared = prepare_backend(name=name, written=written, change=change, merge=merge)
    return write_prepared(prepared, change=change)


def prepare_backend(*, name: str, written: Any, change: ConfigChange, merge: bool) -> PreparedBackend:
    """Read a backend and probe its address if it is new. Never inside a transaction.

    Raises Forbidden, too, before anything is read with another backend's credentials.
    """
    before = selectors.living_backends().filter(name=name).first()
    expect(before, change)
    document, faults = _read(name, written, before, merge=merge)
    refuse(faults)
    address = _address(document)
    refuse_kubeconfig_of_others(name, address, before=before, change=change)
    probe = None if before and Address.of(before) == address else probe_address(address)
    return PreparedBackend(name=name, written=written, merge=merge, address=address, probe=probe)


def write_prepared(prepared: PreparedBackend, *, change: ConfigChange) -> Saved[Backend]:
    """Check a prepared backend against everything else, under the lock, and write it."""
    name = prepared.name
    with configuration_change(change, written=prepared.written):
        backend = _locked(name)
        expect(backend, change)
        document, faults = _read(name, prepared.written, backend, merge=prepared.merge)
        if document is None or _address(document) != prepared.address:
            raise Conflict(f'Backend "{name}" has changed meanwhile: try again.')
        _refuse_address_of_others(backend, prepared, document, change)
        refuse([*faults, *_check(backend, document, prepared.probe)])
        backend = _write(backend or Backend(name=name), document, prepared.probe, change=change)
    return Saved(backend, tuple(notices.backend_notices(backend)))


def _refuse_address_of_others(
    backend: Backend | None, prepared: PreparedBackend, document: shape.BackendDocument, change: ConfigChange
) -> None:
    name, address, probe = prepared.name, prepared.address, prepared.probe
    refuse_kubeconfig_of_others(name, address, before=backend, change=change)
    cluster_uid = probe.cluster_uid if probe and probe.reachable else None
    refuse_namespace_of_others(name, address, before=backend, cluster_uid=cluster_uid, change=change)
    if probe is None and backend:
        cluster_uid = backend.cluster_id
    parent = document.queue_settings.parent
    refuse_parent_of_others(name, parent, before=backend, cluster_uid=cluster_uid, change=change)


def _locked(name: str) -> Backend | None:
    rows = selectors.living_backends().filter(name=name).select_related("cluster")
    return rows.select_for_update(of=("self",)).first()


def _read(
    name: str, written: Any, backend: Backend | None, *, merge: bool
) -> tuple[shape.BackendDocument | None, list[Fault]]:
    """Read the document and find the faults that need no other row."""
    faults = check_name(name, path=("name",)) if backend is None else []
    if isinstance(written, Mapping):
        written, namespace_faults = _one_namespace(written)
        faults += namespace_faults
        if (written_name := written.get("name")) not in (None, name):
            message = (
                f'The address names the backend "{name[:63]}", not {written_name!r:.80}: leave the name out.'
            )
            faults.append(Fault(("name",), "wrong_name", message, allowed=(name,)))
        if merge and backend is not None:
            written = _merged(backend, written)
    document, unread = read(shape.BackendDocument, written, path=(), read_only=shape.READ_ONLY)
    faults += unread
    if document is not None:
        faults += beside(unread, check_backend(document, kinds=installed()))
    if document is not None and not unread:
        faults += faults_of_namespace(document.k8s_namespace, before=backend)
        faults += faults_of_prefix(document.queue_settings.prefix, before=backend)
    return document, faults


def _one_namespace(written: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Accept ``namespace`` for OSMO's ``k8s_namespace``."""
    fields = dict(written)
    if "namespace" not in fields:
        return fields, []
    namespace = fields.pop("namespace")
    if fields.setdefault("k8s_namespace", namespace) != namespace:
        message = "It contradicts k8s_namespace: leave it out."
        return fields, [Fault(("namespace",), "contradiction", message)]
    return fields, []


def _merged(backend: Backend, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge changes; another scheduler brings its own schedulerName unless one is written or was chosen."""
    base = shape.document_of(backend)
    if backend.scheduler_name == shape.default_name(backend.scheduler_type):
        base["scheduler_settings"].pop("scheduler_name")
    return merged(base, changes)


def _address(document: shape.BackendDocument | None) -> Address:
    if document is None:
        raise AssertionError("unreachable: a document that cannot be read has faults")
    return Address(
        kubeconfig=document.kubeconfig,
        context=document.context,
        namespace=document.k8s_namespace,
        scheduler_type=document.scheduler_settings.scheduler_type,
    )


def _check(backend: Backend | None, document: shape.BackendDocument, probe: Probe | None) -> list[Fault]:
    """Find what contradicts a change: the cluster, the pools or the running work."""
    faults = []
    if probe and probe.refusal:
        faults.append(Fault(SCHEDULER, "scheduler_not_served", probe.refusal))
    if probe and probe.reason == CredentialProgram.code:
        faults.append(Fault(("kubeconfig",), "credential_program", f"{probe.problem}."))
    if probe and probe.reason == UnusableFile.code:
        message = (
            f"{probe.problem}: give a regular file of at most 1 MiB below one of the directories of "
            "OSMO_KUBECONFIG_PATHS, or none to use the service account of the pod."
        )
        faults.append(Fault(("kubeconfig",), "unusable_file", message, allowed=(*kubeconfig_places(), "")))
    kind = document.scheduler_settings.scheduler_type
    known_version = backend.scheduler_version if backend else ""
    version = probe.scheduler_version if probe else known_version
    own_queues = document.queue_settings.own_queues
    capabilities = capabilities_at(kind, version, own_queues=own_queues)
    stays = backend is not None and kind == backend.scheduler_type
    faults += check_queue_settings(
        document.queue_settings.model_dump(),
        backend.queue_settings if backend and stays else {},
        capabilities=capabilities,
        path=("queue_settings",),
    )
    limit_before = backend.queue_settings.get("share_limit", {}) if backend and stays else {}
    faults += check_share(
        document.queue_settings.share_limit.model_dump(exclude_none=True),
        limit_before,
        capabilities=capabilities,
        path=("queue_settings", "share_limit"),
    )
    if backend is None:
        return faults
    pools = list(backend.pools.prefetch_related("topology_keys", "platforms"))
    levels = {pool.name: selectors.pool_levels(pool) for pool in pools}
    faults += _other_shards(document, pools)
    faults += check_scheduler_holds_pools(levels, capabilities=capabilities, path=SCHEDULER)
    recovery = {pool.name: words_of(pool.recovery) for pool in pools}
    faults += check_scheduler_recovers_pools(recovery, capabilities=capabilities, path=SCHEDULER)
    defaults = {pool.name: _defaults(pool) for pool in pools}
    faults += check_scheduler_holds_defaults(defaults, capabilities=capabilities, path=SCHEDULER)
    if not stays or shape.queues_of(backend).own != own_queues:
        shares = {pool.name: pool.resources.get("gpu") or {} for pool in pools}
        path = ("queue_settings", "own_queues") if stays else SCHEDULER
        faults += check_scheduler_shares_pools(shares, capabilities=capabilities, path=path)
    faults += check_backend_serves_pools(
        _newly_lacking(backend, pools, probe),
        external={pool.name: pool.topology_name for pool in pools if pool.topology_name},
        backend=backend.name,
        scheduler=kind,
        owns_topologies=owns_topologies(kind),
        queues={pool.name: pool.local_queue for pool in pools if pool.local_queue and not joins_queues(kind)},
        path=SCHEDULER if kind != backend.scheduler_type else ("kubeconfig",),
    )
    moved = probe and probe.reachable and backend.cluster_id not in (None, probe.cluster_uid)
    if moved and (left := usage().unreleased_groups(backend.pk)):
        work = f"{count_of(left, 'task group')} in the current one {agree(left, 'is', 'are')} not released"
        message = (
            f"This leads to another cluster, and {work}: wait for {agree(left, 'it', 'them')}, or register "
            "another backend."
        )
        faults.append(Fault(("kubeconfig",), "another_cluster", message))
    return faults


def _defaults(pool: Pool) -> PoolDefaults:
    return PoolDefaults(
        defaults=defaults_of(pool),
        levels=selectors.pool_levels(pool),
        unsupported_preferred=(
            "warn" if pool.unsupported_preferred == Pool.UnsupportedPreferred.WARN else "refuse"
        ),
    )


def _other_shards(document: shape.BackendDocument, pools: Sequence[Pool]) -> list[Fault]:
    """Find the pools whose own selectors name nodes of another shard than the backend would have."""
    after = Backend(queue_settings={}, scheduler_type=document.scheduler_settings.scheduler_type)
    after.queue_settings = document.queue_settings.model_dump()
    label = document.queue_settings.node_pool_label or shape.shard_label(after.scheduler_type)
    selections = {f'Pool "{pool.name}"': pool.node_selector for pool in pools} | {
        f'Platform "{row.name}" of pool "{pool.name}"': row.node_selector
        for pool in pools
        for row in pool.platforms.all()
    }
    path = ("queue_settings", "node_pool")
    return check_shard(selections, label=label, shard=shape.shard_of(after), path=path)


def _newly_lacking(
    backend: Backend, pools: Sequence[Pool], probe: Probe | None
) -> dict[str, dict[str, list[str]]]:
    """Find what each pool loses by a new address or scheduler.

    What was missing before is left out: a backend that lost it can still be changed.
    """
    if probe is None or not probe.reachable:
        return {}
    before, after = backend.card.get("findings", []), probe.card()["findings"]
    lost = {}
    for pool in pools:
        wants = {"nvlink": pool.nvlink, "keys": bool(pool.topology_keys.all())}
        missing_before = lacks(before, **wants)
        if new := {
            field: explanations
            for field, explanations in lacks(after, **wants).items()
            if field not in missing_before
        }:
            lost[pool.name] = new
    return lost


def _write(
    backend: Backend, document: shape.BackendDocument, probe: Probe | None, *, change: ConfigChange
) -> Backend:
    """Write a checked document; an unchanged backend keeps its revision."""
    before = shape.document_of(backend) if backend.pk else None
    shard = shape.shard_of(backend)
    shape.write(document, backend)
    content = shape.document_of(backend)
    if content == before:
        return backend
    backend.revision = record(config_type=BACKEND, name=backend.name, content=content, change=change)
    if probe is not None:
        backend.scheduler_version = ""  # of another address or scheduler
        backend.composites_tried = {}
        backend.conditions = conditions.without(backend.conditions, [shape.COMPOSITES_HELD])
        note_probe(backend, probe)
    backend.save()
    if before and shard != shape.shard_of(backend):
        apply_to_pools(Pool.objects.filter(backend=backend), all_templates())
    enqueue("pools.probe_backend", backend.pk)
    enqueue("pools.sync_backend", backend.pk)
    return backend
