"""How PostgreSQL counts the backlog beside ended workflows and groups that wait for other groups."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bench import aged
from tests.db.workflows import plans
from tests.factories import PoolFactory, TaskGroupFactory, WorkflowFactory
from workflows.models import TaskGroup
from workflows.submission.backpressure import read_backlog

pytestmark = pytest.mark.django_db

WORKFLOWS, WAITING = 3_000, 3_000


def test_neither_what_has_ended_nor_what_waits_for_other_groups_is_read():
    connection.ensure_connection()
    aged.insert(connection.connection, workflows=WORKFLOWS, events=1)
    pool = PoolFactory(name="h100")
    workflow = WorkflowFactory(pool=pool, submitted_by="ann")
    TaskGroupFactory.create_batch(2, workflow=workflow, pool=pool, pods=0)
    waiting = TaskGroupFactory.build(workflow=workflow, pool=pool, pods=0, backend=workflow.backend)
    TaskGroup.objects.bulk_create(
        TaskGroup(
            workflow=workflow,
            backend=workflow.backend,
            position=position,
            name=f"waiting-{position}",
            status="WAITING",
            placement=waiting.placement,
        )
        for position in range(2, WAITING)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with CaptureQueriesContext(connection) as captured:
        assert read_backlog().groups == {"h100": {"ann": 2}}
    (plan,) = plans.of_statements([row["sql"] for row in captured])
    assert "taskgroup_to_create" in plan.shape
    assert plan.scanned_tables == plan.walked_tables == ()
