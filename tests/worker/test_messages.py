"""Messages that name several groups, and what becomes of groups that a worker leaves out."""

from collections import Counter
from datetime import timedelta

import pytest
from celery import current_app
from django.utils import timezone

from cluster import reachability
from pools.clusters import connect
from pools.clusters.connect import access_of
from tests.factories import BackendFactory, PoolFactory, TaskGroupFactory
from tests.worker.world import fresh
from workflows import tasks
from workflows.models import TaskGroup
from workflows.services import notify, queue
from workflows.services.lease import release, take_lease
from workflows.services.notify import LEAST_MESSAGES, MOST_IN_A_MESSAGE, OVERDUE_SECONDS, mark_due
from workflows.services.sweep import due_groups, note_sweep


@pytest.fixture
def sent(monkeypatch):
    """The groups of each message that was sent."""
    messages = []

    def send(_name, *, args, headers=None, **_):
        messages.append([*args, *(headers or {}).get(notify.FURTHER, ())])

    monkeypatch.setattr(current_app, "send_task", send)
    monkeypatch.setattr(queue, "room", lambda **_: queue.FULL)
    monkeypatch.setattr(queue, "is_silent", lambda: False)
    return messages


@pytest.fixture
def through_messages(world, monkeypatch):
    """Workers reach the cluster in memory."""
    monkeypatch.setattr(connect, "connect", lambda *_: world.cluster)


@pytest.fixture
def notified_meanwhile(monkeypatch):
    """Each group is notified once while it is reconciled; returns how often each was."""
    reconciles = Counter()
    run = tasks.run.run

    def notify_once(lease, **more):
        reconciles[lease.group_id] += 1
        if reconciles[lease.group_id] == 1:
            mark_due([lease.group_id])
        return run(lease, **more)

    monkeypatch.setattr(tasks.run, "run", notify_once)
    return reconciles


def groups_of(pool, count):
    return [TaskGroupFactory(pool=pool, pods=1) for _ in range(count)]


def settled_groups(pool, count):
    """Groups that wait for a notification alone."""
    groups = groups_of(pool, count)
    TaskGroup.objects.filter(pk__in=[group.pk for group in groups]).update(next_reconcile_at=None)
    return groups


def message_for(groups):
    """What a worker does with a message for these groups."""
    first, *further = (str(group.pk) for group in groups)
    tasks.reconcile_task_group.apply(args=[first], headers={notify.FURTHER: further}, throw=True)


def are_created(groups):
    rows = TaskGroup.objects.filter(pk__in=[group.pk for group in groups])
    return [row.created_in_cluster_at is not None for row in rows]


def test_a_few_groups_get_a_message_each(world, sent, django_capture_on_commit_callbacks):
    groups = settled_groups(world.pool(), LEAST_MESSAGES)
    with django_capture_on_commit_callbacks(execute=True):
        mark_due([group.pk for group in groups])
    assert sorted(sent) == sorted([str(group.pk)] for group in groups)


def test_many_groups_of_a_backend_share_messages(world, sent, django_capture_on_commit_callbacks):
    groups = settled_groups(world.pool(), 3 * LEAST_MESSAGES)
    with django_capture_on_commit_callbacks(execute=True):
        mark_due([group.pk for group in groups])
    assert sorted(group for message in sent for group in message) == sorted(str(g.pk) for g in groups)
    assert {len(message) for message in sent} == {3}
    assert MOST_IN_A_MESSAGE >= 3


def test_a_message_holds_groups_of_one_backend(world, sent, django_capture_on_commit_callbacks):
    pools = [PoolFactory(backend=BackendFactory()) for _ in range(2)]
    groups = [settled_groups(pool, 2 * LEAST_MESSAGES) for pool in pools]
    with django_capture_on_commit_callbacks(execute=True):
        mark_due([group.pk for of_one in groups for group in of_one])
    backend_of = {str(group.pk): group.backend_id for of_one in groups for group in of_one}
    assert {len(message) for message in sent} == {2}
    assert all(len({backend_of[group] for group in message}) == 1 for message in sent)


def test_a_group_that_waits_for_a_worker_gets_no_second_message(
    world, sent, django_capture_on_commit_callbacks
):
    (group,) = settled_groups(world.pool(), 1)
    with django_capture_on_commit_callbacks(execute=True):
        mark_due([group.pk])
        mark_due([group.pk])
    assert sent == [[str(group.pk)]]


def test_a_group_that_is_due_by_its_time_alone_gets_a_message(
    world, sent, django_capture_on_commit_callbacks
):
    """The next sweep would find it seconds later."""
    (group,) = settled_groups(world.pool(), 1)
    mark_due([group.pk])
    release(take_lease(group.pk), failures=0, seconds=0.0)
    with django_capture_on_commit_callbacks(execute=True):
        mark_due([group.pk])
        mark_due([group.pk])
    assert sent == [[str(group.pk)]]


def test_a_group_that_no_sweep_finds_gets_a_message_with_its_next_notification(
    world, sent, django_capture_on_commit_callbacks
):
    """Beat is away, and what the cluster reports still brings a group on."""
    (group,) = settled_groups(world.pool(), 1)
    since = timezone.now() - timedelta(seconds=OVERDUE_SECONDS + 1)
    TaskGroup.objects.filter(pk=group.pk).update(next_reconcile_at=since, notifications=1)
    with django_capture_on_commit_callbacks(execute=True):
        mark_due([group.pk])
    assert sent == [[str(group.pk)]]
    assert fresh(group).next_reconcile_at == since


def test_a_group_that_waits_long_for_a_worker_gets_no_message_more_while_sweeps_run(
    world, sent, django_capture_on_commit_callbacks
):
    """Workers that are late would get a message for each report of the cluster, and be later still."""
    (group,) = settled_groups(world.pool(), 1)
    since = timezone.now() - timedelta(seconds=OVERDUE_SECONDS + 1)
    TaskGroup.objects.filter(pk=group.pk).update(next_reconcile_at=since, notifications=1)
    note_sweep()
    with django_capture_on_commit_callbacks(execute=True):
        mark_due([group.pk])
    assert sent == []


def test_a_worker_takes_all_groups_of_a_message(world, through_messages):
    groups = groups_of(world.pool(), 3)
    message_for(groups)
    assert all(are_created(groups))


def test_a_worker_takes_the_groups_of_a_message_in_their_order(world, through_messages, monkeypatch):
    groups = groups_of(world.pool(), 3)
    order = [str(group.pk) for group in (groups[1], groups[2], groups[0])]
    taken = []
    monkeypatch.setattr(tasks, "_reconcile", lambda group_id, **_: taken.append(str(group_id)))
    tasks.reconcile_groups(order)
    assert taken == order


def test_groups_that_a_worker_of_an_older_release_leaves_out_are_found_by_the_sweep(world, through_messages):
    """It takes the argument alone, and does not know the header."""
    first, *others = groups_of(world.pool(), 3)
    tasks.reconcile_task_group(str(first.pk))
    assert are_created([first]) == [True]
    assert set(due_groups()) == {group.pk for group in others}


def test_one_group_of_a_message_that_has_a_lease_holds_up_no_other(world, through_messages):
    held, *others = groups_of(world.pool(), 3)
    assert tasks.take_lease(held.pk)
    message_for([held, *others])
    assert all(are_created(others))
    assert are_created([held]) == [False]


def test_the_other_groups_of_a_message_do_not_wait_for_a_cluster_that_falls_silent(
    world, through_messages, monkeypatch
):
    first, *others = groups_of(world.pool(), 3)
    silent = []
    monkeypatch.setattr(reachability, "is_silent", lambda access: access in silent)
    reconcile = tasks._reconcile

    def fall_silent(group_id, **more):
        reconcile(group_id, **more)
        silent.append(access_of(first.backend))

    monkeypatch.setattr(tasks, "_reconcile", fall_silent)
    message_for([first, *others])
    assert are_created([first]) == [True]
    assert set(due_groups()) == {group.pk for group in others}
    assert fresh(first).lease_token is None


def test_a_group_that_is_notified_meanwhile_is_taken_again_without_a_message(
    world, through_messages, sent, notified_meanwhile, django_capture_on_commit_callbacks
):
    groups = groups_of(world.pool(), 2)
    with django_capture_on_commit_callbacks(execute=True):
        message_for(groups)
    assert sent == []
    assert notified_meanwhile == {group.pk: 2 for group in groups}
    assert not due_groups()
