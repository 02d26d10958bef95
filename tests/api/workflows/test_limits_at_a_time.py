"""How many workflows and tasks a user and a pool may have at a time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection
from rest_framework.test import APIClient

from pools.models import ConfigRevision, ServiceConfig
from tests.api.workflows.specs import gang, text
from tests.error_shape import assert_error_shape
from tests.factories import PoolFactory
from workflows.models import Workflow


def submit(api, pool, tasks=2, **query):
    parameters = "&".join(f"{name}={value}" for name, value in query.items())
    return api.post(
        f"/api/pool/{pool.name}/workflow?{parameters}", {"file": text(gang(tasks))}, format="json"
    )


@pytest.fixture
def overall(db):
    def limit(**limits):
        ServiceConfig.objects.create(
            config_type=ConfigRevision.Type.WORKFLOW, content={"user_workflow_limits": limits}, revision=1
        )

    return limit


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "most", "named"),
    [
        ("max_num_workflows", 1, 'Pool "train" may have 1 workflows'),
        ("max_num_tasks", 3, 'Pool "train" may have 3 tasks'),
        ("max_num_workflows_per_user", 1, 'User "ann" in pool "train" may have 1 workflows'),
        ("max_num_tasks_per_user", 3, 'User "ann" in pool "train" may have 3 tasks'),
    ],
)
def test_a_pool_bounds_what_it_has_at_a_time(field, most, named, api):
    pool = PoolFactory(name="train", **{field: most})
    assert submit(api, pool).status_code == 200

    answer = submit(api, pool)

    body = assert_error_shape(answer, 400, code="limit_reached")
    assert body["error_code"] == "SUBMISSION"
    assert named in body["message"]
    assert field in body["message"]
    assert Workflow.objects.count() == 1


@pytest.mark.django_db
def test_a_user_is_bounded_over_all_pools_and_nobody_else_is(api, as_user, overall):
    overall(max_num_workflows=1)
    assert submit(api, PoolFactory()).status_code == 200
    other = PoolFactory()
    assert submit(api, other).status_code == 400
    assert submit(as_user("bob"), other).status_code == 200


@pytest.mark.django_db
def test_every_limit_that_is_passed_is_told_at_once(api, overall):
    overall(max_num_tasks=1)
    body = submit(api, PoolFactory(max_num_tasks=1)).json()
    assert len(body["details"]) == 2


@pytest.mark.django_db
@pytest.mark.parametrize("mode", ["dry_run", "validation_only"])
def test_a_check_tells_of_limits_too(mode, api):
    assert submit(api, PoolFactory(max_num_tasks=1), **{mode: "True"}).status_code == 400


@pytest.mark.django_db
def test_an_ended_workflow_does_not_count(api):
    pool = PoolFactory(max_num_workflows=1)
    submit(api, pool)
    Workflow.objects.update(status="COMPLETED")
    assert submit(api, pool).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_no_more_get_in_than_may():
    pool = PoolFactory(max_num_workflows_per_user=2)
    ann = User.objects.create_user("ann")

    def answer_status(_):
        client = APIClient()
        client.force_authenticate(ann)
        try:
            return submit(client, pool).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        answers = sorted(threads.map(answer_status, range(6)))

    assert answers == [200, 200, 400, 400, 400, 400]
    assert Workflow.objects.count() == 2
