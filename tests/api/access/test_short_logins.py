"""The short logins of OSMO's client: as good as the personal token behind them, and not a moment longer."""

import base64
import json
from datetime import timedelta

import jwt
import pytest
import time_machine
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.test import APIClient

from tests.error_shape import assert_error_shape
from web.access import jwts, services
from web.models import PersonalToken

pytestmark = pytest.mark.django_db

HOME = "/api/auth/jwt/access_token"
OLD, NEW = "o" * 40, "n" * 40


@pytest.fixture
def token(ann):
    return services.make_token(ann, name="laptop")


def client_with(bearer):
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {bearer}")


def exchange(token):
    return APIClient().post(HOME, {"token": token}, format="json")


def login(token):
    answer = exchange(token)
    assert answer.status_code == 200, answer.content
    return answer.json()["token"]


def profile(bearer):
    return client_with(bearer).get("/api/profile/settings")


def forged(claims, *, key="f" * 40, algorithm="HS256", **header):
    return jwt.encode(claims, key, algorithm=algorithm, headers=header)


def unsigned(text):
    """The claims of a JWT of ours under ``alg: none``, without a signature."""
    header = {**jwt.get_unverified_header(text), "alg": "none"}
    return ".".join([_encoded(header), text.split(".")[1], ""])


def _encoded(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_it_carries_what_the_client_reads_and_no_rights(token):
    claims = jwt.decode(login(token), options={"verify_signature": False})
    assert set(claims) == {"iss", "sub", "name", "iat", "exp", "tok"}
    assert claims["name"] == "ann"
    assert claims["exp"] - claims["iat"] == 900


def test_it_has_exactly_the_rights_of_its_user_at_that_moment(token, ann):
    bearer = login(token)
    assert profile(bearer).json()["roles"] == ["osmo-default", "osmo-user"]
    assert client_with(bearer).put("/api/configs/pool", {}, format="json").status_code == 403
    ann.is_staff = True
    ann.save()
    assert profile(bearer).json()["roles"] == ["osmo-admin", "osmo-default"]
    assert client_with(bearer).put("/api/configs/pool", {}, format="json").status_code == 400


def test_it_ends_with_its_personal_token(token, ann):
    bearer = login(token)
    assert profile(bearer).json()["token"]["name"] == "laptop"
    services.revoke_own_token(ann, name="laptop")
    assert_error_shape(profile(bearer), 401)
    assert_error_shape(exchange(token), 401)


def test_it_ends_with_its_user(token, ann):
    bearer = login(token)
    ann.is_active = False
    ann.save()
    assert_error_shape(profile(bearer), 401)
    assert_error_shape(exchange(token), 401)


def test_it_does_not_outlive_its_personal_token(token):
    ends = timezone.now() + timedelta(seconds=100)
    PersonalToken.objects.update(expiry=ends)
    claims = jwt.decode(login(token), options={"verify_signature": False})
    assert claims["exp"] == int(ends.timestamp())


def test_it_expires_and_says_so(token):
    with time_machine.travel(timezone.now() - timedelta(seconds=901), tick=False):
        bearer = login(token)
        assert profile(bearer).status_code == 200
    assert "expired" in assert_error_shape(profile(bearer), 401)["message"]


def test_a_token_made_with_it_does_not_outlive_the_personal_token(token):
    ends = timezone.now() + timedelta(days=2)
    PersonalToken.objects.update(expiry=ends)
    made = client_with(login(token)).post("/api/auth/access_token/second").json()
    assert PersonalToken.objects.get(name="second").expiry == ends
    assert made["token_name"] == "second"


def test_forgeries_are_refused(token, settings):
    good = login(token)
    claims = jwt.decode(good, options={"verify_signature": False})
    header, body, signature = good.split(".")
    kid = jwt.get_unverified_header(good)["kid"]
    ours = jwts._keys()[0]
    other = User.objects.create_user("root", is_superuser=True, is_staff=True)
    changed = {**claims, "sub": str(other.pk), "name": "root"}
    wrong = {
        "no algorithm": unsigned(good),
        "no signature": f"{header}.{body}.",
        "another body": ".".join([header, _encoded(changed), signature]),
        "a foreign key": forged(claims, kid=kid),
        "a foreign key of its own name": forged(claims, kid="mine"),
        "no key's name": forged(claims, key=ours),
        "a name that is no text": forged(claims, key=ours, kid=kid).replace(
            header, _encoded({"alg": "HS256", "kid": "x"})
        ),
        "Django's own key": forged(claims, key=settings.SECRET_KEY, kid=kid),
        "another algorithm of our key": forged(claims, key=ours * 2, algorithm="HS512", kid=kid),
        "our key under HS384": forged(claims, key=ours * 2, algorithm="HS384", kid=kid),
        "a public key's algorithm": ".".join([_encoded({"alg": "RS256", "kid": kid}), body, signature]),
        "somebody else's token": forged(changed, key=ours, kid=kid),
        "another issuer": forged({**claims, "iss": "https://login.example.com"}, key=ours, kid=kid),
        "no end": forged({k: v for k, v in claims.items() if k != "exp"}, key=ours, kid=kid),
        "a user that is no number": forged({**claims, "sub": "ann"}, key=ours, kid=kid),
        "a user beyond numbers": forged({**claims, "sub": "9" * 30}, key=ours, kid=kid),
        "nothing": "..",
        "no JSON": "a.b.c",
        "a nest": ".".join([base64.urlsafe_b64encode(b"[" * 2000).decode(), body, signature]),
        "other letters": "é.é.é",
        "a long one": good + "x" * 5000,
    }
    assert profile(good).status_code == 200
    answers = {name: profile(bearer) for name, bearer in wrong.items()}
    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(wrong, 401)
    for answer in answers.values():
        assert_error_shape(answer, 401)


def test_a_key_is_changed_without_ending_a_login(token, settings):
    settings.JWT_SECRETS = [OLD]
    before = login(token)
    settings.JWT_SECRETS = [NEW, OLD]
    after = login(token)
    assert (profile(before).status_code, profile(after).status_code) == (200, 200)
    settings.JWT_SECRETS = [NEW]
    assert (profile(before).status_code, profile(after).status_code) == (401, 200)
    settings.JWT_SECRETS = []
    assert profile(after).status_code == 401


@pytest.mark.parametrize(
    "body", [{}, {"token": ""}, {"token": None}, {"token": 7.5e300}, {"token": ["x"]}, []]
)
def test_a_text_that_is_no_token_is_refused(body):
    answer = APIClient().post(HOME, body, format="json")
    assert answer.status_code in {400, 401}, answer.content


@pytest.mark.parametrize("text", ["nonsense", "é", "0" * 64, "x" * 1025])
def test_a_wrong_token_is_not_repeated(text):
    answer = exchange(text)
    assert answer.status_code in {400, 401}
    assert text not in answer.content.decode()
    assert_error_shape(answer, answer.status_code)


def test_logins_that_succeed_use_up_no_limit_of_the_address(token, settings):
    settings.ADDRESS_LOGINS_PER_MINUTE = 2
    assert [exchange(token).status_code for _ in range(5)] == [200] * 5
    assert [exchange("nonsense").status_code for _ in range(3)] == [401, 401, 429]


def test_tries_are_limited_by_address_and_by_user(token, settings):
    settings.ADDRESS_LOGINS_PER_MINUTE = 3
    assert [exchange("nonsense").status_code for _ in range(4)] == [401, 401, 401, 429]
    settings.ADDRESS_LOGINS_PER_MINUTE = 0
    settings.LOGINS_PER_MINUTE = 2
    answers = [exchange(token) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[-1]["Retry-After"]) > 0
