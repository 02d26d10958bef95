"""While too much of a user waits, their submissions are refused, and leave nothing behind."""

from types import SimpleNamespace

import pytest
from django.utils import timezone

from tests.api.workflows.specs import alone, task, text
from tests.error_shape import assert_error_shape
from tests.factories import PoolFactory, TaskGroupFactory, WorkflowFactory
from web.models import Role, RoleAssignment
from workflows.models import TaskGroup, Workflow

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool(settings):
    values = settings.ENV.model_dump() | {"pool_backlog_groups": 2, "backlog_groups": 3}
    settings.ENV = SimpleNamespace(**values)
    return PoolFactory(name="h100")


@pytest.fixture
def submit(api):
    def post(name, query="", *, document=None, client=api, **headers):
        content = {"file": text(document or alone())}
        return client.post(f"/api/pool/{name}/workflow{query}", content, format="json", **headers)

    return post


def groups_of(user, pool, count, **fields):
    workflow = WorkflowFactory(base_name="before", pool=pool, submitted_by=user)
    TaskGroupFactory.create_batch(count, workflow=workflow, pool=pool, pods=0, **fields)


def sweep(width, *, after=0):
    """A document of ``width`` groups that wait for nothing, and ``after`` that wait for the first of them."""
    first = [task(f"t{n}") for n in range(width)]
    return {"name": "sweep", "tasks": first + [task(f"u{n}", inputs=[{"task": "t0"}]) for n in range(after)]}


def test_a_user_with_too_much_waiting_must_come_again_later(pool, submit):
    for _ in range(2):
        assert submit("h100").status_code == 200
    before = Workflow.objects.count(), TaskGroup.objects.count()
    answer = submit("h100")
    assert_error_shape(answer, status=429)
    assert int(answer["Retry-After"]) > 0
    assert (
        '"h100" has 2 task groups that wait for workers to create them: 2 of yours.'
        in (answer.json()["message"])
    )
    assert (Workflow.objects.count(), TaskGroup.objects.count()) == before


def test_groups_of_one_user_keep_no_other_user_waiting(pool, submit, as_user):
    groups_of("bob", pool, 5)
    assert submit("h100").status_code == 200
    message = submit("h100").json()["message"]
    assert "1 of yours and 5 of others (bob: 5). The pool's limit is 2, your share of it is 1" in message


def test_who_may_list_nobodys_workflows_hears_no_names(pool, submit, ann):
    Role.objects.create(
        name="sender", policies=[{"actions": ["workflow:Create"], "resources": ["pool/h100"]}]
    )
    RoleAssignment.objects.create(user=ann, role="sender")
    groups_of("bob", pool, 5)
    assert submit("h100").status_code == 200
    message = submit("h100").json()["message"]
    assert "1 of yours and 5 of others. " in message
    assert "bob" not in message


def test_groups_that_wait_for_another_group_do_not_count(pool, submit):
    assert submit("h100", document=sweep(1, after=5)).status_code == 200
    assert submit("h100").status_code == 200


def test_the_size_of_the_document_counts(pool, submit):
    assert submit("h100").status_code == 200
    answer = submit("h100", document=sweep(2))
    assert answer.status_code == 429
    assert "this workflow adds 2" in answer.json()["message"]
    assert submit("h100", document=sweep(1, after=5)).status_code == 200


def test_a_workflow_larger_than_the_limit_is_accepted_from_a_user_without_any(pool, submit):
    groups_of("bob", pool, 5)
    assert submit("h100", document=sweep(9)).status_code == 200
    assert submit("h100").status_code == 429


def test_an_administrator_is_never_refused(pool, submit, as_user):
    root = as_user("root", is_superuser=True)
    groups_of("root", pool, 9)
    assert submit("h100", document=sweep(9), client=root).status_code == 200


def test_the_groups_that_a_restart_carries_over_do_not_count(pool, submit, api):
    answer = submit("h100", document=sweep(1, after=2)).json()
    former = Workflow.objects.get(name=answer["name"])
    former.groups.update(status="FAILED", released_at=timezone.now())
    former.groups.filter(name="t0-group").update(status="COMPLETED")
    Workflow.objects.filter(pk=former.pk).update(status="FAILED")
    groups_of("ann", pool, 1)
    answer = api.post(f"/api/pool/h100/workflow/{former.name}/restart")
    assert "this workflow adds 2" in answer.json()["message"]


def test_another_pool_is_let_in_and_so_is_what_writes_nothing(pool, submit):
    groups_of("ann", pool, 2)
    PoolFactory(name="other")
    assert submit("other").status_code == 200
    assert submit("h100", "?dry_run=true").status_code == 200
    assert submit("h100", "?validation_only=true").status_code == 200


def test_a_workflow_that_is_created_or_has_ended_no_longer_counts(pool, submit):
    groups_of("ann", pool, 3, status="RUNNING")
    groups_of("ann", pool, 3, status="FAILED")
    assert submit("h100").status_code == 200


def test_a_repeated_submission_has_its_answer_however_much_waits(pool, submit):
    first = submit("h100", HTTP_IDEMPOTENCY_KEY="once")
    groups_of("ann", pool, 3)
    assert submit("h100", HTTP_IDEMPOTENCY_KEY="once").json() == first.json()
