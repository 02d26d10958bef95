"""The admin's login, with a limit on failed tries.

Beside an identity provider the form of the pages is shown instead, which offers both ways.
"""

from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse

from web.limits.login_limits import give_back_try, take_try
from web.rest import errors


def admin_login(request: HttpRequest) -> HttpResponse:
    """Show and check the login form, unless it was tried too often."""
    if request.method != "POST":
        provider = settings.IDENTITY_PROVIDER
        if provider is None or not provider.offers_pages_login or request.user.is_authenticated:
            return admin.site.login(request)
        page = request.GET.get("next", reverse("admin:index"))
        return HttpResponseRedirect(f"{settings.LOGIN_URL}?{urlencode({'next': page})}")
    name = request.POST.get("username", "")
    if (waits := take_try(request, name=name)) is not None:
        return _refused(request, waits)
    response = admin.site.login(request)
    if response.status_code == 302:  # the form is shown again, with 200, where it is refused
        give_back_try(request, name=name)
    return response


def _refused(request: HttpRequest, waits: int) -> JsonResponse:
    content = errors.body(
        message=f"Too many tries to log in. Try again in {waits} seconds.", error_code="USER", request=request
    )
    return JsonResponse(content, status=429, headers={"Retry-After": str(waits)})
