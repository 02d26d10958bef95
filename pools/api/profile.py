"""A user's profile, in OSMO's shape: who they are and which pool commands without one go to."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from osmo_topology.web.models import Profile
from osmo_topology.web.permissions import caller
from pools import selectors


class ProfileSettingsSerializer(serializers.Serializer[Any]):
    """What can be chosen. OSMO's client also sends the notification fields; there are none here."""

    pool = serializers.CharField(max_length=63, required=False, allow_null=True, allow_blank=True)
    email_notification = serializers.BooleanField(required=False, allow_null=True)
    slack_notification = serializers.BooleanField(required=False, allow_null=True)


class ProfileShape(serializers.Serializer[Any]):
    username = serializers.CharField()
    email_notification = serializers.BooleanField()
    slack_notification = serializers.BooleanField()
    pool = serializers.CharField(allow_null=True)


class ProfileReplySerializer(serializers.Serializer[Any]):
    profile = ProfileShape()
    roles = serializers.ListField(child=serializers.CharField())
    pools = serializers.ListField(child=serializers.CharField())
    token = serializers.CharField(allow_null=True)


class ProfileSettingsView(APIView):
    permission_classes = [IsAuthenticated]

    @extend_schema(operation_id="get_profile", responses=ProfileReplySerializer)
    def get(self, request: Request) -> Response:
        """Show who is calling, their default pool and the pools they may use."""
        chosen = Profile.objects.filter(user=caller(request)).values_list("pool", flat=True).first()
        profile = {
            "username": request.user.get_username(),
            "email_notification": False,
            "slack_notification": False,
            "pool": chosen or None,
        }
        pools = list(selectors.pools_visible_to(request.user).order_by("name").values_list("name", flat=True))
        roles = ["osmo-admin"] if getattr(request.user, "is_staff", False) else ["osmo-user"]
        return Response({"profile": profile, "roles": roles, "pools": pools, "token": None})

    @extend_schema(operation_id="set_profile", request=ProfileSettingsSerializer, responses=None)
    def post(self, request: Request) -> Response:
        """Choose a default pool; a pool that does not exist is refused."""
        asked = ProfileSettingsSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        if "pool" in asked.validated_data:
            pool = asked.validated_data["pool"] or ""
            if pool:
                selectors.pool_visible_to(request.user, pool)
            Profile.objects.update_or_create(user=caller(request), defaults={"pool": pool})
        return Response(None)
