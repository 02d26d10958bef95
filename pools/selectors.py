"""Reads of configuration, and of what the cluster shows of it.

Each read takes a fixed number of queries whatever the number of pools, keys or nodes, and none calls a
cluster: the observer keeps the nodes. *The pool's nodes* are the nodes of its backend's cluster that its node
selector matches; every count uses that set.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from operator import or_
from typing import TypeVar, cast
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection
from django.db.models import Count, Func, IntegerField, Q, QuerySet, Sum, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from pools.documents.workflow import WorkflowConfigDocument, WorkflowLimits
from pools.interfaces import Room, usage
from pools.models import (
    Backend,
    Cluster,
    ConfigRevision,
    Installation,
    Node,
    Platform,
    Pool,
    TopologyKey,
)
from pools.pod_templates.applied import node_selection
from pools.values.freshness import NEVER_OBSERVED, OBSERVED_AT, Freshness
from scheduling.backends.registry import traits_of
from scheduling.errors import NotFound
from scheduling.kubernetes_syntax import GPU
from scheduling.sentences import did_you_mean
from scheduling.topology.key_rows import NodeLabel
from scheduling.topology.levels import DomainPath, Level, Levels
from web.access.rights import grants_of
from web.database.model_rows import Columns, set_related
from web.policy import POOL_VISIBILITY, Action, refusal

Row = TypeVar("Row", Pool, Backend)


def installation() -> UUID:
    """This installation's uuid, created at the first call."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT uuid FROM pools_installation WHERE singleton")
        row: tuple[UUID] | None = cursor.fetchone()
    return row[0] if row else Installation.objects.get_or_create(singleton=True)[0].uuid


Caller = AbstractBaseUser | AnonymousUser


def pools_visible_to(user: Caller) -> QuerySet[Pool]:
    """The pools where some role of the user grants something."""
    return _narrowed(
        Pool.objects.select_related("backend__cluster"), grants_of(user).names("pool", POOL_VISIBILITY)
    )


def pools_allowed_to(user: Caller, action: Action) -> QuerySet[Pool]:
    """The pools where a role of the user's grants this action."""
    return _narrowed(Pool.objects.select_related("backend__cluster"), grants_of(user).names("pool", {action}))


def pool_visible_to(user: Caller, name: str, *, action: Action) -> Pool:
    """One pool with its keys and platforms, for an action.

    Raises NotFound, naming the visible pools, for a pool that is absent or not visible; Forbidden for a
    visible one without a grant for the action. One query.
    """
    visible = grants_of(user).names("pool", POOL_VISIBILITY)
    pool = _pool(name) if visible is None or name in visible else None
    if pool is None:
        raise NotFound(f'There is no pool "{name[:63]}"{_there_are(pools_visible_to(user), name=name)}')
    if not grants_of(user).allows(action, f"pool/{name}"):
        raise refusal(action, f"pool/{name}")
    return pool


_POOL, _BACKEND, _CLUSTER = Columns(Pool), Columns(Backend), Columns(Cluster)
_KEY, _PLATFORM = Columns(TopologyKey), Columns(Platform)
_POOL_WITH_ALL = f"""
    SELECT (SELECT jsonb_agg({_KEY.json("key")} ORDER BY key.position)
              FROM pools_topologykey AS key WHERE key.pool_id = pool.id)::text,
           (SELECT jsonb_agg({_PLATFORM.json("platform")} ORDER BY platform.name)
              FROM pools_platform AS platform WHERE platform.pool_id = pool.id)::text,
           {_POOL.sql("pool")}, {_BACKEND.sql("backend")}, {_CLUSTER.sql("cluster")}
      FROM pools_pool AS pool
      JOIN pools_backend AS backend ON backend.id = pool.backend_id
      LEFT JOIN pools_cluster AS cluster ON cluster.uid = backend.cluster_id
     WHERE pool.name = %s
"""  # noqa: S608 -- the models' own names


def _pool(name: str) -> Pool | None:
    """The pool of this name with its backend, cluster, keys and platforms. Every submission waits for it."""
    with connection.cursor() as cursor:
        cursor.execute(_POOL_WITH_ALL, [name])
        row = cursor.fetchone()
    if row is None:
        return None
    keys, platforms, *values = row
    pool = _POOL.instance(values)
    pool.backend = _BACKEND.instance(values[len(_POOL) :])
    has_cluster = pool.backend.cluster_id is not None
    pool.backend.cluster = _CLUSTER.instance(values[len(_POOL) + len(_BACKEND) :]) if has_cluster else None
    set_related(pool, "topology_keys", _KEY.instances(keys))
    set_related(pool, "platforms", _PLATFORM.instances(platforms))
    return pool


def living_backends() -> QuerySet[Backend]:
    return Backend.objects.filter(deleted_at=None)


def way_to_cluster(own: Backend) -> Backend:
    """The backend through which the work of a backend reaches its cluster.

    A living backend is its own. The address of a deleted backend can no longer be edited, so a living backend
    of the same cluster is preferred; among several, the one of the same name.
    """
    if own.deleted_at is None or own.cluster_id is None:
        return own
    others = living_backends().filter(cluster_id=own.cluster_id).order_by("pk")
    return others.filter(name=own.name).first() or others.first() or own


def backends_visible_to(user: Caller) -> QuerySet[Backend]:
    """The backends whose configuration a user may read."""
    return _narrowed(living_backends(), grants_of(user).names("backend", {Action.CONFIG_READ}))


def backend_visible_to(user: Caller, name: str) -> Backend:
    """A living backend. Raises NotFound, naming those that the user may see."""
    backend = backends_visible_to(user).filter(name=name).first()
    if backend is None:
        raise NotFound(f'There is no backend "{name[:63]}"{_there_are(backends_visible_to(user), name=name)}')
    return backend


def followed_backends(user: Caller) -> QuerySet[Backend]:
    """The backends that follow gangs of others whose names a user may read."""
    rows = living_backends().filter(follow_others=True)
    return _narrowed(rows, grants_of(user).names("backend", {Action.CLUSTER_EXPLAIN}))


def backend_explained_to(user: Caller, name: str) -> Backend:
    """A living backend, with its cluster, of which a user may ask what waits there.

    For callers with action ``cluster:Explain`` on it, and for those who may list one of its pools. Raises
    NotFound, naming those of the user.
    """
    grants = grants_of(user)
    explained = _narrowed(living_backends(), grants.names("backend", {Action.CLUSTER_EXPLAIN}))
    listed = living_backends().filter(pools__in=pools_allowed_to(user, Action.POOL_LIST))
    rows = living_backends().filter(Q(pk__in=explained) | Q(pk__in=listed))
    backend = rows.filter(name=name).select_related("cluster").first()
    if backend is None:
        raise NotFound(f'There is no backend "{name[:63]}"{_there_are(rows, name=name)}')
    return backend


def may_explain(user: Caller, backend: str) -> bool:
    """Whether a user may read the names of what others run and submit on a backend's cluster."""
    return grants_of(user).allows(Action.CLUSTER_EXPLAIN, f"backend/{backend}")


def _narrowed(rows: QuerySet[Row], names: frozenset[str] | None) -> QuerySet[Row]:
    return rows if names is None else rows.filter(name__in=names)


def _there_are(rows: QuerySet[Pool] | QuerySet[Backend], *, name: str) -> str:
    """The end of a sentence on a name that no row has: the rows that are, and the one that was meant."""
    names = list(rows.order_by("name").values_list("name", flat=True)[:MOST_SUGGESTED])
    there_are = f"; there are {', '.join(names[:20])}." if names else "; there is none yet."
    return there_are + did_you_mean(name, names)


MOST_SUGGESTED = 1000
"""Names that an unknown one is compared with."""


def pool_levels(pool: Pool) -> Levels:
    """A pool's levels, broadest first."""
    return tuple(Level(row.key, row.label) for row in pool.topology_keys.all())


def workflow_limits() -> WorkflowLimits:
    return WorkflowLimits.of(workflow_config()[0])


def workflow_config() -> tuple[WorkflowConfigDocument, int]:
    """The service-wide limits and their revision; defaults and 0 before the first change."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT content::text, revision FROM pools_serviceconfig WHERE config_type = %s",
            [ConfigRevision.Type.WORKFLOW],
        )
        row: tuple[str, int] | None = cursor.fetchone()
    if row is None:
        return WorkflowConfigDocument(), 0
    return WorkflowConfigDocument.model_validate(json.loads(row[0])), row[1]


def pool_nodes(pool: Pool) -> QuerySet[Node]:
    """The pool's nodes; none while its cluster was never reached."""
    return Node.objects.filter(cluster_id=pool.backend.cluster_id, labels__contains=node_selection(pool))


def tolerated_keys(cluster: str) -> frozenset[str]:
    """The keys of taints that some pool of a cluster tolerates. One query."""
    template = "applied_template__pod__spec__tolerations"
    fields = ("tolerations", template, "platforms__tolerations", f"platforms__{template}")
    rows = Pool.objects.filter(backend__cluster_id=cluster, backend__deleted_at=None).order_by()
    entries = (entry for row in rows.values_list(*fields) for listed in row for entry in listed or ())
    return frozenset(key for entry in entries if (key := entry.get("key")))


_FRESHNESS = f"""
    SELECT uid, {OBSERVED_AT}, clock_timestamp() FROM pools_cluster WHERE uid = ANY(%s)
"""  # noqa: S608 -- constants


def freshness_by_cluster(uids: Collection[str]) -> Mapping[str, Freshness]:
    """How fresh everything is that was observed of each of these clusters. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_FRESHNESS, [list(uids)])
        return {uid: Freshness(observed_at, now) for uid, observed_at, now in cursor.fetchall()}


def freshness_of(uid: str | None) -> Freshness:
    """The same of one cluster; None: a backend whose cluster was never reached."""
    return freshness_by_cluster([uid] if uid else []).get(uid or "", NEVER_OBSERVED)


def gpus_of(pools: Sequence[Pool]) -> int:
    """The GPUs of all nodes of these pools of one cluster, each node counted once. One query.

    The pools have one kind of scheduler; devices count if it gives them by number.
    """
    if not pools:
        return 0
    of_any = reduce(or_, (Q(labels__contains=node_selection(pool)) for pool in pools))
    nodes = Node.objects.filter(of_any, cluster_id=pools[0].backend.cluster_id).order_by()
    if not traits_of(pools[0].backend.scheduler_type).gives_devices:
        nodes = nodes.filter(Q(devices__counted__isnull=True) | ~Q(devices__counted__has_key=GPU))
    counted = nodes.annotate(gpu=KeyTextTransform(GPU, "allocatable")).filter(gpu__regex=r"^\d{1,6}$")
    return int(counted.aggregate(gpus=Sum(Cast("gpu", IntegerField())))["gpus"] or 0)


@dataclass(frozen=True, slots=True)
class KeyDomains:
    """The live domains of one level: path of label values -> number of nodes.

    ``outside`` counts the pool's nodes without this label or a broader one: no constraint on this level sees
    them.
    """

    level: Level
    domains: dict[tuple[str, ...], int]
    outside: int


@dataclass(frozen=True, slots=True)
class PoolDomains:
    """The domains of a pool's levels on its nodes."""

    nodes: int
    keys: tuple[KeyDomains, ...]
    freshness: Freshness


def pool_places(pool: Pool, levels: Sequence[Level]) -> Counter[DomainPath]:
    """How many of the pool's nodes stand at each place. One query."""
    if not levels:
        return Counter({(): pool_nodes(pool).count()})
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
    return PoolDomains(
        nodes=places.total(),
        keys=key_domains(levels, places),
        freshness=freshness_of(pool.backend.cluster_id),
    )


def key_domains(levels: Sequence[Level], places: Counter[DomainPath]) -> tuple[KeyDomains, ...]:
    """The domains of each level, from the number of nodes at each place."""
    return tuple(_key_domains(level, rank, places) for rank, level in enumerate(levels))


def _key_domains(level: Level, rank: int, places: Counter[DomainPath]) -> KeyDomains:
    domains: Counter[tuple[str, ...]] = Counter()
    outside = 0
    for place, count in places.items():
        path = tuple(value for value in place[: rank + 1] if value is not None)
        if len(path) == rank + 1:
            domains[path] += count
        else:
            outside += count
    return KeyDomains(level, dict(sorted(domains.items())), outside)


@dataclass(frozen=True, slots=True)
class DomainRoom:
    """The amounts free on all of a pool's nodes, and in each domain, by its path."""

    total: Room
    domains: Mapping[tuple[str, ...], Room]


def room_of(pool: Pool) -> DomainRoom:
    """The amounts free in a pool. A fixed number of queries, and a read of its cluster's nodes."""
    by_place = usage().room(pool)
    domains: dict[tuple[str, ...], Room] = defaultdict(Room)
    for place, room in by_place.items():
        path = tuple(takewhile(lambda value: value is not None, place))
        for depth in range(1, len(path) + 1):
            domains[cast("tuple[str, ...]", path[:depth])] += room
    return DomainRoom(total=sum(by_place.values(), Room()), domains=domains)


def node_labels(nodes: QuerySet[Node]) -> frozenset[str]:
    """Every label key that some of the nodes carry."""
    key = Func("labels", function="jsonb_object_keys", output_field=TextField())
    return frozenset(nodes.order_by().annotate(label=key).values_list("label", flat=True).distinct())


_LABEL_COUNTS = """
    SELECT key, sum(nodes)::int, count(*)
      FROM (SELECT entry.key, count(*) AS nodes
              FROM pools_node, jsonb_each_text(labels) AS entry
             WHERE cluster_id = %s AND labels @> %s::jsonb
             GROUP BY entry.key, entry.value) AS by_value
     GROUP BY key
"""


def label_counts(pool: Pool) -> dict[str, NodeLabel]:
    """Every label that some of the pool's nodes carry. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_LABEL_COUNTS, [pool.backend.cluster_id, json.dumps(node_selection(pool))])
        return {label: NodeLabel(label, nodes, values) for label, nodes, values in cursor.fetchall()}
