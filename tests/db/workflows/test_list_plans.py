"""How PostgreSQL reads what lists show, in a database of some thousand ended workflows.

The bench (``lists``) has the same requests with a million: a table that is read whole here is so there, too.
"""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from bench import aged
from bench.lists import addresses, make_pools
from tests.db.workflows import plans
from workflows.models import Workflow

pytestmark = pytest.mark.django_db

RARE = re.compile(r"\b(rare|none|few)\b")
WORKFLOWS, EVENTS = 3_000, 5


@pytest.fixture
def names():
    """The names of a few workflows of an old service's database, which goes with the test's transaction."""
    connection.ensure_connection()
    aged.insert(connection.connection, workflows=WORKFLOWS, events=EVENTS)
    make_pools()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SET LOCAL enable_seqscan = off")  # small tables are read whole because that is cheap
    return list(Workflow.objects.order_by("submit_time").values_list("name", flat=True)[:3])


def test_no_request_reads_a_table_of_work_whole_and_none_walks_it_for_what_few_have(names):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    found = {}
    for kind, paths in addresses(names).items():
        for path in paths:
            with CaptureQueriesContext(connection) as captured:
                assert client.get(path).status_code == 200, path
            read = plans.of_statements([row["sql"] for row in captured])
            if any(plan.scanned_tables or (plan.walked_tables and RARE.search(kind)) for plan in read):
                found[path] = [plan.shape for plan in read]
    assert found == {}


def test_postgresql_knows_how_common_each_label_is_that_one_workflow_in_fifty_has(names):
    estimates = {}
    with connection.cursor() as cursor:
        for number in range(50):
            cursor.execute(
                "EXPLAIN (FORMAT JSON) SELECT 1 FROM workflows_workflow WHERE labels @> %s::jsonb",
                [f'{{"team": "t{number}"}}'],
            )
            estimates[number] = cursor.fetchone()[0][0]["Plan"]["Plan Rows"]
    taken_for_rare = {number: rows for number, rows in estimates.items() if rows < WORKFLOWS / 500}
    assert taken_for_rare == {}
