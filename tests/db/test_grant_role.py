"""``manage.py grant_role`` assigns roles that exist and takes them away."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from web.access.rights import read_grants
from web.policy import Action

pytestmark = pytest.mark.django_db


def grant(*arguments):
    out = StringIO()
    call_command("grant_role", *arguments, stdout=out)
    return out.getvalue().split()


def test_roles_are_assigned_and_taken_away(ann):
    assert grant("ann", "osmo-train", "osmo-user") == ["osmo-train", "osmo-user"]
    assert grant("ann", "osmo-train") == ["osmo-train", "osmo-user"]
    assert grant("ann", "osmo-user", "--revoke") == ["osmo-train"]
    assert read_grants(ann).allows(Action.WORKFLOW_CREATE, "pool/train")
    assert not read_grants(ann).allows(Action.WORKFLOW_CREATE, "pool/other")


def test_a_missing_user_or_role_is_named_and_nothing_is_assigned(ann):
    with pytest.raises(CommandError, match="no role 'trian'; there are osmo-admin"):
        grant("ann", "osmo-train", "trian")
    with pytest.raises(CommandError, match="There is no role"):
        grant("ann", "osmo-" + "x" * 124)
    with pytest.raises(CommandError, match="no user 'anne'"):
        grant("anne", "osmo-train")
    assert not ann.role_assignments.exists()
