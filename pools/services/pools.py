"""Writes of pools.

One document writes a whole pool: its columns, its platforms and its ordered topology keys. Rows of keys are
replaced, never edited in place, because a reorder has no valid intermediate step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from pools import conditions, selectors
from pools.checks.backend import check_shard
from pools.checks.keepers import over_share_limit, refused_queue
from pools.checks.names import check_name
from pools.checks.pool import check_placement, check_pool, unknown_backend
from pools.checks.privilege import Content, widened
from pools.clusters.capabilities import capabilities_of, owned_capabilities
from pools.clusters.probe import lacks
from pools.documents import pool as shape
from pools.documents.backend import shard_label, shard_of
from pools.documents.reading import beside, merged, read
from pools.interfaces import usage
from pools.models import Backend, ConfigRevision, Platform, Pool, TopologyKey
from pools.pod_templates.applied import Templates, apply_to_pool
from pools.pod_templates.checks import contradictions
from pools.services import notices
from pools.services.pod_templates import all_templates
from pools.services.pool_objects import queue_owner
from pools.services.recording import (
    ConfigChange,
    Saved,
    configuration_change,
    enqueue,
    expect,
    record,
    refuse,
    refuse_many,
    refuse_unless_may_read,
    refuse_unless_may_use,
)
from pools.values.news_targets import target_faults
from scheduling.backends.registry import installed, joins_queues, owns_topologies
from scheduling.errors import MAX_FAULTS, Conflict, Fault, NotFound, Notice, Path
from scheduling.sentences import agree, count_of, listing

POOL = ConfigRevision.Type.POOL


@dataclass(slots=True)
class _Draft:
    """One pool on its way through the checks."""

    name: str
    written: Any
    path: Path
    pool: Pool | None
    document: shape.PoolDocument | None = None
    backend: Backend | None = None
    before: dict[str, Any] | None = None
    unread: Sequence[Fault] = ()
    """Faults of fields that could not be read."""


def put_pools(*, documents: Mapping[str, Any], change: ConfigChange) -> Saved[list[Pool]]:
    """Create or replace each pool named, all or none; pools not named stay as they are.

    Raises InvalidSpec for more pools than a caller writes at once.
    """
    refuse_many(documents, change=change)
    with configuration_change(change, written=documents, pools=list(documents), objects=len(documents)):
        rows = _locked(list(documents))
        drafts = [
            _Draft(name=name, written=written, path=(name,), pool=rows.get(name))
            for name, written in documents.items()
        ]
        return _save(drafts, change=change)


def put_pool(*, name: str, document: Any, change: ConfigChange) -> Saved[Pool]:
    """Create a pool or replace it."""
    with configuration_change(change, written=document, pools=[name]):
        pool = _locked([name]).get(name)
        expect(pool, change)
        saved = _save([_Draft(name=name, written=document, path=(), pool=pool)], change=change)
        return Saved(saved.value[0], saved.notices)


def patch_pool(*, name: str, changes: Any, change: ConfigChange) -> Saved[Pool]:
    """Change a pool: maps are merged, null resets a field, lists (topology keys too) are replaced."""
    with configuration_change(change, written=changes, pools=[name]):
        pool = locked_pool(name)
        expect(pool, change)
        if isinstance(changes, Mapping):
            changes = merged(shape.document_of(pool), changes)
        saved = _save([_Draft(name=name, written=changes, path=(), pool=pool)], change=change)
        return Saved(saved.value[0], saved.notices)


def delete_pool(*, name: str, change: ConfigChange, force: bool) -> None:
    """Delete a pool. Running work is never touched: its configuration was frozen when it was accepted.

    Raises Conflict while workflows of the pool live, unless ``force``.
    """
    with configuration_change(change):
        pool = locked_pool(name)
        expect(pool, change)
        if not force and (living := usage().live_workflows(name)):
            refuse_unended(name, living, act="deletion, which ends no work")
        record(config_type=POOL, name=name, content=None, change=change)
        enqueue("pools.sync_backend", pool.backend_id)
        pool.delete()


def _locked(names: Sequence[str]) -> dict[str, Pool]:
    """The pools of these names that exist, locked in order of name."""
    rows = Pool.objects.filter(name__in=names).order_by("name").select_for_update(of=("self",))
    return {row.name: row for row in rows.select_related("backend__cluster").prefetch_related(*_PARTS)}


_PARTS = ("topology_keys", "platforms")


def lock_pools() -> None:
    """Lock all pools, for a change that writes backends first. Only inside ``configuration_change``."""
    list(Pool.objects.order_by("name").select_for_update(of=("self",)).values_list("pk", flat=True))


def locked_pool(name: str) -> Pool:
    """The pool, locked. Only inside ``configuration_change``. Raises NotFound."""
    pool = _locked([name]).get(name)
    if pool is None:
        raise NotFound(f'There is no pool "{name[:63]}".')
    return pool


def refuse_unended(name: str, living: int, *, act: str) -> NoReturn:
    """Raise Conflict for a pool whose work has not ended."""
    work = f"{count_of(living, 'workflow')} that {agree(living, 'has', 'have')} not ended"
    cancel = f"cancel {agree(living, 'it', 'them')}"
    raise Conflict(f'Pool "{name}" has {work}: wait, {cancel}, or force the {act}.')


def _save(drafts: Sequence[_Draft], *, change: ConfigChange) -> Saved[list[Pool]]:
    """Check all drafts, then write all. Raises InvalidSpec with every fault of every draft."""
    faults: list[Fault] = []
    for draft in drafts:
        if len(faults) < MAX_FAULTS:  # the others need not be read
            faults += _read(draft)
    backends = _locked_backends(drafts)
    for draft in drafts:
        if len(faults) < MAX_FAULTS:
            faults += _place(draft, backends, change)
    templates = all_templates() if any(_names_templates(draft.document) for draft in drafts) else {}
    faults += [fault for draft in drafts for fault in _unfit(draft, templates)]
    refuse(faults)
    pools = [_write(draft, templates, change=change) for draft in drafts]
    saved = {row.pk: row for row in _reloaded(pools)}
    rows = [saved[pool.pk] for pool in pools]
    saved_notices = [
        notice for draft, row in zip(drafts, rows, strict=True) for notice in _notices(row, draft)
    ]
    return Saved(rows, tuple(saved_notices))


def _read(draft: _Draft) -> list[Fault]:
    faults = check_name(draft.name, path=("name",)) if draft.pool is None else []
    faults += _wrong_name(draft)
    draft.document, draft.unread = read(shape.PoolDocument, draft.written, path=(), read_only=shape.READ_ONLY)
    faults += draft.unread
    if draft.document is not None:
        faults += beside(draft.unread, check_pool(draft.document))
        targets = [target.model_dump() for target in draft.document.notify]
        if draft.pool is None or targets != draft.pool.notify:
            faults += target_faults(targets, path=("notify",), of_user=False)
    return [_below(fault, draft.path) for fault in faults]


def _wrong_name(draft: _Draft) -> list[Fault]:
    written = draft.written.get("name") if isinstance(draft.written, Mapping) else None
    if written is None or written == draft.name:
        return []
    message = f'The address names the pool "{draft.name[:63]}": leave the name out.'
    return [Fault(("name",), "wrong_name", message, allowed=(draft.name,))]


def _below(fault: Fault, path: Path) -> Fault:
    return replace(fault, path=(*path, *fault.path))


def _locked_backends(drafts: Sequence[_Draft]) -> dict[str, Backend]:
    """The living backends that the drafts name, locked: a change of their schedulers waits."""
    names = {draft.document.backend for draft in drafts if draft.document}
    rows = selectors.living_backends().filter(name__in=names).order_by("pk")
    return {row.name: row for row in rows.select_for_update(no_key=True)}


def _place(draft: _Draft, backends: Mapping[str, Backend], change: ConfigChange) -> list[Fault]:
    if draft.document is None:
        return []
    backend = draft.backend = backends.get(draft.document.backend)
    moved = draft.pool is None or backend is None or draft.pool.backend_id != backend.pk
    if backend is None or (moved and not change.knows(backend.name)):  # one answer for hidden and absent
        names = [name for name in _living_backends() if change.knows(name)]
        return [_below(unknown_backend(draft.document.backend, names=names), draft.path)]
    if moved:
        refuse_unless_may_use(change, backend.name, why="A pool that runs there lets its users run there.")
    faults = check_placement(
        draft.document,
        backend=backend.name,
        enabled=backend.enabled,
        moved=moved,
        capabilities=capabilities_of(backend),
        schedulers=sorted(installed()),
        usable=() if backend.enabled else [name for name in _usable_backends() if change.knows(name)],
        owns_topologies=owns_topologies(backend.scheduler_type),
        joins_queues=joins_queues(backend.scheduler_type),
        owned_capabilities=owned_capabilities(backend.scheduler_type),
        lacks=_lacks(draft.document, backend, before=None if moved else draft.pool),
        share_before={} if moved or draft.pool is None else draft.pool.resources.get("gpu") or {},
    )
    faults += _other_shard(draft.document, backend)
    return [_below(fault, draft.path) for fault in beside(draft.unread, faults)]


def _other_shard(document: shape.PoolDocument, backend: Backend) -> list[Fault]:
    """Find selectors of nodes that the backend's shard of the scheduler never sees."""
    label = backend.queue_settings.get("node_pool_label") or shard_label(backend.scheduler_type)
    selections = {"The pool": document.node_selector} | {
        f'Platform "{name}"': platform.node_selector for name, platform in document.platforms.items()
    }
    return check_shard(selections, label=label, shard=shard_of(backend), path=("node_selector",))


def _names_templates(document: shape.PoolDocument | None) -> bool:
    if document is None:
        return False
    platforms = document.platforms.values()
    return bool(document.common_pod_template) or any(platform.override_pod_template for platform in platforms)


def _unfit(draft: _Draft, templates: Templates) -> list[Fault]:
    """Find what is wrong with the templates of a draft, together with its own selectors."""
    document = draft.document
    if document is None or not _names_templates(document):
        return []
    faults = contradictions(
        pool=(document.common_pod_template, document.node_selector),
        platforms={
            name: (platform.override_pod_template, platform.node_selector)
            for name, platform in document.platforms.items()
        },
        templates=templates,
    )
    return [_below(fault, draft.path) for fault in beside(draft.unread, faults)]


def _living_backends() -> list[str]:
    return list(selectors.living_backends().values_list("name", flat=True))


def _usable_backends() -> list[str]:
    return list(selectors.living_backends().filter(enabled=True).values_list("name", flat=True))


def _lacks(document: shape.PoolDocument, backend: Backend, *, before: Pool | None) -> dict[str, list[str]]:
    """Find what a reachable cluster does not serve of the features that the pool needs for the first time.

    A pool that needed them before can still be edited, for example to put it into maintenance.
    """
    if conditions.status_of(backend.conditions, "Reachable") != "True":
        return {}
    return lacks(
        backend.card.get("findings", []),
        nvlink=document.nvlink and not (before and before.nvlink),
        keys=bool(document.topology_keys) and not (before and before.topology_keys.all()),
    )


def _write(draft: _Draft, templates: Templates, *, change: ConfigChange) -> Pool:
    """Write one checked draft; an unchanged pool keeps its revision."""
    document, backend = draft.document, draft.backend
    if document is None or backend is None:
        raise AssertionError("unreachable: a draft without them has faults")
    pool = draft.pool or Pool(name=draft.name)
    before = draft.before = shape.document_of(pool) if draft.pool else None
    moved_from = pool.backend_id if draft.pool and pool.backend_id != backend.pk else None
    pool.backend = backend
    shape.write(document, pool)
    content = shape.content_of(document, pool)
    if content == before:
        return pool
    if before and (fields := widened(before, content)):
        why = f'{listing(fields)} would let users of pool "{pool.name}" do more on its nodes.'
        refuse_unless_may_use(change, backend.name, why=why)
    if content["notify"] and content["notify"] != (before or {}).get("notify"):
        refuse_unless_may_read(change, pool.name)
    if before and not change.may_use(backend.name):
        _refuse_beyond_keeper(pool, backend, before, content, change)
    pool.revision = record(config_type=POOL, name=pool.name, content=content, change=change)
    platforms = shape.platform_rows(document, pool)
    apply_to_pool(pool, platforms, templates)
    pool.save()
    _replace_rows(document, pool, platforms)
    enqueue("pools.sync_backend", backend.pk)
    if moved_from is not None:
        enqueue("pools.sync_backend", moved_from)
    return pool


def _refuse_beyond_keeper(
    pool: Pool, backend: Backend, before: Content, after: Content, change: ConfigChange
) -> None:
    """Raise Forbidden for what the backend does not let the keepers of its pools set."""
    if raised := over_share_limit(before, after, backend.queue_settings.get("share_limit", {})):
        refuse_unless_may_use(change, backend.name, why=f"It would get {listing(raised)}.")
    queue = after["local_queue"]
    if queue in {"", before["local_queue"]}:
        return
    listed = backend.queue_settings.get("local_queues", [])
    owner = "" if listed else queue_owner(pool, queue, change)
    if reason := refused_queue(queue, listed=listed, owner=owner):
        why = f'Pool "{pool.name}" may not join LocalQueue "{queue}". {reason}'
        refuse_unless_may_use(change, backend.name, why=why)


def _replace_rows(document: shape.PoolDocument, pool: Pool, platforms: Sequence[Platform]) -> None:
    pool.topology_keys.all().delete()
    TopologyKey.objects.bulk_create(shape.key_rows(document, pool))
    pool.platforms.all().delete()
    pool.platforms.model.objects.bulk_create(platforms)


def _reloaded(pools: Sequence[Pool]) -> list[Pool]:
    rows = Pool.objects.filter(pk__in=[pool.pk for pool in pools]).select_related("backend__cluster")
    return list(rows.prefetch_related(*_PARTS))


def _notices(pool: Pool, draft: _Draft) -> list[Notice]:
    found_notices = notices.pool_notices(pool)
    if draft.before:
        found_notices += notices.frozen_notices(pool.name, before=draft.before, after=shape.document_of(pool))
    return [Notice(n.code, n.message, (*draft.path, *n.path)) for n in found_notices]
