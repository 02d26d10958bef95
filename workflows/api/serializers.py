"""The shapes of answers, for the schema; ``shapes`` makes them.

Declared with serializers because the schema's generator reads those. Nothing is rendered through them:
see ``shapes`` for why, and the tests for what keeps the two equal.
"""

from typing import Any

from rest_framework import serializers

from pools.api.serializers import ConditionSerializer
from workflows.explain.reasons import Why
from workflows.feasibility.pool_outcomes import OUTCOMES
from workflows.lifecycle.statuses import TaskStatus, WorkflowStatus
from workflows.models import Workflow


def _time(**options: Any) -> serializers.CharField:
    """OSMO's times bear no zone, so they are none of OpenAPI's ``date-time``."""
    return serializers.CharField(allow_null=True, help_text="ISO 8601, UTC without saying so.", **options)


def _null() -> serializers.CharField:
    return serializers.CharField(allow_null=True, help_text="OSMO's field; null here.")


class SetMember(serializers.Serializer[Any]):
    key = serializers.CharField()
    group = serializers.CharField()


class AppliedConstraint(serializers.Serializer[Any]):
    """One requirement as its scheduler was told it."""

    set = SetMember(many=True, help_text="The co-location set, broadest key first; empty: the whole group.")
    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # a declared field, taken off the class
    requirementType = serializers.ChoiceField(choices=("required", "preferred"))  # noqa: N815 -- OSMO's name
    tasks = serializers.IntegerField()
    subgroup = serializers.CharField(allow_blank=True)
    held_by = serializers.CharField(allow_null=True, help_text="The narrower key that implies this one.")
    waitSeconds = serializers.FloatField(  # noqa: N815 -- as users write it
        required=False, help_text="A preference held as required for so long; only where one was asked for."
    )
    relaxed = serializers.BooleanField(required=False, help_text="Whether that time is over.")


class GroupConstraints(serializers.Serializer[Any]):
    group = serializers.CharField()
    constraints = AppliedConstraint(many=True)


class Holder(serializers.Serializer[Any]):
    name = serializers.CharField()
    nodes = serializers.IntegerField()
    until = _time()


class DomainRoom(serializers.Serializer[Any]):
    """A domain as one set sees it, counted in tasks as large as the set's largest."""

    path = serializers.ListField(child=serializers.CharField(), help_text="Empty: the whole pool.")
    free = serializers.IntegerField()
    empty = serializers.IntegerField(help_text="If nothing ran there and every node took work.")
    missing = serializers.IntegerField()
    closed = serializers.IntegerField(help_text="Nodes that take no work.")
    holders = Holder(
        many=True, help_text="Those who end soonest first; other tenants' pods are one, by that name."
    )
    free_at = _time()


class SetFit(serializers.Serializer[Any]):
    """A set with a required level, or the whole group."""

    path = SetMember(many=True)
    alike = serializers.IntegerField(help_text="So many sets are told in one.")
    key = serializers.CharField(allow_null=True)
    label = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # a declared field
    tasks = serializers.IntegerField()
    domains = serializers.IntegerField()
    fit_now = serializers.IntegerField(help_text="Domains that could hold it now, were it alone.")
    fit_empty = serializers.IntegerField(help_text="Domains that could hold it when empty.")
    unlabelled = serializers.IntegerField(help_text="Nodes with room that lack a label.")
    nearest = DomainRoom(many=True)


class GroupFeasibility(serializers.Serializer[Any]):
    """Whether a group would be placed; the scheduler decides. ``sets`` is empty where it fits now.

    ``unknown``: no node for its tasks has been seen; ``sentence`` says why.
    """

    group = serializers.CharField()
    verdict = serializers.ChoiceField(choices=("never", "not_now", "now", "unknown"))
    sentence = serializers.CharField()
    proven = serializers.BooleanField(
        help_text="False: not_now may in truth be never, or now hangs on an order that is not known."
    )
    another_order = serializers.BooleanField(help_text="It would fit, were its sets placed in another order.")
    tasks = serializers.IntegerField()
    room = serializers.IntegerField(
        help_text="For how many tasks as large as its largest the pool has room now, wherever they stand."
    )
    scheduler = serializers.CharField()
    nodes = serializers.IntegerField()
    nodes_synced_at = _time()
    others_known = serializers.BooleanField(help_text="False: what other tenants' pods hold counts as free.")
    age_seconds = serializers.FloatField(allow_null=True)
    places = serializers.DictField(
        child=serializers.CharField(), allow_null=True, help_text="Node by task; null for a large group."
    )
    sets = SetFit(many=True)


class GroupExplanation(serializers.Serializer[Any]):
    group = serializers.CharField()
    status = serializers.ChoiceField(choices=TaskStatus.choices)
    why = serializers.ChoiceField(
        choices=[one.value for one in Why], help_text="The first obstacle on its way."
    )
    sentence = serializers.CharField()
    since = _time()
    help = serializers.CharField(help_text="What would help.")
    evidence = serializers.DictField(
        help_text="What the reason rests on, as data; docs/reference/explain.md."
    )
    feasibility = GroupFeasibility(allow_null=True, help_text="Where a place is what it lacks.")
    conditions = ConditionSerializer(many=True)


class Explanation(serializers.Serializer[Any]):
    name = serializers.CharField()
    status = serializers.ChoiceField(choices=WorkflowStatus.choices)
    sentence = serializers.CharField(help_text="How it stands, in one line.")
    groups = GroupExplanation(many=True, help_text="Those that wait.")


class SubmitReply(serializers.Serializer[Any]):
    """Exactly one of ``logs`` and ``spec`` is not null. ``objects`` is there for a dry run."""

    name = serializers.CharField()
    overview = serializers.CharField()
    logs = serializers.CharField(allow_null=True)
    spec = serializers.CharField(allow_null=True)
    dashboard_url = serializers.CharField(allow_null=True)
    warnings = serializers.ListField(child=serializers.CharField())
    constraints = GroupConstraints(many=True)
    feasibility = GroupFeasibility(many=True)
    objects = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="Whole manifests, in order of creation."
    )


class ListedWorkflow(serializers.Serializer[Any]):
    user = serializers.CharField()
    name = serializers.CharField()
    workflow_uuid = serializers.CharField()
    submit_time = _time()
    start_time = _time()
    end_time = _time()
    queued_time = serializers.FloatField(help_text="Seconds.")
    duration = serializers.FloatField(allow_null=True, help_text="Seconds.")
    status = serializers.ChoiceField(choices=WorkflowStatus.choices)
    overview = serializers.CharField()
    logs = serializers.CharField()
    error_logs = serializers.CharField()
    grafana_url = serializers.CharField(allow_null=True)
    dashboard_url = serializers.CharField(allow_null=True)
    pool = serializers.CharField()
    app_owner = _null()
    app_name = _null()
    app_version = _null()
    priority = serializers.ChoiceField(choices=Workflow.Priority.choices)
    labels = serializers.DictField(child=serializers.CharField())


class WorkflowList(serializers.Serializer[Any]):
    workflows = ListedWorkflow(many=True)
    more_entries = serializers.BooleanField()


class TaskReply(serializers.Serializer[Any]):
    name = serializers.CharField()
    retry_id = serializers.IntegerField()
    status = serializers.ChoiceField(choices=TaskStatus.choices)
    failure_message = serializers.CharField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    logs = serializers.CharField()
    error_logs = serializers.CharField()
    processing_start_time = _time()
    scheduling_start_time = _time()
    initializing_start_time = _time()
    events = serializers.CharField()
    start_time = _time()
    end_time = _time()
    input_download_start_time = _null()
    input_download_end_time = _null()
    output_upload_start_time = _null()
    dashboard_url = _null()
    pod_name = serializers.CharField()
    pod_ip = serializers.CharField(allow_null=True)
    task_uuid = serializers.CharField()
    node_name = serializers.CharField(allow_null=True)
    lead = serializers.BooleanField()


class ComputeDomainReply(serializers.Serializer[Any]):
    name = serializers.CharField()
    namespace = serializers.CharField()
    claim_template = serializers.CharField()
    present = serializers.BooleanField(help_text="Whether it was there when last observed.")
    deleting = serializers.BooleanField()
    seen_at = _time()


class PatienceReply(serializers.Serializer[Any]):
    stage = serializers.IntegerField(help_text="How many relaxations were decided; never falls.")
    unplaced_since = _time()
    next_relaxation_at = _time()


class DomainTasks(serializers.Serializer[Any]):
    path = serializers.ListField(child=serializers.CharField(), help_text="Label values, broadest first.")
    tasks = serializers.IntegerField()


class SetGot(serializers.Serializer[Any]):
    """Where one co-location set stands, at one level that it named."""

    path = SetMember(many=True)
    key = serializers.CharField()
    required = serializers.BooleanField()  # type: ignore[assignment]  # a declared field, taken off the class
    outcome = serializers.ChoiceField(choices=OUTCOMES)
    domains = DomainTasks(many=True, help_text="Those it stands in; at most 20 are kept.")
    domain_count = serializers.IntegerField()
    outside = serializers.IntegerField(help_text="Tasks on nodes without the label.")


class GotReply(serializers.Serializer[Any]):
    """What a group got of what it asked for, when it was last placed."""

    outcome = serializers.ChoiceField(choices=OUTCOMES)
    at = serializers.CharField()
    sets = SetGot(many=True)


class GroupReply(serializers.Serializer[Any]):
    name = serializers.CharField()
    uuid = serializers.CharField()
    status = serializers.ChoiceField(choices=TaskStatus.choices)
    start_time = _time()
    end_time = _time()
    processing_start_time = _time()
    scheduling_start_time = _time()
    initializing_start_time = _time()
    remaining_upstream_groups = serializers.ListField(child=serializers.CharField())
    downstream_groups = serializers.ListField(child=serializers.CharField())
    failure_message = serializers.CharField(allow_null=True)
    waiting_reason = serializers.CharField(allow_null=True, help_text="Why it waits, in plain words.")
    waiting_since = _time()
    constraints = AppliedConstraint(many=True)
    patience = PatienceReply(allow_null=True)
    got = GotReply(
        allow_null=True, help_text="Null before it is placed, and for a group that asked for nothing."
    )
    conditions = ConditionSerializer(many=True)
    compute_domain = ComputeDomainReply(allow_null=True)
    template_revisions = serializers.DictField(
        child=serializers.IntegerField(), help_text="Revisions of the pod templates it was accepted under."
    )
    created_in_cluster_at = _time()
    released_at = _time()
    tasks = TaskReply(many=True)


class Plugins(serializers.Serializer[Any]):
    rsync = serializers.BooleanField()


class WorkflowReply(serializers.Serializer[Any]):
    name = serializers.CharField()
    uuid = serializers.CharField()
    submitted_by = serializers.CharField()
    cancelled_by = serializers.CharField(allow_null=True)
    spec = serializers.CharField(help_text="Address of the spec.")
    template_spec = serializers.CharField(allow_null=True)
    logs = serializers.CharField()
    events = serializers.CharField()
    overview = serializers.CharField()
    parent_name = _null()
    parent_job_id = _null()
    dashboard_url = serializers.CharField(allow_null=True)
    grafana_url = serializers.CharField(allow_null=True)
    tags = serializers.ListField(child=serializers.CharField())
    submit_time = _time()
    start_time = _time()
    end_time = _time()
    exec_timeout = serializers.FloatField(help_text="Seconds.")
    queue_timeout = serializers.FloatField(help_text="Seconds.")
    duration = serializers.FloatField(allow_null=True, help_text="Seconds.")
    queued_time = serializers.FloatField(help_text="Seconds.")
    status = serializers.ChoiceField(choices=WorkflowStatus.choices)
    explanation = serializers.CharField(
        allow_null=True, help_text="How it stands, in one sentence; null where groups were left out."
    )
    outputs = _null()
    groups = GroupReply(many=True)
    pool = serializers.CharField()
    pool_revision = serializers.IntegerField()
    backend = serializers.CharField()
    app_owner = _null()
    app_name = _null()
    app_version = _null()
    plugins = Plugins()
    priority = serializers.ChoiceField(choices=Workflow.Priority.choices)
    labels = serializers.DictField(child=serializers.CharField())
    warnings = serializers.ListField(child=serializers.CharField())
    request_id = serializers.CharField(allow_null=True)


class CancelReply(serializers.Serializer[Any]):
    name = serializers.CharField()
