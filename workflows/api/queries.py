"""The parameters and bodies of requests about workflows."""

from typing import Any

from rest_framework import serializers

from web.rest.queries import LongText, Query, StrictForm, WordChoice, flag, texts
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

    file = LongText(trim_whitespace=False, help_text="The workflow as YAML, or a template of it.")
    set_variables = _pairs("name=value for the template; numbers become numbers.")
    set_string_variables = _pairs("name=value for the template; always text.")
    uploaded_templated_spec = LongText(
        required=False,
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        help_text="The template, when file is already rendered; kept and shown, never read.",
    )


class SubmitQuery(Query):
    dry_run = flag("Check everything and show the objects; create nothing.")
    expanded = flag("With dry_run: as `spec`, the plain OSMO document, with each task that a `count` makes.")
    validation_only = flag("Check everything; create nothing.")
    feasibility = WordChoice(
        choices=("", "only"),
        default="",
        help_text="only: check and report whether it would fit; create nothing.",
    )
    force_infeasible = flag("Accept it even if no domain of the pool is large enough.")
    workflow_id = serializers.CharField(
        default="",
        max_length=80,
        help_text="Submit the spec of this workflow again; the request has no body.",
    )
    priority = WordChoice(
        choices=Workflow.Priority.choices,
        default=None,
        help_text="Default: NORMAL, or the priority of the workflow that is submitted again.",
    )
    label = texts(  # type: ignore[assignment]  # a declared field, taken off the class
        "key=value, added to the labels of the spec and replacing those of the same key. May be repeated."
    )
    env_vars = texts("NAME=value, added to the environment of every task. May be repeated.", max_length=65536)


class ChoiceQuery(SubmitQuery):
    pools = texts(
        "The pools to choose from, separated by commas; any: all that you may submit to, up to 16. Default: "
        "what the document names, else your default pool."
    )


class WorkflowListQuery(Query):
    limit = serializers.IntegerField(min_value=1, max_value=MAX_PAGE, default=20)
    offset = serializers.IntegerField(min_value=0, max_value=10_000_000, default=0)
    order = WordChoice(choices=("ASC", "DESC"), default="DESC", help_text="Order by time of submission.")
    users = texts("Only those of these users. Default: the caller's, unless all_users is given.")
    all_users = flag("Of all users.")
    statuses = serializers.ListField(
        child=WordChoice(choices=WorkflowStatus.choices), max_length=100, default=list
    )
    name = serializers.CharField(default="", max_length=80, help_text="Part of the workflow's name.")
    tags = texts("Only those with all of these tags.")
    pools = texts("Only those submitted to these pools. May be repeated.")
    all_pools = flag("From all pools, as if pools were left out.")
    app = texts("OSMO's apps are not supported: any value matches nothing.")
    priority = serializers.ListField(
        child=WordChoice(choices=Workflow.Priority.choices), max_length=3, default=list
    )
    label = texts(  # type: ignore[assignment]  # a declared field, taken off the class
        "Only workflows with this label, key or key=value. May be repeated."
    )
    no_label = texts("Only workflows without this label, key or key=value. May be repeated.")
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


class GroupsQuery(Query):
    """A page of a workflow's groups."""

    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_PAGE, default=None, help_text="At most so many groups. Default: all."
    )
    offset = serializers.IntegerField(
        min_value=0, max_value=10_000_000, default=0, help_text="Groups to leave out before them."
    )


class DetailQuery(GroupsQuery):
    verbose = flag("Show every try of each task, not only the latest.")
    skip_groups = flag("Leave out groups and tasks.")


class SpecQuery(Query):
    use_template = flag("The spec before templating, where it was a template.")
    expanded = flag("The plain OSMO document, with each task that a `count` makes.")


class LinesQuery(Query):
    """For logs and events."""

    last_n_lines = serializers.IntegerField(min_value=1, max_value=1_000_000, default=None)
    task_name = serializers.CharField(
        default="",
        max_length=200,
        help_text="Only those of this task; of these (worker[0-3,7]), or of all that an entry's count makes.",
    )
    retry_id = serializers.IntegerField(min_value=0, max_value=2**31 - 1, default=None)


class LogsQuery(LinesQuery):
    follow = serializers.BooleanField(
        default=None,
        allow_null=True,
        help_text="Follow new lines until the workflow ends. Default: true if the workflow has not "
        "ended and last_n_lines is not given.",
    )


class CancelQuery(Query):
    force = flag("Do not wait for containers to end.")
    message = serializers.CharField(
        default="", max_length=1000, help_text="The reason, shown with the workflow."
    )
