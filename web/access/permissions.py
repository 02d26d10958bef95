"""Every view declares the rights that its methods need, and one permission class checks them.

There are two gates. This one decides before anything is read: may the caller do this on the object in the
address or, if only the rows tell which pool is meant, on any object? The second is in the selectors, which
find nothing in pools that the caller does not see, so that hidden and absent objects give the same 404. A
view without a declaration is closed to everybody.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from scheduling.errors import Forbidden
from web.access.rights import grants_of, read_grants
from web.policy import EVERYTHING, Action, Grants, refusal

if TYPE_CHECKING:  # DRF's views read the settings, which name this module
    from rest_framework.views import APIView


@dataclass(frozen=True, slots=True)
class Needs:
    """An action, and the resource it needs it on: ``pool/{name}`` takes the name from the address.

    ``on`` None: anywhere; the view's selectors narrow what is found. Action ``instead`` suffices, too.
    """

    action: Action
    on: str | None = EVERYTHING
    instead: Action | None = None


AccessRules = Mapping[str, Needs]


class Allowed(BasePermission):
    """Ask the policy for what the view declares in ``access``, a Needs for each method."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        user = request.user
        if not isinstance(user, User) or not user.is_active:
            return False
        user.request_grants = read_grants(user)  # type: ignore[attr-defined]  # fresh for each request
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method == "OPTIONS" or not hasattr(view, method.lower()):
            return True  # says what there is, or is refused as a method
        access: AccessRules = getattr(view, "access", {})
        if needs := access.get(method):
            check(grants_of(user), needs, view.kwargs)
            return True
        return False


class Anybody(BasePermission):
    """Open to callers who have not logged in. A test lists the views that use it."""

    def has_permission(self, request: Request, view: "APIView") -> bool:  # noqa: ARG002 -- DRF's signature
        return True


def check(grants: Grants, needs: Needs, kwargs: Mapping[str, Any]) -> None:
    """Raise Forbidden unless the grants hold what is needed."""
    if needs.on is None:
        if not any(grants.anywhere(action) for action in (needs.action, needs.instead) if action):
            raise Forbidden(f"You hold no role that grants {needs.action}.")
        return
    resource = needs.on.format(**kwargs)
    if not grants.allows(needs.action, resource):
        raise refusal(needs.action, resource)


def caller(request: Request) -> User:
    """The user of a request that a permission class has let through."""
    assert isinstance(request.user, User)
    return request.user
