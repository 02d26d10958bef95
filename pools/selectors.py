"""Reads of configuration and of what the cluster shows of it.

Each takes a fixed number of queries whatever the number of pools, keys or nodes, and none asks a cluster:
the observer keeps the nodes. *The pool's nodes* are those of its backend's cluster that its node selector
matches, and every count here uses that set.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, Func, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform

from pools.documents.workflow import WorkflowConfigDocument, WorkflowLimits
from pools.models import Backend, ConfigRevision, Installation, Node, Pool, ServiceConfig
from scheduling.errors import NotFound
from scheduling.levels import Domain, Level, Levels


def installation() -> UUID:
    """This installation's uuid, made at the first question."""
    return Installation.objects.get_or_create(singleton=True)[0].uuid


def pools_visible_to(user: AbstractBaseUser | AnonymousUser) -> QuerySet[Pool]:
    """The pools a user may use: all of them, for anybody logged in."""
    pools = Pool.objects.select_related("backend__cluster")
    return pools if user.is_authenticated else pools.none()


def pool_visible_to(user: AbstractBaseUser | AnonymousUser, name: str) -> Pool:
    """One pool with its keys and platforms. Raises NotFound, naming those there are."""
    pool = pools_visible_to(user).prefetch_related("topology_keys", "platforms").filter(name=name).first()
    if pool is None:
        raise NotFound(f'There is no pool "{name[:63]}"{_there_are(pools_visible_to(user))}')
    return pool


def living_backends() -> QuerySet[Backend]:
    return Backend.objects.filter(deleted_at=None)


def backend_named(name: str) -> Backend:
    """A backend that was not deleted. Raises NotFound, naming those there are."""
    backend = living_backends().filter(name=name).first()
    if backend is None:
        raise NotFound(f'There is no backend "{name[:63]}"{_there_are(living_backends())}')
    return backend


def _there_are(rows: QuerySet[Pool] | QuerySet[Backend]) -> str:
    names = list(rows.order_by("name").values_list("name", flat=True)[:20])
    return f"; there are {', '.join(names)}." if names else "; there is none yet."


def pool_levels(pool: Pool) -> Levels:
    """A pool's levels, broadest first."""
    return tuple(Level(row.key, row.label) for row in pool.topology_keys.all())


def workflow_limits() -> WorkflowLimits:
    return WorkflowLimits.of(workflow_config()[0])


def workflow_config() -> tuple[WorkflowConfigDocument, int]:
    """The service-wide limits and their revision; defaults and 0 until somebody changed them."""
    row = ServiceConfig.objects.filter(config_type=ConfigRevision.Type.WORKFLOW).first()
    if row is None:
        return WorkflowConfigDocument(), 0
    return WorkflowConfigDocument.model_validate(row.content), row.revision


def pool_nodes(pool: Pool) -> QuerySet[Node]:
    """The pool's nodes; none while its cluster was never reached."""
    return Node.objects.filter(cluster_id=pool.backend.cluster_id, labels__contains=pool.node_selector)


@dataclass(frozen=True, slots=True)
class KeyDomains:
    """The live domains of one level: path of label values -> number of nodes.

    ``outside`` counts the pool's nodes that lack this label or a broader one: no constraint on this level
    sees them.
    """

    level: Level
    domains: dict[tuple[str, ...], int]
    outside: int


@dataclass(frozen=True, slots=True)
class PoolDomains:
    """What the pool's nodes show of its levels. ``synced_at`` is None until the cluster was listed."""

    nodes: int
    keys: tuple[KeyDomains, ...]
    synced_at: datetime | None


def pool_places(pool: Pool, levels: Sequence[Level]) -> Counter[Domain]:
    """How many of the pool's nodes stand at each place. One query."""
    columns = {f"level_{i}": KeyTextTransform(level.label, "labels") for i, level in enumerate(levels)}
    rows = (
        pool_nodes(pool)
        .order_by()
        .annotate(**columns)
        .values_list(*columns)
        .annotate(count=Count("pk"))
        .values_list(*columns, "count")
    )
    return Counter({tuple(row[:-1]): row[-1] for row in rows})


def domains_of(pool: Pool) -> PoolDomains:
    """The live domains of each of a pool's keys."""
    levels = pool_levels(pool)
    places = pool_places(pool, levels)
    cluster = pool.backend.cluster
    return PoolDomains(
        nodes=places.total(),
        keys=tuple(_key_domains(level, rank, places) for rank, level in enumerate(levels)),
        synced_at=cluster.nodes_synced_at if cluster else None,
    )


def _key_domains(level: Level, rank: int, places: Counter[Domain]) -> KeyDomains:
    domains: Counter[tuple[str, ...]] = Counter()
    outside = 0
    for place, count in places.items():
        path = tuple(value for value in place[: rank + 1] if value is not None)
        if len(path) == rank + 1:
            domains[path] += count
        else:
            outside += count
    return KeyDomains(level, dict(sorted(domains.items())), outside)


def node_labels(nodes: QuerySet[Node]) -> frozenset[str]:
    """Every label key that some of the nodes carry."""
    key = Func("labels", function="jsonb_object_keys", output_field=TextField())
    return frozenset(nodes.order_by().annotate(label=key).values_list("label", flat=True).distinct())
