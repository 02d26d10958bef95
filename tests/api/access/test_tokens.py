"""One's own tokens: made, listed, revoked; nobody else's, and none that lives for ever."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from scheduling.errors import Forbidden
from tests.error_shape import assert_error_shape
from web.access import services
from web.models import PersonalToken

pytestmark = pytest.mark.django_db

HOME = "/api/auth/access_token"


def client_with(token):
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {token}")


@pytest.fixture
def api(ann):
    return client_with(services.make_token(ann, name="first"))


def test_a_token_is_made_works_and_is_revoked(api):
    made = api.post(f"{HOME}/laptop").json()
    laptop = client_with(made["token"])
    assert [token["token_name"] for token in laptop.get(HOME).json()["tokens"]] == ["first", "laptop"]
    assert laptop.get("/api/profile/settings").json()["profile"]["username"] == "ann"
    assert laptop.get("/api/profile/settings").json()["token"] == {
        "name": "laptop",
        "expires_at": made["expires_at"],
    }
    assert api.delete(f"{HOME}/laptop").json() == {"token_name": "laptop"}
    assert_error_shape(laptop.get(HOME), 401)
    assert_error_shape(api.delete(f"{HOME}/laptop"), 404)


def test_a_token_is_shown_once_and_kept_as_a_digest(api):
    token = api.post(f"{HOME}/laptop").json()["token"]
    row = PersonalToken.objects.get(name="laptop")
    assert token not in (row.digest, row.token_key, str(row))
    assert token not in api.get(HOME).content.decode()


def test_a_token_of_somebody_else_is_none_of_ones_own(api):
    bob = User.objects.create_user("bob")
    services.make_token(bob, name="laptop")
    assert [token["token_name"] for token in api.get(HOME).json()["tokens"]] == ["first"]
    assert_error_shape(api.delete(f"{HOME}/laptop"), 404)
    assert PersonalToken.objects.filter(user=bob).exists()


def test_an_expired_token_is_refused_and_not_listed(api, ann):
    token = services.make_token(ann, name="old")
    PersonalToken.objects.filter(name="old").update(expiry=datetime.now(UTC) - timedelta(seconds=1))
    assert [row["token_name"] for row in api.get(HOME).json()["tokens"]] == ["first"]
    assert_error_shape(client_with(token).get(HOME), 401)


def test_a_user_who_was_switched_off_has_no_token_that_works(api, ann):
    ann.is_active = False
    ann.save()
    assert_error_shape(api.get(HOME), 401)


def test_a_token_does_not_outlive_the_one_it_was_made_with(api):
    soon = datetime.now(UTC) + timedelta(hours=1)
    PersonalToken.objects.update(expiry=soon)
    made = api.post(f"{HOME}/laptop").json()
    assert datetime.fromisoformat(made["expires_at"]).replace(tzinfo=UTC) <= soon
    assert_error_shape(api.post(f"{HOME}/other?expires_at=2099-01-01"), 400, code="out_of_range")


def test_a_token_made_with_another_ends_with_its_revocation(api, ann):
    """Through a token, a short login of it, and a token of that; nothing else of the user's ends."""
    child = api.post(f"{HOME}/child").json()["token"]
    login = (
        client_with(child).post("/api/auth/jwt/access_token", {"token": child}, format="json").json()["token"]
    )
    grandchild = client_with(login).post(f"{HOME}/grandchild").json()["token"]
    other = services.make_token(ann, name="other")
    assert [client_with(token).get(HOME).status_code for token in (child, login, grandchild)] == [200] * 3
    assert client_with(other).delete(f"{HOME}/first").status_code == 200
    assert [client_with(token).get(HOME).status_code for token in (child, login, grandchild)] == [401] * 3
    assert [row["token_name"] for row in client_with(other).get(HOME).json()["tokens"]] == ["other"]


def test_a_token_that_was_revoked_meanwhile_makes_none(api, ann):
    row = PersonalToken.objects.get(name="first")
    PersonalToken.objects.all().delete()
    with pytest.raises(Forbidden):
        services.make_own_token(ann, name="late", expires_at=services.latest_expiry(), made_with=row)
    assert not PersonalToken.objects.exists()


def test_a_token_made_in_a_session_stands_by_itself(ann):
    browser = APIClient()
    browser.force_login(ann)
    made = browser.post(f"{HOME}/laptop").json()["token"]
    services.make_token(ann, name="other")
    services.revoke_own_token(ann, name="other")
    assert client_with(made).get(HOME).status_code == 200


def test_a_token_expires_at_the_end_of_the_day_that_was_asked_for(api):
    day = datetime.now(UTC).date() + timedelta(days=3)
    made = api.post(f"{HOME}/laptop?expires_at={day}").json()
    assert made["expires_at"][:19] == f"{day + timedelta(days=1)}T00:00:00"


@pytest.mark.parametrize(
    "address",
    [
        "a b",
        "1st",
        "-",
        "x" * 64,
        "ok?expires_at=2020-01-01",
        "ok?expires_at=soon",
        "ok?expires_at=2099-01-01",
        "ok?expires_at=9999-12-31",
    ],
)
def test_a_token_that_makes_no_sense_is_refused(api, address):
    assert_error_shape(api.post(f"{HOME}/{address}"), 400)
    assert PersonalToken.objects.count() == 1


def test_a_name_is_taken_once_and_tokens_are_bounded(api, monkeypatch):
    assert_error_shape(api.post(f"{HOME}/first"), 409)
    monkeypatch.setattr(services, "MOST_TOKENS", 2)
    assert api.post(f"{HOME}/second").status_code == 200
    assert_error_shape(api.post(f"{HOME}/third"), 409)
