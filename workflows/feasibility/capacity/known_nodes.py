"""The nodes of clusters, kept by each process and brought up to date by what changed.

A submission, a page and a waiting gang all judge the same thousands of nodes, of which few change between
two of them, so a process reads only the rows that were written since it read last. PostgreSQL itself says
which: a row's ``xmin`` is the transaction that wrote it, and everything that committed after a statement has
a number from that statement's ``pg_snapshot_xmin`` on. No writer has to take part, so none can forget to.
A number of the cluster that writers raise was rejected for that reason. A transaction that writes for long,
in any database of the server, makes more rows be read again, and nothing else.

A kept value is never older than the statement that asked, and it dies

- with one row deleted: the count of the rows differs from what is known;
- when PostgreSQL starts again: a database put back to a backup, and a replica that took over, count anew from
  a transaction that is past already;
- after MOST_SECONDS, long before the numbers of transactions come round to the same again;
- when others with MOST_PARTS nodes together were used since.

A transaction that has written reads every row and keeps nothing, since its own rows may be rolled back.

What is in use (``known_usage``) is laid on the nodes where it differs from the reading before. So are the
nodes that are known to have no NVLink channel, and taints that may pass, which depend on the time: a table
keeps since when a node offers none, and since when it carries a taint.

20,000 nodes with 6 labels take 15 MB as a table. A snapshot of them all takes 6 MB, 9 MB if every node is in
use, and up to 6 MB for what was counted of it; so a process keeps at most about 75 MB of tables and 75 MB of
snapshots.
"""

import json
import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from django.db import connection
from django.utils import timezone

from pools.selectors import tolerated_keys
from pools.values.completeness import OTHERS, devices_problem, is_known
from pools.values.freshness import NEVER_OBSERVED, OBSERVED_AT, Freshness
from scheduling.backends.registry import device_rule
from scheduling.fit import snapshot as fit
from scheduling.kubernetes_syntax import GPU
from scheduling.nodes.channels import settled_until
from scheduling.nodes.devices import CLASSES, NO_DEVICES, SLICES, DeviceRule, NodeDevices
from scheduling.nodes.taints import BARRING, Taint, passes
from scheduling.topology.coverage import LabelCoverage, count
from scheduling.topology.levels import HOSTNAME_LABEL, DomainPath, Levels, domain_of
from web.recent_values import RecentValues, database
from workflows.feasibility.capacity.known_usage import NO_USAGE, ClusterUsage
from workflows.values.amounts import STORAGE, allocatable, fit_amounts, whole_amounts

AMOUNTS = ("cpu", "memory", STORAGE, GPU, "pods")
_PODS = 110
"""kubelet's default, for a node that reports none."""

MOST_SECONDS = 600

Value = TypeVar("Value")

TaintTimes = Mapping[str, datetime | None]
"""Since when a node carries each taint that bars pods, by key; None: not known."""

Selectors = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ClusterTimes:
    """How fresh a cluster's nodes are, and until when its slices are known; None: never.

    ``others_known``: other tenants' pods are followed.
    """

    freshness: Freshness = NEVER_OBSERVED
    slices_observed_at: datetime | None = None
    others_known: bool = False
    devices_problem: str = ""
    """Why slices or device classes are not known; empty if they are."""


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Every node of a cluster, by name."""

    nodes: Mapping[str, fit.FitNode]
    """Empty ones."""

    channelless: Mapping[str, datetime | None]
    """Since when each node that offers no NVLink channel has offered none, None if that is not known."""

    tainted: Mapping[str, TaintTimes]
    """Of the nodes with a taint that may pass."""

    cluster: ClusterTimes
    labels: tuple[str, ...]

    published: frozenset[str]
    """The further resources of which each node says how much it offers."""

    horizon: str
    """The first transaction that it may lack."""

    server: str
    """When PostgreSQL started."""

    read_at: float

    def device_rule(self, scheduler: str) -> DeviceRule:
        """How the scheduler of this name counts devices."""
        return device_rule(scheduler, problem=self.cluster.devices_problem)

    def without_channel(self) -> frozenset[str]:
        """The nodes that are known to have none."""
        settled = settled_until(self.cluster.slices_observed_at, now=timezone.now())
        if settled is None:
            return frozenset()
        since_by_node = self.channelless.items()
        return frozenset(name for name, since in since_by_node if since is not None and since <= settled)

    def passing(self, cluster: str) -> Mapping[str, TaintTimes]:
        """The taints that may pass, of each node that has any. One query if some taint is young."""
        if not self.tainted:
            return {}
        listed, now = tolerated_keys(cluster), timezone.now()
        passing = {
            name: {key: at for key, at in times.items() if passes(key, since=at, listed=listed, now=now)}
            for name, times in self.tainted.items()
        }
        return {name: times for name, times in passing.items() if times}


@dataclass(frozen=True, slots=True)
class SelectedNodes:
    """The snapshot of those nodes of a table that selectors match, with the usage that was read last.

    ``without_channel`` are those of the cluster that are known to have no NVLink channel, ``passing`` those
    with taints that may pass.
    """

    table: Mapping[str, fit.FitNode]
    snapshot: fit.Snapshot
    usage: ClusterUsage = NO_USAGE
    without_channel: frozenset[str] = frozenset()
    passing: Mapping[str, TaintTimes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacesOfNodes:
    """How many nodes of a table stand at each place, of those that a selector matches, and their coverage."""

    table: Mapping[str, fit.FitNode]
    counts: Mapping[DomainPath, int]
    coverage: LabelCoverage


@dataclass(frozen=True, slots=True)
class NodeCount:
    """How many nodes a selector matches, the most GPUs of one of them, and how many offer an NVLink channel.

    ``most_gpus`` None: of some node it is not known how many its scheduler gives.
    ``since`` is the latest time from which one that offers none has offered none, None if not known of all.
    """

    nodes: int
    most_gpus: int | None
    offering: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class CountedNodes:
    """The counts of a table's nodes for each of some selectors."""

    table: Mapping[str, fit.FitNode]
    channelless: Mapping[str, datetime | None]
    counts: Sequence[NodeCount]


tables: RecentValues[NodeTable] = RecentValues()
snapshots: RecentValues[SelectedNodes] = RecentValues()
counted_places: RecentValues[PlacesOfNodes] = RecentValues()
counted_nodes: RecentValues[CountedNodes] = RecentValues()


def places_of_nodes(
    cluster: str, table: NodeTable, *, selector: Mapping[str, str], levels: Levels, paths: bool
) -> PlacesOfNodes:
    """The places of those nodes of a cluster's table that a selector matches."""
    nodes = table.nodes
    key = (database(), cluster, table.labels, frozenset(selector.items()), tuple(levels), paths)
    earlier = counted_places.find(key)
    if earlier is None or (earlier.table is not nodes and not _same_labels(earlier.table, nodes)):
        matched = (node for node in nodes.values() if _matches(node, [selector]))
        counts = Counter(domain_of(node.labels, levels) for node in matched)
        earlier = PlacesOfNodes(nodes, counts, count(counts, levels, paths=paths))
    counted = replace(earlier, table=nodes)
    counted_places.keep(key, counted, parts=len(nodes))
    return counted


def count_nodes(
    cluster: str, table: NodeTable, *, selectors: Selectors, scheduler: str
) -> Sequence[NodeCount]:
    """Count those nodes of a cluster's table that each of the selectors matches."""
    rule = table.device_rule(scheduler)
    selections = tuple(frozenset(selector.items()) for selector in selectors)
    key = (database(), cluster, table.labels, selections, rule)
    earlier = counted_nodes.find(key)
    if earlier is None or earlier.table is not table.nodes or earlier.channelless is not table.channelless:
        earlier = CountedNodes(
            table.nodes, table.channelless, [_count(table, selector, rule) for selector in selectors]
        )
    counted_nodes.keep(key, earlier, parts=len(table.nodes))
    return earlier.counts


def _count(table: NodeTable, selector: Mapping[str, str], rule: DeviceRule) -> NodeCount:
    matched = [as_given(node, rule) for node in table.nodes.values() if _matches(node, [selector])]
    without = [table.channelless[node.name] for node in matched if node.name in table.channelless]
    dated = [since for since in without if since is not None]
    most = max((0, *(fit.hopeful_node(node).gpus for node in matched)))
    return NodeCount(
        nodes=len(matched),
        most_gpus=most if most < fit.MANY_GPUS else None,
        offering=len(matched) - len(without),
        since=max(dated) if dated and len(dated) == len(without) else None,
    )


def node_table(cluster: str, *, selectors: Selectors, labels: Iterable[str]) -> NodeTable:
    """The nodes of a cluster as of now, with these labels and the selectors'. One query."""
    return _table(cluster, _columns(selectors, labels))


def selected_nodes(
    cluster: str,
    table: NodeTable,
    *,
    selectors: Selectors,
    levels: Levels,
    paths: bool,
    usage: ClusterUsage,
    scheduler: str,
) -> fit.Snapshot:
    """The nodes of a cluster's table that one of the selectors matches, with this usage.

    Of devices they have what the scheduler of this name gives.
    """
    devices = table.device_rule(scheduler)
    nodes, without_channel, passing = table.nodes, table.without_channel(), table.passing(cluster)
    selection = frozenset(frozenset(selector.items()) for selector in selectors)
    key = (database(), cluster, table.labels, selection, tuple(levels), paths, devices)
    earlier = snapshots.find(key)
    if earlier is None or (earlier.table is not nodes and not _same_labels(earlier.table, nodes)):
        matched = [as_given(node, devices) for node in nodes.values() if _matches(node, selectors)]
        snapshot = fit.Snapshot.of(matched, levels, paths=paths, is_complete=len(matched) == len(nodes))
        earlier = SelectedNodes(nodes, snapshot)
    snapshot = _with_changes(earlier, nodes, without_channel, passing, devices)
    snapshot = snapshot.with_usage(usage.differing(earlier.usage))
    selected = SelectedNodes(nodes, snapshot, usage, without_channel, passing)
    snapshots.keep(key, selected, parts=len(snapshot.nodes))
    return snapshot


def _with_changes(
    earlier: SelectedNodes,
    nodes: Mapping[str, fit.FitNode],
    without_channel: frozenset[str],
    passing: Mapping[str, TaintTimes],
    devices: DeviceRule,
) -> fit.Snapshot:
    """The earlier snapshot, its usage included, with what else changed of its nodes since."""
    snapshot = earlier.snapshot
    changed = set(earlier.without_channel ^ without_channel)
    changed.update(
        name
        for name in passing.keys() | earlier.passing.keys()
        if passing.get(name) != earlier.passing.get(name)
    )
    if earlier.table is not nodes:
        changed.update(name for name, node in nodes.items() if node is not earlier.table[name])
    changes = {}
    for name in changed:
        if (at := snapshot.place(name)) is not None:
            before = snapshot.nodes[at]
            changes[at] = replace(
                as_given(nodes[name], devices),
                lacks_channel=name in without_channel,
                passing=passing.get(name, {}),
                holdings=before.holdings,
                others=before.others,
                others_by=before.others_by,
            )
    return snapshot.with_nodes(changes)


def as_given(node: fit.FitNode, rule: DeviceRule) -> fit.FitNode:
    """The node with what its scheduler is known to give of it, and why that is not known of the rest."""
    if node.devices is NO_DEVICES and not (rule.problem and rule.gives_devices):
        return node
    devices = node.devices
    gpus, doubt = rule.gpus(devices, offered=node.gpus)
    extended = tuple(
        (name, amount) for name, amount in node.extended if not rule.doubt(devices, name, offered=amount)
    )
    if not doubt and extended == node.extended:
        return node
    allocatable = fit.with_gpus(node.allocatable, gpus)
    return replace(node, allocatable=allocatable, extended=extended, uncounted=doubt)


def _columns(selectors: Selectors, labels: Iterable[str]) -> tuple[str, ...]:
    """The labels that a table has, in order."""
    return tuple(sorted({key for selector in selectors for key in selector}.union(labels)))


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
    key = (database(), cluster, labels)
    earlier = tables.find(key)
    if earlier is not None and time.monotonic() - earlier.read_at < MOST_SECONDS:
        answer = _read(cluster, labels, since=earlier.horizon, published=earlier.published)
        news, nodes = answer.table, _updated(earlier.nodes, answer.table.nodes)
        is_whole = len(nodes) == answer.count and news.server == earlier.server
        is_whole = is_whole and news.published == earlier.published and not _lost(earlier.nodes, news.nodes)
        if is_whole and not answer.has_written:
            table = replace(
                news,
                nodes=nodes,
                channelless=_renewed(earlier.channelless, news.channelless, news.nodes),
                tainted=_renewed(earlier.tainted, news.tainted, news.nodes),
                read_at=earlier.read_at,
            )
            tables.keep(key, table, parts=len(table.nodes))
            return table
    answer = _read(cluster, labels)
    if not answer.has_written:
        tables.keep(key, answer.table, parts=len(answer.table.nodes))
    return answer.table


def _updated(
    earlier: Mapping[str, fit.FitNode], written: Mapping[str, fit.FitNode]
) -> Mapping[str, fit.FitNode]:
    """The nodes with those that were written; the same mapping where they are as they were.

    A node's heartbeat writes its row and changes nothing that counts here.
    """
    changed = {name: node for name, node in written.items() if earlier.get(name) != node}
    return {**earlier, **changed} if changed else earlier


def _lost(earlier: Mapping[str, fit.FitNode], written: Mapping[str, fit.FitNode]) -> bool:
    """Whether a node offers nothing any more of a further resource: it may have been the last to name it."""
    return any(
        amount and not dict(node.extended).get(resource)
        for name, node in written.items()
        if (before := earlier.get(name)) is not None and before.extended != node.extended
        for resource, amount in before.extended
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    """``table`` has the nodes that were read alone; ``count`` is that of all nodes.

    ``has_written``: whether this transaction has written anything.
    """

    table: NodeTable
    count: int
    has_written: bool


def _renewed(
    before: Mapping[str, Value], written: Mapping[str, Value], nodes: Container[str]
) -> Mapping[str, Value]:
    """What is known of some nodes, written anew for ``nodes``; the same mapping where it is as it was."""
    unwritten = {name: value for name, value in before.items() if name not in nodes}
    after = {**unwritten, **written}
    return before if after == before else after


def _read(
    cluster: str,
    labels: tuple[str, ...],
    *,
    since: str | None = None,
    published: frozenset[str] = frozenset(),
) -> _Answer:
    """The nodes that were written by transactions from ``since`` on, all if None.

    ``published`` are the further resources that nodes were known to publish by then.

    Columns and not models, which would take five times as long. One statement, so that count, horizon and
    rows are of the same moment. A host name that is also the node's name is left out, so that nodes share
    their other labels.
    """
    amounts = ", ".join(["node.allocatable ->> (%s::text)"] * len(AMOUNTS))
    label_values = "".join([", node.labels ->> (%s::text)"] * len(labels))
    if HOSTNAME_LABEL not in labels:
        label_values += f", NULLIF(node.labels ->> '{HOSTNAME_LABEL}', node.name)"
    written = "AND age(node.xmin) <= age(%s::xid)" if since else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT now.count, now.horizon, now.server, now.has_written,
                   {OBSERVED_AT}, clock_timestamp(),
                   CASE WHEN {is_known(SLICES)} THEN heartbeat_at END, {is_known(OTHERS)},
                   completeness ->> '{SLICES}', completeness ->> '{CLASSES}',
                   node.offers_channel, node.channel_since, node.taints_since::text, node.name,
                   node.ready, node.unschedulable, node.taints::text, {amounts},
                   node.devices::text, (node.allocatable - %s::text[])::text{label_values}
            FROM (
                SELECT (SELECT count(*) FROM pools_node WHERE cluster_id = %s) AS count,
                       (pg_snapshot_xmin(pg_current_snapshot())::xid)::text AS horizon,
                       pg_postmaster_start_time()::text AS server,
                       pg_current_xact_id_if_assigned() IS NOT NULL AS has_written
            ) AS now
            LEFT JOIN pools_cluster AS cluster ON cluster.uid = %s
            LEFT JOIN pools_node AS node ON node.cluster_id = %s {written}
            """,  # noqa: S608 -- placeholders alone
            [*AMOUNTS, [*AMOUNTS], *labels, cluster, cluster, cluster, *([since] if since else [])],
        )
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    count, horizon, server, has_written, observed_at, clock, slices_at, others_known = rows[0][:8]
    slices, classes = (json.loads(entry or "{}") for entry in rows[0][8:10])
    problem = devices_problem({SLICES: slices, CLASSES: classes})
    rows = [row[10:] for row in rows if row[13] is not None]
    read = labels if HOSTNAME_LABEL in labels else (*labels, HOSTNAME_LABEL)
    written_nodes = [_node(row[3:], read) for row in rows]
    published = published.union(name for node in written_nodes for name, _ in node.extended)
    nodes = _published_alike(written_nodes, published)
    channelless = {row[3]: row[1] for row in rows if not row[0]}
    tainted = {row[3]: young for row in rows if (young := _young(nodes[row[3]].taints, row[2]))}
    times = ClusterTimes(Freshness(observed_at, clock), slices_at, others_known, problem)
    at = time.monotonic()
    table = NodeTable(nodes, channelless, tainted, times, labels, published, horizon, server, at)
    return _Answer(table, count, has_written)


def _young(taints: Sequence[Taint], since: str) -> TaintTimes:
    """The taints of a node that time alone may not show to be lasting yet."""
    barring = {taint.get("key", "") for taint in taints if taint.get("effect") in BARRING}
    if not barring:
        return {}
    observed, now = json.loads(since), timezone.now()
    times = {key: datetime.fromisoformat(observed[key]) if key in observed else None for key in barring}
    return {key: at for key, at in times.items() if passes(key, since=at, listed=frozenset(), now=now)}


def _node(row: Sequence[Any], labels: Sequence[str]) -> fit.FitNode:
    name, ready, unschedulable, taints = row[:4]
    first_label = 6 + len(AMOUNTS)
    label_values = zip(labels, row[first_label:], strict=True)
    return fit.FitNode(
        name=name,
        labels={label: value for label, value in label_values if value is not None},
        allocatable=_allocatable(row[4 : first_label - 2]),
        extended=_extended(row[first_label - 1]),
        devices=_devices(row[first_label - 2]),
        taints=_taints(taints),
        closed="not ready" if not ready else "cordoned" if unschedulable else "",
    )


def fit_node(
    name: str,
    labels: Mapping[str, str],
    written: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    devices: NodeDevices = NO_DEVICES,
) -> fit.FitNode:
    """An open, empty node; ``written`` is its allocatable in Kubernetes' notation."""
    return fit.FitNode(
        name=name,
        labels=labels,
        allocatable=_allocatable(tuple(written.get(name) for name in AMOUNTS)),
        extended=_extended(json.dumps({name: text for name, text in written.items() if name not in AMOUNTS})),
        devices=devices,
        taints=tuple(taints),
    )


def _published_alike(nodes: Iterable[fit.FitNode], published: frozenset[str]) -> dict[str, fit.FitNode]:
    """The nodes by name; of a published resource that a node does not name it offers 0."""
    none = dict.fromkeys(published, 0)
    completed: dict[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]] = {}
    alike = {}
    for node in nodes:
        if len(node.extended) < len(none):
            if node.extended not in completed:
                completed[node.extended] = tuple(sorted((none | dict(node.extended)).items()))
            alike[node.name] = replace(node, extended=completed[node.extended])
        else:
            alike[node.name] = node
    return alike


@lru_cache(maxsize=1024)
def _extended(text: str) -> tuple[tuple[str, int], ...]:
    """Parse what nodes publish beyond AMOUNTS; thousands of nodes have the same."""
    return tuple(sorted(whole_amounts(json.loads(text)).items()))


@lru_cache(maxsize=1024)
def _devices(text: str) -> NodeDevices:
    return NodeDevices.from_json(json.loads(text)) if text != "{}" else NO_DEVICES


@lru_cache(maxsize=1024)
def _taints(text: str) -> tuple[Mapping[str, str], ...]:
    return tuple(json.loads(text))


@lru_cache(maxsize=1024)
def _allocatable(texts: tuple[str | None, ...]) -> fit.ResourceVector:
    """Parse the texts of AMOUNTS; thousands of nodes have the same."""
    written = {key: text for key, text in zip(AMOUNTS, texts, strict=True) if text}
    return fit_amounts(allocatable(written), pods=_pods(written.get("pods")), channels=1)


def _pods(text: str | None) -> int:
    return int(text) if text and text.isdigit() else _PODS
