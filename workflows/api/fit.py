"""What fits into a pool, over REST: how its free nodes are spread over domains."""

from datetime import datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools.selectors import pool_visible_to
from scheduling.fit.fragmentation import LevelSlots
from web.permissions import Needs
from web.policy import Action
from web.queries import NoQuery
from web.times import naive_utc
from workflows.feasibility.fragmentation import PoolFragments, pool_fragments


class SlotSerializer(serializers.Serializer[Any]):
    size = serializers.IntegerField(help_text="Whole free nodes in one domain: 1, 2, 4, 8, ...")
    count = serializers.IntegerField(help_text="How many such groups fit at once.")


class KeySlotsSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # a declared field, taken off the class
    domains = serializers.IntegerField()
    free = serializers.IntegerField(help_text="Whole free nodes that stand in some domain.")
    unlabelled = serializers.IntegerField(help_text="Whole free nodes that stand in none.")
    largest = serializers.IntegerField(help_text="The largest group of whole nodes that fits in one domain.")
    domain = serializers.ListField(
        child=serializers.CharField(), help_text="That domain's label values, broadest first."
    )
    slots = SlotSerializer(many=True)


class FragmentsSerializer(serializers.Serializer[Any]):
    """A pool's free nodes by the domains of its keys; keys run broadest first."""

    nodes = serializers.IntegerField()
    free = serializers.IntegerField(help_text="Nodes that take work and are wholly free.")
    keys = KeySlotsSerializer(many=True)


class FragmentationSerializer(FragmentsSerializer):
    pool = serializers.CharField()
    nodes_synced_at = serializers.CharField(allow_null=True, help_text="Null: the nodes were never listed.")
    age_seconds = serializers.FloatField(allow_null=True)


def fragments_shown(found: PoolFragments) -> dict[str, Any]:
    return {"nodes": found.nodes, "free": found.free, "keys": [_key(one) for one in found.keys]}


def age_shown(synced_at: datetime | None, *, now: datetime) -> dict[str, Any]:
    age = max(0.0, (now - synced_at).total_seconds()) if synced_at else None
    return {"nodes_synced_at": naive_utc(synced_at), "age_seconds": age}


def _key(one: LevelSlots) -> dict[str, Any]:
    return {
        "key": one.key,
        "label": one.label,
        "domains": one.domains,
        "free": one.free,
        "unlabelled": one.unlabelled,
        "largest": one.largest,
        "domain": list(one.domain),
        "slots": [{"size": size, "count": count} for size, count in one.slots.items()],
    }


class FragmentationView(APIView):
    access = {"GET": Needs(Action.POOL_LIST, on=None)}

    @extend_schema(operation_id="get_pool_fragmentation", responses=FragmentationSerializer)
    def get(self, request: Request, pool: str) -> Response:
        """Show how a pool's free nodes are spread over the domains of each of its keys."""
        NoQuery.of(request)
        row = pool_visible_to(request.user, pool, action=Action.POOL_LIST)
        found = pool_fragments(row)
        age = age_shown(found.synced_at, now=timezone.now())
        return Response({"pool": row.name, **age, **fragments_shown(found)})
