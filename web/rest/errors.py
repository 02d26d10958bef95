"""The one shape of an error: OSMO's keys, plus every fault and the request's id.

``{"message", "error_code", "workflow_id", "details", "request_id"}``. OSMO's client prints ``message``
alone, so that text has the first faults too. A 5xx never shows the exception.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import psycopg
import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import Error as DatabaseFault
from django.db import InterfaceError, OperationalError, ProgrammingError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions, status
from rest_framework.response import Response

from scheduling.errors import (
    Busy,
    Conflict,
    Ended,
    Fault,
    Forbidden,
    InvalidSpec,
    NotFound,
    PreconditionFailed,
    TooEarly,
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
    Ended: 410,
    PreconditionFailed: 412,
    TooEarly: 425,
    Busy: 429,
    Unavailable: 503,
    TopologyError: 400,
}
"""The only place where an error gets its HTTP status."""

_SOON = {"Retry-After": "2"}

NO_STORE = "no-store"
OF_LOGIN = ("Authorization", "Cookie", "x-osmo-user", "x-osmo-roles", "x-osmo-allowed-pools")
"""The headers that say who the caller is: every answer of the API varies by them, and no cache stores it."""

_SERVER_STATES = frozenset({"25006", "25P03", "25P04"})
"""SQLSTATEs that come from a server's state and that drivers do not count as operational: a standby that
takes no writes, and transactions that the server ended because they idled or lasted too long."""


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
    """DRF's exception hook: everything raised on purpose becomes the one shape, with the view's codes."""
    response = _response(exc, context)
    codes = getattr(context.get("view"), "error_codes", {})
    if response is not None and (code := codes.get(response.status_code)):
        response.data["error_code"] = code
    return response


def _response(exc: Exception, context: dict[str, Any]) -> Response | None:
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
    if is_database_away(exc):
        return Response(_database_away(exc, request), status=503, headers=_SOON)
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


def is_database_away(error: BaseException | None) -> bool:
    """Whether an error means that the database cannot serve at the moment, and the caller can try again.

    Drivers have no class of their own for it. An error that libpq makes itself has no SQLSTATE and no class
    beside the general one ("lost synchronization with server", a failed write). After one that was caught
    inside a transaction, Django refuses what follows as an error of the program.
    """
    return any(_is_outage(link) for link in _chain(error))


def _is_outage(error: BaseException) -> bool:
    cause = error.__cause__
    if isinstance(error, (InterfaceError, OperationalError)):
        return True
    if not isinstance(error, DatabaseFault) or not isinstance(cause, psycopg.DatabaseError):
        return False
    is_of_libpq = type(cause) is psycopg.DatabaseError and cause.sqlstate is None
    return is_of_libpq or cause.sqlstate in _SERVER_STATES


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what came before it if Django refused a statement without asking the server."""
    while error is not None:
        yield error
        is_refusal = isinstance(error, ProgrammingError) and error.__cause__ is None
        error = error.__context__ if is_refusal else None


def _database_away(error: BaseException, request: Any) -> dict[str, Any]:
    """The body of the 503 while the database restarts: the caller can try again."""
    log.warning("database_away", error=str(error))
    message = (
        "The database does not answer at the moment. Try again; a submission repeated with its "
        "Idempotency-Key is accepted once, whatever became of the first try."
    )
    return body(message=message, error_code="SERVER", request=request)


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
    """The 5xx: an id to look for in the logs, and nothing about the inside.

    Django calls it while it handles the exception, also one of a middleware or of a page that is no view of
    REST. While the database is away it is the 503 of every other request.
    """
    error = sys.exception()
    if error is not None and is_database_away(error):
        return JsonResponse(_database_away(error, request), status=503, headers=_SOON)
    content = body(message="Internal server error", error_code="SERVER", request=request)
    return JsonResponse(content, status=500)
