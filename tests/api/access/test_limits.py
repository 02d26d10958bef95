"""Too many in a minute: 429, when to come back, and nobody else's worse off."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections
from rest_framework.test import APIClient

from tests.api.workflows.specs import gang, text
from tests.error_shape import assert_error_shape
from tests.factories import LEVELS, PoolFactory
from web.limits.rate_limits import take
from web.models import RateBucket
from workflows.models import Workflow

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_user():
    def log_in(name):
        client = APIClient()
        client.force_authenticate(User.objects.create_user(name))
        return client

    return log_in


def submit(client, **more):
    return client.post("/api/pool/h100/workflow", {"file": text(gang(2))}, format="json", **more)


def test_submissions_of_a_user_are_limited_and_refused_ones_leave_nothing(as_user, settings):
    settings.SUBMITS_PER_MINUTE = 2
    PoolFactory(name="h100", levels=LEVELS)
    ann, bob = as_user("ann"), as_user("bob")
    assert [submit(ann).status_code for _ in range(2)] == [200, 200]
    answer = submit(ann)
    assert_error_shape(answer, 429)
    assert 1 <= int(answer["Retry-After"]) <= 32
    assert Workflow.objects.count() == 2
    assert ann.get("/api/workflow").status_code == 200
    assert submit(bob).status_code == 200


def test_submissions_from_an_address_are_limited_whatever_the_caller_says_of_it(as_user, settings):
    settings.ADDRESS_SUBMITS_PER_MINUTE = 2
    PoolFactory(name="h100", levels=LEVELS)
    assert [submit(as_user(f"user{n}")).status_code for n in range(2)] == [200, 200]
    assert_error_shape(submit(as_user("liar"), HTTP_X_FORWARDED_FOR="203.0.113.9"), 429)
    assert submit(as_user("far"), REMOTE_ADDR="203.0.113.9").status_code == 200


def test_making_tokens_is_limited(as_user, settings):
    settings.LOGINS_PER_MINUTE = 1
    ann = as_user("ann")
    assert ann.post("/api/auth/access_token/one").status_code == 200
    assert_error_shape(ann.post("/api/auth/access_token/two"), 429)
    assert ann.delete("/api/auth/access_token/one").status_code == 200


def test_a_caller_who_may_not_submit_uses_up_no_limit(as_user, settings):
    settings.DEFAULT_ROLES = []
    assert_error_shape(submit(as_user("ann")), 403)
    assert not RateBucket.objects.exists()


def test_no_limit_is_no_limit():
    assert [take("k", per_minute=0) for _ in range(3)] == [None] * 3
    assert not RateBucket.objects.exists()


def back(key, *, seconds):
    """Let time pass for a bucket."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE web_ratebucket SET clear_at = clear_at - %s * interval '1 second' WHERE key = %s",
            [seconds, key],
        )


def test_used_requests_come_back_evenly():
    assert [take("k", per_minute=2) for _ in range(2)] == [None, None]
    assert take("k", per_minute=2) in range(10, 31)  # seconds, less those that have passed
    back("k", seconds=30)
    assert take("k", per_minute=2) is None
    assert take("k", per_minute=2) is not None


def test_buckets_that_mean_nothing_any_more_are_deleted_as_limits_are_used():
    for n in range(5):
        take(f"old{n}", per_minute=10)
        back(f"old{n}", seconds=3600)
    take("new", per_minute=10)
    assert [bucket.key for bucket in RateBucket.objects.all()] == ["new"]


@pytest.mark.django_db(transaction=True)
def test_many_at_once_are_counted_as_one_after_the_other():
    def attempt(_):
        try:
            return take("k", per_minute=2)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(attempt, range(24)))
    assert answers.count(None) == 2
