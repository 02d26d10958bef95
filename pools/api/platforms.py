"""Single platforms of a pool, and new names for pools and platforms, in OSMO's paths."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools import selectors, services
from pools.api import representations as show
from pools.api.requests import Envelope, envelope, etag, faults_under
from pools.api.shapes import PlatformShape, WriteShape
from pools.api.views import DRY_RUN, FORCE, IF_MATCH, READ, VERBOSE
from pools.documents import pool as shape
from pools.models import Pool
from pools.services.renaming import no_platform
from scheduling.errors import Fault, InvalidSpec
from web.access.permissions import Needs, check
from web.access.rights import grants_of
from web.policy import Action
from web.rest.shapes import Shape, about, absent

BY_NAME = {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/PlatformShape"}}
UPDATE = Needs(Action.CONFIG_UPDATE, on="pool/{name}")


class PlatformWriteShape(WriteShape):
    configs: PlatformShape


class RenameShape(WriteShape):
    new_name: str


class PoolRenameShape(RenameShape):
    force: bool | None = absent("Go on even if workflows still run.")


class RenamedShape(Shape):
    name: str
    revision: int = about("Of the pool.")
    warnings: list[str]


class PlatformsView(APIView):
    access = {"GET": READ}

    @extend_schema(
        operation_id="list_platforms",
        parameters=[VERBOSE],
        responses={200: BY_NAME},
    )
    def get(self, request: Request, name: str) -> Response:
        """Show the platforms of a pool by name."""
        pool = _pool(request, name)
        platforms = shape.document_of(pool)["platforms"]
        reply = {name: PlatformShape(**content) for name, content in platforms.items()}
        return Response(reply, headers=etag(pool.revision))


class PlatformView(APIView):
    access = {"GET": READ, "PUT": UPDATE}

    @extend_schema(operation_id="get_platform", parameters=[VERBOSE], responses=PlatformShape)
    def get(self, request: Request, name: str, platform: str) -> Response:
        """Show one platform of a pool."""
        return _reply(_pool(request, name), platform)

    @extend_schema(
        operation_id="put_platform",
        parameters=[DRY_RUN, IF_MATCH],
        request=PlatformWriteShape,
        responses=PlatformShape,
    )
    def put(self, request: Request, name: str, platform: str) -> Response:
        """Add a platform to a pool, or replace it whole."""
        sent = envelope(request, holds="configs")
        with faults_under("configs"):
            saved = services.put_platform(
                name=name,
                platform=platform,
                document=sent.content,
                change=sent.change,
            )
        return _reply(saved.value, platform)


class PlatformRenameView(APIView):
    access = {"PUT": UPDATE}

    @extend_schema(
        operation_id="rename_platform",
        parameters=[DRY_RUN, IF_MATCH],
        request=RenameShape,
        responses=RenamedShape,
    )
    def put(self, request: Request, name: str, platform: str) -> Response:
        """Give a platform another name."""
        sent = envelope(request, holds="new_name")
        new_name = _text(sent)
        with faults_under("new_name"):
            saved = services.rename_platform(
                name=name,
                platform=platform,
                new_name=new_name,
                change=sent.change,
            )
        return _renamed(new_name, saved)


class PoolRenameView(APIView):
    access = {"PUT": UPDATE}

    @extend_schema(
        operation_id="rename_pool",
        parameters=[DRY_RUN, FORCE, IF_MATCH],
        request=PoolRenameShape,
        responses=RenamedShape,
    )
    def put(self, request: Request, name: str) -> Response:
        """Give a pool another name; the caller must be allowed to write both."""
        sent = envelope(request, holds="new_name", also=("force",))
        new_name = _text(sent)
        check(grants_of(request.user), Needs(Action.CONFIG_UPDATE, on="pool/{name}"), {"name": new_name})
        with faults_under("new_name"):
            saved = services.rename_pool(
                name=name,
                new_name=new_name,
                change=sent.change,
                force=sent.force,
            )
        return _renamed(new_name, saved)


def _pool(request: Request, name: str) -> Pool:
    return selectors.pool_visible_to(request.user, name, action=Action.CONFIG_READ)


def _reply(pool: Pool, platform: str) -> Response:
    platforms = shape.document_of(pool)["platforms"]
    if platform not in platforms:
        raise no_platform(pool.name, platform, list(platforms))
    return Response(PlatformShape(**platforms[platform]), headers=etag(pool.revision))


def _text(sent: Envelope) -> str:
    if isinstance(sent.content, str):
        return sent.content
    fault = Fault(("new_name",), "invalid_text", "The new name must be a string.")
    raise InvalidSpec(fault.message, [fault])


def _renamed(new_name: str, saved: services.Saved[Pool]) -> Response:
    reply = RenamedShape(name=new_name, revision=saved.value.revision, warnings=show.warnings(saved.notices))
    return Response(reply, headers=etag(saved.value.revision))
