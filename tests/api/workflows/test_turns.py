"""Every door behind which work takes long: one user's go one after the other, and the rest pass."""

from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from tests.api.workflows.specs import gang, text
from tests.error_shape import assert_error_shape
from tests.factories import PoolFactory, WorkflowFactory
from web.limits.turns import RETRY_SECONDS, process_turns
from workflows.models import Workflow

pytestmark = pytest.mark.django_db

PLAIN = text(gang())
TEMPLATE = "default-values: {n: train}\n" + text(gang(name="{{n}}"))
EXPENSIVE = {
    "a template": TEMPLATE,
    "a large text": PLAIN + "#" * 20_000,
    "aliases": PLAIN.replace("image: example.com/train:1", "image: &i example.com/train:1", 1).replace(
        "image: example.com/train:1", "image: *i", 1
    ),
}
SUBMIT = "/api/pool/train/workflow"
REST = {
    **{f"submit, {kind}": (SUBMIT, {"file": document}) for kind, document in EXPENSIVE.items()},
    "validate": (f"{SUBMIT}?validation_only=true", {"file": TEMPLATE}),
    "dry run": (f"{SUBMIT}?dry_run=true", {"file": TEMPLATE}),
    "feasibility": (f"{SUBMIT}?feasibility=only", {"file": TEMPLATE}),
    "a choice among pools": ("/api/workflow?pools=train", {"file": PLAIN}),
    "what-if": ("/api/pool/train/what-if", {"drain_nodes": []}),
}


@pytest.fixture
def pool():
    return PoolFactory(name="train")


@pytest.fixture
def busy():
    """Ann has one expensive request that runs, and two that wait."""
    places = [process_turns().enter("ann") for _ in range(3)]
    yield
    for place in places:
        place.leave()
    assert process_turns().is_idle


@pytest.fixture
def browser():
    client = Client()
    client.force_login(User.objects.create_superuser("ann"))
    return client


@pytest.mark.parametrize("door", REST)
def test_a_user_with_three_expensive_requests_is_refused_another(door, api, as_user, pool, busy):
    address, body = REST[door]
    answer = api.post(address, body, format="json")

    assert_error_shape(answer, 429)
    assert answer["Retry-After"] == str(RETRY_SECONDS)
    assert Workflow.objects.count() == 0
    assert as_user("bob").post(address, body, format="json").status_code != 429


def test_a_workflow_that_is_submitted_again_counts_by_its_text(api, pool, busy):
    WorkflowFactory(pool=pool, base_name="old", number=1, submitted_by="ann", spec=EXPENSIVE["a large text"])
    assert_error_shape(api.post(f"{SUBMIT}?workflow_id=old-1"), 429)


def test_a_plain_document_is_taken_meanwhile(api, pool, busy):
    assert api.post(SUBMIT, {"file": PLAIN}, format="json").status_code == 200


def test_the_page_says_so(browser, pool, busy):
    form = urlencode({"file": TEMPLATE, "do": "check"})
    page = browser.post("/ui/pools/train/submit", form, content_type="application/x-www-form-urlencoded")
    assert page.status_code == 429
    assert page["Retry-After"] == str(RETRY_SECONDS)


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_an_import_over_rest_counts(query, busy):
    client = APIClient()
    client.force_authenticate(User.objects.create_superuser("ann"))
    body = {"file": "pools: {}"}
    assert_error_shape(client.put(f"/api/configs/file{query}", body, format="json"), 429)


@pytest.mark.parametrize("do", ["look", "import"])
def test_an_import_in_the_admin_counts(do, browser, busy):
    page = browser.post("/admin/pools/pool/import/", {"text": "pools: {}", "do": do})
    assert b"expensive requests of yours are worked on or wait" in page.content


def test_a_what_if_question_in_the_admin_counts(browser, pool, busy):
    page = browser.post(f"/admin/pools/pool/{pool.pk}/what-if/", {"drain_nodes": "", "ask": "1"})
    assert b"expensive requests of yours are worked on or wait" in page.content
