"""Addresses of OSMO that this service does not offer: a clear answer instead of a bare 404, for any method.

Only an address that no endpoint has is looked up here, so a line below never hides an endpoint. The answer is
a 400 with ``USER``: OSMO's client prints it and exits with 2, as for any mistake of its user. It would take a
501 for a fault of the service.
"""

import re

from django.http import HttpRequest, HttpResponse, JsonResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from web.access.permissions import Needs
from web.policy import Action
from web.rest import errors
from web.rest.shapes import Shape

_NOT_OFFERED = (
    (r"workflow/[^/]+/rsync(/.*)?", "Copying files into running tasks (rsync)"),
    (r"workflow/[^/]+/(port-?forward|webserver)(/.*)?", "Forwarding ports of tasks"),
    (r"router(/.*)?", "This part of the router (rsync, port-forward)"),
    (r"(bucket|dataset)s?(/.*)?", "Storage of datasets"),
    (r"app(/.*)?", "Apps"),
    (r"credentials?(/.*)?", "Storage of credentials (they are Secrets in the cluster)"),
    (r"agent(/.*)?", "The agents of OSMO's backends"),
    (r"auth/user(/.*)?", "Management of users (see the admin)"),
    (r"notifications?(/.*)?", "Notifications"),
    (
        r"configs/(backend_test|dataset|group_template|pod_template|resource_validation|role|service)(/.*)?",
        "This type of configuration",
    ),
)
_PATTERNS = tuple((re.compile(f"/api/{pattern}"), name) for pattern, name in _NOT_OFFERED)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer an address that no endpoint has (Django's handler404)."""
    name = next((name for pattern, name in _PATTERNS if pattern.fullmatch(request.path_info)), None)
    if name is None:
        return errors.not_found(request, exception)
    content = errors.body(
        message=f"{name} is not offered by this service.", error_code="USER", request=request
    )
    return JsonResponse(content, status=400)


class RsyncShape(Shape):
    enabled: bool


class PluginsShape(Shape):
    rsync: RsyncShape


class PluginsView(APIView):
    access = {"GET": Needs(Action.SYSTEM_VERSION)}

    @extend_schema(operation_id="get_plugin_configs", responses=PluginsShape)
    def get(self, request: Request) -> Response:
        """Show OSMO's plugins: none is enabled."""
        del request
        return Response(PluginsShape(rsync=RsyncShape(enabled=False)))
