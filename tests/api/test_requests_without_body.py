"""Where no body is read, one that says something is refused: what it asks for would be dropped in silence."""

import re

import pytest
from django.contrib.auth.models import User
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from tests.error_shape import assert_error_shape
from tests.factories import TaskGroupFactory
from workflows.models import Workflow

pytestmark = pytest.mark.django_db

CHANGING = ("post", "put", "patch", "delete")
SILENT = {"an empty body": "", "an empty object": " {} ", "null": "null"}
"""What clients send that have nothing to say; OSMO's names a content type even then."""
SPOKEN = {"a list": "[]", "a text": '""', "false": "false", "broken JSON": '{"force": tr'}
EMPTY = ("/api/configs/group_template/", "/api/configs/resource_validation/")
"""There is never anything to delete: a 404 whatever the request says."""


@pytest.fixture
def root():
    client = APIClient()
    client.force_authenticate(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def cancel(root):
    name = TaskGroupFactory(status="WAITING").workflow.name

    def send(body, query=""):
        return root.generic("POST", f"/api/workflow/{name}/cancel{query}", body, "application/json")

    return send


def operations_without_body():
    for path, operations in SchemaGenerator().get_schema(public=True)["paths"].items():
        for method in CHANGING:
            if "requestBody" not in operations.get(method, {"requestBody"}) and not path.startswith(EMPTY):
                yield method.upper(), re.sub(r"\{\w+\}", "1", path)


def test_every_operation_that_reads_no_body_refuses_one(root):
    operations = list(operations_without_body())
    assert len(operations) > 10
    answers = {
        (method, path): root.generic(method, path, '{"surprise": 1}', "application/json").status_code
        for method, path in operations
    }
    assert answers == dict.fromkeys(answers, 400)


@pytest.mark.parametrize("kind", SPOKEN)
def test_a_body_is_refused_whatever_it_says(cancel, kind):
    assert_error_shape(cancel(SPOKEN[kind]), 400)


def test_the_refusal_names_the_parameters_that_there_are(cancel, root):
    refused = assert_error_shape(cancel('{"message": "wrong data", "force": true}'), 400, code="body")
    assert refused["message"] == "No body is read here. Query parameters are force and message."
    assert refused["details"][0]["allowed"] == ["force", "message"]
    assert not Workflow.objects.exclude(cancelled_by="").exists()
    refused = assert_error_shape(root.post("/api/doctor", {"repair": True}, format="json"), 400, code="body")
    assert refused["message"] == "No body is read here, and there are no query parameters."


@pytest.mark.parametrize("kind", SILENT)
def test_a_body_that_says_nothing_is_accepted(cancel, kind):
    assert cancel(SILENT[kind], "?message=wrong+data").status_code == 200
