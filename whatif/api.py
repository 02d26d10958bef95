"""What would become of what waits in a pool, over REST: a POST for its body; it writes nothing."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools.selectors import pool_visible_to
from scheduling.levels import Level
from web.access import grants_of
from web.permissions import Needs
from web.policy import Action, refusal
from web.queries import NoQuery, StrictForm, valid_values
from web.throttles import SubmitThrottle
from whatif.asked import MOST_ADDED, Asked, NewNodes
from whatif.compare import Change, Compared, WhatIf, what_if
from whatif.standing import Judged, Standing
from workflows.api.fit import FragmentsSerializer, age_shown, fragments_shown

_MOST = 1000


def _label_value(**options: Any) -> serializers.CharField:
    return serializers.CharField(max_length=316, allow_blank=True, **options)


class NewNodesBody(StrictForm):
    """Nodes like a known one, or with amounts of their own."""

    count = serializers.IntegerField(min_value=1, max_value=MOST_ADDED, default=1)
    like = serializers.CharField(
        max_length=253,
        default="",
        allow_blank=True,
        help_text="A node whose labels, taints and amounts they have.",
    )
    labels = serializers.DictField(child=_label_value(), default=dict, help_text="Over those of that node.")
    allocatable = serializers.DictField(
        child=serializers.CharField(max_length=40),
        default=dict,
        help_text='As Kubernetes writes it: {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}.',
    )


class KeyBody(StrictForm):
    key = serializers.CharField(max_length=63)
    label = serializers.CharField(max_length=316)  # type: ignore[assignment]  # a declared field


class WhatIfBody(StrictForm):
    """What would be otherwise; everything left out stays as it is."""

    drain = serializers.ListField(
        child=serializers.DictField(child=_label_value()),
        max_length=_MOST,
        default=list,
        help_text='Domains by key, such as {"zone": "a", "rack": "r1"}: their nodes are gone.',
    )
    drain_nodes = serializers.ListField(
        child=serializers.CharField(max_length=253),
        max_length=_MOST,
        default=list,
        help_text="Nodes by name.",
    )
    add_nodes = serializers.ListField(child=NewNodesBody(), max_length=20, default=list)
    topology_keys = serializers.ListField(
        child=KeyBody(),
        default=None,
        allow_null=True,
        max_length=100,
        help_text="The pool's keys, broadest first; null leaves them.",
    )
    backend = serializers.CharField(
        max_length=63, default="", allow_blank=True, help_text="The pool would be on this backend."
    )
    move_to = serializers.CharField(
        max_length=63, default="", allow_blank=True, help_text="What waits would be submitted to this pool."
    )
    without = serializers.ListField(
        child=serializers.CharField(max_length=80),
        max_length=_MOST,
        default=list,
        help_text="Workflows that end.",
    )


class JudgedSerializer(serializers.Serializer[Any]):
    verdict = serializers.ChoiceField(choices=[one.value for one in Standing])
    sentence = serializers.CharField()
    proven = serializers.BooleanField()


class ComparedSerializer(serializers.Serializer[Any]):
    workflow = serializers.CharField(
        allow_null=True, help_text="Null where you may not list the pool's work."
    )
    group = serializers.CharField()
    tasks = serializers.IntegerField()
    change = serializers.ChoiceField(choices=[one.value for one in Change])
    before = JudgedSerializer()
    after = JudgedSerializer()


class CountsSerializer(serializers.Serializer[Any]):
    """How many of the groups judged: fit now, become possible, have to wait, become impossible, stay."""

    fits = serializers.IntegerField()
    possible = serializers.IntegerField()
    waits = serializers.IntegerField()
    impossible = serializers.IntegerField()
    same = serializers.IntegerField()


class BothSerializer(serializers.Serializer[Any]):
    before = FragmentsSerializer()
    after = FragmentsSerializer()


class WhatIfReply(serializers.Serializer[Any]):
    pool = serializers.CharField()
    scheduler = serializers.CharField()
    nodes_synced_at = serializers.CharField(allow_null=True)
    age_seconds = serializers.FloatField(allow_null=True)
    waiting = serializers.IntegerField(help_text="Groups that would wait still.")
    left_out = serializers.IntegerField(help_text="Those of them that were not judged: the later ones.")
    summary = CountsSerializer()
    groups = ComparedSerializer(many=True, help_text="The longest waiting first.")
    fragmentation = BothSerializer()
    drained = serializers.IntegerField(help_text="Nodes.")
    displaced = serializers.ListField(
        child=serializers.CharField(), help_text="Workflows that stand on drained nodes."
    )
    notes = serializers.ListField(child=serializers.CharField())


def asked_in(data: Any) -> Asked:
    """The document, read strictly. Raises ValidationError with everything that is wrong in its shape."""
    said = valid_values(WhatIfBody(data=data))
    keys = said["topology_keys"]
    return Asked(
        drain=tuple(said["drain"]),
        drain_nodes=tuple(said["drain_nodes"]),
        add_nodes=tuple(NewNodes(**one) for one in said["add_nodes"]),
        topology_keys=None if keys is None else tuple(Level(one["key"], one["label"]) for one in keys),
        backend=said["backend"],
        move_to=said["move_to"],
        without=tuple(said["without"]),
    )


class WhatIfView(APIView):
    access = {"POST": Needs(Action.CONFIG_READ, on=None)}
    throttle_classes = [SubmitThrottle]

    @extend_schema(operation_id="pool_what_if", request=WhatIfBody, responses={200: WhatIfReply})
    def post(self, request: Request, pool: str) -> Response:
        """Say what would become of the groups that wait, with other nodes or keys. Writes nothing."""
        NoQuery.of(request)
        row = pool_visible_to(request.user, pool, action=Action.CONFIG_READ)
        asked = asked_in(request.data)
        names = grants_of(request.user).allows(Action.WORKFLOW_LIST, f"pool/{row.name}")
        if asked.without and not names:
            raise refusal(Action.WORKFLOW_LIST, f"pool/{row.name}")
        return Response(shown(what_if(row, asked, user=request.user, names=names)))


def shown(found: WhatIf) -> dict[str, Any]:
    return {
        "pool": found.pool,
        "scheduler": found.scheduler,
        **age_shown(found.synced_at, now=timezone.now()),
        "waiting": found.waiting,
        "left_out": found.left_out,
        "summary": {change.value: count for change, count in found.counts().items()},
        "groups": [_compared(one) for one in found.groups],
        "fragmentation": {"before": fragments_shown(found.before), "after": fragments_shown(found.after)},
        "drained": found.drained,
        "displaced": list(found.displaced),
        "notes": notes_of(found),
    }


def notes_of(found: WhatIf) -> list[str]:
    """What a reader of the verdicts must know."""
    said = ["Each group is judged as if it came alone; quotas and priorities do not count."]
    if not found.others_known:
        said.append("What pods of others hold of the nodes is not known, so it counts as free.")
    if found.anew:
        said.append(
            "Keys, backend and pool are frozen in what waits: after is what would become of the same tasks "
            "submitted anew."
        )
    if found.left_out:
        said.append(
            f"{found.left_out} of {found.waiting} groups that wait were not judged: the last to come."
        )
    return said


def _compared(one: Compared) -> dict[str, Any]:
    return {
        "workflow": one.workflow or None,
        "group": one.group,
        "tasks": one.tasks,
        "change": one.change.value,
        "before": _judged(one.before),
        "after": _judged(one.after),
    }


def _judged(one: Judged) -> dict[str, Any]:
    return {"verdict": one.standing.value, "sentence": one.sentence, "proven": one.proven}
