"""What a user's documents may add to the database: a bound of each, and one of a day."""

import pytest

from tests.api.workflows.specs import alone, text
from tests.error_shape import assert_error_shape
from tests.factories import PoolFactory
from workflows.models import Workflow

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def pool(settings):
    settings.CELERY_BROKER_URL = "memory://"
    return PoolFactory(name="h100")


def keep(settings, **bounds):
    settings.ENV = settings.ENV.model_copy(update=bounds)


def submit(api, document, query="", **headers):
    return api.post(f"/api/pool/h100/workflow{query}", {"file": document}, format="json", **headers)


def padded(size):
    return "# a comment\n" * (size // 12) + text(alone())


def test_a_document_of_comments_is_refused_beyond_its_bound(api, settings):
    keep(settings, document_bytes=50_000)
    assert submit(api, padded(40_000)).status_code == 200
    refused = submit(api, padded(60_000))
    assert_error_shape(refused, status=400)
    assert "at most 50000 are kept" in refused.json()["message"]
    assert Workflow.objects.count() == 1


def test_bytes_and_not_characters_count(api, settings):
    keep(settings, document_bytes=50_000)
    assert submit(api, "# " + "\u20ac" * 20_000 + "\n" + text(alone())).status_code == 400


def test_a_template_that_renders_to_more_than_is_kept_is_refused(api, settings):
    keep(settings, document_bytes=50_000)
    template = text(alone()) + "{% for n in range(9000) %}# a comment\n{% endfor %}"
    refused = submit(api, template)
    assert refused.status_code == 400
    assert "at most 50000 are kept" in refused.json()["message"]


def test_a_day_takes_so_many_bytes_of_a_user_and_then_says_when_to_come_back(api, as_user, settings):
    keep(settings, user_bytes_per_day=100_000)
    assert submit(api, padded(60_000)).status_code == 200
    refused = submit(api, padded(60_000))
    assert_error_shape(refused, status=429)
    assert 0 < int(refused["Retry-After"]) <= 86_400
    assert Workflow.objects.count() == 1
    assert submit(api, padded(10_000)).status_code == 200, "there is room for a smaller one"
    assert submit(as_user("bo"), padded(60_000)).status_code == 200, "another user has a day of their own"


def test_a_spec_that_can_never_fit_into_a_day_is_refused_from_the_first(api, settings):
    keep(settings, user_bytes_per_day=50_000)
    assert submit(api, padded(60_000)).status_code == 429
    assert not Workflow.objects.exists()


def test_checks_and_repeated_requests_add_nothing(api, settings):
    keep(settings, user_bytes_per_day=100_000)
    for _ in range(3):
        assert submit(api, padded(60_000), "?validation_only=true").status_code == 200
    for _ in range(3):
        assert submit(api, padded(60_000), HTTP_IDEMPOTENCY_KEY="k").status_code == 200


@pytest.mark.parametrize("address", ["workflow/{}/restart", "workflow?workflow_id={}"])
def test_a_copy_of_a_workflow_counts_like_its_text(api, settings, address):
    keep(settings, user_bytes_per_day=100_000)
    name = submit(api, padded(60_000)).json()["name"]
    Workflow.objects.update(status="FAILED")
    assert api.post("/api/pool/h100/" + address.format(name)).status_code == 429
