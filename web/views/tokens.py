"""A user's own personal tokens over REST: list, make, revoke.

A token that is made with a token, or with a short login of one, ends with it, by time and by revocation: a
stolen one cannot be prolonged, and whoever revokes it ends what the thief made with it. A user from the
gateway or the identity provider makes none: the token would bypass the roles and pools that those set.
"""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduling.errors import Fault, Forbidden, InvalidSpec
from web.access import services
from web.access.permissions import Needs, caller
from web.access.rights import has_external_rights
from web.limits.throttles import TokenThrottle
from web.models import PersonalToken
from web.policy import Action
from web.rest.queries import refuse_body
from web.rest.shapes import Instant, Shape, about
from web.times import naive_utc

TOKEN = Needs(Action.AUTH_TOKEN)


class TokenShape(Shape):
    token_name: str
    created_at: Instant = about("ISO 8601, UTC, written without a zone.")
    expires_at: Instant = about("ISO 8601, UTC, written without a zone.")


class TokensShape(Shape):
    tokens: list[TokenShape]


class NewTokenShape(TokenShape):
    token: str = about("Shown only in this reply.")


class RevokedShape(Shape):
    token_name: str


class TokenQuery(serializers.Serializer[Any]):
    expires_at = serializers.DateField(
        required=False, help_text="The last day on which it is valid, UTC. Default: OSMO_TOKEN_DAYS from now."
    )


class TokensView(APIView):
    access = {"GET": TOKEN}

    @extend_schema(operation_id="list_access_tokens", responses=TokensShape)
    def get(self, request: Request) -> Response:
        """List the caller's valid tokens by name; their texts are not shown."""
        return Response(
            TokensShape(
                tokens=[TokenShape(**_fields(row)) for row in services.living_tokens(caller(request))]
            )
        )


class TokenView(APIView):
    access = {"POST": TOKEN, "DELETE": TOKEN}
    throttle_classes = [TokenThrottle]

    @extend_schema(
        operation_id="make_access_token",
        parameters=[TokenQuery],
        request=None,
        responses={200: NewTokenShape},
    )
    def post(self, request: Request, name: str) -> Response:
        """Make a token of this name for the caller. Its text is shown only in this reply."""
        refuse_body(request, parameters=tuple(TokenQuery().fields))
        user = caller(request)
        if has_external_rights(user):
            raise Forbidden(
                "A gateway or an identity provider decides with each request what you may do, and a token "
                "would go past it: ask an administrator for one."
            )
        row, token = services.make_own_token(
            user, name=_checked_name(name), expires_at=_expiry(request), made_with=_token_of(request)
        )
        return Response(NewTokenShape(**_fields(row), token=token))

    @extend_schema(operation_id="revoke_access_token", request=None, responses={200: RevokedShape})
    def delete(self, request: Request, name: str) -> Response:
        """Revoke the caller's token of this name, and those that were made with it."""
        refuse_body(request, parameters=())
        services.revoke_own_token(caller(request), name=name)
        return Response(RevokedShape(token_name=name))


def _checked_name(name: str) -> str:
    if services.is_token_name(name):
        return name
    raise InvalidSpec(
        services.TOKEN_NAME_RULE, [Fault(("token_name",), "invalid_name", services.TOKEN_NAME_RULE)]
    )


def _token_of(request: Request) -> PersonalToken | None:
    """The personal token that the request bears, itself or by a short login."""
    return request.auth if isinstance(request.auth, PersonalToken) else None


def _expiry(request: Request) -> datetime:
    """The end of the day that was asked for, within what is allowed. Raises InvalidSpec."""
    latest = services.latest_expiry()
    if (token := _token_of(request)) and token.expiry is not None:
        latest = min(latest, token.expiry)
    query = TokenQuery(data=request.query_params)
    query.is_valid(raise_exception=True)
    day = query.validated_data.get("expires_at")
    if day is None:
        return latest
    if day <= latest.date():  # before a day is added: there is none after 9999-12-31
        expiry = datetime.combine(day, time.min, UTC) + timedelta(days=1)
        if datetime.now(UTC) < expiry <= latest:
            return expiry
    message = f"A token expires after now and not after {naive_utc(latest)}."
    raise InvalidSpec(message, [Fault(("expires_at",), "out_of_range", message)])


def _fields(row: PersonalToken) -> dict[str, Any]:
    return {"token_name": row.name, "created_at": row.created, "expires_at": row.expiry}
