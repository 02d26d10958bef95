"""``manage.py make_administrator`` makes the first login, and changes nothing when it is run again."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def make(name):
    out = StringIO()
    call_command("make_administrator", name, stdout=out)
    return out.getvalue()


@pytest.fixture
def password(monkeypatch):
    monkeypatch.setenv("OSMO_ADMIN_PASSWORD", PASSWORD)


def test_the_first_administrator_can_log_in_and_the_password_is_not_printed(password):
    assert PASSWORD not in make("root")
    user = User.objects.get(username="root")
    assert (user.is_staff, user.is_superuser, user.check_password(PASSWORD)) == (True, True, True)


def test_a_second_run_leaves_a_changed_password_alone(password, monkeypatch):
    make("root")
    monkeypatch.setenv("OSMO_ADMIN_PASSWORD", "another one of them")
    assert "already" in make("root")
    assert User.objects.get().check_password(PASSWORD)


def test_a_user_who_is_there_already_is_not_raised_to_administrator(password):
    User.objects.create_user("ann")
    with pytest.raises(CommandError, match="ann exists and is no administrator"):
        make("ann")


@pytest.mark.parametrize("given", ["", "short"])
def test_without_a_password_worth_the_name_nobody_is_made(given, monkeypatch):
    monkeypatch.setenv("OSMO_ADMIN_PASSWORD", given)
    with pytest.raises(CommandError, match="OSMO_ADMIN_PASSWORD"):
        make("root")
    assert not User.objects.exists()


def test_a_name_that_no_login_could_bear_is_refused(password):
    with pytest.raises(CommandError, match="USER"):
        make("a b")
