"""How far workflows of a pool had the topology that they requested, over REST."""

from dataclasses import asdict
from datetime import timedelta

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from pools.selectors import pool_visible_to
from web.access.permissions import Needs, caller
from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import Query
from web.rest.shapes import Shape, about
from workflows.feasibility.placement.pool_outcomes import outcomes_in

MOST_DAYS = 366


class DaysQuery(Query):
    days = serializers.IntegerField(
        min_value=1,
        max_value=MOST_DAYS,
        default=30,
        help_text="Count workflows submitted in the last so many days.",
    )


class GroupsByOutcomeShape(Shape):
    match: int = about("Every set as requested.")
    degraded: int = about("A preference was missed.")
    violation: int = about("A requirement does not hold.")


class KeyOutcomesShape(Shape):
    key: str
    required: int = about("Sets placed that required it.")
    required_held: int
    preferred: int = about("Sets placed that preferred it.")
    preferred_had: int


class PoolOutcomesShape(Shape):
    pool: str
    days: int
    groups: GroupsByOutcomeShape
    keys: list[KeyOutcomesShape]


class OutcomesView(OwnView):
    access = {"GET": Needs(Action.WORKFLOW_LIST, on=None)}

    @extend_schema(operation_id="get_pool_outcomes", parameters=[DaysQuery], responses=PoolOutcomesShape)
    def get(self, request: Request, pool: str) -> Response:
        """Count how often groups of the pool had what they required and preferred, key by key."""
        days = DaysQuery.of(request)["days"]
        row = pool_visible_to(caller(request), pool, action=Action.WORKFLOW_LIST)
        outcomes = outcomes_in(row.name, since=timezone.now() - timedelta(days=days))
        reply = PoolOutcomesShape(
            pool=row.name,
            days=days,
            groups=GroupsByOutcomeShape(**outcomes.groups),
            keys=[KeyOutcomesShape(**asdict(key)) for key in outcomes.keys],
        )
        return Response(reply)
