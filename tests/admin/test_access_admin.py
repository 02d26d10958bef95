"""Users, roles and tokens in the admin, and a limit on tries to log in."""

import json
from contextlib import suppress
from ipaddress import ip_network

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from tests.error_shape import assert_error_shape
from web.access.rights import read_grants
from web.access.services import make_token
from web.models import MOST_ROLES, PersonalToken, Role
from web.policy import MOST_WORDS

pytestmark = pytest.mark.django_db


@pytest.fixture
def root():
    browser = Client()
    browser.force_login(User.objects.create_superuser("root", password="correct horse battery"))
    return browser


def assign(browser, user, *roles):
    """Save a user's page with these roles added."""
    forms = {f"role_assignments-{i}-role": role for i, role in enumerate(roles)}
    return browser.post(
        f"/admin/auth/user/{user.pk}/change/",
        {
            "username": user.username,
            "is_active": "on",
            "date_joined_0": "2026-01-01",
            "date_joined_1": "00:00:00",
            "role_assignments-TOTAL_FORMS": len(roles),
            "role_assignments-INITIAL_FORMS": 0,
            "identities-TOTAL_FORMS": 0,
            "identities-INITIAL_FORMS": 0,
            **{f"role_assignments-{i}-user": user.pk for i in range(len(roles))},
            **forms,
        },
    )


def test_a_superuser_assigns_roles(root):
    Role.objects.create(name="reader", policies=[{"actions": ["workflow:Read"], "resources": ["pool/a"]}])
    ann = User.objects.create_user("ann")
    assert assign(root, ann, "reader", "osmo-train").status_code == 302
    assert read_grants(ann).roles == ("osmo-default", "osmo-train", "reader")


def test_a_role_that_does_not_exist_is_not_assigned(root):
    ann = User.objects.create_user("ann")
    answer = assign(root, ann, "raeder")
    assert "; there are osmo-admin, osmo-backend, " in answer.content.decode()
    assert not ann.role_assignments.exists()


def grant_by_command(browser, user, *roles):
    del browser
    with suppress(CommandError):
        call_command("grant_role", user.username, *roles)


@pytest.mark.parametrize("door", [assign, grant_by_command])
def test_a_user_is_assigned_a_bounded_number_of_roles(door, root):
    ann = User.objects.create_user("ann")
    roles = [f"osmo-p{i}" for i in range(MOST_ROLES + 1)]
    answer = door(root, ann, *roles)
    assert not ann.role_assignments.exists()
    if answer:
        assert f"at most {MOST_ROLES} roles" in answer.content.decode()
    door(root, ann, *roles[:MOST_ROLES])
    assert ann.role_assignments.count() == MOST_ROLES


def test_a_role_has_a_bounded_number_of_words(root):
    pools = [f"pool/p{i}" for i in range(MOST_WORDS)]
    for count, saved in ((MOST_WORDS, False), (MOST_WORDS - 1, True)):
        policies = json.dumps([{"actions": ["workflow:*"], "resources": pools[:count]}])
        answer = root.post("/admin/web/role/add/", {"name": "team", "policies": policies})
        assert Role.objects.exists() is saved, answer.content.decode()
    assert answer.status_code == 302


def test_a_role_is_written_and_a_wrong_one_refused(root):
    good = '[{"actions": ["workflow:*"], "resources": ["pool/a"]}]'
    assert root.post("/admin/web/role/add/", {"name": "team", "policies": good}).status_code == 302
    for name, policies in [("team2", good.replace("pool/a", "pool/a*")), ("osmo-admin", good), ("a b", good)]:
        assert root.post("/admin/web/role/add/", {"name": name, "policies": policies}).status_code == 200
    assert [role.name for role in Role.objects.all()] == ["team"]


def test_a_token_is_revoked_and_shown_to_nobody(root):
    ann = User.objects.create_user("ann")
    token = make_token(ann, name="laptop")
    row = PersonalToken.objects.get()
    page = root.get("/admin/web/personaltoken/").content.decode()
    assert "laptop" in page
    assert token not in page
    assert root.get("/admin/web/personaltoken/add/").status_code == 403
    root.post(f"/admin/web/personaltoken/{row.pk}/delete/", {"post": "yes"})
    assert not PersonalToken.objects.exists()


@pytest.mark.parametrize("page", ["auth/user", "web/role", "web/personaltoken"])
def test_staff_that_was_not_given_access_does_not_hand_it_out(page):
    browser = Client()
    browser.force_login(User.objects.create_user("bob", is_staff=True))
    assert browser.get(f"/admin/{page}/").status_code == 403


def try_to_log_in(browser, name, password="wrong", **more):
    return browser.post("/admin/login/", {"username": name, "password": password}, **more)


def test_logging_in_goes_on_working_and_keeps_its_check_for_forged_forms():
    User.objects.create_superuser("root", password="correct horse battery")
    assert Client().get("/admin/login/").status_code == 200
    assert try_to_log_in(Client(), "root", "correct horse battery").status_code == 302
    assert try_to_log_in(Client(enforce_csrf_checks=True), "root", "correct horse battery").status_code == 403


def test_tries_to_log_in_are_limited_by_the_name_tried(settings):
    settings.LOGINS_PER_MINUTE, settings.ADDRESS_LOGINS_PER_MINUTE = 2, 0
    User.objects.create_superuser("root", password="correct horse battery")
    assert [try_to_log_in(Client(), name).status_code for name in ("root", "ROOT")] == [200, 200]
    answer = try_to_log_in(Client(), "root", "correct horse battery")
    assert_error_shape(answer, 429)
    assert 1 <= int(answer["Retry-After"]) <= 31
    assert try_to_log_in(Client(), "ann").status_code == 200


def test_tries_to_log_in_are_limited_by_an_address_that_cannot_be_chosen(settings):
    settings.LOGINS_PER_MINUTE, settings.ADDRESS_LOGINS_PER_MINUTE = 0, 2
    for n in range(2):
        try_to_log_in(Client(), f"user{n}")
    lie = try_to_log_in(Client(), "user3", HTTP_X_FORWARDED_FOR="203.0.113.9")
    assert_error_shape(lie, 429)
    assert try_to_log_in(Client(), "user4", REMOTE_ADDR="203.0.113.9").status_code == 200


def test_a_login_uses_up_no_limit(settings):
    settings.LOGINS_PER_MINUTE, settings.ADDRESS_LOGINS_PER_MINUTE = 2, 2
    User.objects.create_superuser("root", password="correct horse battery")
    answers = [try_to_log_in(Client(), "root", "correct horse battery") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [302] * 5
    assert try_to_log_in(Client(), "root").status_code == 200


def test_a_stranger_elsewhere_locks_nobody_out(settings):
    """Neither by the name, nor by the address where a proxy says whose it is."""
    settings.LOGINS_PER_MINUTE, settings.ADDRESS_LOGINS_PER_MINUTE = 2, 3
    settings.FORWARDED_FOR_NETWORKS = [ip_network("10.0.9.1/32")]
    User.objects.create_superuser("root", password="correct horse battery")

    def attempt(address, password=None):
        proxied = {"REMOTE_ADDR": "10.0.9.1", "HTTP_X_FORWARDED_FOR": f"192.0.2.99, {address}"}
        return try_to_log_in(Client(), "root", *([password] if password else []), **proxied).status_code

    assert [attempt("203.0.113.9") for _ in range(5)] == [200, 200, 429, 429, 429]
    assert attempt("198.51.100.7", "correct horse battery") == 302
