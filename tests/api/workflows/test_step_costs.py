"""What a submission and a page cost, by the table in tests/step_costs.py."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.api.workflows.specs import gang, text
from tests.factories import LEVELS, PoolFactory
from tests.step_costs import Cost, check
from workflows.models import Task
from workflows.services import notify

pytestmark = pytest.mark.django_db

RACK = {"key": "clique", "group": "default", "requirementType": "required"}


@pytest.fixture(autouse=True)
def pool():
    return PoolFactory(name="h100", levels=LEVELS, nvlink=True, node_selector={"pool": "h100"})


@pytest.fixture
def messages(monkeypatch):
    """The groups that messages were sent for."""
    sent = []
    monkeypatch.setattr(notify, "_send", sent.extend)
    return sent


def _statements(queries):
    return "\n".join(query["sql"][:160] for query in queries.captured_queries)


@pytest.mark.parametrize("tasks", [4, 512])
def test_a_submission_and_its_page_cost_the_same_for_4_tasks_and_for_512(
    tasks, api, ann, messages, django_capture_on_commit_callbacks
):
    body = {"file": text(gang(tasks, topology=[RACK]))}
    api.get("/api/pool")  # what is read once for each process
    with CaptureQueriesContext(connection) as queries, django_capture_on_commit_callbacks(execute=True):
        reply = api.post("/api/pool/h100/workflow", body, format="json")
    assert reply.status_code == 200, reply.json()
    assert Task.objects.count() == tasks
    spent = Cost(sql=len(queries), messages=len(messages))
    check(f"submission of {tasks} tasks", spent, _statements(queries))

    browser = Client()
    browser.force_login(ann)
    with CaptureQueriesContext(connection) as queries:
        page = browser.get(f"/ui/workflows/{reply.json()['name']}")
    assert page.status_code == 200
    spent = Cost(sql=len(queries), kib=-(-len(page.content) // 1024))
    check(f"page of a workflow of {tasks} tasks", spent, _statements(queries))
