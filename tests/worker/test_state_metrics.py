"""The gauges that are read from the rows."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pools.models import Cluster
from tests.factories import (
    RACK,
    BackendFactory,
    NodeFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
)
from web.times import naive_utc
from workflows.feasibility.placement import measured_fragmentation
from workflows.models import MeasuredFragments, TaskGroup
from workflows.services.gauges import STATE, StateCollector, read
from workflows.services.lease import take_lease
from workflows.services.sweep import note_sweep


def values():
    return {name: {tuple(labels): value for value, *labels in rows} for name, rows in read().items()}


def test_groups_that_are_due_and_nobodys_show_how_long(world):
    late, held = world.group(), world.group()
    past = timezone.now() - timedelta(seconds=100)
    TaskGroup.objects.filter(pk=late.pk).update(next_reconcile_at=past)
    take_lease(held.pk)
    told = values()
    backend, other = late.backend.name, held.backend.name
    assert told["osmo_due_groups"] == {(backend,): 1, (other,): 0}
    assert 100 <= told["osmo_due_age_seconds"][(backend,)] < 160
    assert told["osmo_backlog_groups"] == {(late.workflow.pool_name,): 1, (held.workflow.pool_name,): 1}


def test_a_run_shows_its_statuses_and_its_compute_domain(world):
    group = world.group()
    world.settle()
    told = values()
    assert told["osmo_unreleased_groups"] == {(group.backend.name, "RUNNING"): 1}
    assert sum(told["osmo_compute_domains"].values()) == 1
    assert told["osmo_backlog_groups"] == {}
    assert told["osmo_backend_reachable"] == {(group.backend.name,): 1}
    assert told["osmo_cluster_heartbeat_age_seconds"][(world.uid,)] < 60


def test_a_release_that_is_stuck_shows(db):
    group = TaskGroupFactory(pods=0, status="FAILED")
    stuck = [{"type": "ReleaseStuck", "status": "True"}]
    TaskGroup.objects.update(conditions=stuck, end_time=timezone.now() - timedelta(hours=1))
    told = values()
    assert told["osmo_release_stuck_groups"] == {(group.backend.name,): 1}
    assert told["osmo_release_age_seconds"][(group.backend.name,)] >= 3600


def test_running_groups_whose_domain_is_not_ready_are_counted(db):
    lost = {"type": "NVLinkReady", "status": "False"}
    group = TaskGroupFactory(pods=0, status="RUNNING", conditions=[lost])
    TaskGroupFactory(pods=0, status="RUNNING", conditions=[{**lost, "status": "True"}])
    assert values()["osmo_nvlink_not_ready_groups"] == {(group.backend.name,): 1}


@pytest.mark.parametrize(("minutes", "want"), [(5, 1), (61, 0)])
def test_groups_without_progress_are_counted_while_they_lose_their_room(db, minutes, want):
    """One that has waited for room since is not lost again."""
    vain = {"type": "NoProgress", "status": "True"}
    began = timezone.now() - timedelta(minutes=minutes)
    group = TaskGroupFactory(pods=0, status="RUNNING", conditions=[vain], attempt_began_at=began)
    TaskGroupFactory(pods=0, status="RUNNING", conditions=[{**vain, "status": "False"}])
    assert values()["osmo_no_progress_groups"] == ({(group.backend.name,): 1} if want else {})


def test_free_nodes_show_by_size_and_key_until_nobody_counts_them_any_more(db):
    pool = PoolFactory(name="train", levels=[RACK], node_selector={"example.com/pool": "train"})
    cluster = pool.backend.cluster
    for number, rack in enumerate(["r1", "r1", "r1", "r2"]):
        labels = {RACK.label: rack, "example.com/pool": "train"}
        NodeFactory(cluster=cluster, name=f"n{number}", labels=labels)
    NodeFactory(cluster=cluster, labels={RACK.label: "r2"})
    group = TaskGroupFactory(pool=pool, pods=0, status="RUNNING")
    TaskFactory(group=group, node_name="n0", placement__gpu=1)
    PoolFactory(name="far", backend=BackendFactory(cluster=None))

    assert measured_fragmentation.clusters_measured() == [cluster.uid]
    assert (measured_fragmentation.measure(cluster.uid), measured_fragmentation.measure(cluster.uid)) == (
        1,
        1,
    )

    told = values()
    assert told["osmo_free_nodes"] == {("train",): 3}
    assert told["osmo_free_slots"] == {("train", "rack", "1"): 3, ("train", "rack", "2"): 1}
    assert told["osmo_largest_free_group_nodes"] == {("train", "rack"): 2}
    MeasuredFragments.objects.update(measured_at=timezone.now() - timedelta(minutes=6))
    assert values()["osmo_free_slots"] == {}


def test_nodes_that_nobody_observes_any_more_are_not_counted(db):
    """The metric would say that they are counted now."""
    pool = PoolFactory(levels=[RACK])
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    assert measured_fragmentation.clusters_measured() == []
    Cluster.objects.update(heartbeat_at=timezone.now())
    assert measured_fragmentation.clusters_measured() == [pool.backend.cluster_id]


def test_a_backend_that_was_never_probed_is_neither_good_nor_bad(db):
    BackendFactory(conditions=[])
    numbers = values()
    assert numbers["osmo_backend_reachable"] == numbers["osmo_backend_writes_allowed"] == {}


def test_a_cluster_that_was_never_observed_ages_since_it_answered(db):
    backend = BackendFactory(cluster__heartbeat_at=None)
    since = timezone.now() - timedelta(minutes=10)
    backend.conditions[0]["lastTransitionTime"] = naive_utc(since, precision="seconds")
    backend.save()
    BackendFactory(cluster__heartbeat_at=None, conditions=[])
    (age,) = values()["osmo_cluster_heartbeat_age_seconds"].values()
    assert 600 <= age < 660


def test_a_sweep_leaves_its_time(db):
    assert values()["osmo_sweep_age_seconds"] == {}
    note_sweep()
    note_sweep()
    assert values()["osmo_sweep_age_seconds"][()] < 60


def test_all_that_is_read_is_told_and_nothing_else(db):
    assert set(read()) - {"osmo_queue_messages"} == set(STATE) - {"osmo_queue_messages"}
    assert [family.name for family in StateCollector().describe()] == list(STATE)
