"""The nodes of clusters, kept by each process and brought up to date by what changed.

A submission, a page and a waiting gang all judge the same thousands of nodes, of which few change between
two of them, so a process reads only the rows that were written since it read last. PostgreSQL itself says
which: a row's ``xmin`` is the transaction that wrote it, and everything that committed after a statement has
a number from that statement's ``pg_snapshot_xmin`` on. No writer has to take part, so none can forget to.
A number of the cluster that writers raise was rejected for that reason. A transaction that writes for long,
in any database of the server, makes more rows be read again, and nothing else.

What is kept is never older than the statement that asked, and it dies

- with one row deleted: the count of the rows differs from what is known;
- when PostgreSQL starts again: a database put back to a backup, and a replica that took over, count anew from
  a transaction that is past already;
- after MOST_SECONDS, long before the numbers of transactions come round to the same again;
- when others with MOST_NODES nodes together were used since.

A transaction that has written reads every row and keeps nothing, since its own rows may be rolled back.

What is in use is read whole for each verdict, and laid on the nodes where it differs from the reading before.
So are the nodes that are known to have no NVLink channel, which depends on the time: a table keeps since when
a node offers none.

20,000 nodes with 6 labels take 15 MB as a table. A snapshot of them all takes 6 MB, 9 MB if every node is in
use, and up to 6 MB for what was counted of it; so a process keeps at most about 75 MB of tables and 75 MB of
snapshots.
"""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar

from django.db import connection
from django.utils import timezone

from scheduling.channels import settled_until
from scheduling.fit import snapshot as fit
from scheduling.kubernetes_syntax import GPU
from scheduling.levels import Levels
from workflows.values.amounts import STORAGE, Amounts, allocatable

AMOUNTS = ("cpu", "memory", STORAGE, GPU, "pods")
_PODS = 110
"""kubelet's default, for a node that reports none."""

MOST_NODES = 100_000
"""Nodes that are kept in all tables together, and in all snapshots; the value used last always is."""
MOST_KEPT = 64

MOST_SECONDS = 600

Selectors = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Every node of a cluster by name, empty; ``horizon`` is the first transaction that it may lack.

    ``channelless`` is since when each node that offers no NVLink channel has offered none, and
    ``slices_observed_at`` until when that is known. ``server`` is when PostgreSQL started.
    """

    nodes: Mapping[str, fit.FitNode]
    channelless: Mapping[str, datetime]
    slices_observed_at: datetime | None
    horizon: str
    server: str
    read_at: float

    def __len__(self) -> int:
        return len(self.nodes)

    def without_channel(self) -> frozenset[str]:
        """The nodes that are known to have none."""
        settled = settled_until(self.slices_observed_at, now=timezone.now())
        if settled is None:
            return frozenset()
        return frozenset(name for name, since in self.channelless.items() if since <= settled)


@dataclass(frozen=True, slots=True)
class SelectedNodes:
    """The snapshot of those nodes of a table that selectors match, with the usage that was read last.

    ``used`` are the nodes that have any, ``without_channel`` those of the cluster that are known to
    have no NVLink channel.
    """

    table: Mapping[str, fit.FitNode]
    snapshot: fit.Snapshot
    used: frozenset[str] = frozenset()
    without_channel: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.snapshot.nodes)


Value = TypeVar("Value", NodeTable, SelectedNodes)


class RecentValues(Generic[Value]):
    """The values that were used last, by key; safe for threads, because values never change."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Value | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def keep(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while self._is_too_large():
                self._values.popitem(last=False)

    def _is_too_large(self) -> bool:
        count, nodes = len(self._values), sum(map(len, self._values.values()))
        return count > MOST_KEPT or (count > 1 and nodes > MOST_NODES)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()

    def used(self) -> list[Hashable]:
        """The keys, that used longest ago first."""
        with self._lock:
            return list(self._values)


tables: RecentValues[NodeTable] = RecentValues()
snapshots: RecentValues[SelectedNodes] = RecentValues()


def selected_nodes(
    cluster: str,
    *,
    selectors: Selectors,
    labels: Iterable[str],
    levels: Levels,
    paths: bool,
    holdings: Mapping[str, Sequence[fit.Holding]],
    others: Mapping[str, fit.Amounts],
) -> fit.Snapshot:
    """The nodes that one of the selectors matches, with these labels and the selectors', and this usage.

    One query.
    """
    columns = tuple(sorted({key for selector in selectors for key in selector}.union(labels)))
    table = _table(cluster, columns)
    nodes, without_channel = table.nodes, table.without_channel()
    selection = frozenset(frozenset(selector.items()) for selector in selectors)
    key = (_database(), cluster, columns, selection, tuple(levels), paths)
    earlier = snapshots.find(key)
    if earlier is None or (earlier.table is not nodes and not _same_labels(earlier.table, nodes)):
        matched = [node for node in nodes.values() if _matches(node, selectors)]
        snapshot = fit.Snapshot.of(matched, levels, paths=paths, is_complete=len(matched) == len(nodes))
        earlier = SelectedNodes(nodes, snapshot)
    snapshot = _with_changes(earlier, nodes, without_channel)
    snapshot = snapshot.with_usage(holdings, others, used=earlier.used)
    used = frozenset(holdings).union(others)
    snapshots.keep(key, SelectedNodes(nodes, snapshot, used, without_channel))
    return snapshot


def _with_changes(
    earlier: SelectedNodes, nodes: Mapping[str, fit.FitNode], without_channel: frozenset[str]
) -> fit.Snapshot:
    """The earlier snapshot, its usage included, with what else changed of its nodes since."""
    snapshot = earlier.snapshot
    changed = set(earlier.without_channel ^ without_channel)
    if earlier.table is not nodes:
        changed.update(name for name, node in nodes.items() if node is not earlier.table[name])
    changes = {}
    for name in changed:
        if (at := snapshot.place(name)) is not None:
            before = snapshot.nodes[at]
            changes[at] = replace(
                nodes[name],
                lacks_channel=name in without_channel,
                holdings=before.holdings,
                others=before.others,
            )
    return snapshot.with_nodes(changes)


def _matches(node: fit.FitNode, selectors: Selectors) -> bool:
    labels = node.labels
    return any(all(labels.get(key) == value for key, value in selector.items()) for selector in selectors)


def _same_labels(before: Mapping[str, fit.FitNode], after: Mapping[str, fit.FitNode]) -> bool:
    """Whether the same nodes have the same labels, so that every node keeps its place."""
    return before.keys() == after.keys() and all(
        after[name] is node or after[name].labels == node.labels for name, node in before.items()
    )


def _table(cluster: str, labels: tuple[str, ...]) -> NodeTable:
    """The nodes of a cluster as of now."""
    key = (_database(), cluster, labels)
    earlier = tables.find(key)
    if earlier is not None and time.monotonic() - earlier.read_at < MOST_SECONDS:
        answer = _read(cluster, labels, since=earlier.horizon)
        nodes = _updated(earlier.nodes, answer.nodes)
        is_whole = len(nodes) == answer.count and answer.server == earlier.server
        if is_whole and not answer.has_written:
            table = answer.table(nodes, _still_channelless(earlier, answer), read_at=earlier.read_at)
            tables.keep(key, table)
            return table
    answer = _read(cluster, labels)
    table = answer.table(answer.nodes, answer.channelless, read_at=time.monotonic())
    if not answer.has_written:
        tables.keep(key, table)
    return table


def _updated(
    earlier: Mapping[str, fit.FitNode], written: Mapping[str, fit.FitNode]
) -> Mapping[str, fit.FitNode]:
    """The nodes with those that were written; the same mapping where they are as they were.

    A node's heartbeat writes its row and changes nothing that counts here.
    """
    changed = {name: node for name, node in written.items() if earlier.get(name) != node}
    return {**earlier, **changed} if changed else earlier


@dataclass(frozen=True, slots=True)
class _Answer:
    """``count`` is that of all nodes, ``has_written`` whether this transaction has written anything."""

    nodes: dict[str, fit.FitNode]
    channelless: dict[str, datetime]
    slices_observed_at: datetime | None
    count: int
    horizon: str
    server: str
    has_written: bool

    def table(
        self, nodes: Mapping[str, fit.FitNode], channelless: Mapping[str, datetime], *, read_at: float
    ) -> NodeTable:
        return NodeTable(nodes, channelless, self.slices_observed_at, self.horizon, self.server, read_at)


def _still_channelless(earlier: NodeTable, answer: _Answer) -> Mapping[str, datetime]:
    """Since when each node offers no channel; the same mapping where that is as it was."""
    if all(answer.channelless.get(name) == earlier.channelless.get(name) for name in answer.nodes):
        return earlier.channelless
    unwritten = {name: at for name, at in earlier.channelless.items() if name not in answer.nodes}
    return {**unwritten, **answer.channelless}


def _read(cluster: str, labels: Sequence[str], *, since: str | None = None) -> _Answer:
    """The nodes that were written by transactions from ``since`` on, all if None.

    Columns and not models, which would take five times as long. One statement, so that count, horizon and
    rows are of the same moment.
    """
    amounts = ", ".join(["node.allocatable ->> (%s::text)"] * len(AMOUNTS))
    label_values = "".join([", node.labels ->> (%s::text)"] * len(labels))
    written = "AND age(node.xmin) <= age(%s::xid)" if since else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT now.count, now.horizon, now.server, now.has_written, now.slices_observed_at,
                   CASE WHEN NOT node.offers_channel THEN node.channel_since END,
                   node.name, node.ready, node.unschedulable, node.taints::text, {amounts}{label_values}
            FROM (
                SELECT (SELECT count(*) FROM pools_node WHERE cluster_id = %s) AS count,
                       (pg_snapshot_xmin(pg_current_snapshot())::xid)::text AS horizon,
                       pg_postmaster_start_time()::text AS server,
                       pg_current_xact_id_if_assigned() IS NOT NULL AS has_written,
                       (SELECT heartbeat_at FROM pools_cluster
                        WHERE uid = %s AND slices_synced_at IS NOT NULL) AS slices_observed_at
            ) AS now LEFT JOIN pools_node AS node ON node.cluster_id = %s {written}
            """,  # noqa: S608 -- placeholders alone
            [*AMOUNTS, *labels, cluster, cluster, cluster, *([since] if since else [])],
        )
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    count, horizon, server, has_written, slices_observed_at = rows[0][:5]
    nodes = {row[6]: _node(row[6:], labels) for row in rows if row[6] is not None}
    channelless = {row[6]: row[5] for row in rows if row[5] is not None}
    return _Answer(nodes, channelless, slices_observed_at, count, horizon, server, has_written)


def _node(row: Sequence[Any], labels: Sequence[str]) -> fit.FitNode:
    name, ready, unschedulable, taints = row[:4]
    first_label = 4 + len(AMOUNTS)
    label_values = zip(labels, row[first_label:], strict=True)
    return fit.FitNode(
        name=name,
        labels={label: value for label, value in label_values if value is not None},
        allocatable=_allocatable(row[4:first_label]),
        taints=_taints(taints),
        closed="not ready" if not ready else "cordoned" if unschedulable else "",
    )


def fit_node(
    name: str,
    labels: Mapping[str, str],
    written: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
) -> fit.FitNode:
    """An open, empty node; ``written`` is its allocatable in Kubernetes' notation."""
    return fit.FitNode(
        name=name,
        labels=labels,
        allocatable=_allocatable(tuple(written.get(name) for name in AMOUNTS)),
        taints=tuple(taints),
    )


@lru_cache(maxsize=1024)
def _taints(text: str) -> tuple[Mapping[str, str], ...]:
    return tuple(json.loads(text))


@lru_cache(maxsize=1024)
def _allocatable(texts: tuple[str | None, ...]) -> fit.Amounts:
    """Parse the texts of AMOUNTS; thousands of nodes have the same."""
    written = {key: text for key, text in zip(AMOUNTS, texts, strict=True) if text}
    return amounts_of(allocatable(written), pods=_pods(written.get("pods")), channels=1)


def _pods(text: str | None) -> int:
    return int(text) if text and text.isdigit() else _PODS


def amounts_of(of: Amounts, *, pods: int, channels: int) -> fit.Amounts:
    return fit.amounts(
        gpu=of.gpu,
        cpu=int(of.cpu * 1000),
        memory=of.memory,
        storage=of.storage,
        pods=pods,
        channels=channels,
    )


def _database() -> str:
    return str(connection.settings_dict["NAME"])
