"""The rows that the pages of a pool are made from: its map without a selected workflow, and its own page.

PostgreSQL reduces them to one text, the version of the page: how many there are, and which transactions wrote
them. Every insert and every update brings a transaction that wrote none of these rows before, and every
deletion alone changes the count, so equal texts mean equal rows. No writer has to take part, so none can
forget to. Rows that are also written without news count by the columns that are shown.

Everything that a page shows beside rows has to be in its address or in the parameters of its statement: a row
that counts until some time is one of them. A database put back to a backup counts anew from a transaction
that is past, so the start of PostgreSQL is part of the version; and MOST_SECONDS are over long before the
numbers of transactions come round to the same again.

Rejected: triggers that count the changes of a table, which would make one row the meeting place of all
writers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from pools.api.representations import HEARTBEAT_LASTS
from pools.values.completeness import NODES, OTHERS, is_known, problem_of
from pools.values.freshness import IS_OLD
from scheduling.nodes.channels import SETTLED_AFTER
from scheduling.nodes.devices import CLASSES, SLICES
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_LIVE

MOST_SECONDS = 600
"""How long a page may be known by its version."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """The rows of a table that a page is made from, in SQL; ``where`` takes named parameters.

    ``columns`` None: a row counts by its version.
    """

    table: str
    where: str
    columns: tuple[str, ...] | None = None

    @property
    def statement(self) -> str:
        row = f"ROW({', '.join(self.columns)})" if self.columns else "xmin"
        digest = f"count(*) || ':' || coalesce(sum(hashtextextended({row}::text, 0)), 0)"
        return f"(SELECT {digest} FROM {self.table} WHERE {self.where})"  # noqa: S608 -- from constants


@dataclass(frozen=True, slots=True)
class PageRows:
    """All that a page is made from: rows, the parameters that choose them, and what is ``beside`` rows."""

    sources: Sequence[RowSource]
    parameters: Mapping[str, Any]
    beside: str = ""

    def version(self) -> str:
        """A text that differs where the rows do. One query."""
        parts = ", ".join(source.statement for source in self.sources)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT concat_ws(' ', pg_postmaster_start_time(), {parts})", self.parameters)
            return f"{self.beside} {cursor.fetchone()[0]}"


_POOL = "(SELECT id FROM pools_pool WHERE name = %(pool)s)"
_BACKEND = "(SELECT backend_id FROM pools_pool WHERE name = %(pool)s)"
_CLUSTER = f"(SELECT cluster_id FROM pools_backend WHERE id = {_BACKEND})"  # noqa: S608 -- constants
_BACKENDS = f"(SELECT id FROM pools_backend WHERE cluster_id = {_CLUSTER})"  # noqa: S608 -- constants
_UNRELEASED = f"released_at IS NULL AND backend_id IN {_BACKENDS}"
_HOLDERS = f"(SELECT workflow_id FROM workflows_taskgroup WHERE {_UNRELEASED})"  # noqa: S608 -- constants
_GROUPS = f"(SELECT uuid FROM workflows_taskgroup WHERE {_UNRELEASED})"  # noqa: S608 -- constants
_LIVE = "pool_name = %(pool)s AND status = ANY(%(live_workflows)s)"
_OF_LIVE = f"workflow_id IN (SELECT uuid FROM workflows_workflow WHERE {_LIVE})"  # noqa: S608 -- constants

GROUP_COLUMNS = ("uuid", "workflow_id", "backend_id", "position", "start_time")
"""The columns that the amounts in use follow from; a worker writes a group's row with every reconcile."""

WAITING_COLUMNS = ("uuid", "status", "progress", "waiting_since", "waiting_reason", "placement_result")
"""The columns that the page of a pool shows of a group that waits or was placed, beside its name."""

OUTCOME_DAYS = 30

COMMIT_TAKES = timedelta(minutes=5)
"""How long after its time of submission a workflow is committed at the latest, with clocks that differ."""

_NODES_IN_USE = (
    RowSource("pools_pool", "name = %(pool)s"),
    RowSource("pools_topologykey", f"pool_id = {_POOL}"),
    RowSource("pools_platform", f"pool_id = {_POOL}"),
    RowSource("pools_node", f"cluster_id = {_CLUSTER}"),
    RowSource("pools_foreignusage", f"cluster_id = {_CLUSTER}"),
    RowSource("pools_suspectnode", f"cluster_id = {_CLUSTER} AND until > %(now)s"),
    RowSource("workflows_taskgroup", _UNRELEASED, GROUP_COLUMNS),
    RowSource("workflows_task", f"status = ANY(%(live_tasks)s) AND group_id IN {_GROUPS}"),
    RowSource("workflows_workflow", f"uuid IN {_HOLDERS}"),
)
_MINUTES_OLD = f"""
    CASE WHEN {IS_OLD}
         THEN (heartbeat_at, floor(extract(epoch FROM clock_timestamp() - heartbeat_at) / 60)) END
"""
_LISTED = (
    *("heartbeat_at IS NULL", _MINUTES_OLD, *map(is_known, (NODES, OTHERS, SLICES, CLASSES))),
    *map(problem_of, (SLICES, CLASSES)),
)

MAP_SOURCES = (
    *_NODES_IN_USE,
    RowSource("pools_backend", f"cluster_id = {_CLUSTER}"),
    RowSource("pools_cluster", f"uid = {_CLUSTER}", _LISTED),
    RowSource("workflows_workflow", _LIVE),
)
POOL_SOURCES = (
    *_NODES_IN_USE,
    RowSource(
        "pools_backend",
        f"cluster_id = {_CLUSTER} OR id = {_BACKEND}",
        ("xmin", "probed_at > %(online_since)s"),
    ),
    RowSource(
        "pools_cluster",
        f"uid = {_CLUSTER}",
        (*_LISTED, f"{is_known(SLICES)} AND heartbeat_at >= %(settled)s"),
    ),
    RowSource(
        "pools_node",
        f"cluster_id = {_CLUSTER} AND NOT offers_channel AND channel_since <= %(settled)s",
        ("name",),
    ),
    RowSource("workflows_taskgroup", f"released_at IS NULL AND {_OF_LIVE}", WAITING_COLUMNS),
    RowSource("workflows_workflow", "pool_name = %(pool)s AND submit_time > %(recently)s", ("uuid",)),
)


def map_rows(pool: str) -> PageRows:
    """The rows that a pool's map is made from now."""
    return PageRows(MAP_SOURCES, _parameters(pool, now=timezone.now()))


def pool_rows(pool: str) -> PageRows:
    """The rows that a pool's page is made from now.

    The placements of ended work are too many to read again and again. One changes while its group lives, so
    the rows of live groups tell of it; and groups that came, were placed and ended since the page was made
    belong to workflows that were submitted since. Those that retention removes leave it after MOST_SECONDS.
    """
    now = timezone.now()
    return PageRows(POOL_SOURCES, _parameters(pool, now=now), beside=str(outcomes_since(now)))


def outcomes_since(now: datetime) -> datetime:
    """From when on placements count on a page: the same all through an hour, so that the page is, too."""
    return now.replace(minute=0, second=0, microsecond=0) - timedelta(days=OUTCOME_DAYS)


def _parameters(pool: str, *, now: datetime) -> Mapping[str, Any]:
    return {
        "pool": pool,
        "now": now,
        "online_since": now - HEARTBEAT_LASTS,
        "settled": now - SETTLED_AFTER,
        "recently": now - timedelta(seconds=MOST_SECONDS) - COMMIT_TAKES,
        "live_tasks": [str(status) for status in LIVE_ORDER],
        "live_workflows": [str(status) for status in WORKFLOW_LIVE],
    }
