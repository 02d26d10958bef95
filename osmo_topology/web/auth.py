"""Who is calling: a personal token, a Django session, or, in development only, a header."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, User
from knox.auth import TokenAuthentication
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request


class PersonalTokenAuthentication(TokenAuthentication):  # type: ignore[misc]  # knox has no types
    """``Authorization: Bearer <token>``, a token made by ``services.make_token``."""

    def authenticate_credentials(self, token: bytes) -> Any:
        if not token.isascii():  # knox would fail to decode it
            raise AuthenticationFailed("Invalid token.")
        return super().authenticate_credentials(token)


class DevelopmentUserAuthentication(BaseAuthentication):
    """OSMO's development login: the ``x-osmo-user`` header names the user. Never in production."""

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, Any] | None:
        name = request.headers.get("x-osmo-user", "").strip()
        if not settings.DEVELOPMENT or not name:
            return None
        if len(name) > 150 or not name.isprintable():
            raise AuthenticationFailed("x-osmo-user: at most 150 printable characters")
        user, made = User.objects.get_or_create(username=name)
        if made:
            user.set_unusable_password()
            user.save(update_fields=["password"])
        return user, None
