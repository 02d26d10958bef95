"""Configuration over REST, in OSMO's paths and shapes; every view is thin.

Replies are 200 with JSON, whatever was done, because OSMO's client takes nothing else for success.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools import selectors, services
from pools.api import representations as show
from pools.api import shapes
from pools.api.requests import envelope, etag, faults_under
from pools.documents.workflow import WorkflowConfigDocument
from pools.models import Backend, Pool
from scheduling.errors import Fault, InvalidSpec
from web.access.permissions import Needs
from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import NoQuery, boolean_parameter

READ = Needs(Action.CONFIG_READ, on=None)
LIST = Needs(Action.POOL_LIST, on=None)

VERBOSE = OpenApiParameter("verbose", OpenApiTypes.BOOL, description="Adds derived fields.")
POOLS = OpenApiParameter("pools", OpenApiTypes.STR, many=True, description="Only these pools.")
ALL_POOLS = OpenApiParameter("all_pools", OpenApiTypes.BOOL, description="All pools; pools is ignored.")
BACKEND = OpenApiParameter("backend", OpenApiTypes.STR, description="Only pools of this backend.")
FORCE = OpenApiParameter("force", OpenApiTypes.BOOL, description="Go on even if work still runs there.")
DRY_RUN = OpenApiParameter("dry_run", OpenApiTypes.BOOL, description="Check everything; write nothing.")
IF_MATCH = OpenApiParameter(
    "If-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="ETag of the revision that was read."
)


def _configuration(resource: str, *, writes: str) -> dict[str, Needs]:
    """Whoever may write this resource writes it; the selectors know what may be read."""
    return {"GET": READ} | dict.fromkeys(writes.split(), Needs(Action.CONFIG_UPDATE, on=resource))


class BackendsView(APIView):
    access = {"GET": READ}

    @extend_schema(operation_id="list_backends", responses=shapes.BackendsShape)
    def get(self, request: Request) -> Response:
        """List the backends with the observed state of their clusters."""
        now = timezone.now()
        rows = selectors.backends_visible_to(request.user).order_by("name")
        return Response(shapes.BackendsShape(backends=[show.backend_entry(row, now=now) for row in rows]))


class BackendView(APIView):
    access = _configuration("backend/{name}", writes="POST PUT DELETE")

    @extend_schema(operation_id="get_backend", responses=shapes.BackendShape)
    def get(self, request: Request, name: str) -> Response:
        """Show one backend."""
        return self._reply(selectors.backend_visible_to(request.user, name))

    @extend_schema(
        operation_id="post_backend",
        parameters=[DRY_RUN, IF_MATCH],
        request=shapes.BackendWriteShape,
        responses=shapes.BackendShape,
    )
    def post(self, request: Request, name: str) -> Response:
        """Register a backend, or change the given fields."""
        sent = envelope(request, holds="configs")
        with faults_under("configs"):
            saved = services.post_backend(name=name, changes=sent.content, change=sent.change)
        return self._reply(saved.value, warnings=show.warnings(saved.notices))

    @extend_schema(
        operation_id="put_backend",
        parameters=[DRY_RUN, IF_MATCH],
        request=shapes.BackendWriteShape,
        responses=shapes.BackendShape,
    )
    def put(self, request: Request, name: str) -> Response:
        """Register a backend, or replace its whole configuration."""
        sent = envelope(request, holds="configs")
        with faults_under("configs"):
            saved = services.put_backend(name=name, document=sent.content, change=sent.change)
        return self._reply(saved.value, warnings=show.warnings(saved.notices))

    @extend_schema(
        operation_id="delete_backend",
        parameters=[DRY_RUN, FORCE, IF_MATCH],
        request=None,
        responses={200: shapes.DeletedShape},
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a backend that no pool uses."""
        sent = envelope(request, holds=None)
        services.delete_backend(name=name, change=sent.change, force=sent.force)
        return Response(shapes.DeletedShape(name=name))

    def _reply(self, backend: Backend, warnings: list[str] | None = None) -> Response:
        entry = show.backend_entry(backend, now=timezone.now(), warnings=warnings)
        return Response(entry, headers=etag(backend.revision))


class SuspectNodeView(OwnView):
    access = {"DELETE": Needs(Action.CONFIG_UPDATE, on="backend/{name}")}

    @extend_schema(operation_id="clear_suspect_node", responses={200: shapes.DeletedShape})
    def delete(self, request: Request, name: str, node: str) -> Response:
        """Trust a suspect node of the backend's cluster again."""
        NoQuery.without_body(request)
        backend = selectors.backend_visible_to(request.user, name)
        services.clear_suspicion(backend, node=node, by=request.user.get_username())
        return Response(shapes.DeletedShape(name=node))


class PoolsConfigView(APIView):
    access = _configuration("pool/*", writes="PUT")

    @extend_schema(
        operation_id="list_pool_configs", parameters=[VERBOSE, BACKEND], responses=shapes.PoolsShape
    )
    def get(self, request: Request) -> Response:
        """Show the configuration of every pool."""
        pools = selectors.pools_allowed_to(request.user, Action.CONFIG_READ).order_by("name")
        if backend := request.query_params.get("backend", "").replace("\0", ""):
            pools = pools.filter(backend__name=backend)
        rows = pools.prefetch_related("topology_keys", "platforms")
        return Response(shapes.PoolsShape(pools=_editable(rows, request)))

    @extend_schema(
        operation_id="put_pool_configs",
        parameters=[DRY_RUN],
        request=shapes.PoolsWriteShape,
        responses=shapes.PoolsShape,
    )
    def put(self, request: Request) -> Response:
        """Create or replace each named pool, all or none; other pools are not changed."""
        sent = envelope(request, holds="configs", revised=False)
        with faults_under("configs"):
            if not isinstance(sent.content, Mapping):
                fault = Fault((), "not_a_mapping", "An object of pools by name is needed here.")
                raise InvalidSpec(fault.message, [fault])
            saved = services.put_pools(documents=sent.content, change=sent.change)
        pools = _editable(saved.value, request)
        return Response(shapes.PoolsShape(pools=pools, warnings=show.warnings(saved.notices)))


class PoolConfigView(APIView):
    access = _configuration("pool/{name}", writes="PUT PATCH DELETE")

    @extend_schema(operation_id="get_pool_config", parameters=[VERBOSE], responses=shapes.PoolShape)
    def get(self, request: Request, name: str) -> Response:
        """Show the configuration of one pool."""
        return self._reply(self._pool(request, name), request)

    @extend_schema(
        operation_id="put_pool_config",
        parameters=[DRY_RUN, IF_MATCH],
        request=shapes.PoolWriteShape,
        responses=shapes.PoolShape,
    )
    def put(self, request: Request, name: str) -> Response:
        """Create a pool, or replace it whole."""
        sent = envelope(request, holds="configs")
        with faults_under("configs"):
            saved = services.put_pool(name=name, document=sent.content, change=sent.change)
        return self._reply(saved.value, request, warnings=show.warnings(saved.notices))

    @extend_schema(
        operation_id="patch_pool_config",
        parameters=[DRY_RUN, IF_MATCH],
        request=shapes.PoolPatchShape,
        responses=shapes.PoolShape,
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change the given fields: maps are merged, lists (topology_keys too) are replaced."""
        sent = envelope(request, holds="configs_dict")
        with faults_under("configs_dict"):
            saved = services.patch_pool(name=name, changes=sent.content, change=sent.change)
        return self._reply(saved.value, request, warnings=show.warnings(saved.notices))

    @extend_schema(
        operation_id="delete_pool_config",
        parameters=[DRY_RUN, FORCE, IF_MATCH],
        request=None,
        responses={200: shapes.DeletedShape},
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a pool without running workflows."""
        sent = envelope(request, holds=None)
        services.delete_pool(name=name, change=sent.change, force=sent.force)
        return Response(shapes.DeletedShape(name=name))

    def _pool(self, request: Request, name: str) -> Pool:
        return selectors.pool_visible_to(request.user, name, action=Action.CONFIG_READ)

    def _reply(self, pool: Pool, request: Request, warnings: list[str] | None = None) -> Response:
        verbose = boolean_parameter(request, "verbose")
        (entry,) = show.editable_pools(
            [pool], now=timezone.now(), verbose=verbose, warnings=warnings
        ).values()
        return Response(entry, headers=etag(pool.revision))


class WorkflowConfigView(APIView):
    access = {
        "GET": Needs(Action.CONFIG_READ, on="config/workflow"),
        "PUT": Needs(Action.CONFIG_UPDATE, on="config/workflow"),
        "PATCH": Needs(Action.CONFIG_UPDATE, on="config/workflow"),
    }

    @extend_schema(operation_id="get_workflow_config", responses=shapes.WorkflowConfigShape)
    def get(self, request: Request) -> Response:
        """Show the service-wide limits on workflows."""
        del request
        return self._reply(selectors.workflow_config())

    @extend_schema(
        operation_id="put_workflow_config",
        parameters=[DRY_RUN, IF_MATCH],
        request=shapes.WorkflowConfigWriteShape,
        responses=shapes.WorkflowConfigShape,
    )
    def put(self, request: Request) -> Response:
        """Replace the limits; a field that is left out takes its default."""
        sent = envelope(request, holds="configs")
        with faults_under("configs"):
            saved = services.put_workflow_config(document=sent.content, change=sent.change)
        return self._reply(saved)

    @extend_schema(
        operation_id="patch_workflow_config",
        parameters=[DRY_RUN, IF_MATCH],
        request=shapes.WorkflowConfigPatchShape,
        responses=shapes.WorkflowConfigShape,
    )
    def patch(self, request: Request) -> Response:
        """Change the given limits."""
        sent = envelope(request, holds="configs_dict")
        with faults_under("configs_dict"):
            saved = services.patch_workflow_config(changes=sent.content, change=sent.change)
        return self._reply(saved)

    def _reply(self, limits: tuple[WorkflowConfigDocument, int]) -> Response:
        document, revision = limits
        return Response(
            shapes.WorkflowConfigShape(**document.model_dump(), revision=revision), headers=etag(revision)
        )


class PoolsView(APIView):
    access = {"GET": LIST}

    @extend_schema(
        operation_id="list_pools", parameters=[POOLS, ALL_POOLS], responses=shapes.MinimalPoolsShape
    )
    def get(self, request: Request) -> Response:
        """List the pools the caller may use."""
        pools = selectors.pools_allowed_to(request.user, Action.POOL_LIST).order_by("name")
        names = request.query_params.getlist("pools")
        if names and not boolean_parameter(request, "all_pools"):
            pools = pools.filter(name__in=[name for name in names if "\0" not in name])
        now = timezone.now()
        rows = pools.prefetch_related("topology_keys", "platforms")
        return Response(
            shapes.MinimalPoolsShape(pools={row.name: show.minimal_pool(row, now=now) for row in rows})
        )


class PoolTopologyView(OwnView):
    access = {"GET": LIST}

    @extend_schema(operation_id="get_pool_topology", responses=shapes.PoolTopologyShape)
    def get(self, request: Request, name: str) -> Response:
        """Show a pool's topology keys, broadest first, with the live domains of each and their room."""
        pool = selectors.pool_visible_to(request.user, name, action=Action.POOL_LIST)
        reply = show.topology_of(pool, selectors.domains_of(pool), selectors.room_of(pool))
        return Response(reply, headers=etag(pool.revision))


class TopologyView(OwnView):
    access = {"GET": LIST}

    @extend_schema(operation_id="list_topology", responses=shapes.AllKeysShape)
    def get(self, request: Request) -> Response:
        """Show the topology keys of every pool the caller may use."""
        pools = selectors.pools_allowed_to(request.user, Action.POOL_LIST).order_by("name")
        rows = pools.prefetch_related("topology_keys")
        return Response(shapes.AllKeysShape(pools={row.name: show.keys_of(row) for row in rows}))


def _editable(rows: Sequence[Pool] | Any, request: Request) -> dict[str, shapes.PoolShape]:
    now = timezone.now()
    verbose = boolean_parameter(request, "verbose")
    return show.editable_pools(rows, now=now, verbose=verbose)
