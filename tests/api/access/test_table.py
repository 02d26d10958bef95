"""The table of endpoints and roles holds, and no endpoint is missing from it."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from pools.clusters import connect
from tests.api.access.callers import CALLERS, client_of
from tests.api.access.table import rows
from tests.api.workflows.specs import gang, text
from tests.factories import LEVELS, PoolFactory, TaskGroupFactory
from tests.fakes.cluster import FakeCluster
from web.access.permissions import Allowed
from web.models import Role

pytestmark = pytest.mark.django_db

METHODS = ("get", "post", "put", "patch", "delete")
NOT_OURS = ("admin/", "livez", "readyz", "metrics", "ui/log", "^ui")
"""Not asked by users: sessions and Django's permissions, no login, a token of their own; the pages' own form
of the login, and what answers where there is no page."""

OPEN = {"/api/version", "/api/router/version", "/api/auth/login", "/api/auth/jwt/access_token"}
"""Asked before anybody can log in; they answer everybody the same."""

POOLS = ("mine", "other")
BODIES = {"POST /api/pool/{pool}/workflow": {"file": text(gang(2))}}


@pytest.fixture(autouse=True)
def nothing_by_default(settings):
    settings.DEFAULT_ROLES = []


@pytest.fixture
def workflows(monkeypatch):
    """A workflow in each pool, by the pool's name; somebody else submitted them."""
    monkeypatch.setattr(connect, "connect", lambda *args: FakeCluster())
    return {
        name: TaskGroupFactory(
            pool=PoolFactory(name=name, levels=LEVELS, allow_exec=True, allow_port_forward=True)
        ).workflow
        for name in POOLS
    }


def ask(client, method, address, body, *, pool, workflows):
    """The status of a request, whose effects are undone."""
    names = {"pool": pool, "workflow_id": workflows[pool].name, "name": workflows[pool].backend.name}
    names |= {"type": "pool", "no": 1, "gpu": "gpu", "node": "node-1"}
    names |= {"backend": workflows[pool].backend.name, "namespace": "research", "gang": "train"}
    names |= {"task": "task-0", "group": "group-0", "key": "EXEC-0"}
    with transaction.atomic():
        answer = client.generic(method, address.format(token="laptop", **names), **_json(body))
        transaction.set_rollback(True)
    for close in answer._resource_closers:  # as a server does: a stream of logs gives back its slot
        close()
    return answer.status_code


def _json(body):
    return {} if body is None else {"data": APIClient()._encode_data(body, "json")[0]}


def shown(status, *, endpoint):
    absent = (
        "DELETE /api/auth/access_token/{token}",
        "DELETE /api/configs/backend/{name}/suspect_nodes/{node}",
        "GET /api/cluster/{backend}/group/{namespace}/{gang}",
        "GET /ui/clusters/{backend}/{namespace}/{gang}",
    )
    own = 404 if endpoint in absent else None
    return "ok" if status in {200, 400, 409, 425, own} else str(status)


@pytest.mark.parametrize("caller", CALLERS)
def test_each_endpoint_answers_each_role_as_the_table_says(caller, workflows):
    client = client_of(caller)
    want, got = {}, {}
    for method, address, answers in rows():
        endpoint = f"{method} {address}"
        body = BODIES.get(endpoint, None if method == "GET" else {})
        for pool, expected in zip(POOLS, answers[caller], strict=True):
            status = ask(client, method, address, body, pool=pool, workflows=workflows)
            want[endpoint, pool], got[endpoint, pool] = expected, shown(status, endpoint=endpoint)
    assert got == want


def test_the_table_has_every_endpoint_and_no_other():
    assert {f"{method} {_nameless(address)}" for method, address, _ in rows()} == {
        f"{method.upper()} {_nameless(address)}" for address, view in endpoints() for method in methods(view)
    }


def test_every_endpoint_says_what_it_needs_and_asks_the_policy():
    for address, view in endpoints():
        assert set(view.access) == {method.upper() for method in methods(view)}, address
        assert (Allowed in view.permission_classes) != (address in OPEN), address


def endpoints(resolver=None, prefix=""):
    """(address, class of the view) of everything but health and the admin."""
    for entry in (resolver or get_resolver()).url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from endpoints(entry, route)
        elif isinstance(entry, URLPattern) and route and not route.startswith(NOT_OURS):
            yield f"/{route}", entry.callback.cls


def methods(view):
    return [method for method in METHODS if hasattr(view, method)]


def _nameless(address):
    return re.sub(r"<[^>]*>|\{\w+\}", "*", address)


@pytest.fixture
def member(workflows):
    return client_of("member")


def test_lists_hold_nothing_of_pools_that_are_hidden(member, workflows):
    assert list(member.get("/api/pool").json()["pools"]) == ["mine"]
    assert list(member.get("/api/pool?pools=other&pools=mine").json()["pools"]) == ["mine"]
    assert list(member.get("/api/topology").json()["pools"]) == ["mine"]
    listed = member.get("/api/workflow?all_users=True&pools=mine&pools=other").json()["workflows"]
    assert [row["name"] for row in listed] == [workflows["mine"].name]
    assert member.get("/api/profile/settings").json()["pools"] == ["mine"]
    keeper = client_of("keeper")
    assert list(keeper.get("/api/configs/pool").json()["pools"]) == ["mine"]
    assert keeper.get("/api/configs/backend").json()["backends"] == []


@pytest.mark.parametrize(
    ("address", "method"),
    [
        ("/api/pool/{}/topology", "get"),
        ("/api/pool/{}/workflow", "post"),
        ("/api/workflow/{}", "get"),
        ("/api/workflow/{}/cancel", "post"),
        ("/api/workflow/{}/logs", "get"),
    ],
)
def test_a_hidden_object_and_a_missing_one_are_the_same_404(address, method, member, workflows):
    hidden = workflows["other"].name if "/workflow/" in address else "other"
    answers = {}
    for name in (hidden, "x" * len(hidden)):
        body = {"file": text(gang(2))} if (address, method) == ("/api/pool/{}/workflow", "post") else None
        answer = getattr(member, method)(address.format(name), body, format="json", HTTP_X_REQUEST_ID="r")
        answers[name] = (answer.status_code, answer.content.decode().replace(name, "NAME"))
    assert len(set(answers.values())) == 1
    assert answers[hidden][0] == 404


def test_a_default_pool_that_may_not_be_used_is_not_chosen(member):
    assert member.post("/api/profile/settings", {"pool": "mine"}, format="json").status_code == 200
    assert member.post("/api/profile/settings", {"pool": "other"}, format="json").status_code == 404


def test_a_role_taken_away_is_gone_with_the_next_request(member):
    assert member.get("/api/pool").status_code == 200
    User.objects.get(username="member").role_assignments.all().delete()
    assert member.get("/api/pool").status_code == 403


def test_users_without_a_role_hold_the_default_ones(settings, workflows):
    settings.DEFAULT_ROLES = ["osmo-user"]
    nobody = client_of("nobody")
    assert set(nobody.get("/api/pool").json()["pools"]) == set(POOLS)
    assert nobody.get("/api/profile/settings").json()["roles"] == ["osmo-default", "osmo-user"]


def test_a_user_who_was_given_the_least_role_holds_no_other(settings, workflows):
    settings.DEFAULT_ROLES = ["osmo-user"]
    nobody = client_of("nobody")
    User.objects.get(username="nobody").role_assignments.create(role="osmo-default")
    assert nobody.get("/api/profile/settings").json()["roles"] == ["osmo-default"]


def test_a_role_that_something_spoilt_grants_nothing(workflows):
    reader = client_of("reader")
    Role.objects.update(policies=[{"actions": ["*:*"], "resources": "*"}])
    assert reader.get("/api/workflow").status_code == 403
    assert reader.get("/api/profile/settings").status_code == 200
