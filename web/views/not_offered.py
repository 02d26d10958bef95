"""Addresses of OSMO that this service does not offer: a clear answer instead of a bare 404, for any method.

Only an address that no endpoint has is looked up here, so a line below never hides an endpoint. The answer is
a 400 with ``USER``: OSMO's client prints it and exits with 2, as for any mistake of its user. It would take a
501 for a fault of the service.
"""

import re
from typing import NoReturn

from django.http import HttpRequest, HttpResponse, JsonResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from scheduling.errors import TopologyError
from web.access.permissions import Needs
from web.policy import Action
from web.rest import errors

RSYNC = (
    "rsync is not offered by this service, since it needs a daemon in the task. Copy files with "
    "osmo-topology cp NAME/TASK:/path ./ or the other way round."
)
_NOT_OFFERED = (
    (r"workflow/[^/]+/webserver(/.*)?", "A web address of its own for a task (its port can be forwarded)"),
    (r"router(/.*)?", "This part of the router (webserver)"),
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
_RSYNC = re.compile("/api/(workflow|router)/(.*/)?rsync(/.*)?")
_PATTERNS = tuple((re.compile(f"/api/{pattern}"), name) for pattern, name in _NOT_OFFERED)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer an address that no endpoint has (Django's handler404)."""
    name = next((name for pattern, name in _PATTERNS if pattern.fullmatch(request.path_info)), None)
    if _RSYNC.fullmatch(request.path_info):
        message = RSYNC
    elif name is not None:
        message = f"{name} is not offered by this service."
    else:
        return errors.not_found(request, exception)
    content = errors.body(message=message, error_code="USER", request=request)
    return JsonResponse(content, status=400)


class PluginsView(APIView):
    access = {"GET": Needs(Action.SYSTEM_VERSION)}

    @extend_schema(operation_id="get_plugin_configs", responses={})
    def get(self, request: Request) -> NoReturn:
        """Refuse, in words: OSMO's client reads its plugins for rsync alone."""
        del request
        raise TopologyError(RSYNC)
