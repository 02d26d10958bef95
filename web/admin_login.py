"""The admin's login, with a limit on tries: by the name tried, and by the address that tries."""

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse

from web import errors
from web.auth import client_address
from web.limits import take


def admin_login(request: HttpRequest) -> HttpResponse:
    """Show and check the login form, unless it was tried too often."""
    if request.method == "POST" and (waits := tries_over(request)) is not None:
        return _refused(request, waits)
    return admin.site.login(request)


def tries_over(request: HttpRequest) -> int | None:
    """Count a try to log in: the seconds to wait if it is over a limit, else None.

    The address counts first: a caller over that limit must not use up the limit of another user's name.
    """
    waits = take(f"login:address:{client_address(request)}", per_minute=settings.ADDRESS_LOGINS_PER_MINUTE)
    if waits is None:
        name = request.POST.get("username", "")[:150].replace("\0", "").casefold()
        waits = take(f"login:name:{name}"[:255], per_minute=settings.LOGINS_PER_MINUTE)
    return waits


def _refused(request: HttpRequest, waits: int) -> JsonResponse:
    content = errors.body(
        message=f"Too many tries to log in. Try again in {waits} seconds.", error_code="USER", request=request
    )
    return JsonResponse(content, status=429, headers={"Retry-After": str(waits)})
