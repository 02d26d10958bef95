"""The whole configuration as one file over REST: read it, compare it, apply it.

The rights that a file needs are not known before it is read: it may name any pool, any backend and the
limits. So reading and writing it need the right on everything, like the import in the admin and ``manage.py
import_config``.
"""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from pools import services
from pools.api.representations import warnings
from pools.api.requests import envelope
from pools.api.shapes import WriteShape
from pools.api.views import DRY_RUN
from pools.services.files import types_kept
from scheduling.errors import Fault, InvalidSpec, in_order
from web.access.permissions import Needs
from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import Query, WordChoice
from web.rest.shapes import Shape, about, absent


class FileQuery(Query):
    config_types = serializers.ListField(
        child=WordChoice(choices=types_kept()),
        max_length=50,
        default=list,
        help_text="Only these types. May be repeated.",
    )


class FileShape(Shape):
    file: str = about("YAML in OSMO's sections, as PUT takes it.")


class FileWriteShape(WriteShape):
    file: str = about("The whole text; faults name its lines.")
    prune: bool | None = absent("Delete what the file's sections leave out.")
    force: bool | None = absent("Delete although work still runs there.")


class ChangedObjectShape(Shape):
    config_type: str
    name: str


class AppliedFileShape(Shape):
    changed: list[ChangedObjectShape]
    diff: str = about("Unified, of the YAML of each object that differs.")
    warnings: list[str]


class FileView(OwnView):
    access = {"GET": Needs(Action.CONFIG_READ), "PUT": Needs(Action.CONFIG_UPDATE)}

    @extend_schema(operation_id="get_config_file", parameters=[FileQuery], responses=FileShape)
    def get(self, request: Request) -> Response:
        """Show the configuration as one file."""
        types = FileQuery.of(request)["config_types"]
        return Response(FileShape(file=services.export_configuration(types=types)))

    @extend_schema(
        operation_id="put_config_file",
        parameters=[DRY_RUN],
        request=FileWriteShape,
        responses=AppliedFileShape,
    )
    def put(self, request: Request) -> Response:
        """Write every object of a file, all or none; objects that it leaves out stay, unless pruned."""
        sent = envelope(request, holds="file", also=("prune", "force"), revised=False)
        body: Any = request.data  # a mapping: the envelope checked it
        prune = body.get("prune") or False
        _refuse_wrong_types(sent.content, prune)
        imported = services.import_request(
            text=sent.content, change=sent.change, prune=prune, force=sent.force
        )
        reply = AppliedFileShape(
            changed=[ChangedObjectShape(config_type=kind, name=name) for kind, name in imported.changed],
            diff=imported.diff,
            warnings=warnings(imported.notices),
        )
        return Response(reply)


def _refuse_wrong_types(text: object, prune: object) -> None:
    faults = []
    if not isinstance(text, str):
        faults.append(Fault(("file",), "string_type", "A text is needed: the file's YAML."))
    if not isinstance(prune, bool):
        faults.append(Fault(("prune",), "bool_type", "true or false.", allowed=("true", "false")))
    if faults:
        raise InvalidSpec(f"The request was refused: {faults[0].message}", in_order(faults))
