"""Writes about access."""

from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser

from osmo_topology.env import environment
from osmo_topology.web.models import PersonalToken


def make_token(user: AbstractBaseUser, *, name: str) -> str:
    """Make a personal token and return it; it cannot be shown again."""
    expiry = timedelta(days=environment().token_days)
    _, token = PersonalToken.objects.create(user=user, expiry=expiry, name=name)
    return str(token)
