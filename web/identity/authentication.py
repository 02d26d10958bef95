"""``Authorization: Bearer <jwt>`` of the identity provider: no session, no write after the first login."""

from django.conf import settings
from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException, AuthenticationFailed
from rest_framework.request import Request

from web.access import jwts, rights
from web.identity.fetching import Unreachable
from web.identity.provider import provider_of
from web.identity.users import user_of
from web.identity.verification import TokenRefused, unverified_issuer, verify

RETRY_SECONDS = 5


class ProviderAway(APIException):
    """The keys of the identity provider cannot be had at the moment."""

    status_code = 503
    default_detail = "The identity provider cannot be reached at the moment. Try again in a few seconds."
    wait = RETRY_SECONDS


class ProviderAuthentication(BaseAuthentication):
    """A token of the identity provider; others, also those of this service, are left to what comes after."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        configured = settings.IDENTITY_PROVIDER
        if configured is None or not configured.bearer_audiences:
            return None
        text = jwts.bearer(request.headers.get("Authorization", ""))
        if text is None or unverified_issuer(text) != configured.issuer:
            return None
        try:
            claims = verify(text, provider=provider_of(configured), audiences=configured.bearer_audiences)
            user = user_of(claims, user_claim=configured.user_claim)
        except TokenRefused as error:
            raise AuthenticationFailed(str(error)) from error
        except Unreachable as error:
            raise ProviderAway from error
        user.external = rights.provider_rights(configured.roles_of(claims.groups))  # type: ignore[attr-defined]  # for this request
        return user, None

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 -- DRF's signature
        return "Bearer"
