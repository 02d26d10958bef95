"""A real browser logs in at a real identity provider, and out of both."""

import re

import pytest

from tests.identity import process
from tests.identity.osmo_login import REDIRECT
from tests.identity.process import provider_process
from web.identity.configuration import ProviderSettings
from web.identity.provider import provider_of

SECONDS = 90
ROLES = (("administrators", ("osmo-admin",)), ("trainers", ("osmo-user",)))


@pytest.fixture(scope="module")
def _unsafe():
    """Playwright's loop runs in this thread, in which pytest-django prepares and empties the database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def service(_unsafe, chromium, transactional_db, live_server, settings, tmp_path):
    """The address of the service beside a provider that sends browsers back to it."""
    with provider_process(
        tmp_path,
        redirects=[REDIRECT],
        pages_redirects=[f"{live_server.url}/ui/login/back"],
        logout_redirects=[f"{live_server.url}/ui/login"],
    ) as running:
        settings.ENV = settings.ENV.model_copy(update={"service_url": live_server.url})
        settings.IDENTITY_PROVIDER = ProviderSettings(
            issuer=running.issuer,
            ca_file=str(running.authority),
            pages_client=process.PAGES_CLIENT,
            pages_secret=process.PAGES_SECRET,
            group_roles=ROLES,
        )
        yield live_server.url
        provider_of.cache_clear()


@pytest.fixture
def page(chromium, service):
    """A page of a browser that knows nobody; what goes wrong on the service's own pages fails the test."""
    context = chromium.new_context(ignore_https_errors=True)
    context.set_default_timeout(SECONDS * 1000)
    page, complaints = context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
    page.on(
        "console",
        lambda line: complaints.append(line.text) if line.type == "error" and service in page.url else None,
    )
    yield page
    context.close()
    assert complaints == []


def log_in(page, name):
    """From the form of the service to the provider's, and back."""
    page.get_by_role("link", name="Log in at your organisation").click()
    sign_in(page, name)


def sign_in(page, name):
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("any")
    page.get_by_role("button", name="Sign-in").click()


def test_a_user_logs_in_and_out_and_in_again(page, service):
    page.goto(f"{service}/ui/workflows?status=RUNNING")
    page.wait_for_url(f"{service}/ui/login?next=*")
    log_in(page, "ann")
    page.wait_for_url(f"{service}/ui/workflows?status=RUNNING")
    assert "ann" in page.get_by_role("banner").inner_text()
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies(service)}
    assert cookies["sessionid"]["httpOnly"]

    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="You are logged out of this service").wait_for()
    page.goto(f"{service}/ui/")
    page.wait_for_url(f"{service}/ui/login?next=*")
    page.get_by_role("link", name="Log in at your organisation").click()
    page.wait_for_url(f"{service}/ui/")  # still logged in at the provider, which asks for nothing

    page.get_by_role("button", name="Log out").click()
    page.get_by_role("link", name="Log out there too").click()
    page.get_by_role("button", name=re.compile("Yes", re.IGNORECASE)).click()
    page.wait_for_url(f"{service}/ui/login*")
    log_in(page, "bob")
    page.wait_for_url(f"{service}/ui/")
    assert "bob" in page.get_by_role("banner").inner_text()


def test_an_administrator_logs_in_to_the_admin(page, service):
    page.goto(f"{service}/admin/")
    page.wait_for_url(f"{service}/ui/login?next=*")
    log_in(page, "root")
    page.wait_for_url(f"{service}/admin/")
    page.goto(f"{service}/admin/auth/user/")
    assert page.get_by_role("link", name="root", exact=True).count() == 1
