"""The preflight over REST: the same checks as ``manage.py preflight``, with the rights of web's account."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from pools import selectors
from pools.checks.pool import unknown_backend
from pools.preflight.report import as_json, preflight
from scheduling.errors import InvalidSpec
from web.access.permissions import Needs
from web.limits.throttles import PreflightThrottle
from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import Query
from web.rest.shapes import Shape, about

SECONDS = 20.0  # a person waits for the answer


class PreflightQuery(Query):
    backend = serializers.CharField(max_length=63, default="", allow_blank=True)


class CheckShape(Shape):
    check: str
    status: str = about("passed, failed or unknown.")
    message: str
    to_do: str = about("What to do; empty: nothing.")


class BackendChecksShape(Shape):
    backend: str
    checks: list[CheckShape]


class PreflightShape(Shape):
    """What ``manage.py preflight --json`` prints."""

    status: str = about("failed if any check failed, else unknown if any is, else passed.")
    counts: dict[str, int]
    installation: list[CheckShape]
    backends: list[BackendChecksShape]


class PreflightView(OwnView):
    access = {"GET": Needs(Action.CONFIG_READ, on=None)}
    throttle_classes = [PreflightThrottle]

    @extend_schema(
        operation_id="run_preflight",
        parameters=[OpenApiParameter("backend", OpenApiTypes.STR, description="Only this backend.")],
        responses=PreflightShape,
    )
    def get(self, request: Request) -> Response:
        """Check the installation and the backends whose configuration the caller may read."""
        name = PreflightQuery.of(request)["backend"]
        rows = selectors.backends_visible_to(request.user).select_related("cluster").order_by("name")
        if name:
            names = list(rows.values_list("name", flat=True))
            if name not in names:
                fault = unknown_backend(name, names=names)
                raise InvalidSpec(fault.message, [fault])
            rows = rows.filter(name=name)
        return Response(PreflightShape.model_validate(as_json(preflight(rows, seconds=SECONDS))))
