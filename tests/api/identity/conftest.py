"""The service beside a real identity provider."""

import time
from dataclasses import dataclass

import pytest
from rest_framework.test import APIClient

from tests.identity import process
from tests.identity.browser import Person
from tests.identity.osmo_login import REDIRECT, OsmoLogin
from tests.identity.process import provider_process
from web.identity.configuration import ProviderSettings
from web.identity.provider import provider_of

SERVICE = "http://127.0.0.1:8000"
ROLES = (("administrators", ("osmo-admin",)), ("trainers", ("osmo-train", "osmo-tune")))


@pytest.fixture(scope="package")
def running_provider(tmp_path_factory):
    with provider_process(
        tmp_path_factory.mktemp("identity"),
        redirects=[REDIRECT],
        pages_redirects=[f"{SERVICE}/ui/login/back"],
        logout_redirects=[f"{SERVICE}/ui/login"],
    ) as running:
        yield running


@dataclass
class Identity:
    """The provider, and tokens that it signed or that its key could have signed."""

    running: process.ProviderProcess
    settings: ProviderSettings

    def claims(self, **changed):
        """The claims of a good token; None takes one out."""
        now = int(time.time())
        claims = {
            "iss": self.settings.issuer,
            "sub": "ann",
            "aud": process.BROWSER_CLIENT,
            "iat": now,
            "exp": now + 300,
            "preferred_username": "ann",
            "groups": ["everybody", "trainers"],
        }
        return {name: value for name, value in (claims | changed).items() if value is not None}

    def token(self, *, key=None, header=None, **changed):
        return (key or self.running.key).sign(self.claims(**changed), **(header or {}))

    def person(self, name):
        return Person(name, authority=self.running.authority)

    def client(self):
        """OSMO's client, which reads where to log in."""
        answer = APIClient().get("/api/auth/login")
        assert answer.status_code == 200, answer.content
        return OsmoLogin(answer.json(), authority=self.running.authority)


@pytest.fixture
def identity(running_provider, settings):
    settings.IDENTITY_PROVIDER = ProviderSettings(
        issuer=running_provider.issuer,
        ca_file=str(running_provider.authority),
        device_client=process.DEVICE_CLIENT,
        browser_client=process.BROWSER_CLIENT,
        pages_client=process.PAGES_CLIENT,
        pages_secret=process.PAGES_SECRET,
        group_roles=ROLES,
    )
    settings.ENV = settings.ENV.model_copy(update={"service_url": SERVICE})
    provider_of.cache_clear()
    yield Identity(running_provider, settings.IDENTITY_PROVIDER)
    running_provider.publish(running_provider.key)


def profile(bearer):
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {bearer}").get("/api/profile/settings")


def roles(bearer):
    answer = profile(bearer)
    assert answer.status_code == 200, answer.content
    return answer.json()["roles"]
