"""OSMO's client logs in at a real identity provider, and its tokens work here."""

from dataclasses import replace

import pytest
from rest_framework.test import APIClient

from tests.api.identity.conftest import roles
from tests.error_shape import assert_error_shape

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(identity):
    client = identity.client()
    yield client
    client.close()


@pytest.fixture
def ann(identity):
    person = identity.person("ann")
    yield person
    person.close()


def test_login_with_a_device_code(client, ann):
    stored = client.device_code(ann)
    assert roles(stored.id_token) == ["osmo-default", "osmo-train", "osmo-tune"]
    renewed = client.refresh(stored)
    assert roles(renewed.id_token) == ["osmo-default", "osmo-train", "osmo-tune"]


def test_login_with_a_browser_and_pkce(client, ann):
    stored = client.browser(ann)
    assert roles(stored.id_token) == ["osmo-default", "osmo-train", "osmo-tune"]
    renewed = client.refresh(stored)
    assert roles(renewed.id_token) == ["osmo-default", "osmo-train", "osmo-tune"]


def test_another_verifier_gets_no_token(client, ann):
    answer = client.browser(ann, verifier="v" * 64)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


def test_a_login_that_is_not_offered_has_no_address(identity, settings):
    settings.IDENTITY_PROVIDER = replace(identity.settings, device_client="", browser_client="")
    info = APIClient().get("/api/auth/login").json()
    assert {name for name, value in info.items() if value} == {"token_endpoint", "logout_endpoint"}


def test_while_the_provider_is_away_the_client_is_told_to_come_again(identity, settings):
    settings.IDENTITY_PROVIDER = replace(identity.settings, issuer="https://127.0.0.1:1")
    answer = APIClient().get("/api/auth/login")
    assert_error_shape(answer, 503)
    assert int(answer["Retry-After"]) > 0
