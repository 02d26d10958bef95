"""Groups of one workflow move together, and what follows from a move needs no row that they share."""

import threading

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from tests.factories import TaskGroupFactory
from tests.worker.world import fresh, statuses, workflow_of
from workflows.models import Event, TaskGroup, Workflow
from workflows.reconcile import batches
from workflows.services import follow_up, record
from workflows.services.changes import GroupMove
from workflows.services.lease import take_lease
from workflows.services.stop import cancel_workflow

pytestmark = pytest.mark.django_db


def wide(world, number, **changes):
    """A workflow of so many groups of one task, none of which was created."""
    first = world.group(pods=1, **changes)
    others = [
        TaskGroupFactory(workflow=first.workflow, pool=None, pods=1, placement=first.placement, **changes)
        for _ in range(number - 1)
    ]
    return [first, *others]


def after(upstream, **changes):
    """A group that starts after these."""
    group = TaskGroupFactory(
        workflow=upstream[0].workflow, pool=None, pods=1, placement=upstream[0].placement, status="WAITING"
    )
    group.upstream.add(*upstream)
    TaskGroup.objects.filter(pk=group.pk).update(
        awaited_upstream=upstream[-1].pk, next_reconcile_at=None, **changes
    )
    return group


def end(group, status="COMPLETED"):
    TaskGroup.objects.filter(pk=group.pk).update(next_reconcile_at="2020-01-01T00:00Z")
    record.record(take_lease(group.pk), [GroupMove(status=status)])


def cancel(groups):
    cancel_workflow(groups[0].workflow, by="ann", message="", force=False)


def statements_of(act):
    with CaptureQueriesContext(connection) as captured:
        act()
    return len(captured)


def test_a_canceled_workflow_whose_groups_were_never_created_is_released_at_once(world):
    groups = wide(world, 5)
    cancel(groups)
    batches.advance(groups[0].workflow_id)
    rows = TaskGroup.objects.all()
    assert {(row.status, row.released_at is not None, row.next_reconcile_at) for row in rows} == {
        ("FAILED_CANCELED", True, None)
    }
    assert statuses(groups[3]) == ["FAILED_CANCELED"]
    assert workflow_of(groups[0]).status == "FAILED_CANCELED"
    assert workflow_of(groups[0]).end_time is not None
    assert Event.objects.filter(group=groups[4]).count() == Event.objects.filter(group=groups[0]).count() == 3


def test_a_cancel_that_ends_nothing_any_more_is_nobodys(world):
    first = wide(world, 2)[0]
    TaskGroup.objects.filter(pk=first.pk).update(status="COMPLETED")
    cancel([first])
    assert workflow_of(first).cancelled_by == "ann"
    (lone,) = wide(world, 1)
    TaskGroup.objects.filter(pk=lone.pk).update(status="COMPLETED")
    cancel([lone])
    follow_up.conclude_left()
    assert (workflow_of(lone).status, workflow_of(lone).cancelled_by) == ("COMPLETED", "")


def test_a_batch_of_many_costs_as_many_statements_as_one_of_a_few(world):
    few, many = wide(world, 4), wide(world, 60)
    cancel(few)
    cancel(many)
    assert statements_of(lambda: batches.advance(many[0].workflow_id)) == statements_of(
        lambda: batches.advance(few[0].workflow_id)
    )


def test_the_end_of_a_group_costs_the_same_in_a_wide_workflow(world):
    (lone,), many = wide(world, 1), wide(world, 60)
    assert statements_of(lambda: end(many[7])) <= statements_of(lambda: end(lone))


def test_groups_that_a_worker_has_stay_out_of_a_batch_and_end_by_its_hand(world):
    groups = wide(world, 3)
    assert take_lease(groups[1].pk)
    cancel(groups)
    batches.advance(groups[0].workflow_id)
    assert [fresh(group).released_at is None for group in groups] == [False, True, False]
    assert workflow_of(groups[0]).status == "PENDING"


def test_a_group_that_may_have_objects_is_not_released_by_its_rows(world):
    groups = wide(world, 2)
    TaskGroup.objects.filter(pk=groups[0].pk).update(touched_cluster=True)
    cancel(groups)
    batches.advance(groups[0].workflow_id)
    assert [fresh(group).released_at is None for group in groups] == [True, False]


def test_a_group_starts_with_the_end_of_its_last_upstream_group(world):
    upstream = wide(world, 3)
    group = after(upstream)
    end(upstream[2])
    assert fresh(group).next_reconcile_at is not None
    batches.advance(group.workflow_id)
    assert (fresh(group).status, fresh(group).awaited_upstream) == ("WAITING", upstream[1].pk)
    end(upstream[0])
    assert fresh(group).next_reconcile_at is None
    end(upstream[1])
    assert batches.advance(group.workflow_id).started == (group.pk,)
    assert (fresh(group).status, statuses(group)) == ("PROCESSING", ["PROCESSING"])


def test_a_failure_upstream_ends_a_group_whatever_else_it_awaits(world):
    upstream = wide(world, 3)
    group = after(upstream)
    end(upstream[0], "FAILED")
    batches.advance(group.workflow_id)
    row = fresh(group)
    assert (row.status, row.released_at is None) == ("FAILED_UPSTREAM", False)
    assert f'needs group "{upstream[0].name}"' in row.failure_message


def test_all_groups_after_one_start_together(world):
    (first,) = wide(world, 1)
    groups = [after([first]) for _ in range(4)]
    end(first)
    assert set(batches.advance(first.workflow_id).started) == {group.pk for group in groups}


@pytest.mark.parametrize(("place", "status"), [(1, "COMPLETED"), (0, "FAILED")])
def test_a_group_is_due_whose_awaited_upstream_group_ended_or_another_failed_meanwhile(world, place, status):
    upstream = wide(world, 2)
    group = after(upstream)
    TaskGroup.objects.filter(pk=upstream[place].pk).update(status=status)
    follow_up.conclude_awaiting([group.pk])
    assert fresh(group).next_reconcile_at is not None


def test_a_sweep_finds_a_failure_upstream_whose_conclusion_nobody_drew(world):
    upstream = wide(world, 2)
    group, other = after(upstream), after(upstream[1:])
    TaskGroup.objects.filter(pk=upstream[0].pk).update(status="FAILED")
    follow_up.conclude_left()
    assert [fresh(row).next_reconcile_at is not None for row in (group, other)] == [True, False]


def test_a_sweep_draws_the_conclusions_of_a_process_that_died(world):
    upstream = wide(world, 1)
    group, (lone,) = after(upstream), wide(world, 1)
    TaskGroup.objects.filter(pk__in=[upstream[0].pk, lone.pk]).update(status="COMPLETED")
    follow_up.conclude_left()
    assert fresh(group).next_reconcile_at is not None
    assert workflow_of(lone).status == "COMPLETED"
    assert workflow_of(upstream[0]).status == "PENDING"


def test_groups_that_cannot_be_written_hold_up_no_others(world, monkeypatch):
    groups = wide(world, 3)
    cancel(groups)
    decide = batches.changes_of

    def fail(group, **facts):
        if group.pk == groups[1].pk:
            raise ValueError
        return decide(group, **facts)

    monkeypatch.setattr(batches, "changes_of", fail)
    batches.advance(groups[0].workflow_id)
    assert [fresh(group).released_at is None for group in groups] == [False, True, False]
    assert fresh(groups[1]).failures == 1


@pytest.mark.django_db(transaction=True)
def test_no_group_s_move_waits_for_the_row_of_its_workflow(world):
    first, second = wide(world, 2)
    held, free = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Workflow.objects.select_for_update(no_key=True).get(pk=first.workflow_id)
            held.set()
            free.wait(200)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(200)
        end(first)
        end(second)
        seen = [fresh(first).status, fresh(second).status, workflow_of(first).status]
    finally:
        free.set()
        holder.join()
    assert seen == ["COMPLETED", "COMPLETED", "PENDING"]
    follow_up.conclude_left()
    assert workflow_of(first).status == "COMPLETED"
