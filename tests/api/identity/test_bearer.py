"""Tokens of an identity provider as bearers: whose are believed, and what their users may do."""

import base64
import json
import threading
import time
from dataclasses import replace

import jwt
import pytest
import time_machine
from cryptography.hazmat.primitives import serialization
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from tests.api.identity.conftest import profile, roles
from tests.error_shape import assert_error_shape
from tests.identity.keys import SigningKey
from tests.identity.process import BROWSER_CLIENT, DEVICE_CLIENT, PAGES_CLIENT
from tests.statements import writing
from web.access import services
from web.identity import provider as cache
from web.identity.provider import provider_of
from web.identity.users import user_of
from web.identity.verification import IdentityClaims
from web.models import ProviderIdentity

pytestmark = pytest.mark.django_db

STRANGER = SigningKey("first")
"""A key that bears the name of the provider's and is another."""


def encoded(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(identity):
    return f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(identity.claims())}."


def signed_with_the_public_key(identity):
    """HS256 with the published key as its secret, as verifiers that trust ``alg`` accept it."""
    public = identity.running.key.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head = encoded({"alg": "HS256", "kid": "first", "typ": "JWT"})
    body = encoded(identity.claims())
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        f"{head}.{body}".encode(), public
    )
    return f"{head}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def with_another_body(identity):
    head, _, signature = identity.token().split(".")
    return ".".join([head, encoded(identity.claims(sub="root", preferred_username="root")), signature])


REFUSED = {
    "another issuer": lambda it: it.token(iss="https://login.example.com"),
    "an issuer that begins alike": lambda it: it.token(iss=f"{it.settings.issuer}/"),
    "no issuer": lambda it: it.token(iss=None),
    "another audience": lambda it: it.token(aud="another-service"),
    "the audience of the pages": lambda it: it.token(aud=PAGES_CLIENT),
    "no audience": lambda it: it.token(aud=None),
    "several audiences and another client": lambda it: it.token(aud=[BROWSER_CLIENT, "other"], azp="other"),
    "several audiences and no client": lambda it: it.token(aud=[BROWSER_CLIENT, "other"]),
    "another key of the same name": lambda it: it.token(key=STRANGER),
    "a key that is not published": lambda it: it.token(key=SigningKey("unpublished")),
    "no signature": unsigned,
    "the public key as a secret": signed_with_the_public_key,
    "an algorithm that is not accepted": lambda it: it.token(header={"algorithm": "RS512"}),
    "another body": with_another_body,
    "expired": lambda it: it.token(iat=int(time.time()) - 900, exp=int(time.time()) - 60),
    "not valid yet": lambda it: it.token(nbf=int(time.time()) + 600),
    "issued in the future": lambda it: it.token(iat=int(time.time()) + 600, exp=int(time.time()) + 900),
    "no expiry": lambda it: it.token(exp=None),
    "an expiry that is no number": lambda it: it.token(exp="tomorrow"),
    "an endless expiry": lambda it: it.token(exp=float("inf")),
    "no subject": lambda it: it.token(sub=None),
    "an empty subject": lambda it: it.token(sub=""),
    "a subject with a NUL": lambda it: it.token(sub="a\0b"),
    "a long subject": lambda it: it.token(sub="s" * 256),
    "a token that ends a login": lambda it: it.token(header={"typ": "logout+jwt"}),
    "an extension that is not understood": lambda it: it.token(header={"crit": ["x"], "x": 1}),
    "no name": lambda it: it.token(sub="new", preferred_username=None),
    "a name that is none": lambda it: it.token(sub="new", preferred_username="a b"),
    "a name that is no text": lambda it: it.token(sub="new", preferred_username=["ann"]),
    "a long one": lambda it: it.token(groups=["g" * 20] * 1000),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_token_is_refused(case, identity):
    text = REFUSED[case](identity)
    body = assert_error_shape(profile(text), 401)
    assert text[:20] not in json.dumps(body)
    assert not User.objects.exists()
    assert roles(identity.token()) == ["osmo-default", "osmo-train", "osmo-tune"]


def test_an_expired_token_says_so(identity):
    text = REFUSED["expired"](identity)
    assert "expired; log in again" in assert_error_shape(profile(text), 401)["message"]


def test_clocks_may_differ_a_little(identity):
    token = identity.token()
    ends = jwt.decode(token, options={"verify_signature": False})["exp"]
    for seconds, want in ((-5, 200), (29, 200), (31, 401)):
        with time_machine.travel(ends + seconds, tick=False):
            assert profile(token).status_code == want, seconds
    with time_machine.travel(ends - 300 - 29, tick=False):
        assert profile(token).status_code == 200
    with time_machine.travel(ends - 300 - 31, tick=False):
        assert profile(token).status_code == 401


def test_the_table_gives_members_of_groups_their_roles(identity):
    assert roles(identity.token()) == ["osmo-default", "osmo-train", "osmo-tune"]
    answer = profile(identity.token(sub="root", preferred_username="root", groups=["administrators"]))
    assert answer.json()["roles"] == ["osmo-admin", "osmo-default"]
    assert answer.json()["profile"]["username"] == "root"
    assert not User.objects.get(username="root").is_staff


@pytest.mark.parametrize("groups", [None, [], ["unknown"], [7, None], {"a": 1}])
def test_a_user_of_whom_the_claims_say_nothing_has_the_default_roles(groups, identity):
    assert roles(identity.token(groups=groups)) == ["osmo-default", "osmo-user"]


def test_roles_that_were_assigned_here_are_added(identity):
    assert roles(identity.token(groups=[])) == ["osmo-default", "osmo-user"]
    User.objects.get(username="ann").role_assignments.create(role="osmo-a")
    assert roles(identity.token(groups=[])) == ["osmo-a", "osmo-default"]
    assert roles(identity.token()) == ["osmo-a", "osmo-default", "osmo-train", "osmo-tune"]


def test_groups_may_be_nested_in_the_claims(identity, settings):
    settings.IDENTITY_PROVIDER = replace(identity.settings, groups_claim="realm_access.roles")
    nested = {"roles": ["trainers"]}
    assert "osmo-train" in roles(identity.token(groups=None, realm_access=nested))
    settings.IDENTITY_PROVIDER = replace(identity.settings, groups_claim="https://example.com/groups")
    assert "osmo-train" in roles(identity.token(**{"https://example.com/groups": "trainers"}))


def test_tokens_of_both_clients_and_of_further_audiences_are_believed(identity, settings):
    assert profile(identity.token(aud=DEVICE_CLIENT)).status_code == 200
    assert profile(identity.token(aud=["other", BROWSER_CLIENT], azp=BROWSER_CLIENT)).status_code == 200
    settings.IDENTITY_PROVIDER = replace(identity.settings, audiences=("pipelines",))
    assert profile(identity.token(aud="pipelines", header={"typ": "at+jwt"})).status_code == 200


def test_a_bearer_makes_no_session_and_writes_nothing_after_the_first_time(identity):
    token = identity.token()
    first = profile(token)
    with CaptureQueriesContext(connection) as queries:
        second = profile(token)
    assert (first.status_code, second.status_code) == (200, 200)
    assert not first.cookies
    assert not Session.objects.exists()
    assert writing(queries) == []


def test_an_identity_stays_its_user_when_its_name_changes(identity):
    profile(identity.token())
    answer = profile(identity.token(preferred_username="anna"))
    assert answer.json()["profile"]["username"] == "ann"
    assert User.objects.count() == 1


def test_nobody_becomes_a_user_of_the_same_name(identity, settings):
    local = User.objects.create_superuser("ann")
    text = identity.token()
    assert "not linked to your identity" in assert_error_shape(profile(text), 401)["message"]
    ProviderIdentity.objects.create(issuer=identity.settings.issuer, subject="ann", user=local)
    assert roles(text) == ["osmo-admin", "osmo-default", "osmo-train", "osmo-tune"]
    other = identity.token(sub="another ann")
    assert_error_shape(profile(other), 401)


def test_the_same_subject_of_another_issuer_is_somebody_else(identity):
    local = User.objects.create_user("eve")
    ProviderIdentity.objects.create(issuer="https://former.example.com", subject="ann", user=local)
    assert profile(identity.token()).json()["profile"]["username"] == "ann"


def test_a_user_who_was_switched_off_stays_off(identity):
    profile(identity.token())
    User.objects.update(is_active=False)
    assert_error_shape(profile(identity.token()), 401)


def test_nobody_takes_a_personal_token_past_the_provider(identity):
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {identity.token()}")
    answer = client.post("/api/auth/access_token/laptop")
    assert "ask an administrator" in assert_error_shape(answer, 403)["message"]


def test_personal_tokens_and_short_logins_go_on_working(identity):
    token = services.make_token(User.objects.create_user("carl"), name="laptop")
    short = APIClient().post("/api/auth/jwt/access_token", {"token": token}, format="json").json()["token"]
    assert roles(token) == roles(short) == ["osmo-default", "osmo-user"]


@pytest.mark.parametrize("change", [{"issuer": "https://127.0.0.1:1"}, {"ca_file": ""}])
def test_without_the_provider_its_tokens_wait_and_others_do_not(change, identity, settings):
    settings.IDENTITY_PROVIDER = replace(identity.settings, **change)
    answer = profile(identity.token(iss=settings.IDENTITY_PROVIDER.issuer))
    assert assert_error_shape(answer, 503)["error_code"] == "SERVER"
    assert int(answer["Retry-After"]) > 0
    token = services.make_token(User.objects.create_user("carl"), name="laptop")
    assert profile(token).status_code == 200


def test_without_a_provider_no_such_token_is_believed(identity, settings):
    settings.IDENTITY_PROVIDER = None
    assert_error_shape(profile(identity.token()), 401)


def test_a_new_key_is_fetched_when_a_token_bears_its_name(identity, monkeypatch):
    monkeypatch.setattr(cache, "INTERVAL_SECONDS", 0)
    assert profile(identity.token()).status_code == 200
    second = SigningKey("second")
    assert profile(identity.token(key=second)).status_code == 401
    identity.running.publish(second, identity.running.key)
    assert profile(identity.token(key=second)).status_code == 200
    assert profile(identity.token()).status_code == 200


def test_a_key_that_was_withdrawn_ends_with_the_next_fetch(identity):
    assert profile(identity.token()).status_code == 200
    identity.running.publish(SigningKey("second"))
    provider_of.cache_clear()
    assert_error_shape(profile(identity.token()), 401)


@pytest.mark.django_db(transaction=True)
def test_many_first_requests_at_once_make_one_user():
    claims = IdentityClaims("https://login.example.com", "s-1", "ann", ())
    together, users = threading.Barrier(6), []

    def log_in():
        together.wait(120)
        users.append(user_of(claims, user_claim="preferred_username").pk)
        connections.close_all()

    threads = [threading.Thread(target=log_in) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert users == [User.objects.get().pk] * 6
