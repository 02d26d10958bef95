"""``manage.py link_identity`` lets an identity be a user who exists."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from web.identity.configuration import ProviderSettings

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _provider(settings):
    settings.IDENTITY_PROVIDER = ProviderSettings(issuer="https://login.example.com")


def link(*arguments):
    out = StringIO()
    call_command("link_identity", *arguments, stdout=out)
    return out.getvalue().split()


def test_an_identity_is_linked_once_and_shown(ann):
    assert link("ann") == ["none"]
    assert link("ann", "s-1") == ["s-1"]
    assert link("ann", "s-1") == ["s-1"]
    assert ann.identities.get().issuer == "https://login.example.com"


def test_it_is_not_taken_from_another_user(ann):
    User.objects.create_user("bob")
    link("ann", "s-1")
    with pytest.raises(CommandError, match="This identity is 'ann'"):
        link("bob", "s-1")
    assert ann.identities.count() == 1


def test_a_missing_user_or_provider_is_named(ann, settings):
    with pytest.raises(CommandError, match="no user 'anne'"):
        link("anne", "s-1")
    settings.IDENTITY_PROVIDER = None
    with pytest.raises(CommandError, match="OSMO_OIDC_ISSUER"):
        link("ann", "s-1")
