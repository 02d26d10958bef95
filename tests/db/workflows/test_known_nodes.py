"""The nodes that a process keeps are those that PostgreSQL has, whoever wrote them and however."""

import threading
from dataclasses import replace
from datetime import timedelta
from uuid import NAMESPACE_OID, uuid5

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pools.models import Node
from scheduling.fit.snapshot import Holding, amounts
from scheduling.nodes.devices import SLICES
from scheduling.topology.levels import Level
from tests.builders.completeness import note_lists
from tests.factories import ClusterFactory, NodeFactory
from web import recent_values
from workflows.feasibility.capacity import known_nodes
from workflows.feasibility.capacity.known_usage import ClusterUsage, GroupUsage, UsageOfGroups, UsageOfOthers

pytestmark = pytest.mark.django_db(transaction=True)

RACK = Level("rack", "example.com/rack")
POOL = {"example.com/pool": "a"}
USED = amounts(gpu=1, pods=1)
HELD = Holding("w", USED, 5.0)
AMOUNTS = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "1Ti"}


@pytest.fixture(autouse=True)
def clear_before():
    clear()


def clear():
    known_nodes.tables.clear()
    known_nodes.snapshots.clear()
    known_nodes.counted_places.clear()
    known_nodes.counted_nodes.clear()


@pytest.fixture
def cluster():
    cluster = ClusterFactory(uid="known-nodes")
    for number in range(6):
        labels = POOL | {RACK.label: f"r{number // 2}"}
        NodeFactory(cluster=cluster, name=f"n{number}", labels=labels)
    NodeFactory(cluster=cluster, name="other", labels={RACK.label: "r9"})
    cluster.nodes.filter(name="n0").update(allocatable=AMOUNTS | {"rdma/hca": "2"})
    return cluster


def usage_of(holdings, others):
    """One group for each node that is held."""
    groups = {
        uuid5(NAMESPACE_OID, node): GroupUsage(
            workflow="w", queue="", priority="NORMAL", started=None, amounts=USED, on={node: tuple(held)}
        )
        for node, held in holdings.items()
    }
    by_node = {node: (amounts, ()) for node, amounts in others.items()}
    return ClusterUsage(UsageOfGroups().with_groups(groups), UsageOfOthers(by_node))


def snapshot(cluster, *, labels=(), levels=(RACK,), holdings=(), others=()):
    wanted = {level.label for level in levels}.union(labels)
    return known_nodes.selected_nodes(
        cluster.pk,
        known_nodes.node_table(cluster.pk, selectors=[POOL], labels=wanted),
        selectors=[POOL],
        levels=levels,
        paths=True,
        usage=usage_of(dict(holdings), dict(others)),
        scheduler="kai",
    )


def fresh(cluster, **usage):
    clear()
    return snapshot(cluster, **usage)


CHANGES = {
    "nothing": lambda nodes: None,
    "a heartbeat of a node beside one that publishes more": lambda nodes: nodes.filter(name="n1").update(
        seen_at=timezone.now()
    ),
    "a node that publishes what none did": lambda nodes: nodes.filter(name="n1").update(
        allocatable=AMOUNTS | {"example.com/nic": "1"}
    ),
    "the last node that published a resource and does so no more": lambda nodes: nodes.filter(
        name="n0"
    ).update(allocatable=AMOUNTS),
    "a node that is cordoned": lambda nodes: nodes.filter(name="n1").update(unschedulable=True),
    "a node that moves to another rack": lambda nodes: nodes.filter(name="n1").update(
        labels=POOL | {RACK.label: "r2"}
    ),
    "a node that leaves the pool": lambda nodes: nodes.filter(name="n1").update(labels={RACK.label: "r0"}),
    "a node that joins the pool": lambda nodes: nodes.filter(name="other").update(
        labels=POOL | {RACK.label: "r0"}
    ),
    "a node that is gone": lambda nodes: nodes.filter(name="n1").delete(),
    "a node that is new": lambda nodes: NodeFactory(cluster_id="known-nodes", name="n00", labels=POOL),
    "a node that is gone and another in its place": lambda nodes: (
        nodes.filter(name="n1").delete(),
        NodeFactory(cluster_id="known-nodes", name="n10", labels=POOL),
    ),
    "all nodes written again by one statement": lambda nodes: nodes.update(taints=[{"key": "k"}]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_kept_nodes_equal_those_read_anew(cluster, change):
    snapshot(cluster)
    change(Node.objects.filter(cluster=cluster))
    assert snapshot(cluster) == fresh(cluster)


def places(cluster):
    table = known_nodes.node_table(cluster.pk, selectors=[POOL], labels=[RACK.label])
    return known_nodes.places_of_nodes(cluster.pk, table, selector=POOL, levels=(RACK,), paths=True)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_places_of_nodes_equal_those_that_are_counted_anew(cluster, change):
    places(cluster)
    change(Node.objects.filter(cluster=cluster))
    kept = places(cluster)
    clear()
    assert (kept.counts, kept.coverage) == (places(cluster).counts, places(cluster).coverage)


def counts(cluster, *selectors):
    table = known_nodes.node_table(cluster.pk, selectors=selectors, labels=[])
    return known_nodes.count_nodes(cluster.pk, table, selectors=selectors, scheduler="kai")


COUNTED_CHANGES = CHANGES | {
    "a node that has more GPUs": lambda nodes: nodes.filter(name="n1").update(
        allocatable={"nvidia.com/gpu": "16"}
    ),
    "a node that offers a channel": lambda nodes: nodes.filter(name="n1").update(
        offers_channel=True, channel_since=timezone.now()
    ),
    "nodes of which no channel is known": lambda nodes: nodes.update(channel_since=None),
}


@pytest.mark.parametrize("change", COUNTED_CHANGES.values(), ids=COUNTED_CHANGES)
def test_the_counts_of_nodes_equal_those_that_are_counted_anew(cluster, change):
    Node.objects.filter(cluster=cluster).update(channel_since=timezone.now())
    counts(cluster, POOL, {})
    change(Node.objects.filter(cluster=cluster))
    kept = counts(cluster, POOL, {})
    clear()
    assert kept == counts(cluster, POOL, {})


def test_nodes_are_counted_for_each_selector(cluster):
    now = timezone.now()
    nodes = Node.objects.filter(cluster=cluster)
    nodes.update(allocatable={"nvidia.com/gpu": "8"}, channel_since=now - timedelta(hours=1))
    nodes.filter(name="n1").update(allocatable={"nvidia.com/gpu": "16"}, channel_since=now)
    nodes.filter(name="other").update(offers_channel=True)
    assert counts(cluster, POOL, {}, {"example.com/pool": "b"}) == [
        known_nodes.NodeCount(nodes=6, most_gpus=16, offering=0, since=now),
        known_nodes.NodeCount(nodes=7, most_gpus=16, offering=1, since=now),
        known_nodes.NodeCount(nodes=0, most_gpus=0, offering=0, since=None),
    ]


def test_nodes_are_counted_again_only_where_one_changed(cluster):
    first = counts(cluster, POOL)
    Node.objects.filter(cluster=cluster).update(seen_at=timezone.now())
    assert counts(cluster, POOL) is first


def test_places_are_counted_again_only_where_labels_changed(cluster):
    first = places(cluster)
    Node.objects.filter(name="n1").update(unschedulable=True)
    assert places(cluster).counts is first.counts
    Node.objects.filter(name="n1").update(labels=POOL | {RACK.label: "r2"})
    assert places(cluster).counts == {("r0",): 1, ("r1",): 2, ("r2",): 3}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_usage_is_that_of_the_last_reading_whatever_else_changed(cluster, change):
    before = {"holdings": {"n1": [HELD], "n2": [HELD]}, "others": {"n3": USED, "gone": USED}}
    after = {"holdings": {"n2": [HELD, HELD], "n4": [HELD]}, "others": {"n1": USED}}
    snapshot(cluster, **before)
    change(Node.objects.filter(cluster=cluster))
    kept = snapshot(cluster, **after)
    assert kept == fresh(cluster, **after)
    assert kept != fresh(cluster)


def follow_slices(cluster, *, minutes_ago=0):
    at = timezone.now() - timedelta(minutes=minutes_ago)
    note_lists({SLICES: ""}, cluster=cluster, at=at, heartbeat_at=at)


def without_channel(of):
    return [node.name for node in of.nodes if node.lacks_channel]


def offer(*names, channel, minutes_ago=11):
    since = timezone.now() - timedelta(minutes=minutes_ago)
    Node.objects.filter(name__in=names).update(offers_channel=channel, channel_since=since)


def test_a_node_that_loses_its_channel_counts_as_without_until_it_has_one_again(cluster):
    follow_slices(cluster)
    assert without_channel(snapshot(cluster)) == []
    offer("n1", "n2", channel=False)
    used = {"holdings": {"n1": [HELD]}}
    kept = snapshot(cluster, **used)
    assert without_channel(kept) == ["n1", "n2"]
    assert kept == fresh(cluster, **used)
    Node.objects.filter(name="n1").update(unschedulable=True)
    assert without_channel(snapshot(cluster, **used)) == ["n1", "n2"]
    offer("n1", channel=True)
    assert without_channel(snapshot(cluster)) == ["n2"]
    assert snapshot(cluster) == fresh(cluster)


def test_a_node_without_a_channel_for_a_short_time_counts_as_without_once_it_is_long(cluster, monkeypatch):
    follow_slices(cluster)
    offer("n1", channel=False, minutes_ago=9)
    assert without_channel(snapshot(cluster)) == []
    now = timezone.now() + timedelta(minutes=2)
    monkeypatch.setattr(known_nodes.timezone, "now", lambda: now)
    assert without_channel(snapshot(cluster)) == ["n1"]


def test_no_node_counts_as_without_a_channel_where_slices_are_not_followed(cluster):
    offer("n1", channel=False)
    assert without_channel(snapshot(cluster)) == []
    follow_slices(cluster)
    assert without_channel(snapshot(cluster)) == ["n1"]
    follow_slices(cluster, minutes_ago=11)
    assert without_channel(snapshot(cluster)) == []


def test_the_same_usage_changes_no_snapshot(cluster):
    usage = {"holdings": {"n1": [HELD]}, "others": {"n3": USED}}
    assert snapshot(cluster, **usage) is snapshot(cluster, **usage)


def test_a_change_of_no_label_keeps_every_node_in_its_place(cluster):
    first = snapshot(cluster)
    Node.objects.filter(name="n1").update(unschedulable=True)
    changed = snapshot(cluster)
    assert changed.nodes[1].closed == "cordoned"
    assert changed.domains is first.domains


def test_a_heartbeat_changes_no_snapshot(cluster):
    first = snapshot(cluster)
    Node.objects.filter(name="n1").update(resource_version="2")
    assert snapshot(cluster) is first


def test_one_statement_reads_what_changed(cluster):
    snapshot(cluster)
    with CaptureQueriesContext(connection) as queries:
        snapshot(cluster)
    assert len(queries) == 1


def test_a_transaction_that_is_rolled_back_leaves_nothing(cluster):
    before = snapshot(cluster)
    with transaction.atomic():
        Node.objects.filter(name="n1").update(unschedulable=True)
        assert snapshot(cluster).nodes[1].closed == "cordoned"
        transaction.set_rollback(True)
    assert snapshot(cluster) == before == fresh(cluster)


def test_a_server_that_counts_transactions_anew_is_read_whole(cluster):
    """A database that is put back to a backup begins again at a transaction that is past already."""
    snapshot(cluster)
    for key in known_nodes.tables.used():
        table = known_nodes.tables.find(key)
        later = str(int(table.horizon) + 10**6)
        known_nodes.tables.keep(key, replace(table, server="earlier", horizon=later))
    Node.objects.filter(name="n1").update(unschedulable=True)
    assert snapshot(cluster) == fresh(cluster)


def test_a_transaction_that_began_before_a_reading_and_ends_after_is_noticed(cluster):
    """Its number is lower than that of others that the reading knows."""
    written, read = threading.Event(), threading.Event()

    def write():
        try:
            with transaction.atomic():
                Node.objects.filter(name="n1").update(unschedulable=True)
                written.set()
                assert read.wait(60)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(60)
        Node.objects.filter(name="n2").update(unschedulable=True)
        between = snapshot(cluster)
    finally:
        read.set()
        writer.join(60)
    assert [node.name for node in between.nodes if node.closed] == ["n2"]
    assert [node.name for node in snapshot(cluster).nodes if node.closed] == ["n1", "n2"]


def test_the_table_used_longest_ago_is_dropped_beyond_the_limit(cluster, monkeypatch):
    monkeypatch.setattr(recent_values, "MOST_PARTS", 20)
    for label in ("a", "b", "c"):
        snapshot(cluster, labels=[label], levels=())
    assert [key[2] for key in known_nodes.tables.used()] == [
        ("b", "example.com/pool"),
        ("c", "example.com/pool"),
    ]
    monkeypatch.setattr(recent_values, "MOST_PARTS", 1)
    snapshot(cluster)
    assert len(known_nodes.tables.used()) == 1


def test_usage_differs_on_the_nodes_of_the_groups_that_came_changed_or_ended(cluster):
    before = usage_of({"n0": [HELD], "n1": [HELD], "n2": [HELD]}, {})
    (ended,), (changed,) = (
        [g for g, use in before.groups.items() if node in use.on] for node in ("n0", "n1")
    )
    moved = replace(before.groups[changed], on={"n3": (HELD,)})
    after = ClusterUsage(before.of_groups.with_groups({ended: None, changed: moved}), before.of_others)
    assert set(after.differing(before)) == {"n0", "n1", "n3"}
    anew = ClusterUsage(UsageOfGroups().with_groups(after.groups), after.of_others)
    assert anew == after
    assert {"n0", "n1", "n3"} <= set(anew.differing(before))
