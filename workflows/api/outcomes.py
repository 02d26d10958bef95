"""What workflows of a pool got of the topology that they asked for, over REST."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools.selectors import pool_visible_to
from web.permissions import Needs, caller
from web.policy import Action
from web.queries import Query
from workflows.feasibility.pool_outcomes import outcomes_in

MOST_DAYS = 366


class DaysQuery(Query):
    days = serializers.IntegerField(
        min_value=1, max_value=MOST_DAYS, default=30, help_text="Of workflows submitted in so many last days."
    )


class GroupsByOutcome(serializers.Serializer[Any]):
    match = serializers.IntegerField(help_text="Every set as asked.")
    degraded = serializers.IntegerField(help_text="A preference was missed.")
    violation = serializers.IntegerField(help_text="A requirement does not hold.")


class KeyOutcomesReply(serializers.Serializer[Any]):
    key = serializers.CharField()
    required = serializers.IntegerField(  # type: ignore[assignment]  # a declared field, taken off the class
        help_text="Sets placed that required it."
    )
    required_held = serializers.IntegerField()
    preferred = serializers.IntegerField(help_text="Sets placed that preferred it.")
    preferred_had = serializers.IntegerField()


class OutcomesReply(serializers.Serializer[Any]):
    pool = serializers.CharField()
    days = serializers.IntegerField()
    groups = GroupsByOutcome()
    keys = KeyOutcomesReply(many=True)


class OutcomesView(APIView):
    access = {"GET": Needs(Action.WORKFLOW_LIST, on=None)}

    @extend_schema(operation_id="get_pool_outcomes", parameters=[DaysQuery], responses=OutcomesReply)
    def get(self, request: Request, pool: str) -> Response:
        """Count what groups of the pool got of what they required and preferred, key by key."""
        days = DaysQuery.of(request)["days"]
        row = pool_visible_to(caller(request), pool, action=Action.WORKFLOW_LIST)
        found = outcomes_in(row.name, days=days)
        keys = [asdict(one) for one in found.keys]
        return Response({"pool": row.name, "days": days, "groups": found.groups, "keys": keys})
