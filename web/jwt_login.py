"""How OSMO's client logs in: it exchanges a personal token for a short login, without an identity provider.

``login --method dev`` sends no request. ``login --method token`` exchanges a personal token for a JWT, and
again when that has expired. The other methods request the addresses of the identity provider, which are
empty.
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

from web import jwts
from web.auth import PersonalTokenAuthentication
from web.limits import take
from web.login_limits import give_back_try, take_try
from web.models import PersonalToken
from web.permissions import Anybody, Needs
from web.policy import Action
from web.shapes import Shape, about


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
        """Show the identity provider: there is none, so every address is empty."""
        del request
        return Response(LoginInfoShape(**dict.fromkeys(LoginInfoShape.model_fields, "")))


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
