"""Pod templates over REST, and the kinds of OSMO's templates that are not carried out.

A client that reads the latter gets an empty set; a write is refused with what to use instead.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools import services
from pools.api import representations as show
from pools.api.requests import envelope, etag, faults_under
from pools.api.shapes import DeletedShape, WriteShape
from pools.api.views import DRY_RUN, IF_MATCH
from pools.models import PodTemplate
from pools.pod_templates.notices import template_notices
from scheduling.errors import Fault, InvalidSpec, NotFound
from web.access.permissions import Needs
from web.policy import Action
from web.rest.shapes import about
from web.views.version import WARNING_HEADER, warning_text

READ = Needs(Action.CONFIG_READ, on="config/pod_template")
UPDATE = Needs(Action.CONFIG_UPDATE, on="config/pod_template")


class PodTemplateWriteShape(WriteShape):
    configs: dict[str, Any] = about("Part of a pod: metadata and spec.")


class PodTemplatesWriteShape(WriteShape):
    configs: dict[str, dict[str, Any]] = about("Templates by name.")


class PodTemplatesView(APIView):
    access = {"GET": READ, "PUT": UPDATE}

    @extend_schema(operation_id="list_pod_templates", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        """Show every pod template by name."""
        del request
        return Response({row.name: row.content for row in PodTemplate.objects.all()})

    @extend_schema(
        operation_id="put_pod_templates",
        parameters=[DRY_RUN],
        request=PodTemplatesWriteShape,
        responses=OpenApiTypes.OBJECT,
    )
    def put(self, request: Request) -> Response:
        """Create or replace each named template, all or none; others are not changed."""
        sent = envelope(request, holds="configs", revised=False)
        with faults_under("configs"):
            if not isinstance(sent.content, Mapping):
                fault = Fault((), "not_a_mapping", "An object of templates by name is needed here.")
                raise InvalidSpec(fault.message, [fault])
            saved = services.put_pod_templates(documents=sent.content, change=sent.change)
        return Response({row.name: row.content for row in saved}, headers=_warning(saved))


class PodTemplateView(APIView):
    access = {"GET": READ, "PUT": UPDATE, "DELETE": UPDATE}

    @extend_schema(operation_id="get_pod_template", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, name: str) -> Response:
        """Show one pod template."""
        del request
        row = PodTemplate.objects.filter(name=name).first()
        if row is None:
            raise NotFound(f'There is no pod template "{name[:63]}".')
        return Response(row.content, headers=etag(row.revision))

    @extend_schema(
        operation_id="put_pod_template",
        parameters=[DRY_RUN, IF_MATCH],
        request=PodTemplateWriteShape,
        responses=OpenApiTypes.OBJECT,
    )
    def put(self, request: Request, name: str) -> Response:
        """Create a pod template, or replace it whole; accepted workflows are not changed."""
        sent = envelope(request, holds="configs")
        with faults_under("configs"):
            row = services.put_pod_template(name=name, document=sent.content, change=sent.change)
        return Response(row.content, headers={**etag(row.revision), **_warning([row])})

    @extend_schema(
        operation_id="delete_pod_template",
        parameters=[DRY_RUN, IF_MATCH],
        request=None,
        responses={200: DeletedShape},
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a pod template that no pool and no platform uses."""
        sent = envelope(request, holds=None)
        services.delete_pod_template(name=name, change=sent.change)
        return Response(DeletedShape(name=name))


def _warning(rows: Iterable[PodTemplate]) -> dict[str, str]:
    """The first notices on templates as a header; the bodies are the templates alone."""
    notices = islice((notice for row in rows for notice in template_notices(row.content)), 3)
    text = " ".join(show.warnings(notices))
    return {WARNING_HEADER: warning_text(text)} if text else {}


_INSTEAD: Mapping[str, str] = {
    "group_template": (
        "Group templates are not offered by this service: ComputeDomains follow from a pool's nvlink, "
        "pod groups and topologies from its topology_keys, and pods from pod templates."
    ),
    "resource_validation": (
        "Resource validations are not offered by this service: a platform's capacity is read from its nodes, "
        "and limits are a pool's resources and max_num_tasks."
    ),
}


class NotOfferedView(APIView):
    """All of a kind that is not carried out: none."""

    kind: ClassVar[str] = "group_template"
    access = {
        "GET": Needs(Action.CONFIG_READ, on="config/template"),
        "PUT": Needs(Action.CONFIG_UPDATE, on="config/template"),
    }

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        """Show an empty set: this service does not support this kind of template."""
        del request
        return Response({})

    @extend_schema(
        request=PodTemplatesWriteShape,
        responses=OpenApiTypes.OBJECT,
    )
    def put(self, request: Request) -> Response:
        """Refuse; the error names what to use instead."""
        del request
        raise refusal(self.kind)


class OneNotOfferedView(APIView):
    """One of a kind that is not carried out: it is not there."""

    kind: ClassVar[str] = "group_template"
    access = NotOfferedView.access | {"DELETE": Needs(Action.CONFIG_UPDATE, on="config/template")}

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, name: str) -> Response:
        """Refuse: there is no such template."""
        del request
        raise NotFound(f'There is no {self.kind} "{name[:63]}". {_INSTEAD[self.kind]}')

    @extend_schema(
        request=PodTemplateWriteShape,
        responses=OpenApiTypes.OBJECT,
    )
    def put(self, request: Request, name: str) -> Response:
        """Refuse; the error names what to use instead."""
        del request, name
        raise refusal(self.kind)

    @extend_schema(request=None, responses={200: DeletedShape})
    def delete(self, request: Request, name: str) -> Response:
        """Refuse: there is no such template."""
        return self.get(request, name)


@extend_schema_view(
    get=extend_schema(operation_id="list_group_templates"),
    put=extend_schema(operation_id="put_group_templates"),
)
class GroupTemplatesView(NotOfferedView):
    pass


@extend_schema_view(
    get=extend_schema(operation_id="get_group_template"),
    put=extend_schema(operation_id="put_group_template"),
    delete=extend_schema(operation_id="delete_group_template"),
)
class GroupTemplateView(OneNotOfferedView):
    pass


@extend_schema_view(
    get=extend_schema(operation_id="list_resource_validations"),
    put=extend_schema(operation_id="put_resource_validations"),
)
class ResourceValidationsView(NotOfferedView):
    kind = "resource_validation"


@extend_schema_view(
    get=extend_schema(operation_id="get_resource_validation"),
    put=extend_schema(operation_id="put_resource_validation"),
    delete=extend_schema(operation_id="delete_resource_validation"),
)
class ResourceValidationView(OneNotOfferedView):
    kind = "resource_validation"


def refusal(kind: str) -> InvalidSpec:
    """That a kind of template is not offered, with what to use instead."""
    return InvalidSpec(_INSTEAD[kind], [Fault(("configs",), "not_offered", _INSTEAD[kind])])
