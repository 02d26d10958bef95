"""The frame of all pages: access, answers and refusals.

A page is a view like those of REST, with the same authentication, the same declared ``access`` and the same
errors and statuses. Two things differ: the answer is HTML, and a caller without a login is led to the form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from rest_framework.exceptions import NotAuthenticated
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import FormParser
from rest_framework.renderers import BaseRenderer, TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pages.drawn import drawn_pages
from pages.pool_rows import MOST_SECONDS, PageRows
from web.access.permissions import caller
from web.access.rights import grants_of
from web.database.transactions import one_moment
from web.release import VERSION

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The sources that a browser may load for a page: our own files, and nothing written into the page itself."""

TITLES: Mapping[int, str] = {
    400: "This could not be understood",
    401: "Please log in",
    403: "You may not do this",
    404: "There is nothing here",
    405: "This cannot be done here",
    429: "Too many requests",
    503: "Not at the moment",
}


class _Html(BaseContentNegotiation):
    """A page is HTML, whatever else the caller would take."""

    def select_parser(self, request: Request, parsers: Any) -> Any:  # noqa: ARG002 -- DRF's signature
        return parsers[0]

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002 -- DRF's signature
        renderers: Any,
        format_suffix: str | None = None,  # noqa: ARG002 -- DRF's signature
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], "text/html"


class PageView(APIView):
    """A view that answers with a page; each declares ``access`` as every view does."""

    schema = None  # a page is no part of the REST interface
    renderer_classes = (TemplateHTMLRenderer,)
    parser_classes = (FormParser,)
    content_negotiation_class = _Html

    def page(self, template: str, context: Mapping[str, Any], *, status: int = 200) -> HttpResponse:
        """Answer with a template of this app."""
        return html(self.request, template, context, status=status)

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """The allowed methods; a page has nothing else to describe."""
        del request, args, kwargs
        return HttpResponse(status=204, headers={"Allow": ", ".join(self.allowed_methods)})

    def handle_exception(self, exc: Exception) -> Any:
        """An error as a page instead of JSON; a caller without a login is sent to the form and comes back."""
        if isinstance(exc, NotAuthenticated):
            return HttpResponseRedirect(_login(self.request))
        answer: Response = super().handle_exception(exc)
        page = self.page("pages/error.html", error_context(answer), status=answer.status_code)
        for header in ("Retry-After", "WWW-Authenticate", "Allow"):
            if header in answer:
                page[header] = answer[header]
        return page


def html(
    request: Request | HttpRequest, template: str, context: Mapping[str, Any], *, status: int
) -> HttpResponse:
    """A page under the content policy; no cache between the service and the browser may store it."""
    plain = request._request if isinstance(request, Request) else request  # noqa: SLF001 -- DRF has no name for it
    answer = render(plain, template, dict(context), status=status)
    answer["Content-Security-Policy"] = CONTENT_POLICY
    answer["Cache-Control"] = "private, no-cache"
    return answer


def unless_known(page: PageView, template: str, context: dict[str, Any]) -> HttpResponse:
    """The page, or 304 without rendering if the browser has the same.

    Two pages are the same if their context, the user, the cookies and the version are: the context holds
    everything that is shown, as values.
    """
    return _unless_known(page, template, DrawnContext.of(context))


def unless_unchanged(
    page: PageView, template: str, *, rows: Callable[[], PageRows], make: Callable[[], dict[str, Any]]
) -> HttpResponse:
    """As ``unless_known``, and ``make`` is called only if ``rows`` are not those of the last context.

    ``rows`` says what the context is made from now, beside the address and what the caller may see.
    """
    grants, address = grants_of(caller(page.request)), page.request.get_full_path()
    key = sha256(repr((grants, address)).encode()).hexdigest()
    drawn: DrawnContext | None = drawn_pages.find(key, version=rows().version())
    if drawn is None:
        with one_moment() as is_one_moment:  # so that the version is that of these rows
            version = rows().version()
            drawn = DrawnContext.of(make())
        if is_one_moment:
            drawn_pages.keep(key, drawn, version=version, seconds=MOST_SECONDS)
    return _unless_known(page, template, drawn)


@dataclass(frozen=True, slots=True)
class DrawnContext:
    """The context of a page, and a digest by which two of them differ."""

    context: dict[str, Any]
    digest: str

    @classmethod
    def of(cls, context: dict[str, Any]) -> Self:
        return cls(context, sha256(repr(context).encode()).hexdigest())


def _unless_known(page: PageView, template: str, drawn: DrawnContext) -> HttpResponse:
    django = page.request._request  # noqa: SLF001 -- conditional answers are Django's
    user = caller(page.request)
    fingerprint = (VERSION, user.pk, user.is_staff, django.META.get("HTTP_COOKIE", ""), drawn.digest)
    etag = quote_etag(sha256(repr(fingerprint).encode()).hexdigest()[:32])
    unmodified = get_conditional_response(django, etag=etag)
    if isinstance(unmodified, HttpResponseNotModified):
        answer: HttpResponse = unmodified
    else:
        answer = page.page(template, drawn.context)
    answer["ETag"] = etag
    answer["Cache-Control"] = "private, no-cache"
    return answer


def error_context(answer: Response) -> dict[str, Any]:
    """The context of the page of an error."""
    body = answer.data if isinstance(answer.data, dict) else {}
    return {
        "title": TITLES.get(answer.status_code, "This did not work"),
        "message": body.get("message", ""),
        "details": body.get("details", []),
        "request_id": body.get("request_id"),
    }


def _login(request: Request) -> str:
    """The address of the login form, which leads back to the page; never back to a change."""
    back = {"next": request.get_full_path()} if request.method in {"GET", "HEAD"} else {}
    return f"{reverse('pages:login')}?{urlencode(back)}" if back else reverse("pages:login")
