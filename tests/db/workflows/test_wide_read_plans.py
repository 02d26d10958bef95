"""How PostgreSQL reads a wide workflow whose tasks got nodes after its statistics were made."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.builders.wide import wide_workflow
from tests.db.workflows import plans
from workflows.group_reads import GROUPS_AT_ONCE, GroupRange
from workflows.models import Task

pytestmark = pytest.mark.django_db

WIDE = 1_001


def test_each_batch_of_groups_is_looked_up_by_its_keys_whatever_the_statistics_say():
    workflow = wide_workflow(groups=WIDE, status="RUNNING")
    Task.objects.update(node_name="", start_time=None)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SET LOCAL enable_seqscan = off")  # small tables are read whole because that is cheap
    Task.objects.update(node_name="node-1")
    groups = GroupRange(workflow=workflow, offset=0, limit=None, every_try=False)
    with CaptureQueriesContext(connection) as captured:
        assert [group.nodes for batch in groups.batches() for group in batch] == [["node-1"]] * WIDE
    _, *batches = plans.of_statements(row["sql"] for row in captured)
    walked = [plan.shape for plan in batches if {"task", "taskgroup"} & {*plan.walked_tables}]
    assert walked == []
    looked_up = [
        plan for plan in batches if "taskgroup workflows_taskgroup_pkey" in plan.shape.partition(" < ")[0]
    ]
    assert len(looked_up) == -(-WIDE // GROUPS_AT_ONCE)
