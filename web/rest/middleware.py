"""What every request passes: an id that is echoed and logged, a check for garbage, one line in the log.

Answers of the API belong to who logged in, so no cache may store them. Pages have headers of their own,
because a browser may show a page again.

Kubelets and Prometheus send the address of a pod as Host, which no list of hosts can name. Their three
addresses read nothing from it, so they are exempt from the check, and from the log: they come every few
seconds.
"""

import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.middleware.common import CommonMiddleware
from django.utils.cache import patch_vary_headers
from django_structlog.middlewares import RequestMiddleware

from scheduling.errors import Fault
from web.access.auth import caller_address
from web.rest import errors
from web.rest.unreadable import is_path_unreadable, unreadable_part

log = structlog.get_logger(__name__)

PROBES = frozenset({"/livez", "/readyz", "/metrics"})
MOST_HOST = 255
_OTHER_HOST = (
    "The service does not answer to the name in Host; OSMO_ALLOWED_HOSTS has those that it answers to."
)
_DOUBLED = re.compile(r"/{2,}(?=api/)")
_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class RequestIdMiddleware:
    """Give each request an id, the caller's ``X-Request-ID`` if it is sane, and echo it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        requested_id = request.META.get(
            "HTTP_X_REQUEST_ID", ""
        )  # request.headers would keep what it saw first
        request_id = requested_id if _ACCEPTABLE_ID.fullmatch(requested_id) else uuid.uuid4().hex
        request.META["HTTP_X_REQUEST_ID"] = request_id  # django-structlog binds it to every log line
        request.request_id = request_id  # type: ignore[attr-defined]  # read by the error shape
        response = self._answer(request)
        response["X-Request-ID"] = request_id
        if request.path_info.startswith("/api/") or response.get("Content-Type") == "application/json":
            response["Cache-Control"] = errors.NO_STORE
            patch_vary_headers(response, errors.OF_LOGIN)
        return response

    def _answer(self, request: HttpRequest) -> HttpResponse:
        if is_path_unreadable(request):
            return errors.not_found(request)
        if fault := unreadable_part(request):
            return errors.unreadable(request, fault)
        if doubled := _DOUBLED.match(request.path_info):  # the client's base address ended in a slash
            request.path_info = request.path_info[doubled.end() - 1 :]
        return self.get_response(request)


class HostMiddleware(CommonMiddleware):
    """Django's check of the Host header, for every address but those of probes.

    It refuses here: Django would write a trace for each request that a stranger sends with another name.
    """

    def __call__(self, request: HttpRequest) -> Any:
        try:
            return super().__call__(request)
        except DisallowedHost:
            log.warning("host_refused", host=request.META.get("HTTP_HOST", "")[:MOST_HOST])
            return errors.unreadable(request, Fault(("Host",), "host", _OTHER_HOST))

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        return None if request.path_info in PROBES else super().process_request(request)


class RequestLogMiddleware(RequestMiddleware):
    """Log each request by its method and path: a query may hold a variable of a task, ``env_vars``.

    The address is the one that can be believed, not whatever X-Forwarded-For says.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        return self.get_response(request) if request.path_info in PROBES else super().__call__(request)

    @classmethod
    def bind_ip(cls, request: HttpRequest) -> None:
        structlog.contextvars.bind_contextvars(ip=caller_address(request))

    @staticmethod
    def format_request(request: HttpRequest) -> str:
        return f"{request.method} {request.path}"
