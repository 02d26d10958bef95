"""Logging in to the pages and the admin at a real identity provider, and everything that must not log in."""

import time
from dataclasses import replace
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import time_machine
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from tests.api.identity.conftest import SERVICE
from tests.identity.keys import SigningKey
from tests.identity.process import BROWSER_CLIENT, PAGES_CLIENT
from web.identity import code_flow
from web.identity.fetching import ProviderAnswer

pytestmark = pytest.mark.django_db

BACK = f"{SERVICE}/ui/login/back"
PASSWORD = "a password of ours"


@pytest.fixture
def person(identity):
    """A function that opens the provider for a user."""
    people = []

    def person(name):
        people.append(identity.person(name))
        return people[-1]

    yield person
    for each in people:
        each.close()


def start(browser, page="/ui/workflows"):
    """The provider's address to which the browser is sent."""
    answer = browser.get(f"/ui/login/identity?{urlencode({'next': page})}")
    assert answer.status_code == 302, answer.content
    return answer["Location"]


def come_back(browser, address):
    assert address.startswith(BACK)
    return browser.get(address.removeprefix(SERVICE))


def log_in(browser, person, *, page="/ui/workflows"):
    return come_back(browser, person.visit(start(browser, page), until=BACK))


def name_on_page(browser):
    """The name on the first page; None for who is sent to the form."""
    answer = browser.get("/ui/")
    return answer.context["user"].username if answer.status_code == 200 else None


def change_attempt(browser, **changed):
    session = browser.session
    session["identity_attempts"] = [{**attempt, **changed} for attempt in session["identity_attempts"]]
    session.save()


def assert_refused(answer, browser, text, *, status=403):
    assert answer.status_code == status, answer.content
    assert text in answer.content.decode()
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert name_on_page(browser) is None
    assert not User.objects.exists()


def test_a_login_leads_back_to_the_requested_page(identity, person):
    browser = Client()
    first = browser.get("/ui/workflows?mine=1")
    form = browser.get(first["Location"]).content.decode()
    assert "/ui/login/identity?next=%2Fui%2Fworkflows%3Fmine%3D1" in form
    answer = log_in(browser, person("ann"), page="/ui/workflows?mine=1")
    assert (answer.status_code, answer["Location"]) == (302, "/ui/workflows?mine=1")
    assert name_on_page(browser) == "ann"
    roles = browser.get("/api/profile/settings").json()["roles"]
    assert roles == ["osmo-default", "osmo-train", "osmo-tune"]


def test_the_request_to_the_provider_has_state_nonce_and_a_challenge(identity):
    query = parse_qs(urlsplit(start(Client())).query)
    assert set(query) == {
        "client_id",
        "response_type",
        "redirect_uri",
        "scope",
        "state",
        "nonce",
        "code_challenge",
        "code_challenge_method",
    }
    assert (query["redirect_uri"], query["code_challenge_method"]) == ([BACK], ["S256"])
    assert min(len(query[name][0]) for name in ("state", "nonce", "code_challenge")) >= 43


@pytest.mark.parametrize(
    "page",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "///evil.example",
        "http:evil.example",
        "javascript:alert(1)",
        "ui/",
        "",
        "/ui/login",
        "/ui/logout",
        "/ui/login/identity",
        "/" + "x" * 3000,
    ],
)
def test_a_login_leads_nowhere_else(page, identity, person):
    assert log_in(Client(), person("ann"), page=page)["Location"] == "/ui/"


def test_a_callback_serves_once(identity, person):
    browser = Client()
    address = person("ann").visit(start(browser), until=BACK)
    assert come_back(browser, address).status_code == 302
    browser.post("/ui/logout")
    again = come_back(browser, address)
    assert (again.status_code, name_on_page(browser)) == (400, None)


def test_a_code_serves_once_at_the_provider_too(identity, person):
    browser = Client()
    address = person("ann").visit(start(browser), until=BACK)
    attempts = browser.session["identity_attempts"]
    assert come_back(browser, address).status_code == 302
    other = Client()
    start(other)
    session = other.session
    session["identity_attempts"] = attempts
    session.save()
    assert come_back(other, address).status_code == 403


def test_a_callback_of_another_browser_is_refused(identity, person):
    address = person("ann").visit(start(Client()), until=BACK)
    victim = Client()
    start(victim)
    assert_refused(come_back(victim, address), victim, "not begun in this browser", status=400)


def test_another_state_is_refused(identity, person):
    browser = Client()
    address = person("ann").visit(start(browser), until=BACK)
    state = parse_qs(urlsplit(address).query)["state"][0]
    assert_refused(come_back(browser, address.replace(state, "x" * 43)), browser, "Log in again", status=400)


def test_another_nonce_is_refused(identity, person):
    browser = Client()
    address = person("ann").visit(start(browser), until=BACK)
    change_attempt(browser, nonce="n" * 43)
    assert_refused(come_back(browser, address), browser, "answers another login")


def test_another_verifier_is_refused(identity, person):
    browser = Client()
    address = person("ann").visit(start(browser), until=BACK)
    change_attempt(browser, verifier="v" * 64)
    assert_refused(come_back(browser, address), browser, "did not accept this login")


def test_a_login_that_took_too_long_is_refused(identity, person):
    browser = Client()
    address = person("ann").visit(start(browser), until=BACK)
    change_attempt(browser, begun_at=time.time() - 601)
    assert_refused(come_back(browser, address), browser, "took too long", status=400)


def test_a_login_that_the_provider_ends_is_no_login(identity):
    browser = Client()
    state = parse_qs(urlsplit(start(browser)).query)["state"][0]
    query = urlencode({"error": "access_denied", "error_description": "<b>no</b>", "state": state})
    assert_refused(browser.get(f"/ui/login/back?{query}"), browser, "access_denied")


def test_another_issuer_in_the_callback_is_refused(identity, person):
    browser = Client()
    address = person("ann").visit(start(browser), until=BACK)
    query = parse_qs(urlsplit(address).query)
    query["iss"] = ["https://login.example.com"]
    assert_refused(
        browser.get(f"/ui/login/back?{urlencode(query, doseq=True)}"), browser, "Another identity provider"
    )


TOKENS = {
    "another issuer": {"iss": "https://login.example.com"},
    "another audience": {"aud": "another-service"},
    "the audience of OSMO's client": {"aud": BROWSER_CLIENT},
    "another key": {"key": SigningKey("first")},
    "a key that is not published": {"key": SigningKey("unpublished")},
    "expired": {"exp": int(time.time()) - 60},
    "no nonce": {"nonce": None},
    "the nonce of another login": {"nonce": "n" * 43},
}


@pytest.mark.parametrize("case", TOKENS)
def test_a_token_for_the_pages_is_refused(case, identity, monkeypatch):
    """The provider's answer to the code is replaced by a token that it would not have sent."""
    browser = Client()
    query = parse_qs(urlsplit(start(browser)).query)
    claims = {"aud": PAGES_CLIENT, "nonce": query["nonce"][0], **TOKENS[case]}
    token = identity.token(**claims)
    monkeypatch.setattr(code_flow, "fetch", lambda *_, **__: ProviderAnswer(200, {"id_token": token}))
    callback = urlencode({"code": "c", "state": query["state"][0]})
    answer = browser.get(f"/ui/login/back?{callback}")
    assert_refused(answer, browser, "This ")


def test_a_good_token_for_the_pages_is_accepted(identity, monkeypatch):
    """The refusal above comes from the change that its test makes."""
    browser = Client()
    query = parse_qs(urlsplit(start(browser)).query)
    token = identity.token(aud=PAGES_CLIENT, nonce=query["nonce"][0])
    monkeypatch.setattr(code_flow, "fetch", lambda *_, **__: ProviderAnswer(200, {"id_token": token}))
    answer = browser.get(f"/ui/login/back?{urlencode({'code': 'c', 'state': query['state'][0]})}")
    assert (answer.status_code, name_on_page(browser)) == (302, "ann")


def test_the_session_gets_a_new_key_with_the_login(identity, person):
    """A key that somebody planted in the browser is worth nothing afterwards."""
    browser = Client()
    address = person("ann").visit(start(browser), until=BACK)
    planted = browser.session.session_key
    come_back(browser, address)
    assert browser.session.session_key != planted
    assert not Session.objects.filter(session_key=planted).exists()
    thief = Client()
    thief.cookies["sessionid"] = planted
    assert name_on_page(thief) is None


def test_a_session_ends_in_time_whatever_is_done_in_it(identity, settings, person):
    settings.IDENTITY_PROVIDER = replace(identity.settings, session_seconds=600)
    browser = Client()
    log_in(browser, person("ann"))
    now = time.time()
    with time_machine.travel(now + 550, tick=False):
        session = browser.session
        session["anything"] = 1
        session.save()
        assert name_on_page(browser) == "ann"
    with time_machine.travel(now + 650, tick=False):
        assert name_on_page(browser) is None


def test_a_session_ends_with_the_provider(identity, settings, person):
    browser = Client()
    log_in(browser, person("ann"))
    settings.IDENTITY_PROVIDER = replace(identity.settings, issuer="https://login.example.com")
    assert name_on_page(browser) is None
    settings.IDENTITY_PROVIDER = None
    assert name_on_page(browser) is None


def test_a_user_who_was_switched_off_is_out(identity, person):
    browser = Client()
    log_in(browser, person("ann"))
    User.objects.update(is_active=False)
    assert name_on_page(browser) is None


def test_the_table_of_groups_holds_for_sessions_that_began_before_it_changed(identity, settings, person):
    browser = Client()
    log_in(browser, person("ann"))
    settings.IDENTITY_PROVIDER = replace(identity.settings, group_roles=(("trainers", ("osmo-other",)),))
    assert browser.get("/api/profile/settings").json()["roles"] == ["osmo-default", "osmo-other"]


def test_administrators_by_group_have_the_admin_and_only_for_the_session(identity, person):
    browser = Client()
    first = browser.get("/admin/")
    assert first["Location"].startswith("/admin/login/?next=/admin/")
    assert browser.get(first["Location"])["Location"] == "/ui/login?next=%2Fadmin%2F"
    assert log_in(browser, person("root"), page="/admin/")["Location"] == "/admin/"
    assert browser.get("/admin/").status_code == 200
    assert browser.get("/admin/auth/user/").status_code == 200
    root = User.objects.get(username="root")
    assert (root.is_staff, root.is_superuser) == (False, False)
    browser.post("/ui/logout")
    assert browser.get("/admin/").status_code == 302


def test_others_do_not_have_the_admin(identity, person):
    browser = Client()
    log_in(browser, person("ann"))
    refused = browser.get("/admin/")
    assert refused.status_code == 302
    page = browser.get(refused["Location"])  # the admin's own form, and no way round in a circle
    assert (page.status_code, page.context["username"]) == (200, "ann")


def test_logging_out_ends_the_session_and_offers_the_providers_logout(identity, person):
    browser = Client()
    log_in(browser, person("ann"))
    key = browser.session.session_key
    answer = browser.post("/ui/logout")
    assert answer["Location"] == "/ui/logged-out"
    assert name_on_page(browser) is None
    assert not Session.objects.filter(session_key=key).exists()
    page = browser.get("/ui/logged-out")
    address = page.context["provider_logout"]
    assert address.startswith(f"{identity.settings.issuer}/session/end?")
    query = parse_qs(urlsplit(address).query)
    assert query == {"client_id": [PAGES_CLIENT], "post_logout_redirect_uri": [f"{SERVICE}/ui/login"]}


def test_local_users_log_in_and_out_as_before(identity):
    User.objects.create_user("carl", password=PASSWORD)
    browser = Client()
    start(browser)  # gave up there
    assert browser.session.get_expiry_age() <= 600
    answer = browser.post("/ui/login", {"username": "carl", "password": PASSWORD, "next": "/ui/workflows"})
    assert answer["Location"] == "/ui/workflows"
    assert name_on_page(browser) == "carl"
    assert browser.session.get_expiry_age() > 100_000
    assert browser.post("/ui/logout")["Location"] == "/ui/login"


def test_a_session_keeps_few_attempts(identity):
    browser = Client()
    for _ in range(8):
        start(browser)
    assert len(browser.session["identity_attempts"]) == 5


def test_logins_that_are_begun_and_not_ended_are_limited(identity, person, settings):
    settings.ADDRESS_LOGINS_PER_MINUTE = 2
    visitor = person("ann")
    for _ in range(4):
        assert log_in(Client(), visitor).status_code == 302
    browser = Client()
    answers = [browser.get("/ui/login/identity").status_code for _ in range(3)]
    assert answers == [302, 302, 429]


def test_while_the_provider_is_away_the_page_says_so(identity, settings):
    settings.IDENTITY_PROVIDER = replace(identity.settings, issuer="https://127.0.0.1:1")
    answer = Client().get("/ui/login/identity")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "cannot be reached" in answer.content.decode()
    assert Client().get("/ui/logged-out").context["provider_logout"] == ""


@pytest.mark.parametrize("change", [{"pages_client": ""}, None])
def test_without_a_client_for_the_pages_they_offer_nothing(change, identity, settings):
    settings.IDENTITY_PROVIDER = replace(identity.settings, **change) if change else None
    assert "/ui/login/identity" not in Client().get("/ui/login").content.decode()
    assert Client().get("/ui/login/identity").status_code == 404
    assert Client().get("/admin/login/").status_code == 200
