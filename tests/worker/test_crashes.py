"""A worker may die between any two calls, and a reply may be lost after any of them: it is harmless.

The whole life of a group is played once to count its calls, then again with one of them failing.
"""

from datetime import timedelta

import pytest
from django.db.models import Q
from django.utils import timezone

from cluster.errors import ClusterUnreachable
from cluster.kinds import POD
from pools.models import Backend
from tests.builders.crashes import Killed, death_at, expire_leases
from tests.factories import BackendFactory
from tests.worker.world import World, fresh, statuses
from workflows.logs.archive import keep_before_delete
from workflows.models import Task, TaskGroup
from workflows.reconcile.run import run
from workflows.services import lease as leases
from workflows.services.changes import GroupMove, TaskMove
from workflows.services.lease import LeaseLost, extend, release, take_lease
from workflows.services.record import record
from workflows.services.stop import request_stop


def life(world, group):
    world.settle()
    assert statuses(group) == ["RUNNING", "RUNNING"]
    world.finish(group)
    world.settle()


def ended_well(world, group):
    row = fresh(group)
    assert (row.status, row.released_at is not None) == ("COMPLETED", True)
    assert world.cluster.objects == {}
    assert world.cluster.deleted_before("Pod", "ComputeDomain")


@pytest.mark.parametrize("applied", [False, True], ids=["never arrived", "reply lost"])
@pytest.mark.parametrize("verb", ["create", "delete", "list", "get"])
@pytest.mark.parametrize("after", range(8))
def test_one_lost_call_changes_nothing_of_the_end(db, verb, after, applied):
    world = World()
    group = world.group(pods=2)
    error = ClusterUnreachable("the reply was lost", maybe_applied=verb in ("create", "delete"))
    world.cluster.fail(error, verb=verb, after=after, applied=applied)
    life(world, group)
    ended_well(world, group)


@pytest.mark.parametrize("verb", ["create", "delete"])
@pytest.mark.parametrize("after", range(8))
@pytest.mark.parametrize("applied", [False, True], ids=["before it arrived", "after it was done"])
def test_a_worker_that_dies_in_a_call_is_taken_over_from(db, verb, after, applied):
    world = World()
    group = world.group(pods=2)
    world.cluster.fail(Killed(), verb=verb, after=after, applied=applied)
    for _ in range(2):
        try:
            world.settle()
            world.finish(group)
        except Killed:
            expire_leases()
    world.settle()
    ended_well(world, group)


@pytest.mark.parametrize(("scheduler", "version"), [("kai", "0.13"), ("kubernetes", "1.37")])
def test_a_pod_of_a_placed_gang_is_not_made_again_by_the_worker_that_takes_over(db, scheduler, version):
    """The first worker dies before it records the creation; then a pod is deleted, and another one ends."""
    world = World()
    pool = world.pool(nvlink=True, backend={"scheduler_type": scheduler})
    frozen = {"scheduler_version": version}
    group = world.group(pods=3, pool=pool, frozen=frozen, ignore_nonlead_status=False)
    ended, lost, running = [task.pod_name for task in group.tasks.order_by("position")]
    Task.objects.filter(group=group, name="task-0").update(lead=False)
    with death_at("before-created-recorded"):
        world.settle()
    assert sorted(world.pods()) == sorted([ended, lost, running])
    world.finish(group, tasks=["task-0"])
    world.cluster.remove(POD, lost, namespace="osmo")
    world.settle()
    assert sorted(world.pods()) == sorted([ended, running])
    assert statuses(group) == ["COMPLETED", "SCHEDULING", "RUNNING"]
    Task.objects.filter(group=group).update(scheduling_start_time=timezone.now() - timedelta(minutes=1))
    world.settle()
    assert statuses(group)[1] == "FAILED_BACKEND_ERROR"
    assert (fresh(group).status, fresh(group).released_at is not None) == ("FAILED_BACKEND_ERROR", True)


@pytest.mark.parametrize(("scheduler", "version"), [("kai", "0.13"), ("kubernetes", "1.37"), ("default", "")])
def test_a_gang_that_was_made_in_part_is_completed(db, scheduler, version):
    world = World(scheduled=scheduler == "default")
    pool = world.pool(nvlink=False, backend={"scheduler_type": scheduler})
    group = world.group(pods=3, pool=pool, frozen={"scheduler_version": version})
    with death_at("before-created-recorded"):
        world.settle()
    world.cluster.remove(POD, world.pods()[0], namespace="osmo")
    world.settle()
    assert len(world.pods()) == 3
    assert len(set(statuses(group))) == 1


@pytest.mark.parametrize("calls", range(1, 9))
def test_a_group_stopped_while_it_is_made_leaves_nothing(db, calls):
    world = World()
    group = world.group(pods=2)
    world.cluster.fail(Killed(), verb="create", after=calls - 1, applied=True)
    try:
        world.settle()
    except Killed:
        expire_leases()
    request_stop(Q(pk=group.pk), status="FAILED_CANCELED", message="Cancelled.", force=False)
    world.settle()
    assert fresh(group).released_at is not None
    assert world.cluster.objects == {}


def test_a_stale_lease_writes_nothing(world):
    group = world.group(pods=1)
    old = take_lease(group.pk)
    expire_leases()
    TaskGroup.objects.update(next_reconcile_at=timezone.now())
    new = take_lease(group.pk)
    task = group.tasks.get()
    changes = [TaskMove(pk=task.pk, status="RUNNING"), GroupMove(status="RUNNING")]
    with pytest.raises(LeaseLost):
        record(old, changes)
    with pytest.raises(LeaseLost):
        extend(old)
    assert release(old, failures=0) is False
    assert statuses(group) == ["PROCESSING"]
    record(new, changes)
    assert statuses(group) == ["RUNNING"]


def test_a_lease_that_ran_out_writes_nothing_even_if_nobody_else_has_it(world):
    group = world.group(pods=1)
    old = take_lease(group.pk)
    expire_leases()
    with pytest.raises(LeaseLost):
        record(old, [GroupMove(status="RUNNING")])


def test_only_one_worker_gets_a_group(world):
    group = world.group(pods=1)
    assert take_lease(group.pk) is not None
    assert take_lease(group.pk) is None


def test_a_group_that_is_not_due_is_nobodys_turn(world):
    group = world.group(pods=1)
    TaskGroup.objects.update(next_reconcile_at=None)
    assert take_lease(group.pk) is None


def test_a_notification_during_a_reconcile_makes_the_group_due_again(world):
    group = world.group(pods=1)
    lease = take_lease(group.pk)
    request_stop(Q(pk=group.pk), status="FAILED_CANCELED", message="", force=False)
    assert release(lease, failures=0) is True


def test_no_call_begins_with_less_of_the_lease_left_than_it_may_take(world, monkeypatch):
    group = world.group(pods=2)
    now = [0.0]
    extended = []
    monkeypatch.setattr(
        "workflows.reconcile.view.leased.extend", lambda lease: extended.append(1) or extend(lease)
    )
    TaskGroup.objects.update(next_reconcile_at=timezone.now())
    lease = take_lease(group.pk, clock=lambda: now[0])
    original = world.cluster.kube_system_uid

    def slow(**options):
        now[0] += leases.LEASE_SECONDS - 5.0
        return original(**options)

    monkeypatch.setattr(world.cluster, "kube_system_uid", slow)
    run(lease, cluster=world.cluster, archive=keep_before_delete, clock=lambda: now[0])
    assert extended


def test_a_deleted_backends_groups_go_on_by_another_way_to_the_same_cluster(world):
    """Nobody can correct the address of a backend that is deleted; one made anew can be."""
    group = world.group(pods=1)
    Backend.objects.update(kubeconfig="/wrong", deleted_at=timezone.now())
    BackendFactory(cluster_id=world.uid, kubeconfig="/elsewhere/in/the/same/cluster")
    anew = BackendFactory(cluster_id=world.uid, kubeconfig="/right", name=f"{group.backend.name}")
    assert take_lease(group.pk).backend == anew
