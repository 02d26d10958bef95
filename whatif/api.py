"""What-if over REST: the effect of a scenario on the groups that wait. A POST that writes nothing."""

from typing import Annotated, Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.shapes import OwnObservedShape
from pools.selectors import pool_visible_to
from scheduling.topology.levels import Level
from web.access.permissions import Needs
from web.access.rights import grants_of
from web.limits.throttles import SubmitThrottle
from web.policy import Action, refusal
from web.rest.own import OwnView
from web.rest.queries import NoQuery, StrictForm, valid_values
from web.rest.shapes import Shape, about, choice
from whatif.comparison import Effect, GroupComparison, WhatIf, what_if
from whatif.judgement import Judgement, Prospect
from whatif.scenario import MOST_ADDED, NewNodes, Scenario
from workflows.api.fit import FragmentsShape, fragments_shape

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


class JudgementShape(Shape):
    verdict: Annotated[str, choice(prospect.value for prospect in Prospect)]
    sentence: str
    proven: bool


class GroupComparisonShape(Shape):
    workflow: str | None = about("Null where you may not list the pool's work.")
    group: str
    tasks: int
    change: Annotated[str, choice(effect.value for effect in Effect)]
    before: JudgementShape
    after: JudgementShape


class EffectCountsShape(Shape):
    """How many of the groups judged: fit now, become possible, have to wait, become impossible, stay."""

    fits: int
    possible: int
    waits: int
    impossible: int
    same: int


class FragmentationChangeShape(Shape):
    before: FragmentsShape
    after: FragmentsShape


class WhatIfShape(OwnObservedShape):
    pool: str
    scheduler: str
    waiting: int = about("Groups that would still wait.")
    left_out: int = about("How many of them were not judged: the newest ones.")
    summary: EffectCountsShape
    groups: list[GroupComparisonShape] = about("The group that has waited longest comes first.")
    fragmentation: FragmentationChangeShape
    drained: int = about("Nodes.")
    displaced: list[str] = about("Workflows with tasks on drained nodes.")
    notes: list[str]


def scenario_in(data: Any) -> Scenario:
    """Read a scenario strictly. Raises ValidationError with every fault of its shape."""
    body = valid_values(WhatIfBody(data=data))
    keys = body["topology_keys"]
    return Scenario(
        drain=tuple(body["drain"]),
        drain_nodes=tuple(body["drain_nodes"]),
        add_nodes=tuple(NewNodes(**nodes) for nodes in body["add_nodes"]),
        topology_keys=None if keys is None else tuple(Level(level["key"], level["label"]) for level in keys),
        backend=body["backend"],
        move_to=body["move_to"],
        without=tuple(body["without"]),
    )


class WhatIfView(OwnView):
    access = {"POST": Needs(Action.CONFIG_READ, on=None)}
    throttle_classes = [SubmitThrottle]

    @extend_schema(operation_id="predict_groups", request=WhatIfBody, responses={200: WhatIfShape})
    def post(self, request: Request, pool: str) -> Response:
        """Predict the effect of other nodes or keys on the groups that wait. Nothing is written."""
        NoQuery.of(request)
        row = pool_visible_to(request.user, pool, action=Action.CONFIG_READ)
        scenario = scenario_in(request.data)
        names = grants_of(request.user).allows(Action.WORKFLOW_LIST, f"pool/{row.name}")
        if scenario.without and not names:
            raise refusal(Action.WORKFLOW_LIST, f"pool/{row.name}")
        return Response(shape_of(what_if(row, scenario, user=request.user, names=names)))


def shape_of(result: WhatIf) -> WhatIfShape:
    return WhatIfShape(
        pool=result.pool,
        scheduler=result.scheduler,
        **result.freshness.as_json(),
        waiting=result.waiting,
        left_out=result.left_out,
        summary=EffectCountsShape(**{effect.value: count for effect, count in result.counts().items()}),
        groups=[_comparison(group) for group in result.groups],
        fragmentation=FragmentationChangeShape(
            before=fragments_shape(result.before), after=fragments_shape(result.after)
        ),
        drained=result.drained,
        displaced=list(result.displaced),
        notes=notes_of(result),
    )


def notes_of(result: WhatIf) -> list[str]:
    """Notes without which the verdicts would be misread."""
    notes = ["Each group is judged as if it came alone; quotas and priorities do not count."]
    if not result.others_known:
        notes.append("The usage of other tenants' pods is unknown, so it counts as free.")
    if result.resubmits:
        notes.append(
            "Keys, backend and pool of a waiting group are frozen: after is the verdict on the same tasks "
            "submitted anew."
        )
    if result.left_out:
        notes.append(
            f"{result.left_out} of {result.waiting} waiting groups were not judged: the newest ones."
        )
    return notes


def _comparison(group: GroupComparison) -> GroupComparisonShape:
    return GroupComparisonShape(
        workflow=group.workflow or None,
        group=group.group,
        tasks=group.tasks,
        change=group.effect.value,
        before=_judgement(group.before),
        after=_judgement(group.after),
    )


def _judgement(judgement: Judgement) -> JudgementShape:
    return JudgementShape(
        verdict=judgement.prospect.value, sentence=judgement.sentence, proven=judgement.proven
    )
