"""Logging in to the pages and the admin at the identity provider, and out of both."""

import time
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from pages.base import TITLES, html
from pages.login import local_page
from web.identity import code_flow, sessions
from web.identity.authentication import RETRY_SECONDS, ProviderAway
from web.identity.fetching import Unreachable
from web.identity.provider import Provider, provider_of
from web.identity.users import user_of
from web.identity.verification import TokenRefused
from web.limits.login_limits import give_back_try, take_try


@never_cache
@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """Send the browser to the identity provider; it comes back to ``back`` and from there to ``next``."""
    if (provider := _provider()) is None:
        return _refused(request, "This service has no identity provider.", status=404)
    if (waits := take_try(request)) is not None:
        message = f"Too many tries to log in. Try again in {waits} seconds."
        return _refused(request, message, status=429, retry_after=waits)
    page = local_page(request, request.GET.get("next", "")) or reverse("pages:home")
    try:
        attempt, address = code_flow.begin(provider, redirect=_redirect(), page=page, now=time.time())
    except Unreachable:
        return _away(request)
    sessions.keep_attempt(request, attempt)
    return HttpResponseRedirect(address)


@never_cache
@require_safe
def back(request: HttpRequest) -> HttpResponse:
    """Log in who comes back with the code of an attempt that this browser began."""
    provider, attempt = _provider(), sessions.take_attempt(request, request.GET.get("state", ""))
    if provider is None or attempt is None:
        message = "This login was not begun in this browser, is used up or took too long. Log in again."
        return _refused(request, message, status=400)
    try:
        claims = code_flow.finish(
            provider, attempt, query=request.META.get("QUERY_STRING", ""), redirect=_redirect()
        )
        user = user_of(claims, user_claim=provider.settings.user_claim)
    except TokenRefused as error:
        return _refused(request, str(error), status=403)
    except Unreachable:
        return _away(request)
    give_back_try(request)
    sessions.log_in(request, user, claims, provider=provider.settings)
    return HttpResponseRedirect(attempt.page)


@never_cache
@require_safe
def logged_out(request: HttpRequest) -> HttpResponse:
    """A user who left the service may leave the identity provider as well, which other services share."""
    return html(request, "pages/logged_out.html", {"provider_logout": _provider_logout()}, status=200)


def _provider() -> Provider | None:
    configured = settings.IDENTITY_PROVIDER
    return provider_of(configured) if configured is not None and configured.offers_pages_login else None


def _redirect() -> str:
    return settings.ENV.service_url.rstrip("/") + reverse("pages:identity-back")


def _provider_logout() -> str:
    """The provider's own logout, which leads back to the form; empty where there is none."""
    if (provider := _provider()) is None:
        return ""
    try:
        address = provider.publication().logout_endpoint
    except Unreachable:
        return ""
    query = {
        "client_id": provider.settings.pages_client,
        "post_logout_redirect_uri": settings.ENV.service_url.rstrip("/") + reverse("pages:login"),
    }
    separator = "&" if "?" in address else "?"
    return f"{address}{separator}{urlencode(query)}" if address else ""


def _away(request: HttpRequest) -> HttpResponse:
    return _refused(request, ProviderAway.default_detail, status=503, retry_after=RETRY_SECONDS)


def _refused(
    request: HttpRequest, message: str, *, status: int, retry_after: int | None = None
) -> HttpResponse:
    title = TITLES.get(status, TITLES[401])
    page = html(request, "pages/error.html", {"title": title, "message": message}, status=status)
    if retry_after is not None:
        page["Retry-After"] = str(retry_after)
    return page
