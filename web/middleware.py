"""What every request passes: an id that is echoed and logged, and a strict JSON body."""

import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import IO, Any

import structlog
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django_structlog.middlewares import RequestMiddleware
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from web import errors
from web.auth import caller_address

_SUSPECT = re.compile(rb"\\u(0000|[dD][89a-fA-F])")
_DOUBLED = re.compile(r"/{2,}(?=api/)")
_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class RequestIdMiddleware:
    """Give each request an id, the caller's ``X-Request-ID`` if it is sane, and echo it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.META.get("HTTP_X_REQUEST_ID", "")  # request.headers would keep what it saw first
        request_id = given if _ACCEPTABLE_ID.fullmatch(given) else uuid.uuid4().hex
        request.META["HTTP_X_REQUEST_ID"] = request_id  # django-structlog binds it to every log line
        request.request_id = request_id  # type: ignore[attr-defined]  # read by the error shape
        response = self._answer(request)
        response["X-Request-ID"] = request_id
        return response

    def _answer(self, request: HttpRequest) -> HttpResponse:
        if "\0" in request.path_info:  # names nothing, and a database refuses to look for it
            return errors.not_found(request)
        if doubled := _DOUBLED.match(request.path_info):  # the client's base address ended in a slash
            request.path_info = request.path_info[doubled.end() - 1 :]
        return self.get_response(request)


class RequestLogMiddleware(RequestMiddleware):
    """Log each request by its method and path: a query may hold a variable of a task, ``env_vars``.

    The address is the one that can be believed, not whatever X-Forwarded-For says.
    """

    @classmethod
    def bind_ip(cls, request: HttpRequest) -> None:
        structlog.contextvars.bind_contextvars(ip=caller_address(request))

    @staticmethod
    def format_request(request: HttpRequest) -> str:
        return f"{request.method} {request.path}"


class StrictJSONParser(JSONParser):
    """JSON whatever the content type says, within the body limit.

    Refused are NaN, NUL characters and half surrogate pairs, which no column or reply can hold. OSMO's
    client sends ``Content-Type: application/json`` even without a body.
    """

    media_type = "*/*"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002 -- DRF's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002 -- DRF's signature
    ) -> Any:
        body = stream.read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        if len(body) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig(f"The body is over {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes.")
        if not body.strip():
            return {}
        try:
            value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is not valid JSON: {error}") from error
        if _SUSPECT.search(body) and (fault := _unwritable(value)):
            raise ParseError(f"The body contains {fault}, which no field accepts.")
        return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _unwritable(value: Any) -> str | None:
    """Name what no database column and no reply can hold, if any text in the value has it."""
    rest = [value]
    while rest:
        match rest.pop():
            case str() as text if "\0" in text:
                return "a NUL character"
            case str() as text if any("\ud800" <= character <= "\udfff" for character in text):
                return "half a surrogate pair"
            case dict() as mapping:
                rest += [*mapping.keys(), *mapping.values()]
            case list() as entries:
                rest += entries
    return None
