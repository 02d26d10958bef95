"""The groups of a worker that died go on once its heartbeat stopped, and not only when its leases run out."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from cluster.clock import boot_seconds
from tests.worker.world import World, fresh
from workflows.models import TaskGroup, WorkerHeartbeat
from workflows.reconcile.view import leased
from workflows.reconcile.view.leased import LeasedCluster
from workflows.services import heartbeat
from workflows.services.changes import GroupMove
from workflows.services.heartbeat import Heartbeat, end_leases_of_the_dead
from workflows.services.lease import LeaseLost, extend, take_lease
from workflows.services.record import record


@pytest.fixture
def worker(db, monkeypatch):
    """This process as a worker that beats."""
    own = Heartbeat()
    monkeypatch.setattr(heartbeat, "OWN", own)
    own.beat()
    own.steady_since -= heartbeat.HEARTBEAT_SECONDS
    return own


@pytest.fixture
def world(worker):
    return World()


def die():
    """The heartbeat of every worker ran out."""
    WorkerHeartbeat.objects.update(until=timezone.now() - timedelta(seconds=1))


def test_a_group_of_a_dead_worker_is_taken_before_its_lease_is_over(world):
    group = world.group(pods=1)
    old = take_lease(group.pk)
    assert end_leases_of_the_dead() == 0
    assert take_lease(group.pk) is None
    die()
    assert end_leases_of_the_dead() == 1
    assert take_lease(group.pk) is not None
    with pytest.raises(LeaseLost):
        record(old, [GroupMove(status="RUNNING")])
    with pytest.raises(LeaseLost):
        extend(old)


def test_the_groups_of_a_worker_that_beats_are_left_to_it(world, worker):
    group = world.group(pods=1)
    lease = take_lease(group.pk)
    WorkerHeartbeat.objects.create(worker=group.pk, until=timezone.now() - timedelta(seconds=1))
    worker.beat()
    assert end_leases_of_the_dead() == 0
    record(lease, [GroupMove(status="RUNNING")])
    assert WorkerHeartbeat.objects.filter(worker=worker.worker).exists()


def test_a_lease_without_a_heartbeat_ends_by_its_time_alone(world, monkeypatch):
    monkeypatch.setattr(heartbeat, "OWN", Heartbeat())
    group = world.group(pods=1)
    take_lease(group.pk)
    die()
    assert end_leases_of_the_dead() == 0


def test_after_a_time_without_the_database_no_worker_is_taken_for_dead(world, worker):
    """All heartbeats are old then, and that of the process that looks has just begun again."""
    group = world.group(pods=1)
    lease = take_lease(group.pk)
    worker.ends = boot_seconds() - 1
    worker.beat()
    WorkerHeartbeat.objects.create(worker=group.pk, until=timezone.now() - timedelta(seconds=1))
    die()
    assert end_leases_of_the_dead() == 0
    record(lease, [GroupMove(status="RUNNING")])


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_keeps_locked_holds_up_no_sweep(worker):
    world = World()
    first, second = world.group(pods=1), world.group(pods=1)
    take_lease(first.pk)
    take_lease(second.pk)
    die()
    locked = threading.Event()
    done = threading.Event()

    def lock():
        with transaction.atomic():
            TaskGroup.objects.select_for_update().get(pk=first.pk)
            locked.set()
            done.wait(30)
        connection.close()

    holder = threading.Thread(target=lock)
    holder.start()
    try:
        assert locked.wait(30)
        assert end_leases_of_the_dead() == 1
    finally:
        done.set()
        holder.join()
    assert end_leases_of_the_dead() == 1


def test_nothing_is_believed_to_be_gone_while_a_write_of_the_dead_may_arrive(world):
    group = world.group(pods=1)
    world.settle()
    world.finish(group)
    until = timezone.now() + timedelta(seconds=30)
    TaskGroup.objects.filter(pk=group.pk).update(late_writes_until=until)
    world.settle()
    row = fresh(group)
    assert (row.released_at, row.next_reconcile_at) == (None, until)
    TaskGroup.objects.filter(pk=group.pk).update(
        late_writes_until=timezone.now(), next_reconcile_at=timezone.now()
    )
    world.settle()
    assert fresh(group).released_at is not None


def test_a_worker_that_missed_its_heartbeats_asks_whether_the_group_is_still_its_own(world, worker):
    group = world.group(pods=1)
    lease = take_lease(group.pk)
    cluster = LeasedCluster(world.cluster, lease)
    cluster.kube_system_uid()
    die()
    end_leases_of_the_dead()
    worker.ends -= heartbeat.HEARTBEAT_SECONDS - leased.MARGIN / 2
    with pytest.raises(LeaseLost):
        cluster.kube_system_uid()
