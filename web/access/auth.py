"""Authentication by a trusted gateway, a token, a short login, a development header or a Django session.

Tokens of an identity provider are read in ``web.identity``, between the gateway and the short logins.

The order is this one, and the first that recognises the request decides. Identity headers that did not come
from the gateway end the request with 401, whatever else it carries.
"""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone
from knox.auth import TokenAuthentication
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from web.access import gateway, jwts, rights
from web.models import PersonalToken

_SAME_SITE = {"same-origin", "none"}


class PersonalTokenAuthentication(TokenAuthentication):  # type: ignore[misc]  # knox has no types
    """``Authorization: Bearer <token>``, a token made by ``services.make_token``."""

    def authenticate_credentials(self, token: bytes) -> Any:
        if not token.isascii() or b"\0" in token:  # knox, or the database, would fail at it
            raise AuthenticationFailed("Invalid token.")
        return super().authenticate_credentials(token)


class ShortLoginAuthentication(BaseAuthentication):
    """``Authorization: Bearer <jwt>``: the personal token behind it must be good at this moment."""

    def authenticate(self, request: Request) -> tuple[User, PersonalToken] | None:
        text = jwts.bearer(request.headers.get("Authorization", ""))
        if text is None:
            return None
        try:
            claims = jwts.read(text)
        except jwts.Unreadable as error:
            raise AuthenticationFailed(str(error)) from error
        row = (
            PersonalToken.objects.select_related("user")
            .filter(digest=claims.digest, user_id=claims.user, expiry__gt=timezone.now())
            .first()
        )
        if row is None or not row.user.is_active:
            raise AuthenticationFailed("The personal token behind this login was revoked or has expired.")
        return row.user, row

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 -- DRF's signature
        return "Bearer"


class GatewayAuthentication(BaseAuthentication):
    """The user that the trusted gateway names. It comes first, so that no other sender's headers pass."""

    def authenticate(self, request: Request) -> tuple[User, Any] | None:
        if _development_login(request):
            return None
        try:
            identity = gateway.identity(request.META, trusted_proxy())
        except gateway.Untrusted as error:
            raise AuthenticationFailed(str(error)) from error
        if identity is None:
            return None
        if request.method not in SAFE_METHODS and not is_own_page(request):
            raise PermissionDenied("A page of another site may not act for you.")  # its cookie was the proof
        user = known_user(identity.user)
        user.external = rights.gateway_rights(identity.roles, identity.pools)  # type: ignore[attr-defined]  # for this request
        return user, None

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 -- DRF's signature
        return "Bearer"


class DevelopmentUserAuthentication(BaseAuthentication):
    """OSMO's development login: the ``x-osmo-user`` header names the user. Never in production."""

    def authenticate(self, request: Request) -> tuple[User, Any] | None:
        if not _development_login(request):
            return None
        name = request.headers["x-osmo-user"].strip()
        if not gateway.USERNAME.fullmatch(name):
            raise AuthenticationFailed(f"x-osmo-user: {gateway.USERNAME_RULE}.")
        return known_user(name), None


def known_user(name: str) -> User:
    """Get or create the user of this name. Raises AuthenticationFailed for an inactive one."""
    user, is_new = User.objects.get_or_create(username=name)
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    if not user.is_active:
        raise AuthenticationFailed("User inactive or deleted.")
    return user


def trusted_proxy() -> gateway.Proxy:
    return gateway.Proxy(
        secrets=tuple(settings.TRUSTED_PROXY_SECRETS),
        networks=tuple(settings.TRUSTED_PROXY_NETWORKS),
        forwarders=tuple(settings.FORWARDED_FOR_NETWORKS),
    )


def caller_address(request: HttpRequest) -> str:
    """The caller's address; a forwarded one only from the trusted proxy or a forwarder."""
    address = gateway.caller_address(request.META, trusted_proxy())
    return str(address) if address else "unknown"


def client_address(request: HttpRequest | Request) -> str:
    """The address that limits count by: the caller's, or the network of an IPv6 caller."""
    return gateway.client_address(request.META, trusted_proxy())


def is_own_page(request: Request) -> bool:
    """Whether a browser sent the request for a page of this service, or no browser did.

    ``Sec-Fetch-Site`` says it where the browser sends one, else ``Origin``, else ``Referer``. A client that
    sends none of them is no browser that keeps cookies for others.
    """
    if site := request.headers.get("Sec-Fetch-Site", ""):
        return site in _SAME_SITE
    source = request.headers.get("Origin") or request.headers.get("Referer")
    return source is None or _site(source) in _own_sites(request)


def _own_sites(request: Request) -> set[str]:
    """The hosts, with their ports, under which browsers reach the service."""
    addresses = [settings.ENV.service_url, *settings.CSRF_TRUSTED_ORIGINS]
    return {request.get_host().lower(), *(_site(address) for address in addresses)} - {""}


def _site(address: str) -> str:
    """The host and port of an address; empty for ``null`` and for what is none."""
    try:
        return urlsplit(address).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def _development_login(request: Request) -> bool:
    """Whether the header alone logs in: in development, from this machine, without a gateway."""
    meta = request.META
    return (
        settings.DEVELOPMENT_LOGIN
        and gateway.USER in meta
        and not any(header in meta for header in (gateway.ROLES, gateway.POOLS, gateway.PROOF))
        and not trusted_proxy().configured
        and gateway.is_loopback(str(meta.get("REMOTE_ADDR", "")))
    )
