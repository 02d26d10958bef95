"""Logging in to the pages with a name and a password, or by the link to the identity provider.

The limits on tries are those of the admin's login, whose form accepts staff only.
"""

from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from pages.base import CONTENT_POLICY, TITLES, html
from web.identity.sessions import is_of_provider
from web.limits.login_limits import give_back_try, take_try

_LONGEST_PAGE = 2000


def local_page(request: HttpRequest, page: str) -> str:
    """The page to which a login leads if it is one of this service; never a login or a logout again."""
    nowhere = {reverse(f"pages:{name}") for name in ("login", "logout", "logged-out", "identity-login")}
    is_local = (
        page.startswith("/")
        and len(page) <= _LONGEST_PAGE
        and url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure())
    )
    return page if is_local and urlsplit(page).path not in nowhere else ""


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
        """The page that the reader requested."""
        del request  # the stubs' own; Django gives none
        return local_page(self.request, self.request.POST.get("next", self.request.GET.get("next", "")))

    def get_default_redirect_url(self) -> str:
        return reverse("pages:home")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """The form, and the way to the identity provider if there is one."""
        provider = settings.IDENTITY_PROVIDER
        page = urlencode({"next": self.get_redirect_url() or self.get_default_redirect_url()})
        offered = provider is not None and provider.offers_pages_login
        address = f"{reverse('pages:identity-login')}?{page}" if offered else ""
        return {**super().get_context_data(**kwargs), "identity_login": address}

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> Any:
        """The form, under the policy of every page."""
        answer = super().render_to_response(context, **kwargs)
        answer["Content-Security-Policy"] = CONTENT_POLICY
        return answer


class LogoutPage(LogoutView):
    """A POST ends the session and leads back to the form, or to the logout of the identity provider."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """End the session."""
        began_at_provider = is_of_provider(request.session)
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return HttpResponseRedirect(reverse("pages:logged-out")) if began_at_provider else answer

    def get_default_redirect_url(self) -> str:
        return reverse("pages:login")
