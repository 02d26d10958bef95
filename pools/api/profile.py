"""A user's profile, in OSMO's shape: who they are and which pool commands without one go to."""

from typing import Any

from django.http import JsonResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools import selectors
from scheduling.names import credential_prefix
from web.access.permissions import Needs, caller
from web.access.rights import grants_of
from web.models import PersonalToken, Profile
from web.policy import Action
from web.rest.shapes import Instant, Shape, about


class ProfileSettingsSerializer(serializers.Serializer[Any]):
    """What can be chosen. OSMO's client also sends the notification fields; there are none here."""

    pool = serializers.CharField(max_length=63, required=False, allow_null=True, allow_blank=True)
    email_notification = serializers.BooleanField(required=False, allow_null=True)
    slack_notification = serializers.BooleanField(required=False, allow_null=True)


class ProfileShape(Shape):
    username: str
    email_notification: bool
    slack_notification: bool
    pool: str | None


class TokenInUseShape(Shape):
    """The personal token of this very request."""

    name: str
    expires_at: Instant | None = about("ISO 8601, UTC, written without a zone.")


class ProfileReplyShape(Shape):
    profile: ProfileShape
    roles: list[str]
    pools: list[str]
    token: TokenInUseShape | None
    credential_prefix: str = about("Begins the names of the Secrets behind the caller's credentials.")


class ProfileSettingsView(APIView):
    access = {"GET": Needs(Action.PROFILE_READ), "POST": Needs(Action.PROFILE_UPDATE)}

    @extend_schema(operation_id="get_profile", responses=ProfileReplyShape)
    def get(self, request: Request) -> Response:
        """Show the caller, their default pool and the pools that they may use."""
        chosen = Profile.objects.filter(user=caller(request)).values_list("pool", flat=True).first()
        profile = ProfileShape(
            username=request.user.get_username(),
            email_notification=False,
            slack_notification=False,
            pool=chosen or None,
        )
        usable = selectors.pools_allowed_to(request.user, Action.WORKFLOW_CREATE)
        pools = list(usable.order_by("name").values_list("name", flat=True))
        roles = list(grants_of(request.user).roles)
        return Response(
            ProfileReplyShape(
                profile=profile,
                roles=roles,
                pools=pools,
                token=_token(request.auth),
                credential_prefix=credential_prefix(selectors.installation(), request.user.get_username()),
            )
        )

    @extend_schema(operation_id="set_profile", request=ProfileSettingsSerializer, responses=None)
    def post(self, request: Request) -> JsonResponse:
        """Set the default pool; a pool that the caller may not submit to is refused."""
        settings = ProfileSettingsSerializer(data=request.data)
        settings.is_valid(raise_exception=True)
        if "pool" in settings.validated_data:
            pool = settings.validated_data["pool"] or ""
            if pool:
                selectors.pool_visible_to(request.user, pool, action=Action.WORKFLOW_CREATE)
            Profile.objects.update_or_create(user=caller(request), defaults={"pool": pool})
        return JsonResponse(None, safe=False)  # OSMO's client reads JSON; DRF would send nothing at all


def _token(credential: Any) -> TokenInUseShape | None:
    """The personal token that a request came with, by its name."""
    if not isinstance(credential, PersonalToken):
        return None
    return TokenInUseShape(name=credential.name, expires_at=credential.expiry)
