"""An answer to a browser that has the page as it is, before its session, its user or their rights are read.

One statement reads the versions of the rows that the page is made from and of those that say who the caller
is (``pages.unchanged``). While both are what they were, the caller is logged in, may read the page, and has
it. Only sessions are answered here: nothing but rows decides about them. What a gateway or a bearer token
says is judged with each request.
"""

from collections.abc import Callable
from hashlib import sha256

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.urls import resolve
from django.utils.cache import get_conditional_response, patch_vary_headers

from pages.unchanged import PageTag, Versions, tags, versions_for
from web import gateway
from web.auth import caller_address
from web.middleware import RequestLogMiddleware

_CREDENTIALS = ("HTTP_COOKIE", "HTTP_AUTHORIZATION", *gateway.IDENTITY, gateway.PROOF)
_READ = "_versions_before_login"

log = structlog.get_logger(__name__)


class UnmadePages:
    """Answer 304 where nothing has changed, else leave what was read of the rows to the page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return _not_modified(request) or self.get_response(request)


def read_before_login(request: HttpRequest) -> tuple[PageTag, Versions] | None:
    """The tag of the page, and what its rows and those of its reader were before the caller was logged in."""
    return getattr(request, _READ, None)


def address_of(request: HttpRequest) -> str:
    """What a page is kept by: its address, and everything by which a request says whose it is."""
    credentials = [request.META.get(name) for name in _CREDENTIALS]
    return sha256(repr((credentials, request.get_full_path())).encode()).hexdigest()


def not_modified(request: HttpRequest, etag: str) -> HttpResponse | None:
    """304 if the browser has the page with this tag."""
    answer = get_conditional_response(request, etag=etag)
    if not isinstance(answer, HttpResponseNotModified):
        return None
    answer["ETag"] = etag
    answer["Cache-Control"] = "private, no-cache"
    patch_vary_headers(answer, ("Cookie",))
    return answer


def _not_modified(request: HttpRequest) -> HttpResponse | None:
    if "HTTP_IF_NONE_MATCH" not in request.META or any(name in request.META for name in _CREDENTIALS[1:]):
        return None
    session, tag = request.COOKIES.get(settings.SESSION_COOKIE_NAME), tags.find(address_of(request))
    if session is None or tag is None:
        return None
    versions = versions_for(tag.rows(), session=session, user=tag.reader.user)
    setattr(request, _READ, (tag, versions))
    answer = not_modified(request, tag.etag) if versions == tag.versions else None
    if answer is not None:
        request.resolver_match = resolve(request.path_info)  # by which it is counted
        log.info(
            "request_finished",
            request_id=request.META["HTTP_X_REQUEST_ID"],
            user_id=tag.reader.user,
            ip=caller_address(request),
            code=answer.status_code,
            request=RequestLogMiddleware.format_request(request),
        )
    return answer
