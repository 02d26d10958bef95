"""``manage.py make_token`` gives a token that logs in."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from rest_framework.test import APIRequestFactory

from web.access.auth import PersonalTokenAuthentication
from web.models import PersonalToken

pytestmark = pytest.mark.django_db


def make(*arguments):
    out = StringIO()
    call_command("make_token", *arguments, stdout=out)
    return out.getvalue().strip()


def login(token):
    request = APIRequestFactory().get("/", HTTP_AUTHORIZATION=f"Bearer {token}")
    return PersonalTokenAuthentication().authenticate(request)[0]


def test_a_token_logs_its_user_in_and_is_stored_as_a_digest_only():
    token = make("ann", "--name", "laptop")
    assert login(token).username == "ann"
    row = PersonalToken.objects.get()
    assert row.name == "laptop"
    assert row.expiry is not None
    assert token not in (row.digest, row.token_key)


def test_an_admin_gets_the_password_of_the_environment(monkeypatch):
    monkeypatch.setenv("OSMO_ADMIN_PASSWORD", "correct horse battery")
    make("root", "--admin")
    user = User.objects.get(username="root")
    assert (user.is_staff, user.is_superuser) == (True, True)
    assert user.check_password("correct horse battery")


def test_a_second_token_leaves_the_user_as_they_were():
    make("ann", "--admin")
    make("ann")
    assert User.objects.get(username="ann").is_superuser
    assert PersonalToken.objects.count() == 2


@pytest.mark.parametrize(
    "arguments",
    [["a b"], ["-x"], ["ann,root"], [""], ["änn"], ["ann", "--name", "x" * 64], ["ann", "--name", "a b"]],
)
def test_a_name_that_makes_no_sense_makes_nothing(arguments):
    with pytest.raises(CommandError):
        make(*arguments)
    assert not User.objects.exists()


def test_a_user_of_another_name_who_is_there_already_gets_a_token():
    User.objects.create_user("änn")
    assert login(make("änn")).username == "änn"
