"""Django sessions of users of the identity provider: the groups that their login named, for a limited time.

The session keeps the issuer and the groups of the table; roles follow from the table with each request. An
administrator by a group is one for this session alone: the flags are set on the request's user and never
saved. Settings without that issuer end its sessions.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.base import SessionBase
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from web import policy
from web.access import rights
from web.identity.code_flow import LoginAttempt
from web.identity.configuration import ProviderSettings
from web.identity.verification import IdentityClaims

ATTEMPT_SECONDS = 600
_MOST_ATTEMPTS = 5
_IDENTITY, _ATTEMPTS = "identity", "identity_attempts"
_BACKEND = "django.contrib.auth.backends.ModelBackend"


def keep_attempt(request: HttpRequest, attempt: LoginAttempt) -> None:
    """Keep an attempt in the session, beside the newest others: a browser has several windows."""
    attempts = _attempts(request.session)[1 - _MOST_ATTEMPTS :]
    request.session[_ATTEMPTS] = [*attempts, attempt.stored()]
    if not request.user.is_authenticated:
        request.session.set_expiry(datetime.now(UTC) + timedelta(seconds=ATTEMPT_SECONDS))


def take_attempt(request: HttpRequest, state: str) -> LoginAttempt | None:
    """The attempt of this state, which serves no second time; None if there is none or it is too old."""
    attempts = _attempts(request.session)
    attempt = next((attempt for attempt in attempts if attempt["state"] == state), None)
    if attempt is None:
        return None
    request.session[_ATTEMPTS] = [other for other in attempts if other["state"] != state]
    request.session.save()  # before anything is done with it
    return LoginAttempt(**attempt) if time.time() - attempt["begun_at"] < ATTEMPT_SECONDS else None


def log_in(request: HttpRequest, user: User, claims: IdentityClaims, *, provider: ProviderSettings) -> None:
    """Begin a session under a new key, whatever key the browser came with."""
    request.session.flush()
    login(request, user, backend=_BACKEND)
    request.session[_IDENTITY] = {
        "issuer": claims.issuer,
        "groups": list(provider.known_groups(claims.groups)),
    }
    request.session.set_expiry(datetime.now(UTC) + timedelta(seconds=provider.session_seconds))


def is_of_provider(session: SessionBase) -> bool:
    """Whether the session began at the identity provider."""
    return _IDENTITY in session


@receiver(user_logged_in)
def forget_attempts(request: HttpRequest, **_: Any) -> None:
    """Whoever has logged in, in whatever way, has a session without attempts and without their short life."""
    if request.session.pop(_ATTEMPTS, None) is not None:
        request.session.set_expiry(None)


class SessionUserMiddleware(AuthenticationMiddleware):
    """Django's middleware, with the rights that the identity provider gave the session."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        user = request.user
        request.user = SimpleLazyObject(lambda: _with_rights(user, request.session))  # type: ignore[assignment]  # as Django does


def _attempts(session: SessionBase) -> list[dict[str, Any]]:
    return list(session.get(_ATTEMPTS, []))


def _with_rights(user: Any, session: SessionBase) -> Any:
    if (identity := session.get(_IDENTITY)) is None:
        return user
    provider = settings.IDENTITY_PROVIDER
    if provider is None or provider.issuer != identity["issuer"] or not user.is_authenticated:
        return AnonymousUser()
    roles = provider.roles_of(identity["groups"])
    user.external = rights.provider_rights(roles)
    if policy.ADMIN in roles:
        user.is_staff = user.is_superuser = True
    return user
