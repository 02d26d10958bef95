"""Preview of a change of a pool.

The service that saves runs in a transaction that is undone. The preview therefore reports exactly what saving
would refuse or remark, and no check exists twice. It leaves no revision and sends no message. Rejected:
separate checks, which would drift from those of saving.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pools import history, selectors
from pools.clusters.capabilities import capabilities_of
from pools.documents import pool as shape
from pools.documents.reading import read
from pools.interfaces import Unreleased, usage
from pools.models import Backend, Pool
from pools.services.pools import put_pool
from pools.services.recording import ConfigChange, Saved, WriteMode
from scheduling.errors import Fault, Notice, TopologyError
from scheduling.sentences import count_of
from scheduling.topology.coverage import count
from scheduling.topology.key_changes import key_changes
from scheduling.topology.levels import Level, Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPreview:
    """The result of saving a change; with empty ``faults`` it would be saved.

    ``diff`` is empty if nothing would change, or if the document cannot be read. ``keys`` describes what
    becomes of the keys, ``nodes`` how many nodes they see. ``living`` counts workflows that have not ended,
    ``unreleased`` task groups that keep their accepted configuration.
    """

    faults: tuple[Fault, ...] = ()
    notices: tuple[Notice, ...] = ()
    diff: str = ""
    keys: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    living: int = 0
    unreleased: int = 0


def preview_pool(*, name: str, document: Mapping[str, Any], change: ConfigChange) -> PoolPreview:
    """Predict what ``put_pool`` with the same arguments would do. Writes nothing."""
    stored = _stored(name)
    faults, saved = _dry_run(name, document, change)
    before = shape.document_of(stored) if stored else None
    after = shape.document_of(saved.value) if saved else _content(document)
    left = usage().unreleased_in_pool(name) if stored else Unreleased()
    return PoolPreview(
        faults=faults,
        notices=saved.notices if saved else (),
        diff=history.unified_diff(before, after, name=name, was="now", now="as edited") if after else "",
        keys=tuple(key_changes(_levels(before), _levels(after))) if after else (),
        nodes=tuple(_reach_changes(stored, saved.value)) if saved else (),
        living=usage().live_workflows(name) if stored else 0,
        unreleased=left.groups,
    )


def _stored(name: str) -> Pool | None:
    rows = Pool.objects.filter(name=name).select_related("backend__cluster")
    return rows.prefetch_related("topology_keys", "platforms").first()


def _dry_run(
    name: str, document: Mapping[str, Any], change: ConfigChange
) -> tuple[tuple[Fault, ...], Saved[Pool] | None]:
    try:
        return (), put_pool(
            name=name,
            document=document,
            change=replace(change, mode=WriteMode.DRY_RUN),
        )
    except TopologyError as error:
        return tuple(error.faults) or (Fault((), error.code, error.message),), None


def _content(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The content that a refused document would have given the pool; None if it cannot be read."""
    written, unread = read(shape.PoolDocument, document, path=(), read_only=shape.READ_ONLY)
    if written is None or unread:
        return None
    pool = Pool(backend=Backend(name=written.backend))
    shape.write(written, pool)
    return shape.content_of(written, pool)


def _levels(content: Mapping[str, Any] | None) -> Levels:
    keys = content["topology_keys"] if content else ()
    return tuple(Level(entry["key"], entry["label"]) for entry in keys)


def _reach_changes(stored: Pool | None, edited: Pool) -> Iterator[str]:
    """Describe how many nodes each key's requirements see, where the number changes."""
    before = _reach(stored) if stored else {}
    for key, (visible, nodes) in _reach(edited).items():
        earlier = before.get(key)
        if earlier == (visible, nodes) or (earlier is None and visible == nodes):
            continue
        sentence = f'Requirements on "{key}" will see {visible} of {count_of(nodes, "node")}'
        yield f"{sentence}; now they see {earlier[0]} of {earlier[1]}." if earlier else f"{sentence}."


def _reach(pool: Pool) -> dict[str, tuple[int, int]]:
    """By key, how many nodes a requirement on it sees, out of how many."""
    levels = selectors.pool_levels(pool)
    paths = capabilities_of(pool.backend).by_paths
    counts = count(selectors.pool_places(pool, levels), levels, paths=paths)
    return {level.level.key: (counts.nodes - level.hidden, counts.nodes) for level in counts.levels}
