"""The version of this service, and the versions of OSMO's client that it answers.

The client sends its version in ``x-osmo-client-version``, except in requests for the service's version. One
below ``OSMO_CLIENT_MINIMUM_VERSION`` is refused; one below ``OSMO_CLIENT_LATEST_VERSION`` is told beside its
answer. Both are settings and not rows, because they would be read with every request.
"""

import base64
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from web.access.permissions import Anybody, Needs
from web.policy import Action
from web.release import VERSION, as_numbers
from web.rest import errors
from web.rest.shapes import Shape

WARNING_HEADER = "x-osmo-warning"
"""What OSMO's client prints beside an answer."""


class ClientVersionMiddleware:
    """Refuse clients that are too old, and add a hint for those that are not the newest."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        version = as_numbers(request.headers.get("x-osmo-client-version", ""))
        if version is None:
            return self.get_response(request)
        client_version = ".".join(map(str, version))
        if _below(version, settings.CLIENT_MINIMUM_VERSION):
            return _refused(request, client_version)
        response = self.get_response(request)
        if _below(version, settings.CLIENT_LATEST_VERSION):
            hint = f"New client {settings.CLIENT_LATEST_VERSION} available; this is {client_version}."
            response[WARNING_HEADER] = warning_text(hint)
            response["x-osmo-service-version"] = VERSION
        return response


def warning_text(text: str) -> str:
    """A warning as its header carries it."""
    return base64.b64encode(text.encode()).decode()


def _below(version: tuple[int, int, int], bound: str) -> bool:
    limit = as_numbers(bound)
    return limit is not None and version < limit


def _refused(request: HttpRequest, client_version: str) -> JsonResponse:
    message = (
        f"Your client is version {client_version}, and this service answers "
        f"{settings.CLIENT_MINIMUM_VERSION} and later: upgrade it."
    )
    content = errors.body(message=message, error_code="OSMO_ERROR", request=request)
    return JsonResponse(content, status=400)


class VersionShape(Shape):
    major: str
    minor: str
    revision: str
    hash: str


class VersionView(APIView):
    authentication_classes = ()
    permission_classes = (Anybody,)
    access = {"GET": Needs(Action.SYSTEM_VERSION)}

    @extend_schema(operation_id="get_version", responses=VersionShape, auth=[])
    def get(self, request: Request) -> Response:
        """Show this service's version; no login is needed."""
        del request
        major, minor, revision = VERSION.split(".")
        return Response(VersionShape(major=major, minor=minor, revision=revision, hash=""))


class RouterVersionView(VersionView):
    @extend_schema(operation_id="get_router_version", responses=VersionShape, auth=[])
    def get(self, request: Request) -> Response:
        """Show the same where OSMO's client asks for it before each connection to a forwarded port."""
        return super().get(request)


class ClientConfigShape(Shape):
    min_supported_version: str | None
    latest_version: str | None


class ServiceConfigShape(Shape):
    cli_config: ClientConfigShape


class ServiceConfigView(APIView):
    access = {"GET": Needs(Action.CONFIG_READ, on="config/service")}

    @extend_schema(operation_id="get_service_config", responses=ServiceConfigShape)
    def get(self, request: Request) -> Response:
        """Show which client versions are supported; they are settings of the installation."""
        del request
        versions = ClientConfigShape(
            min_supported_version=settings.CLIENT_MINIMUM_VERSION or None,
            latest_version=settings.CLIENT_LATEST_VERSION or None,
        )
        return Response(ServiceConfigShape(cli_config=versions))
