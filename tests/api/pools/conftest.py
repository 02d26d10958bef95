import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.fakes.kai import cluster, clusters  # noqa: F401 -- fixtures
from tests.fakes.usage import running  # noqa: F401 -- a fixture


def client_of(**user):
    client = APIClient()
    client.force_authenticate(User.objects.create_user(**user))
    return client


@pytest.fixture
def admin(db):
    return client_of(username="root", is_staff=True)


@pytest.fixture
def ann(db):
    return client_of(username="ann")


@pytest.fixture
def put(admin):
    """PUT a configuration and return (status, reply)."""

    def send(path, configs, **headers):
        answer = admin.put(f"/api/configs/{path}", {"configs": configs}, format="json", **headers)
        return answer.status_code, answer.json()

    return send


@pytest.fixture
def kai(put):
    assert put("backend/kai", {"kubeconfig": "/etc/kai"})[0] == 200


@pytest.fixture
def pool(put, kai):
    """A pool with two keys on a KAI backend; returns its configuration as replied."""
    status, reply = put("pool/train", POOL)
    assert status == 200, reply
    return reply


POOL = {
    "backend": "kai",
    "topology_keys": [
        {"key": "zone", "label": "topology.kubernetes.io/zone"},
        {"key": "rack", "label": "example.com/rack"},
    ],
}
