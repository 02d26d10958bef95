"""What holds for every answer: an id, one error shape, and nothing open but health."""

import re
import threading

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from pools.services.health import observers
from tests.builders.addresses import NEVER_OURS, addresses
from tests.factories import BackendFactory
from web.access.services import make_token
from web.models import Role, RoleAssignment
from web.operation import health

pytestmark = pytest.mark.django_db

OPEN = {"livez", "readyz", "api/version", "api/router/version", "api/auth/login", "api/auth/jwt/access_token"}
PAGES = ("ui/", "^ui")
LOGINS = {"ui/login", "ui/login/identity", "ui/login/back", "ui/logout", "ui/logged-out"}
"""Pages of those who have not logged in."""

METHODS = ("get", "head", "options", "post", "put", "patch", "delete", "trace")


@pytest.fixture
def client():
    return APIClient()


def concrete(route):
    return "/" + re.sub(r"<(?:\w+:)?\w+>", "x1", route)


def test_nothing_but_health_and_the_login_answers_a_stranger(client):
    answered = {
        route
        for route in addresses(leave_out=(*NEVER_OURS, *PAGES))
        if route
        for method in METHODS
        if getattr(client, method)(concrete(route)).status_code not in {401, 403, 405}
    }
    assert answered == OPEN


def test_no_cache_stores_an_answer_of_the_api_or_gives_it_to_another_login(client, ann):
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(ann, name='laptop')}")
    for route in filter(None, addresses(leave_out=(*NEVER_OURS, *PAGES, "metrics"))):
        answer = client.get(concrete(route))
        assert answer.headers.get("Cache-Control") == "no-store", route
        assert {"Authorization", "Cookie", "x-osmo-user"} <= set(answer["Vary"].split(", ")), route


def test_every_page_sends_a_stranger_to_the_login(client):
    known = {route for route in addresses(leave_out="?") if route.startswith("ui/")}
    assert len(known) > 3
    for route in known - LOGINS:
        answer = client.get(concrete(route))
        assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, "/ui/login"), route


def test_the_admin_sends_a_stranger_to_its_login(client):
    known = [route for route in addresses(leave_out="?") if route.startswith("admin/") and "?" not in route]
    assert len(known) > 30
    for route in set(known) - {"admin/login/"}:
        where = "/admin/" if route == "admin/logout/" else "/admin/login/"
        for method in ("get", "post"):
            answer = getattr(client, method)(concrete(route))
            assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, where), route


def test_a_stranger_is_told_to_log_in_in_the_shape_of_every_error(client):
    answer = client.get("/api/schema")
    assert answer.status_code == 401
    assert set(answer.json()) == {"message", "error_code", "workflow_id", "details", "request_id"}


def test_a_personal_token_opens_the_door(client, ann):
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(ann, name='laptop')}")
    assert client.get("/api/schema").status_code == 200


def test_a_wrong_token_does_not(client):
    client.credentials(HTTP_AUTHORIZATION="Bearer " + "0" * 64)
    assert client.get("/api/schema").status_code == 401


@pytest.mark.parametrize("token", ["\xff\xfe", "t\xf6ken", "\x80" * 64], ids=["bytes", "letters", "long"])
def test_a_token_beyond_ascii_is_a_wrong_token(client, token):
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    answer = client.get("/api/schema", HTTP_X_REQUEST_ID="r1")
    assert answer.status_code == 401
    assert answer.json()["request_id"] == "r1"


def test_the_development_header_logs_in_only_in_development(client, settings):
    settings.DEVELOPMENT_LOGIN = True
    assert client.get("/api/schema", HTTP_X_OSMO_USER="ann").status_code == 200
    settings.DEVELOPMENT_LOGIN = False
    assert client.get("/api/schema", HTTP_X_OSMO_USER="ann").status_code == 401


@pytest.mark.parametrize(
    ("given", "want"),
    [("abc-1", "abc-1"), ("", None), ("x" * 65, None), ("a b", None), ("<script>", None)],
    ids=["a sane id", "none", "too long", "with a space", "with markup"],
)
def test_the_request_id_is_the_callers_if_it_is_sane(client, given, want):
    answer = client.get("/livez", HTTP_X_REQUEST_ID=given)
    assert answer["X-Request-ID"] == want if want else len(answer["X-Request-ID"]) == 32


@pytest.mark.parametrize("given", ["", "abc-1", "a b"], ids=["of ours", "of the caller", "refused"])
def test_the_id_of_an_answer_is_the_one_in_the_log(client, given, caplog):
    caplog.set_level("INFO")
    answer = client.get("/api/schema", HTTP_X_REQUEST_ID=given)
    lines = [line.msg for line in caplog.records if isinstance(line.msg, dict)]
    logged = {line["event"]: line["request_id"] for line in lines if "request_id" in line}
    assert answer.json()["request_id"] == answer["X-Request-ID"]
    assert {"request_started", "request_finished"} <= logged.keys()
    assert set(logged.values()) == {answer["X-Request-ID"]}


def test_the_address_in_the_log_is_not_what_the_caller_claims(client, caplog):
    caplog.set_level("INFO")
    client.get("/api/schema", HTTP_X_FORWARDED_FOR="203.0.113.9", HTTP_X_REAL_IP="203.0.113.9")
    lines = [line.msg for line in caplog.records if isinstance(line.msg, dict)]
    assert {line["ip"] for line in lines if "ip" in line} == {"127.0.0.1"}


def test_an_unknown_address_is_a_404_in_the_shape_of_every_error(client):
    answer = client.get("/api/nothing", HTTP_X_REQUEST_ID="r1")
    assert answer.status_code == 404
    assert answer.json()["request_id"] == "r1"


@pytest.mark.parametrize("address", ["/livez", "/readyz"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "TRACE"])
def test_health_refuses_other_methods_in_the_shape_of_every_error(address, method):
    answer = APIClient(enforce_csrf_checks=True).generic(method, address)
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, HEAD"
    assert set(answer.json()) == {"message", "error_code", "workflow_id", "details", "request_id"}


POD = "10.1.2.3:8000"


@pytest.mark.parametrize(("address", "want"), [("/livez", 200), ("/readyz", 200), ("/metrics", 401)])
def test_a_probe_by_the_address_of_a_pod_is_answered_and_not_logged(client, address, want, caplog):
    """Neither a kubelet nor Prometheus can send another Host than the address that it calls."""
    assert client.get(address, HTTP_HOST=POD).status_code == want
    assert [record for record in caplog.records if "request" in str(record.msg)] == []


def test_the_host_counts_everywhere_else(client):
    for address in ("/api/version", "/readyz/", "/ui/login"):
        assert client.get(address, HTTP_HOST=POD).status_code == 400


def test_the_pages_of_the_api_tell_a_stranger_to_log_in_in_the_same_shape(client):
    answer = client.get("/api/docs")
    assert answer.status_code == 401
    assert set(answer.json()) == {"message", "error_code", "workflow_id", "details", "request_id"}


def test_a_browser_without_a_login_is_led_to_it_and_back_to_the_pages_of_the_api(client):
    answer = client.get("/api/docs", HTTP_ACCEPT="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/ui/login?next=/api/docs")


def test_readiness_names_what_does_not_answer_and_goes_on_without_what_it_can(client, settings):
    settings.CELERY_BROKER_URL = "redis://:secret@127.0.0.1:1/0"
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "degraded"
    assert (answer.json()["database"], answer.json()["migrations"]) == ("ok", "ok")
    assert answer.json()["redis"].startswith("does not answer")
    assert answer.json()["sweep"].startswith("never ran")
    assert "secret" not in answer.content.decode()


def test_readiness_names_backends_to_those_who_may_read_them(client, settings, ann, monkeypatch):
    BackendFactory(name="gpu-secret")
    BackendFactory(name="gpu-shared")
    monkeypatch.setattr(health, "_probes", {})
    statuses = observers()  # here: the thread of a probe does not see a test's transaction
    health.register("observers", lambda: statuses, needed=False)
    Role.objects.create(
        name="reader", policies=[{"actions": ["config:Read"], "resources": ["backend/gpu-shared"]}]
    )
    settings.ENV = settings.ENV.model_copy(update={"metrics_token": "scrape"})
    settings.DEFAULT_ROLES = []

    def named(**headers):
        lines = client.get("/readyz", **headers).json()
        return [line.removeprefix("observer of ") for line in lines if line.startswith("observer")]

    numbers, names = ["backend 1", "backend 2"], ["gpu-secret", "gpu-shared"]
    assert named() == numbers
    assert named(HTTP_AUTHORIZATION="Bearer wrong") == numbers
    assert named(HTTP_AUTHORIZATION="Bearer scrape") == names
    token = f"Bearer {make_token(ann, name='laptop')}"
    assert named(HTTP_AUTHORIZATION=token) == numbers
    RoleAssignment.objects.create(user=ann, role="reader")
    assert named(HTTP_AUTHORIZATION=token) == ["backend 1", "gpu-shared"]
    client.force_login(User.objects.create_superuser("root"))
    assert named() == names


def test_readiness_waits_for_nothing_that_hangs(client, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(health, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr(health, "_probes", {})

    def hang():
        released.wait(60)
        return []

    health.register("database", hang, needed=True)
    try:
        for _ in range(3):
            answer = client.get("/readyz")
            assert (answer.status_code, answer.json()["database"]) == (503, "does not answer")
        assert sum(thread.name == "probe of database" for thread in threading.enumerate()) == 1
    finally:
        released.set()
