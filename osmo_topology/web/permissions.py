"""Who may do what."""

from django.contrib.auth.models import User
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView


class StaffWrites(BasePermission):
    """Any user reads, staff writes: configuration is an administrator's."""

    message = "Writing configuration needs a staff user."

    def has_permission(self, request: Request, view: APIView) -> bool:  # noqa: ARG002 -- DRF's signature
        user = request.user
        if not user or not user.is_authenticated:
            return False
        return request.method in SAFE_METHODS or user.is_staff


def caller(request: Request) -> User:
    """The user of a request that a permission class has let through."""
    assert isinstance(request.user, User)
    return request.user
