"""How OSMO's client logs in: at the identity provider, or with a personal token for a short login.

``login --method dev`` sends no request. ``login --method token`` exchanges a personal token for a JWT, and
again when that has expired. ``code`` (the device flow) and ``pkce`` read the addresses of the identity
provider here and then talk to it alone; they are empty without one, and the client refuses these methods.
"""

from typing import Any

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from web.access import jwts
from web.access.auth import PersonalTokenAuthentication
from web.access.permissions import Anybody, Needs
from web.identity.authentication import ProviderAway
from web.identity.fetching import Unreachable
from web.identity.provider import provider_of
from web.limits.login_limits import give_back_try, take_try
from web.limits.rate_limits import take
from web.models import PersonalToken
from web.policy import Action
from web.rest.shapes import Shape, about


class LoginInfoShape(Shape):
    device_endpoint: str
    device_client_id: str
    browser_endpoint: str
    browser_client_id: str
    token_endpoint: str
    logout_endpoint: str


class LoginInfoView(APIView):
    authentication_classes = ()
    permission_classes = (Anybody,)
    access = {"GET": Needs(Action.AUTH_TOKEN)}

    @extend_schema(operation_id="get_login_info", responses=LoginInfoShape, auth=[])
    def get(self, request: Request) -> Response:
        """Show where OSMO's client logs in; every address is empty without an identity provider."""
        del request
        return Response(_login_info())


def _login_info() -> LoginInfoShape:
    """The addresses and clients of the identity provider; empty for a login that is not offered.

    Raises ProviderAway.
    """
    configured = settings.IDENTITY_PROVIDER
    if configured is None:
        return LoginInfoShape(**dict.fromkeys(LoginInfoShape.model_fields, ""))
    try:
        publication = provider_of(configured).publication()
    except Unreachable as error:
        raise ProviderAway from error
    has_device_flow = bool(configured.device_client and publication.device_endpoint)
    return LoginInfoShape(
        device_endpoint=publication.device_endpoint if has_device_flow else "",
        device_client_id=configured.device_client if has_device_flow else "",
        browser_endpoint=publication.authorization_endpoint if configured.browser_client else "",
        browser_client_id=configured.browser_client,
        token_endpoint=publication.token_endpoint,
        logout_endpoint=publication.logout_endpoint,
    )


class PersonalTokenBody(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=1024, help_text="A personal token.")


class LoginShape(Shape):
    token: str = about("A JWT, to send as Authorization: Bearer.")


class JwtView(APIView):
    authentication_classes = ()
    permission_classes = (Anybody,)
    access = {"POST": Needs(Action.AUTH_TOKEN)}

    @extend_schema(
        operation_id="exchange_access_token",
        request=PersonalTokenBody,
        responses={200: LoginShape},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Exchange a personal token for a short login with the same rights."""
        if (waits := take_try(request)) is not None:
            raise Throttled(waits)
        body = PersonalTokenBody(data=request.data)
        body.is_valid(raise_exception=True)
        token = _personal_token(body.validated_data["token"])
        give_back_try(request)
        waits = take(f"login:user:{token.user_id}", per_minute=settings.LOGINS_PER_MINUTE)
        if waits is not None:
            raise Throttled(waits)
        return Response(LoginShape(token=jwts.issue(token, now=timezone.now())))

    def get_authenticate_header(self, request: Request) -> str:  # noqa: ARG002 -- DRF's signature
        return "Bearer"  # without it DRF makes the 401 a 403


def _personal_token(text: str) -> PersonalToken:
    """The personal token of this text. Raises AuthenticationFailed, without repeating it."""
    try:
        _, token = PersonalTokenAuthentication().authenticate_credentials(text.encode())
    except AuthenticationFailed as error:
        raise AuthenticationFailed(
            "This personal token is not known, was revoked or has expired, or its user was switched off. "
            "Ask an administrator for a new one, and log in with it."
        ) from error
    assert isinstance(token, PersonalToken)
    return token
