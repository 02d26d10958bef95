"""Writes about access."""

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from scheduling.errors import Conflict, Forbidden, NotFound
from web.env import environment
from web.models import TOKEN_NAME_LENGTH, PersonalToken
from web.policy import NAME

MOST_TOKENS = 100
"""Living tokens of one user that may be made over REST."""


TOKEN_NAME_RULE = f"A token's name is a letter, then letters, digits, . - _; at most {TOKEN_NAME_LENGTH}."


def is_token_name(name: str) -> bool:
    """Whether a new token may have this name, so that the address that revokes it names it too."""
    return len(name) <= TOKEN_NAME_LENGTH and NAME.fullmatch(name) is not None


def make_token(user: User, *, name: str) -> str:
    """Make a personal token and return it; it cannot be shown again."""
    return _new_token(user, name=name, expires_at=latest_expiry())[1]


def latest_expiry() -> datetime:
    """When a token that is made now expires at the latest."""
    return timezone.now() + timedelta(days=environment().token_days)


@transaction.atomic
def make_own_token(
    user: User, *, name: str, expires_at: datetime, made_with: PersonalToken | None
) -> tuple[PersonalToken, str]:
    """Make a token for the caller; returns its row and the token, which cannot be shown again.

    It is revoked with ``made_with``, the token that the request bore. Raises Conflict if the user has one of
    this name, or too many, and Forbidden if ``made_with`` was revoked meanwhile.
    """
    User.objects.select_for_update().get(pk=user.pk)  # two requests at once count one after the other
    if made_with and not PersonalToken.objects.select_for_update().filter(pk=made_with.pk).exists():
        raise Forbidden("The token of this request was revoked.")
    living = living_tokens(user)
    if any(token.name == name for token in living):
        raise Conflict(f'You have a token named "{name}"; delete it first, or choose another name.')
    if len(living) >= MOST_TOKENS:
        raise Conflict(f"You have {len(living)} tokens, and {MOST_TOKENS} are the most; delete some first.")
    return _new_token(user, name=name, expires_at=expires_at, made_with=made_with)


@transaction.atomic
def revoke_own_token(user: User, *, name: str) -> None:
    """Delete the user's tokens of this name and those made with them; all are refused from now on.

    Raises NotFound.
    """
    User.objects.select_for_update().get(pk=user.pk)  # no token is made with one that is being deleted
    deleted, _ = PersonalToken.objects.filter(user=user, name=name).delete()
    if not deleted:
        raise NotFound(f'You have no token named "{name[:63]}".')


def living_tokens(user: User) -> list[PersonalToken]:
    """A user's tokens that have not expired."""
    return list(PersonalToken.objects.filter(user=user, expiry__gt=timezone.now()).order_by("created"))


def _new_token(
    user: User, *, name: str, expires_at: datetime, made_with: PersonalToken | None = None
) -> tuple[PersonalToken, str]:
    row, token = PersonalToken.objects.create(
        user=user, expiry=expires_at - timezone.now(), name=name, made_with=made_with
    )
    row.expiry = expires_at  # knox adds to a later now: not a microsecond more than was decided
    row.save(update_fields=["expiry"])
    return row, str(token)
