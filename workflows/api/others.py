"""Gangs that others submitted and that wait, over REST.

Their names are for callers with action ``cluster:Explain`` on the backend. Everybody else who may list one of
its pools reads how many wait; to all others there is no such backend.
"""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.shapes import OwnObservedShape
from pools.selectors import backend_explained_to
from web.access.permissions import Needs, caller
from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import NoQuery, Query
from web.rest.shapes import OwnInstant, Shape, about
from workflows.api.shapes import GroupFeasibilityShape, UnreadShape, VerdictText
from workflows.feasibility.others.judged import one_of_others, waiting

MOST_LISTED = 100
"""A verdict on each takes a while."""


class OthersGroupShape(Shape):
    """A gang that others submitted."""

    namespace: str
    name: str
    kind: str = about("The kind of its object: PodGroup or Workload.")
    owner_kind: str = about("What its pods belong to; empty for nothing.")
    owner_name: str
    queue: str
    priority: str = about("The name of its PriorityClass; empty for none.")
    since: OwnInstant | None = about("When its object was made.")
    tasks: int = about("Its pods that wait.")
    gpus: int = about("The GPUs of them.")
    minimum: int = about("How many pods its scheduler places together.")
    verdict: VerdictText
    sentence: str = about("Why it waits.")
    scheduler_report: str = about("The words of its scheduler; empty for none.")


class OthersWaitingShape(OwnObservedShape):
    backend: str
    scheduler: str
    follows_others: bool
    problem: str = about("Why not all of them are known; empty if all are.")
    count: int = about("All that wait and are kept.")
    omitted: int = about("Further ones, which are not kept because there are too many.")
    names_shown: bool = about("Whether you hold cluster:Explain on the backend; without it groups is empty.")
    groups: list[OthersGroupShape] = about("The oldest first.")
    more_entries: bool


class OneOfOthersShape(OthersGroupShape):
    backend: str
    scheduler: str
    faults: list[str] = about("What keeps it waiting for ever, whatever is free.")
    not_examined: list[UnreadShape] = about("What of its objects could not be read.")
    feasibility: GroupFeasibilityShape


class OthersQuery(Query):
    limit = serializers.IntegerField(min_value=1, max_value=MOST_LISTED, default=20)
    offset = serializers.IntegerField(min_value=0, max_value=1_000_000, default=0)


class OthersWaitingView(OwnView):
    access = {"GET": Needs(Action.POOL_LIST, on=None, instead=Action.CLUSTER_EXPLAIN)}

    @extend_schema(
        operation_id="list_waiting_of_others", parameters=[OthersQuery], responses=OthersWaitingShape
    )
    def get(self, request: Request, backend: str) -> Response:
        """List the groups of others that wait on a backend's cluster for its scheduler, and why."""
        query = OthersQuery.of(request)
        row, user = backend_explained_to(request.user, backend), caller(request)
        page = waiting(row, user, limit=query["limit"], offset=query["offset"])
        return Response(
            OthersWaitingShape(
                backend=row.name,
                scheduler=row.scheduler_type,
                follows_others=row.follow_others,
                problem=page.problem,
                count=page.count,
                omitted=page.omitted,
                names_shown=page.names_shown,
                groups=[OthersGroupShape(**judged.entry_json()) for judged in page.gangs],
                more_entries=page.more_entries,
                **page.freshness.as_json(),
            )
        )


class OneOfOthersView(OwnView):
    access = {"GET": Needs(Action.CLUSTER_EXPLAIN, on="backend/{backend}")}

    @extend_schema(operation_id="explain_group_of_others", responses=OneOfOthersShape)
    def get(self, request: Request, backend: str, namespace: str, name: str) -> Response:
        """Explain why a group of others waits."""
        NoQuery.of(request)
        row = backend_explained_to(request.user, backend)
        judged = one_of_others(row, caller(request), namespace=namespace, name=name)
        return Response(OneOfOthersShape(backend=row.name, scheduler=row.scheduler_type, **judged.as_json()))
