"""The parameters and bodies of requests about workflows."""

from typing import Any

from rest_framework import serializers

from web.queries import Query, StrictForm, flag, texts
from workflows.lifecycle.statuses import WorkflowStatus
from workflows.models import Workflow
from workflows.selectors import MAX_PAGE, WorkflowFilter


def _pairs(help_text: str) -> serializers.ListField:
    child = serializers.CharField(trim_whitespace=False)
    return serializers.ListField(
        child=child, required=False, allow_null=True, max_length=1000, help_text=help_text
    )


class SubmitBody(StrictForm):
    """What OSMO's client sends."""

    file = serializers.CharField(
        trim_whitespace=False, help_text="The workflow as YAML, or a template of it."
    )
    set_variables = _pairs("name=value for the template; numbers become numbers.")
    set_string_variables = _pairs("name=value for the template; always text.")
    uploaded_templated_spec = serializers.CharField(
        required=False,
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        help_text="The template, when file is already rendered; kept and shown, never read.",
    )


class SubmitQuery(Query):
    dry_run = flag("Check everything and show the objects; make nothing.")
    validation_only = flag("Check everything; make nothing.")
    feasibility = serializers.ChoiceField(
        choices=("", "only"), default="", help_text="only: check and say whether it would fit; make nothing."
    )
    force_infeasible = flag("Accept it although no domain of the pool is large enough.")
    workflow_id = serializers.CharField(
        default="", max_length=80, help_text="Submits this workflow's spec again; without a body."
    )
    priority = serializers.ChoiceField(
        choices=Workflow.Priority.choices,
        default=None,
        help_text="Left out: NORMAL, or that of the workflow that is submitted again.",
    )
    label = texts(  # type: ignore[assignment]  # a declared field, taken off the class
        "key=value, laid over the labels of the spec; may be repeated."
    )
    env_vars = texts(
        "NAME=value, laid over the environment of every task; may be repeated.", max_length=65536
    )


class WorkflowListQuery(Query):
    limit = serializers.IntegerField(min_value=1, max_value=MAX_PAGE, default=20)
    offset = serializers.IntegerField(min_value=0, max_value=10_000_000, default=0)
    order = serializers.ChoiceField(
        choices=("ASC", "DESC"), default="DESC", help_text="By time of submission."
    )
    users = texts("Submitted by one of these; left out: by the caller, unless all_users is given.")
    all_users = flag("Whoever submitted it.")
    statuses = serializers.ListField(
        child=serializers.ChoiceField(choices=WorkflowStatus.choices), max_length=100, default=list
    )
    name = serializers.CharField(default="", max_length=80, help_text="Part of the workflow's name.")
    tags = texts("Carries all of these.")
    pools = texts("Submitted to one of these.")
    all_pools = flag("Whatever the pool; the same as leaving out pools.")
    app = texts("OSMO's apps are not kept here: any value matches nothing.")
    priority = serializers.ListField(
        child=serializers.ChoiceField(choices=Workflow.Priority.choices), max_length=3, default=list
    )
    label = texts(  # type: ignore[assignment]  # a declared field, taken off the class
        "key or key=value that it carries; may be repeated."
    )
    no_label = texts("key or key=value that it does not carry; may be repeated.")
    submitted_after = serializers.DateTimeField(default=None, help_text="UTC.")
    submitted_before = serializers.DateTimeField(default=None, help_text="UTC.")


def workflow_filter(query: dict[str, Any], *, user: str) -> WorkflowFilter:
    """What a list's query asks for; ``user`` is who asks."""
    users = tuple(query["users"])
    return WorkflowFilter(
        users=users if users or query["all_users"] else (user,),
        statuses=tuple(query["statuses"]),
        name=query["name"],
        tags=tuple(query["tags"]),
        pools=() if query["all_pools"] else tuple(query["pools"]),
        priorities=tuple(query["priority"]),
        labels=tuple(map(_pair, query["label"])),
        without_labels=tuple(map(_pair, query["no_label"])),
        submitted_after=query["submitted_after"],
        submitted_before=query["submitted_before"],
    )


def _pair(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    return key, value if equals else None


class DetailQuery(Query):
    verbose = flag("Every try of each task, not only the latest.")
    skip_groups = flag("Without groups and tasks.")


class SpecQuery(Query):
    use_template = flag("As it was before templating, where it was templated.")


class LinesQuery(Query):
    """For logs and events."""

    last_n_lines = serializers.IntegerField(min_value=1, max_value=1_000_000, default=None)
    task_name = serializers.CharField(default="", max_length=64)
    retry_id = serializers.IntegerField(min_value=0, max_value=2**31 - 1, default=None)


class LogsQuery(LinesQuery):
    follow = serializers.BooleanField(
        default=None,
        allow_null=True,
        help_text="Go on with lines as they come until the workflow ends. Left out: if the workflow has not "
        "ended and last_n_lines is not given.",
    )


class CancelQuery(Query):
    force = flag("Without waiting for containers to end.")
    message = serializers.CharField(default="", max_length=1000, help_text="Why; shown with the workflow.")
