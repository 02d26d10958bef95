"""Statuses move forward only, and whoever writes them is compared with the lease."""

import itertools

import pytest

from tests.worker.world import fresh, statuses
from workflows.lifecycle.statuses import LIVE_ORDER, TERMINAL, TaskStatus, may_move
from workflows.models import Event, Task, TaskGroup
from workflows.services.changes import GroupMove, NewTry, Note, TaskMove
from workflows.services.lease import take_lease
from workflows.services.record import record

PAIRS = list(itertools.product(LIVE_ORDER, TaskStatus)) + [
    (TaskStatus.COMPLETED, after) for after in TaskStatus
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_task_moves_only_where_the_table_lets_it(world, before, after):
    group = world.group(pods=1)
    Task.objects.update(status=before)
    record(take_lease(group.pk), [TaskMove(pk=group.tasks.get().pk, status=after)])
    assert statuses(group) == [after if may_move(before, after) else before]


def test_a_terminal_status_never_changes():
    assert not any(may_move(before, after) for before in TERMINAL for after in TaskStatus)


def test_a_group_that_ended_stays_as_it_ended(world):
    group = world.group(pods=1)
    lease = take_lease(group.pk)
    record(lease, [GroupMove(status="COMPLETED")])
    record(lease, [GroupMove(status="FAILED", message="too late")])
    assert (fresh(group).status, fresh(group).failure_message) == ("COMPLETED", "")


def test_a_thousand_tasks_move_with_a_few_queries(world, django_assert_max_num_queries):
    group = world.group(pods=0)
    tasks = Task.objects.bulk_create(
        Task(group=group, position=n, name=f"t{n}", status="SCHEDULING", spec={}, pod_name=f"p{n}")
        for n in range(1000)
    )
    lease = take_lease(group.pk)
    moves = [TaskMove(pk=task.pk, status="RUNNING", node_name="n", pod_ip="10.0.0.1") for task in tasks]
    with django_assert_max_num_queries(16):
        record(lease, [*moves, GroupMove(status="RUNNING")])
    assert set(Task.objects.values_list("status", "node_name")) == {("RUNNING", "n")}
    assert Event.objects.filter(reason="RUNNING").count() == 1001


def test_every_step_is_told_once(world):
    group = world.group(pods=1)
    lease = take_lease(group.pk)
    changes = [
        TaskMove(pk=group.tasks.get().pk, status="FAILED", code=3, message="it broke"),
        Note(key="k", reason="Said", message="once"),
    ]
    record(lease, changes)
    record(lease, changes)
    told = list(Event.objects.values_list("reason", "warning").order_by("reason"))
    assert told == [("FAILED", True), ("Said", False)]
    assert "it broke" in Event.objects.get(reason="FAILED").message


def test_a_try_is_followed_by_one_other_however_often_it_is_asked_for(world):
    group = world.group(pods=1)
    lease = take_lease(group.pk)
    task = group.tasks.get()
    again = NewTry(after=task.pk, retry_id=1, pod_name="new", generation=0)
    for _ in range(2):
        record(lease, [TaskMove(pk=task.pk, status="RESCHEDULED"), again])
    tries = list(Task.objects.order_by("retry_id").values_list("retry_id", "latest", "status"))
    assert tries == [(0, False, "RESCHEDULED"), (1, True, "PROCESSING")]


def test_the_end_of_a_group_makes_those_that_wait_for_it_due(world):
    first, second = world.group(pods=1), world.group(pods=0)
    second.upstream.add(first)
    waiting = {"next_reconcile_at": None, "status": "WAITING", "awaited_upstream": first.pk}
    TaskGroup.objects.filter(pk=second.pk).update(**waiting)
    record(take_lease(first.pk), [GroupMove(status="COMPLETED")])
    assert fresh(second).next_reconcile_at is not None
