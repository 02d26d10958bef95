"""Rate limits of requests, by user and by address: submissions, new tokens, checks of clusters."""

from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from web.access.auth import client_address
from web.limits.rate_limits import take
from web.limits.turns import is_repeated

if TYPE_CHECKING:
    from rest_framework.views import APIView


CHECKS_PER_MINUTE = 6


class _Throttle(BaseThrottle):
    """Refuse what is over the limit of the user, or of the address that many users may share."""

    scope: str
    methods = frozenset({"POST"})
    waits: float | None = None

    def per_user(self) -> int:
        raise NotImplementedError

    def per_address(self) -> int:
        raise NotImplementedError

    def allow_request(self, request: Request, view: "APIView") -> bool:  # noqa: ARG002 -- DRF's signature
        if request.method not in self.methods or is_repeated():
            return True
        self.waits = take(f"{self.scope}:user:{request.user.pk}", per_minute=self.per_user())
        if self.waits is None:
            address = client_address(request)
            self.waits = take(f"{self.scope}:address:{address}", per_minute=self.per_address())
        return self.waits is None

    def wait(self) -> float | None:
        return self.waits


class SubmitThrottle(_Throttle):
    """Submissions, checks and dry runs alike: each costs the same until it is written."""

    scope = "submit"

    def per_user(self) -> int:
        return int(settings.SUBMITS_PER_MINUTE)

    def per_address(self) -> int:
        return int(settings.ADDRESS_SUBMITS_PER_MINUTE)


class TokenThrottle(_Throttle):
    """New personal tokens; apart from logins, whose failures anybody can cause."""

    scope = "token"

    def per_user(self) -> int:
        return int(settings.LOGINS_PER_MINUTE)

    def per_address(self) -> int:
        return int(settings.ADDRESS_LOGINS_PER_MINUTE)


class DoctorThrottle(_Throttle):
    """Consistency checks: each lists every cluster."""

    scope = "doctor"

    def per_user(self) -> int:
        return CHECKS_PER_MINUTE

    per_address = per_user


class PreflightThrottle(_Throttle):
    """Preflights: each sends about a hundred small requests to each cluster."""

    scope = "preflight"
    methods = frozenset({"GET"})

    def per_user(self) -> int:
        return CHECKS_PER_MINUTE

    per_address = per_user
