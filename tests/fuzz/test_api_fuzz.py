"""Noise of every kind at every address that the API describes: no 5xx, and answers as described.

schemathesis makes requests that follow the description and requests that break it, by chance, for an
administrator of a service that has a pool and a workflow, so that names lead somewhere half of the time.
``--deep`` adds some for each rule of the description, 6,000 in all.
"""

import random

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, settings
from rest_framework.test import APIClient
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from osmo_topology.wsgi import application
from pools.models import Backend, ConfigRevision, Pool
from tests.api.workflows.specs import gang, text
from tests.factories import LEVELS, PoolFactory
from web.access.services import make_token
from workflows.models import TaskGroup, Workflow

# WSGI collects here what the real server streams to followers of logs from a coroutine
COLLECTED = "ignore:StreamingHttpResponse must consume asynchronous iterators:Warning"
pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings(COLLECTED)]

IS_DEEP = settings.default.max_examples > 1000
FOR_EACH_RULE = {"phases": {"coverage": {"enabled": IS_DEEP}}}
schema = schemathesis.openapi.from_dict(
    SchemaGenerator().get_schema(public=True), config=SchemathesisConfig.from_dict(FOR_EACH_RULE)
)
schema.app = application

KNOWN = {"pool": "h100", "name": "h100", "workflow_id": "train-1"}


@pytest.fixture(autouse=True)
def one_connection(token):  # after whatever comes from Django's test client, which connects them again
    """The test's own transaction outlives each request."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def token():
    """An administrator's, in a service that something lives in."""
    PoolFactory(name="h100", levels=LEVELS, nvlink=True)
    token = make_token(User.objects.create_superuser("root"), name="noise")
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {token}")
    answer = client.post("/api/pool/h100/workflow", {"file": text(gang(2))}, format="json")
    assert answer.json()["name"] == KNOWN["workflow_id"]
    return token


MADE = (Workflow, TaskGroup, Backend, Pool, ConfigRevision)
COUNTS = ", ".join(f"(SELECT count(*) FROM {model._meta.db_table})" for model in MADE)


def rows():
    """How much there is of everything that a request can make."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {COUNTS}")
        return cursor.fetchone()


@schema.parametrize()
@settings(
    max_examples=25 if IS_DEEP else 10,  # by chance at each address
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_brings_the_service_down(case, token):
    choose = random.Random(repr(case.body))
    for name, known in KNOWN.items():
        if name in (case.path_parameters or {}) and choose.random() < 0.5:
            case.path_parameters[name] = known
    before = rows()
    answer = case.call(headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code < 400 or rows() == before, "a refused request left something behind"
    case.validate_response(
        answer,
        checks=[
            not_a_server_error,
            content_type_conformance,
            status_code_conformance,
            response_schema_conformance,
        ],
    )
