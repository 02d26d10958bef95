"""The one shape of an error: OSMO's keys, plus every fault and the request's id.

``{"message", "error_code", "workflow_id", "details", "request_id"}``. OSMO's client prints ``message``
alone, so that text has the first faults too. A 5xx never shows the exception.
"""

from collections.abc import Callable, Iterable
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions, status
from rest_framework.response import Response

from scheduling.errors import (
    Busy,
    Conflict,
    Fault,
    Forbidden,
    InvalidSpec,
    NotFound,
    PreconditionFailed,
    TopologyError,
    Unavailable,
    UnsupportedCapability,
    at_most,
    format_path,
)
from scheduling.sentences import first

log = structlog.get_logger(__name__)

HTTP_STATUS: dict[type[TopologyError], int] = {
    InvalidSpec: 400,
    UnsupportedCapability: 400,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    PreconditionFailed: 412,
    Busy: 429,
    Unavailable: 503,
    TopologyError: 400,
}
"""The only place where an error gets its HTTP status."""


def details(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """Faults as JSON, in document order: by line and column, then by path."""
    ordered = sorted(faults, key=lambda f: (f.line or 0, f.column or 0, format_path(f.path), f.code))
    return [
        {
            "path": format_path(fault.path),
            "line": fault.line,
            "column": fault.column,
            "code": fault.code,
            "message": fault.message,
            "allowed": list(fault.allowed) if fault.allowed is not None else None,
        }
        for fault in ordered
    ]


def body(
    *,
    message: str,
    error_code: str,
    request: Any,
    faults: Iterable[Fault] = (),
    workflow_id: str | None = None,
) -> dict[str, Any]:
    return {
        "message": message,
        "error_code": error_code,
        "workflow_id": workflow_id,
        "details": details(faults),
        "request_id": getattr(request, "request_id", None),
    }


def status_of(error: TopologyError) -> int:
    """The HTTP status of an error's nearest class in the table."""
    return next(HTTP_STATUS[cls] for cls in type(error).__mro__ if cls in HTTP_STATUS)


def handle(exc: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception hook: everything raised on purpose becomes the one shape."""
    request = getattr(context.get("request"), "_request", context.get("request"))
    if isinstance(exc, TopologyError):
        content = body(
            message=exc.message,
            error_code=exc.code,
            request=request,
            faults=exc.faults,
            workflow_id=getattr(exc, "workflow_id", None),
        )
        wait = {"Retry-After": str(exc.retry_after)} if isinstance(exc, (Busy, Unavailable)) else None
        return Response(content, status=status_of(exc), headers=wait)
    if isinstance(exc, RequestDataTooBig):
        content = body(message=str(exc), error_code="USER", request=request)
        return Response(content, status=status.HTTP_413_REQUEST_ENTITY_TOO_LARGE)
    if isinstance(exc, (InterfaceError, OperationalError)):
        return _database_away(exc, request)
    if isinstance(exc, Http404):
        exc = exceptions.NotFound()
    if isinstance(exc, PermissionDenied):
        exc = exceptions.PermissionDenied()
    if isinstance(exc, exceptions.ValidationError):
        faults = at_most(faults_of(exc))
        content = body(message=summary(faults), error_code="USAGE", request=request, faults=faults)
        return Response(content, status=exc.status_code)
    if isinstance(exc, exceptions.APIException):
        error_code = "SERVER" if exc.status_code >= status.HTTP_500_INTERNAL_SERVER_ERROR else "USER"
        content = body(message=str(exc.detail), error_code=error_code, request=request)
        return Response(content, status=exc.status_code, headers=_headers(exc))
    return None  # Django's handler500 answers; the exception is logged with its trace


def _database_away(error: Exception, request: Any) -> Response:
    """Answer 503 while the database restarts: the caller can try again."""
    log.warning("database_away", error=str(error))
    message = (
        "The database does not answer at the moment. Try again; a submission repeated with its "
        "Idempotency-Key is accepted once, whatever became of the first try."
    )
    content = body(message=message, error_code="SERVER", request=request)
    return Response(content, status=503, headers={"Retry-After": "2"})


def summary(faults: Iterable[Fault]) -> str:
    """The first three faults in a sentence each, and how many more there are."""
    ordered, others = first(details(faults), 3)
    lines = [
        (f"line {f['line']}, column {f['column']}: " if f["line"] else "")
        + (f"{f['path']}: " if f["path"] else "")
        + f["message"].rstrip(".")
        for f in ordered
    ]
    if others:
        lines.append(f"{others}, see details")
    text = "; ".join(lines) or "The request was refused."
    return text if text.endswith(("?", ".")) else f"{text}."


def faults_of(error: exceptions.ValidationError) -> list[Fault]:
    """All faults of a serializer."""
    return list(_faults(error.detail, ()))


def _faults(detail: Any, path: tuple[str | int, ...]) -> Iterable[Fault]:
    if isinstance(detail, dict):
        for key, value in detail.items():
            yield from _faults(value, path if key == "non_field_errors" else (*path, key))
    elif isinstance(detail, list):
        for index, value in enumerate(detail):
            nested = isinstance(value, (dict, list))
            yield from _faults(value, (*path, index) if nested else path)
    else:
        yield Fault(path=path, code=str(getattr(detail, "code", "invalid")), message=str(detail))


def _headers(exc: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if challenge := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(exc, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait) + 1)
    return headers


def _plain(message: str, code: str, status_code: int) -> Callable[..., JsonResponse]:
    def view(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:  # noqa: ARG001 -- Django's
        return JsonResponse(body(message=message, error_code=code, request=request), status=status_code)

    return view


bad_request = _plain("The request could not be understood.", "USER", 400)
forbidden = _plain("You may not do this.", "USER", 403)
not_found = _plain("There is nothing at this address.", "USER", 404)


def unreadable(request: HttpRequest, fault: Fault) -> JsonResponse:
    """The 400 of a request that is refused before any view reads it."""
    content = body(message=fault.message, error_code="USER", request=request, faults=[fault])
    return JsonResponse(content, status=400)


def token_needed(request: HttpRequest) -> JsonResponse:
    """The 401 of the page of metrics."""
    content = body(message="The token of the metrics is needed here.", error_code="USER", request=request)
    return JsonResponse(content, status=401, headers={"WWW-Authenticate": "Bearer"})


def method_not_allowed(request: HttpRequest, *, allowed: Iterable[str]) -> JsonResponse:
    """The 405 of a plain Django view; DRF's views have their own."""
    content = body(
        message=f"Method {request.method} is not accepted here.", error_code="USER", request=request
    )
    return JsonResponse(content, status=405, headers={"Allow": ", ".join(allowed)})


def server_error(request: HttpRequest) -> JsonResponse:
    """The 5xx: an id to look for in the logs, and nothing about the inside."""
    content = body(message="Internal server error", error_code="SERVER", request=request)
    return JsonResponse(content, status=500)
