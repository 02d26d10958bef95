"""Rows as replies of REST: OSMO's shapes with the fields that this product adds.

Times are naive UTC, because OSMO's client refuses a zone. Every field that is shown here and not part of the
document is in ``READ_ONLY`` of its shape, so that a PUT accepts what a GET returned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from pools import conditions
from pools.api import shapes
from pools.clusters.capabilities import BackendCapability, capabilities_of, table_of
from pools.documents import backend as backend_shape
from pools.documents import pool as pool_shape
from pools.interfaces import Room, usage
from pools.models import Backend, Pool
from pools.selectors import DomainRoom, PoolDomains
from scheduling.errors import Notice, format_path

HEARTBEAT_LASTS = timedelta(minutes=2)


def minimal_pool(pool: Pool, *, now: datetime) -> shapes.MinimalPoolShape:
    """The part of a pool that any of its users sees."""
    return shapes.MinimalPoolShape(**minimal_fields(pool, now=now))


def minimal_fields(pool: Pool, *, now: datetime) -> dict[str, Any]:
    """The fields of that part, for shapes that add to it."""
    fields = {**_observed_pool(pool, now=now), **pool_shape.document_of(pool)}
    return {
        **{name: fields[name] for name in shapes.PoolBaseShape.model_fields},
        "platforms": {
            name: {field: platform[field] for field in shapes.MinimalPlatformShape.model_fields}
            for name, platform in fields["platforms"].items()
        },
    }


def editable_pools(
    pools: Iterable[Pool], *, now: datetime, verbose: bool, warnings: list[str] | None = None
) -> dict[str, shapes.PoolShape]:
    """Each pool as it is written, by name; ``verbose`` adds the combination of its templates.

    Accounting uses the same template: the cost of a pod follows from what its task asks for.
    """
    rows = list(pools)
    problems = usage().news_problems([pool.name for pool in rows if pool.notify])
    return {
        pool.name: _editable_pool(
            pool, problems.get(pool.name, ()), now=now, verbose=verbose, warnings=warnings
        )
        for pool in rows
    }


def _editable_pool(
    pool: Pool,
    problems: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
    verbose: bool,
    warnings: list[str] | None,
) -> shapes.PoolShape:
    fields = {
        **_observed_pool(pool, now=now),
        **pool_shape.document_of(pool),
        "notify_problems": problems,
        "warnings": warnings,
    }
    if not verbose:
        return shapes.PoolShape(**fields)
    template = pool.applied_template.get("pod", {})
    return shapes.VerbosePoolShape(
        **fields,
        parsed_pod_template=template,
        parsed_resource_validations=[],
        parsed_group_templates=[],
        parsed_pod_template_for_accounting=template,
        last_heartbeat=pool.backend.probed_at,
    )


def _observed_pool(pool: Pool, *, now: datetime) -> dict[str, Any]:
    return {
        "name": pool.name,
        "status": pool_status(pool, now=now),
        "revision": pool.revision,
        "conditions": pool.conditions,
    }


def pool_status(pool: Pool, *, now: datetime) -> str:
    if not pool.backend.enabled or not online(pool.backend, now=now):
        return "OFFLINE"
    return "MAINTENANCE" if pool.enable_maintenance else "ONLINE"


def online(backend: Backend, *, now: datetime) -> bool:
    """Whether the cluster answers, and did so recently."""
    if conditions.status_of(backend.conditions, "Reachable") != "True" or backend.probed_at is None:
        return False
    return now - backend.probed_at < HEARTBEAT_LASTS


def backend_entry(
    backend: Backend, *, now: datetime, warnings: list[str] | None = None
) -> shapes.BackendShape:
    return shapes.BackendShape(
        name=backend.name,
        **backend_shape.document_of(backend),
        k8s_uid=backend.cluster_id or "",
        version=backend.kubernetes_version,
        scheduler_version=backend.scheduler_version,
        capabilities=capabilities_of(backend).as_json(),
        capability_table=[_capability(row) for row in table_of(backend)],
        card=backend.card,
        conditions=backend.conditions,
        last_heartbeat=backend.probed_at,
        created_date=backend.created_at,
        online=online(backend, now=now),
        revision=backend.revision,
        warnings=warnings,
    )


def _capability(row: BackendCapability) -> shapes.CapabilityShape:
    return shapes.CapabilityShape(
        capability=row.capability, held=row.is_supported, needs=row.needs, meaning=row.meaning
    )


def keys_of(pool: Pool) -> shapes.PoolKeysShape:
    """A pool's keys, broadest first."""
    return shapes.PoolKeysShape(
        name=pool.name,
        revision=pool.revision,
        backend=pool.backend.name,
        nvlink=pool.nvlink,
        topology_keys=[shapes.TopologyKeyShape(**key) for key in pool_shape.key_documents(pool)],
    )


def topology_of(pool: Pool, pool_domains: PoolDomains, room: DomainRoom) -> shapes.PoolTopologyShape:
    """A pool's keys with their live domains, and what is free in each."""
    return shapes.PoolTopologyShape(
        name=pool.name,
        revision=pool.revision,
        backend=pool.backend.name,
        nvlink=pool.nvlink,
        capabilities=capabilities_of(pool.backend).as_json(),
        nodes=pool_domains.nodes,
        **pool_domains.freshness.as_json(),
        **asdict(room.total),
        topology_keys=[
            shapes.KeyDomainsShape(
                **key,
                level=level,
                domain_count=len(domains.domains),
                nodes_without_label=domains.outside,
                domains=[
                    shapes.DomainShape(path=list(path), nodes=nodes, **asdict(room.domains.get(path, Room())))
                    for path, nodes in domains.domains.items()
                ],
            )
            for level, (key, domains) in enumerate(
                zip(pool_shape.key_documents(pool), pool_domains.keys, strict=True)
            )
        ],
    )


def warnings(notices: Iterable[Notice]) -> list[str]:
    """Notices as OSMO's clients print them."""
    return [f"{format_path(n.path)}: {n.message}" if n.path else n.message for n in notices]
