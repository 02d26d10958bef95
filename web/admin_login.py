"""The admin's login, with a limit on failed tries."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse

from web import errors
from web.login_limits import give_back_try, take_try


def admin_login(request: HttpRequest) -> HttpResponse:
    """Show and check the login form, unless it was tried too often."""
    if request.method != "POST":
        return admin.site.login(request)
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
