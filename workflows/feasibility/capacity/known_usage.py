"""What is in use on the nodes of clusters, kept by each process and brought up to date by what changed.

Thousands of tasks run between two verdicts, and few of them begin or end. PostgreSQL spreads the rows that
count over 256 buckets and works out a digest of each; a process sends the digests that it knows and gets
the rows of those buckets that differ, in one statement, so digests and rows are of the same moment. Rows that
ended, that were deleted, or whose group was released change a digest as new ones do.

A kept value is never older than the statement that asked, and does not die with time: a digest covers all
that may change. Of a task that is its id and uuid, its node, and the transaction that wrote it; of its group
the times that count, because other columns of a group change often. Name, priority, queue and timeout are
frozen at submission, and no two submissions have tasks of one uuid, so a database that is put back to a
backup is no exception. Of other tenants' usage a digest covers every amount. The cluster that was used
longest ago goes when the nodes in use of all clusters are more than MOST_PARTS.

18,000 nodes in use take 9 MB in gangs of 4 and 18 MB in groups of one task; other tenants on 20,000 nodes
take 5 MB.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import count, groupby
from operator import add, itemgetter, sub
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import connection

from scheduling.fit import snapshot as fit
from scheduling.fit.node_index import total
from web.recent_values import RecentValues, database
from workflows.lifecycle.statuses import LIVE_ORDER, quoted
from workflows.values.amounts import fit_amounts, requested

Key = TypeVar("Key", UUID, str)
Row = Sequence[Any]

GroupKind = tuple[str, str]
"""A queue and a priority."""

HoldingsOfGroups = tuple[tuple[UUID, tuple[fit.Holding, ...]], ...]
"""The room held on one node, by group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUsage:
    """The usage of a live group; a task without a node uses nothing.

    ``started`` is when all tasks of its present attempt ran, None if they do not yet. ``on`` is the room that
    it holds on each node.
    """

    workflow: str
    queue: str
    priority: str
    started: datetime | None
    amounts: fit.ResourceVector
    on: Mapping[str, tuple[fit.Holding, ...]]

    @property
    def kind(self) -> GroupKind:
        return self.queue, self.priority


@dataclass(frozen=True, slots=True)
class Digests(Generic[Key]):
    """The digest of each bucket that has rows, and the keys of what was read of it."""

    by_bucket: Mapping[int, int] = field(default_factory=dict)
    keys: Mapping[int, Collection[Key]] = field(default_factory=dict)


_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class UsageOfGroups:
    """``holdings`` is the room held on each node, ``sums`` the amounts of all groups of a kind.

    ``number`` is this usage's own in its process; it differs from the one numbered ``base`` on the nodes
    ``changed`` alone.
    """

    groups: Mapping[UUID, GroupUsage] = field(default_factory=dict)
    holdings: Mapping[str, HoldingsOfGroups] = field(default_factory=dict)
    sums: Mapping[GroupKind, fit.ResourceVector] = field(default_factory=dict)
    digests: Digests[UUID] = field(default_factory=Digests, compare=False)
    number: int = field(default_factory=_NUMBERS.__next__, compare=False)
    base: int | None = field(default=None, compare=False)
    changed: Collection[str] = field(default=(), compare=False)

    def with_groups(
        self, changes: Mapping[UUID, GroupUsage | None], digests: Digests[UUID] | None = None
    ) -> "UsageOfGroups":
        """The usage with these groups instead; None: the group is gone."""
        groups, sums = dict(self.groups), dict(self.sums)
        on = _ByNode(self.holdings)
        for group, usage in changes.items():
            if before := groups.pop(group, None):
                sums[before.kind] = tuple(map(sub, sums[before.kind], before.amounts))
                for node in before.on:
                    del on[node][group]
            if usage:
                groups[group] = usage
                sums[usage.kind] = tuple(map(add, sums.get(usage.kind, fit.NO_AMOUNTS), usage.amounts))
                for node, holdings in usage.on.items():
                    on[node][group] = holdings
        used = {kind: amounts for kind, amounts in sums.items() if any(amounts)}
        return UsageOfGroups(
            groups,
            on.laid_on(self.holdings),
            used,
            digests or self.digests,
            base=self.number,
            changed=frozenset(on),
        )

    def differing(self, other: "UsageOfGroups") -> set[str]:
        """The nodes on which it may not be the other."""
        if self.base == other.number:
            return set(self.changed)
        return _differing(self.holdings, other.holdings)


class _ByNode(dict[str, dict[UUID, tuple[fit.Holding, ...]]]):
    """The room held on those nodes that are asked for, by group."""

    def __init__(self, holdings: Mapping[str, HoldingsOfGroups]) -> None:
        super().__init__()
        self._holdings = holdings

    def __missing__(self, node: str) -> dict[UUID, tuple[fit.Holding, ...]]:
        self[node] = dict(self._holdings.get(node, ()))
        return self[node]

    def laid_on(self, holdings: Mapping[str, HoldingsOfGroups]) -> Mapping[str, HoldingsOfGroups]:
        every = dict(holdings)
        for node, by_group in self.items():
            if by_group:
                every[node] = tuple(sorted(by_group.items()))
            else:
                every.pop(node, None)
        return every


@dataclass(frozen=True, slots=True)
class UsageOfOthers:
    """The usage of other tenants' pods, by node."""

    by_node: Mapping[str, tuple[fit.ResourceVector, fit.OthersShares]] = field(default_factory=dict)
    digests: Digests[str] = field(default_factory=Digests, compare=False)


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """The usage on the nodes of one cluster."""

    of_groups: UsageOfGroups = field(default_factory=UsageOfGroups)
    of_others: UsageOfOthers = field(default_factory=UsageOfOthers)

    @property
    def groups(self) -> Mapping[UUID, GroupUsage]:
        return self.of_groups.groups

    def total(self, kinds: Iterable[GroupKind]) -> fit.ResourceVector:
        """The amounts of all groups of these kinds."""
        return total(self.of_groups.sums.get(kind, fit.NO_AMOUNTS) for kind in kinds)

    def on(self, node: str) -> fit.NodeUsage:
        by_group = self.of_groups.holdings.get(node, ())
        holdings = tuple(holding for _, of_group in by_group for holding in of_group)
        return holdings, *self.of_others.by_node.get(node, (fit.NO_AMOUNTS, ()))

    def without(self, groups: Collection[UUID]) -> "ClusterUsage":
        """The usage as if these groups used nothing."""
        freed = {group: None for group in groups if group in self.groups}
        return ClusterUsage(self.of_groups.with_groups(freed), self.of_others) if freed else self

    def differing(self, other: "ClusterUsage") -> dict[str, fit.NodeUsage]:
        """The usage of those nodes where it may not be the other's."""
        names = self.of_groups.differing(other.of_groups)
        names |= _differing(self.of_others.by_node, other.of_others.by_node)
        return {name: self.on(name) for name in names}


NO_USAGE = ClusterUsage()


def _differing(usage: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """The keys whose values are not the same object in both."""
    if usage is other:
        return set()
    names = {name for name, value in usage.items() if other.get(name) is not value}
    return names.union(other.keys() - usage.keys())


usages_of_groups: RecentValues[UsageOfGroups] = RecentValues()
usages_of_others: RecentValues[UsageOfOthers] = RecentValues()


def cluster_usage(cluster: str, *, others_known: bool) -> ClusterUsage:
    """The usage in a cluster as of now; one query, two if others' usage is known."""
    return ClusterUsage(_of_groups(cluster), _of_others(cluster) if others_known else UsageOfOthers())


def _of_groups(cluster: str) -> UsageOfGroups:
    key = (database(), cluster)
    usage = usages_of_groups.find(key) or UsageOfGroups()
    if changed := _read(_TASKS, [cluster], usage.digests):
        changes: dict[UUID, GroupUsage | None] = {}
        keys: dict[int, Collection[UUID]] = {}
        for bucket, rows in changed.rows.items():
            by_group = {group: _group_usage(list(own)) for group, own in groupby(rows, itemgetter(0))}
            changes |= {group: None for group in usage.digests.keys.get(bucket, ()) if group not in by_group}
            changes |= {group: own for group, own in by_group.items() if usage.groups.get(group) != own}
            keys[bucket] = tuple(by_group)
        usage = usage.with_groups(changes, changed.digests(usage.digests, keys))
    usages_of_groups.keep(key, usage, parts=len(usage.holdings))
    return usage


def _of_others(cluster: str) -> UsageOfOthers:
    key = (database(), cluster)
    usage = usages_of_others.find(key) or UsageOfOthers()
    if changed := _read(_OTHERS, [cluster], usage.digests):
        by_node = dict(usage.by_node)
        keys: dict[int, Collection[str]] = {}
        for bucket, rows in changed.rows.items():
            of_nodes = {node: (tuple(amounts), _shares(text)) for node, text, *amounts in rows}
            for node in usage.digests.keys.get(bucket, ()):
                if node not in of_nodes:
                    del by_node[node]
            by_node |= {node: amounts for node, amounts in of_nodes.items() if by_node.get(node) != amounts}
            keys[bucket] = tuple(of_nodes)
        usage = UsageOfOthers(by_node, changed.digests(usage.digests, keys))
    usages_of_others.keep(key, usage, parts=len(usage.by_node))
    return usage


@dataclass(frozen=True, slots=True)
class _Changed:
    """The buckets that differ from those known: their digests, None for one without rows, and their rows."""

    by_bucket: Mapping[int, int | None]
    rows: Mapping[int, Sequence[Row]]

    def digests(self, earlier: Digests[Key], keys: Mapping[int, Collection[Key]]) -> Digests[Key]:
        by_bucket = {**earlier.by_bucket, **self.by_bucket}
        return Digests(
            {bucket: digest for bucket, digest in by_bucket.items() if digest is not None},
            {bucket: of for bucket, of in {**earlier.keys, **keys}.items() if of},
        )


_CHANGED = """
    WITH held AS MATERIALIZED ({held}), digests AS (
        SELECT bucket, bit_xor(digest) AS digest FROM held GROUP BY bucket
    ), changed AS (
        SELECT bucket, digests.digest
        FROM digests FULL JOIN unnest(%s::int[], %s::bigint[]) AS known(bucket, digest) USING (bucket)
        WHERE digests.digest IS DISTINCT FROM known.digest
    )
    SELECT changed.bucket, changed.digest, held.id, used.*
    FROM changed LEFT JOIN held ON held.bucket = changed.bucket
    LEFT JOIN LATERAL (SELECT {columns} FROM {tables} LIMIT 1) AS used ON TRUE
    ORDER BY {order}
"""
"""LIMIT 1 has PostgreSQL look rows up by key: it expects that every bucket has changed, and few have."""

_TASKS = _CHANGED.format(
    held=f"""
        SELECT task.id, (uuid_hash_extended(task.group_id, 0) & 255)::int AS bucket,
               hash_record_extended(ROW(task.id, task.task_uuid, task.node_name, task.xmin,
                   owner.start_time, owner.attempt_number, owner.ran_since), 0) AS digest
        FROM pools_backend AS backend
        JOIN workflows_taskgroup AS owner ON owner.backend_id = backend.id AND owner.released_at IS NULL
        JOIN workflows_task AS task ON task.group_id = owner.uuid
        WHERE backend.cluster_id = %s AND task.status IN ({quoted(LIVE_ORDER)}) AND task.node_name <> ''
    """,  # noqa: S608 -- names of statuses
    columns="""
        task.group_id, task.node_name,
        jsonb_build_array(task.spec->'gpu', task.spec->'cpu', task.spec->'memory', task.spec->'storage',
            task.spec->'claims_channel', CASE WHEN task.spec ? 'claims_channel' THEN
            owner.placement->'claim_gpus'->coalesce(task.spec->>'platform', '') END)::text,
        workflow.name, owner.placement->>'queue', workflow.priority, workflow.exec_timeout, owner.start_time,
        CASE WHEN owner.attempt_number = 1 THEN owner.start_time ELSE owner.ran_since END
    """,
    tables="""
        workflows_task AS task
        JOIN workflows_taskgroup AS owner ON owner.uuid = task.group_id
        JOIN workflows_workflow AS workflow ON workflow.uuid = owner.workflow_id
        WHERE task.id = held.id
    """,
    order="used.group_id, held.id",
)

_OTHERS = _CHANGED.format(
    held="""
        SELECT id, (hashtextextended(node, 0) & 255)::int AS bucket,
               hash_record_extended(ROW(node, gpu, cpu, memory, storage, pods, shares), 0) AS digest
        FROM pools_foreignusage WHERE cluster_id = %s
    """,
    columns="""
        usage.node, usage.shares,
        usage.gpu, usage.cpu, usage.memory, usage.storage, usage.pods, 0 AS channels
    """,
    tables="pools_foreignusage AS usage WHERE usage.id = held.id",
    order="held.id",
)


def _read(statement: str, parameters: Sequence[Any], digests_so_far: Digests[Any]) -> _Changed | None:
    """The buckets that differ from those known; None if none does."""
    buckets, digests = list(digests_so_far.by_bucket), list(digests_so_far.by_bucket.values())
    with connection.cursor() as cursor:
        cursor.execute(statement, [*parameters, buckets, digests])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    if not rows:
        return None
    by_bucket: dict[int, int | None] = {}
    rows_of_buckets: dict[int, list[Row]] = defaultdict(list)
    for bucket, digest, pk, *row in rows:
        by_bucket[bucket] = digest
        of_bucket = rows_of_buckets[bucket]
        if pk is not None:
            of_bucket.append(row)
    return _Changed(by_bucket, rows_of_buckets)


def _group_usage(rows: Sequence[Row]) -> GroupUsage:
    """The usage of a group of these rows, one for each of its tasks."""
    _, _, _, workflow, queue, priority, timeout, started, attempt_started = rows[0]
    until = started.timestamp() + timeout if started else None
    on: dict[str, tuple[fit.Holding, ...]] = {}
    total = fit.NO_AMOUNTS
    for _, node, spec, *_ in rows:
        amounts = _amounts(spec)
        total = tuple(map(add, total, amounts))
        on[node] = (*on.get(node, ()), fit.Holding(workflow, amounts, until))
    return GroupUsage(
        workflow=workflow,
        queue=queue or "",
        priority=priority,
        started=attempt_started,
        amounts=total,
        on=on,
    )


@lru_cache(maxsize=1024)
def _shares(text: str) -> fit.OthersShares:
    """The shares of a node; nodes on which nothing but DaemonSets runs have the same."""
    return tuple(
        fit.OthersShare(namespace, (*amounts, 0), fit.Evictable(*evictable) if evictable else None)
        for namespace, evictable, *amounts in json.loads(text)
    )


@lru_cache(maxsize=1024)
def _amounts(text: str) -> fit.ResourceVector:
    gpu, cpu, memory, storage, claims, least_gpus = json.loads(text)
    gpus = max(gpu or 0, least_gpus or 0)
    return fit_amounts(requested(gpus, cpu, memory, storage), pods=1, channels=int(bool(claims)))
