"""Rows that are inserted by one statement are those that Django would save."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.factories import PoolFactory, TaskGroupFactory, WorkflowFactory
from web.database import model_rows
from web.database.model_rows import insert, values_of
from workflows.models import Event, Task, TaskGroup, Workflow

pytestmark = pytest.mark.django_db

NOW = timezone.now() - timedelta(days=1, microseconds=7)
ODD = 'é "quoted" \\n \\u0041 \U0001f600 {"a": [null]}\r\n\t'


def workflow(pool, **fields):
    row = WorkflowFactory.build(pool=pool, backend=pool.backend, submit_time=NOW)
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def group(pool, of, **fields):
    row = TaskGroupFactory.build(pool=None, workflow=of, placement={}, position=0, pods=0)
    row.backend_id, row.submit_time = pool.backend_id, NOW
    for name, value in fields.items():
        setattr(row, name, value)
    return row


@pytest.fixture
def pool():
    return PoolFactory()


def test_every_value_comes_back_as_it_was(pool):
    own = workflow(
        pool,
        spec=ODD,
        labels={ODD: ODD},
        warnings=[ODD, None, 1.5, True],
        exec_timeout=0.1 + 0.2,
        reply={"name": None, "nested": {"list": []}},
        priority=Workflow.Priority.HIGH,
    )
    first = group(pool, own, name="a", placement={"n": 2.5, "none": None}, next_reconcile_at=NOW)
    second = group(pool, own, name="b", released_at=NOW, status="COMPLETED", conditions=[{"x": ODD}])
    event = Event(workflow=own, group=second, time=NOW, source="s", reason="R", message=ODD, dedupe="d")

    with CaptureQueriesContext(connection) as queries:
        insert(
            {
                Workflow: [values_of(own)],
                TaskGroup: [values_of(first), values_of(second)],
                TaskGroup.upstream.through: [{"from_taskgroup_id": second.pk, "to_taskgroup_id": first.pk}],
                Task: [],
                Event: [values_of(event)],
            }
        )

    assert len(queries) == 1
    assert values_of(Workflow.objects.get()) == values_of(own)
    assert list(map(values_of, TaskGroup.objects.order_by("name"))) == [values_of(first), values_of(second)]
    assert list(second.upstream.values_list("pk", flat=True)) == [first.pk]
    assert Event.objects.values_list("group_id", "time", "message", "retry_id").get() == (
        second.pk,
        NOW,
        ODD,
        None,
    )


def test_a_column_that_a_row_does_not_name_has_the_value_of_a_new_instance(pool):
    own = workflow(pool)
    named = {"uuid", "name", "base_name", "number", "backend_id", "pool_name", "pool_revision"}
    named |= {"submitted_by", "spec", "exec_timeout", "queue_timeout", "submit_time"}
    insert({Workflow: [{name: value for name, value in values_of(own).items() if name in named}]})
    assert values_of(Workflow.objects.get()) == values_of(own)


def test_many_rows_are_sent_in_parts_and_keep_their_order(pool, monkeypatch):
    monkeypatch.setattr(model_rows, "BATCH", 2)
    own = workflow(pool)
    events = [
        Event(workflow=own, time=NOW, source="s", reason=f"R{n}", message="", dedupe=f"d{n}")
        for n in range(5)
    ]
    with CaptureQueriesContext(connection) as queries:
        insert({Workflow: [values_of(own)], Event: list(map(values_of, events))})
    assert len(queries) == 3
    assert [event.reason for event in Event.objects.order_by("pk")] == ["R0", "R1", "R2", "R3", "R4"]


def test_a_row_that_exists_is_an_integrity_error_and_nothing_is_written(pool):
    own = workflow(pool, idempotency_key="k")
    insert({Workflow: [values_of(own)]})
    again = workflow(pool, idempotency_key="k", submitted_by=own.submitted_by)
    with pytest.raises(IntegrityError), transaction.atomic():
        insert({Workflow: [values_of(again)], TaskGroup: [values_of(group(pool, again))]})
    assert (Workflow.objects.count(), TaskGroup.objects.count()) == (1, 0)
