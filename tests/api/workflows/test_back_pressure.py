"""While too much waits, a submission is told to come again, and leaves nothing behind."""

from types import SimpleNamespace

import pytest

from tests.api.workflows.specs import alone, text
from tests.error_shape import assert_error_shape
from tests.factories import PoolFactory, TaskGroupFactory
from workflows.models import TaskGroup, Workflow

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool(settings):
    values = settings.ENV.model_dump() | {"pool_backlog_groups": 2, "backlog_groups": 3}
    settings.ENV = SimpleNamespace(**values)
    return PoolFactory(name="h100")


@pytest.fixture
def submit(api):
    def post(name, query="", **headers):
        return api.post(
            f"/api/pool/{name}/workflow{query}", {"file": text(alone())}, format="json", **headers
        )

    return post


def test_a_pool_with_too_much_waiting_is_told_when_to_come_again(pool, submit):
    for _ in range(2):
        assert submit("h100").status_code == 200
    before = Workflow.objects.count(), TaskGroup.objects.count()
    answer = submit("h100")
    assert_error_shape(answer, status=429)
    assert int(answer["Retry-After"]) > 0
    assert '"h100" has 2 accepted task groups' in answer.json()["message"]
    assert (Workflow.objects.count(), TaskGroup.objects.count()) == before


def test_another_pool_is_let_in_and_so_is_what_writes_nothing(pool, submit):
    TaskGroupFactory.create_batch(2, pool=pool, pods=0)
    PoolFactory(name="other")
    assert submit("other").status_code == 200
    assert submit("h100", "?dry_run=true").status_code == 200
    assert submit("h100", "?validation_only=true").status_code == 200


def test_a_workflow_that_is_created_or_has_ended_no_longer_counts(pool, submit):
    TaskGroupFactory.create_batch(3, pool=pool, pods=0, status="RUNNING")
    TaskGroupFactory.create_batch(3, pool=pool, pods=0, status="FAILED")
    assert submit("h100").status_code == 200


def test_a_repeated_submission_has_its_answer_however_much_waits(pool, submit):
    first = submit("h100", HTTP_IDEMPOTENCY_KEY="once")
    TaskGroupFactory.create_batch(3, pool=pool, pods=0)
    assert submit("h100", HTTP_IDEMPOTENCY_KEY="once").json() == first.json()
