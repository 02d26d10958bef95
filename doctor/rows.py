"""The rows, read in one snapshot that contains no half of a transaction."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, OuterRef, Q, QuerySet, Subquery

from doctor.facts import AttemptRow, Backwards, GroupRow, PoolRow, TryRow, Workers, WorkflowRow
from doctor.timelines import backwards
from pools.clusters.kinds import as_kind, kind_of, owned_kinds, topology_labels
from pools.models import Pool
from pools.services.pool_objects import pool_objects
from scheduling.backends.registry import installed
from workflows.lifecycle.statuses import LIVE_ORDER
from workflows.models import Attempt, Task, TaskGroup
from workflows.services.steps import database_now

STATEMENT_SECONDS = 120  # more than a request has: it reads everything unfinished
_ORDER = [str(status) for status in LIVE_ORDER]
_PLACED = (
    "attempts",
    "cluster_uid",
    "namespace",
    "nvlink",
    "scheduler_type",
    "queue",
    "levels",
    "queue_timeout",
    "exec_timeout",
)
_TIMES = (
    "submit_time",
    "processing_start_time",
    "scheduling_start_time",
    "start_time",
    "ran_since",
    "ran_seconds",
    "attempt_began_at",
    "attempt_not_before",
    "touched_at",
    "created_in_cluster_at",
    "end_time",
    "released_at",
    "next_reconcile_at",
    "lease_until",
)


_WORKERS = """
    SELECT (SELECT ran_at FROM pools_sweeprun),
           (SELECT count(*) FROM workflows_taskgroup
             WHERE released_at IS NULL AND next_reconcile_at <= clock_timestamp())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    now: datetime
    groups: Mapping[UUID, GroupRow]
    workflows: tuple[WorkflowRow, ...]
    pools: tuple[PoolRow, ...]
    owners: Mapping[str, UUID]
    backwards: tuple[Backwards, ...]
    workers: Workers


def read_rows(
    *,
    installation: UUID,
    clusters: Sequence[str] | None,
    mentioned: Collection[UUID],
    claimants: Collection[str],
    history: timedelta,
) -> Rows:
    """Read everything unfinished, everything ``mentioned`` in a cluster, and what ended recently."""
    with _snapshot():
        now = database_now()
        owners = _owners(claimants)
        chosen = _chosen(clusters, {*mentioned, *owners.values()}, now - history)
        return Rows(
            now=now,
            groups=_groups(chosen),
            workflows=_workflows(chosen),
            pools=_pools(installation),
            owners=owners,
            backwards=backwards(list(chosen.values_list("pk", flat=True))),
            workers=_workers(),
        )


@contextmanager
def _snapshot() -> Iterator[None]:
    """One view of the database for all reads: a transaction of its own, or the caller's."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute(f"SET LOCAL statement_timeout = {STATEMENT_SECONDS * 1000}")
        yield


def _chosen(
    clusters: Sequence[str] | None, mentioned: Collection[UUID], since: datetime
) -> QuerySet[TaskGroup]:
    recent = Q(end_time__gte=since) | Q(workflow__end_time__gte=since)
    unfinished = Q(released_at=None) | Q(workflow__end_time=None)
    rows = TaskGroup.objects.filter(unfinished | recent | Q(pk__in=mentioned))
    if clusters is not None:
        rows = rows.filter(Q(placement__cluster_uid__in=clusters) | Q(backend__cluster_id__in=clusters))
    return rows.order_by()


def _workers() -> Workers:
    with connection.cursor() as cursor:
        cursor.execute(_WORKERS)
        swept_at, due = cursor.fetchone()
    return Workers(swept_at=swept_at, due=due)


def _groups(chosen: QuerySet[TaskGroup]) -> dict[UUID, GroupRow]:
    tries, upstream = _tries(chosen), _upstream(chosen)
    columns = {f"p_{name}": F(f"placement__{name}") for name in _PLACED}
    former = Attempt.objects.filter(group=OuterRef("pk")).order_by("-number")
    rows = chosen.annotate(cleared_at=Subquery(former.values("cleared_at")[:1])).values(
        "cleared_at",
        "pk",
        "name",
        "status",
        "touched_cluster",
        "attempt_number",
        "progress",
        "clearing",
        "conditions",
        "constraints",
        "waiting_reason",
        "awaited_upstream",
        "workflow__name",
        "backend__name",
        "backend__cluster_id",
        *_TIMES,
        **columns,
    )
    return {
        row["pk"]: _group(row, tries.get(row["pk"], ()), upstream.get(row["pk"], ()))
        for row in rows.iterator(chunk_size=1000)
    }


def _group(
    row: Mapping[str, Any], tries: Sequence[TryRow], upstream: Sequence[tuple[str, datetime | None]]
) -> GroupRow:
    return GroupRow(
        uuid=row["pk"],
        name=row["name"],
        workflow=row["workflow__name"],
        backend=row["backend__name"],
        cluster=row["p_cluster_uid"] or row["backend__cluster_id"] or "",
        namespace=row["p_namespace"] or "",
        status=row["status"],
        pod_group=_pod_group_kind(row["p_scheduler_type"] or ""),
        nvlink=bool(row["p_nvlink"]),
        queue=row["p_queue"] or "",
        topologies=_topologies(row["p_levels"] or (), row["constraints"]),
        touched=row["touched_cluster"],
        touched_at=row["touched_at"],
        submitted=row["submit_time"],
        processing_since=row["processing_start_time"],
        scheduling_since=row["scheduling_start_time"],
        exec_since=_exec_since(row),
        created_at=row["created_in_cluster_at"],
        ended_at=row["end_time"],
        released_at=row["released_at"],
        stuck=_condition(row["conditions"], "ReleaseStuck"),
        waiting=row["waiting_reason"] or _condition(row["conditions"], "Released", status="False"),
        queue_timeout=row["p_queue_timeout"],
        exec_timeout=row["p_exec_timeout"],
        due=row["next_reconcile_at"],
        leased_until=row["lease_until"],
        awaits=row["awaited_upstream"] is not None,
        upstream=tuple(upstream),
        tries=tuple(tries),
        attempt=_attempt(row),
    )


def _exec_since(row: Mapping[str, Any]) -> datetime | None:
    """From when the execution timeout counts; None while its clock stands."""
    if not row["p_attempts"]:
        began: datetime | None = row["start_time"]
        return began
    return row["ran_since"] - timedelta(seconds=row["ran_seconds"]) if row["ran_since"] else None


def _attempt(row: Mapping[str, Any]) -> AttemptRow | None:
    """The present attempt, if it is not the first."""
    since = row["attempt_began_at"]
    if since is None:
        return None
    return AttemptRow(
        number=row["attempt_number"],
        status=row["progress"] or row["status"],
        since=since,
        begins=max(since, row["attempt_not_before"] or since),
        clearing=row["clearing"],
        cleared_at=row["cleared_at"],
    )


def _pod_group_kind(scheduler: str) -> str:
    backend = installed().get(scheduler)
    return str(as_kind(backend.pod_group)) if backend and backend.pod_group else ""


def _topologies(
    levels: Sequence[Mapping[str, str]], constraints: Sequence[Mapping[str, Any]]
) -> frozenset[tuple[str, ...]]:
    """The prefixes of a group's levels at which its constraints end."""
    labels = [level["label"] for level in levels]
    ends = {labels.index(line["label"]) for line in constraints if line.get("label") in labels}
    return frozenset(tuple(labels[: end + 1]) for end in ends)


def _condition(conditions: Sequence[Mapping[str, Any]], name: str, *, status: str = "True") -> str:
    """The message of a condition with this status, or its reason if it has no message."""
    for condition in conditions:
        if condition.get("type") == name and condition.get("status") == status:
            return str(condition.get("message") or condition.get("reason") or name)
    return ""


def _tries(chosen: QuerySet[TaskGroup]) -> dict[UUID, list[TryRow]]:
    """All tries of unreleased groups, and the live tries of the others."""
    rows = Task.objects.filter(group__in=chosen.values("pk"))
    rows = rows.filter(Q(group__released_at=None) | Q(status__in=_ORDER)).order_by(
        "group_id", "position", "retry_id"
    )
    tries_by_group: dict[UUID, list[TryRow]] = defaultdict(list)
    columns = (
        "group_id",
        "task_uuid",
        "name",
        "retry_id",
        "latest",
        "lead",
        "status",
        "pod_name",
        "first_retry",
        "processing_start_time",
        "scheduling_start_time",
    )
    for (
        group,
        task,
        name,
        retry,
        latest,
        lead,
        status,
        pod,
        first_retry,
        processing_since,
        scheduling_since,
    ) in rows.values_list(*columns).iterator():
        tries_by_group[group].append(
            TryRow(
                task=task,
                name=name,
                retry_id=retry,
                latest=latest,
                lead=lead,
                status=status,
                pod_name=pod,
                first_retry=first_retry,
                processing_since=processing_since,
                scheduling_since=scheduling_since,
            )
        )
    return tries_by_group


def _upstream(chosen: QuerySet[TaskGroup]) -> dict[UUID, list[tuple[str, datetime | None]]]:
    """The upstream groups of those that wait."""
    waiting = chosen.filter(status__in=("SUBMITTING", "WAITING"), upstream__isnull=False)
    upstream_by_group: dict[UUID, list[tuple[str, datetime | None]]] = defaultdict(list)
    for pk, status, end in waiting.values_list("pk", "upstream__status", "upstream__end_time"):
        upstream_by_group[pk].append((status, end))
    return upstream_by_group


def _workflows(chosen: QuerySet[TaskGroup]) -> tuple[WorkflowRow, ...]:
    """The workflows of these groups, each with all of its groups."""
    rows = TaskGroup.objects.filter(workflow__in=chosen.values("workflow")).order_by("workflow_id")
    columns = ("workflow__name", "workflow__status", "workflow__submit_time", "workflow__end_time", "status")
    groups_by_workflow: dict[tuple[str, str, datetime, datetime | None], list[str]] = defaultdict(list)
    for *workflow, status in rows.values_list(*columns).iterator():
        groups_by_workflow[tuple(workflow)].append(status)
    return tuple(
        WorkflowRow(name=name, status=status, submitted=submitted, ended_at=ended, groups=tuple(groups))
        for (name, status, submitted, ended), groups in groups_by_workflow.items()
    )


def _pools(installation: UUID) -> tuple[PoolRow, ...]:
    pools = Pool.objects.filter(backend__cluster__isnull=False, backend__deleted_at=None)
    return tuple(
        _pool(pool, installation)
        for pool in pools.select_related("backend").prefetch_related("topology_keys")
    )


def _pool(pool: Pool, installation: UUID) -> PoolRow:
    objects, levels, queues = set(), set(), {}
    for manifest in pool_objects(pool, installation):
        labels, key = topology_labels(manifest), (str(kind_of(manifest)), str(manifest["metadata"]["name"]))
        if kind_of(manifest) in owned_kinds():
            queues[key] = manifest["spec"]
        elif labels is None:
            objects.add(key)
        else:
            levels.add(labels)
    return PoolRow(
        cluster=str(pool.backend.cluster_id),
        name=pool.name,
        objects=frozenset(objects),
        levels=frozenset(levels),
        queues=queues,
    )


def _owners(pods: Collection[str]) -> dict[str, UUID]:
    """The groups of pods by name, where a task ever had a pod of that name."""
    return dict(Task.objects.filter(pod_name__in=pods).values_list("pod_name", "group_id"))
