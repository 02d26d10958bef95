"""Logging in to the pages with a name and a password, for users whom no gateway names.

The limits on tries are those of the admin's login, whose form accepts staff only.
"""

from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from pages.base import CONTENT_POLICY, TITLES, html
from web.login_limits import give_back_try, take_try


class LoginPage(LoginView):
    template_name = "pages/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Check a name and a password, unless they were tried too often."""
        name = request.POST.get("username", "")
        if (waits := take_try(request, name=name)) is not None:
            message = f"Too many tries to log in. Try again in {waits} seconds."
            page = html(request, "pages/error.html", {"title": TITLES[429], "message": message}, status=429)
            page["Retry-After"] = str(waits)
            return page
        answer = super().post(request, *args, **kwargs)
        if answer.status_code == 302:  # the form is shown again, with 200, where it is refused
            give_back_try(request, name=name)
        return answer

    def get_redirect_url(self, request: HttpRequest | None = None) -> str:
        """The page that the reader requested; never this form again, nor the logout."""
        del request  # the stubs' own; Django gives none
        url: str = super().get_redirect_url()
        nowhere = {reverse("pages:login"), reverse("pages:logout")}
        return "" if urlsplit(url).path in nowhere else url

    def get_default_redirect_url(self) -> str:
        return reverse("pages:home")

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> Any:
        """The form, under the policy of every page."""
        answer = super().render_to_response(context, **kwargs)
        answer["Content-Security-Policy"] = CONTENT_POLICY
        return answer


class LogoutPage(LogoutView):
    """A POST ends the session and leads back to the form."""

    def get_default_redirect_url(self) -> str:
        return reverse("pages:login")
