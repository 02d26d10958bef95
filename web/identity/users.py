"""Whom a verified identity is here.

An identity is the issuer and its ``sub``, never a name: names can be chosen and given to the next person.
At its first login a user is created with the name in the configured claim, and it is that user from then on.
If a user of that name exists already, made here or named by a gateway, the login is refused: nobody becomes
another user by taking their name at the provider. An administrator links the two in the admin, or with
``manage.py link_identity``.
"""

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from web.access.gateway import USERNAME, USERNAME_RULE
from web.identity.verification import IdentityClaims, TokenRefused
from web.models import ProviderIdentity


def user_of(claims: IdentityClaims, *, user_claim: str) -> User:
    """The user of an identity, created at its first login; one query after that. Raises TokenRefused."""
    user = _known_user(claims) or _new_user(claims, user_claim=user_claim)
    if not user.is_active:
        raise TokenRefused("User inactive or deleted.")
    return user


def _known_user(claims: IdentityClaims) -> User | None:
    row = (
        ProviderIdentity.objects.select_related("user")
        .filter(issuer=claims.issuer, subject=claims.subject)
        .first()
    )
    return row.user if row else None


def _new_user(claims: IdentityClaims, *, user_claim: str) -> User:
    if not USERNAME.fullmatch(claims.name):
        raise TokenRefused(f"The claim {user_claim!a} must have the user's name: {USERNAME_RULE}.")
    user = User(username=claims.name)
    user.set_unusable_password()
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            ProviderIdentity.objects.create(issuer=claims.issuer, subject=claims.subject, user=user)
    except IntegrityError as error:
        if (earlier_user := _known_user(claims)) is not None:  # another request of theirs came first
            return earlier_user
        raise TokenRefused(
            "A user of your name exists here and is not linked to your identity. An administrator can link "
            "them, with manage.py link_identity or in the admin."
        ) from error
    return user
