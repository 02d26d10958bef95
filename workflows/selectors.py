"""Reads of workflows, each with a fixed number of queries and no call to a cluster.

A page reads one row more than its limit instead of counting. Large columns (the spec, frozen placements) stay
in the database unless they are the answer.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal
from uuid import UUID

from django.db import connection
from django.db.models import Count, F, Func, Q, QuerySet, TextField

from pools.models import Backend
from pools.selectors import Caller
from scheduling.errors import NotFound
from scheduling.gang.gang_form import GangForm
from web.access.rights import grants_of
from web.database.model_rows import Columns
from web.policy import Action, refusal
from workflows.homes import at_home
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_LIVE, WORKFLOW_TERMINAL, WorkflowStatus
from workflows.models import Attempt, Event, ObservedObject, Task, TaskGroup, Workflow
from workflows.name_search import name_contains
from workflows.nodes.hosts import host_names
from workflows.values.counted import names_in
from workflows.values.placement import (
    GroupPlacement,
    GroupValues,
    TaskPlacement,
    TaskTry,
    requirements_from_json,
)

MAX_PAGE = 1000

_LOG_COLUMNS = (
    "name", "task_uuid", "retry_id", "status", "pod_name", "exit_code", "failure_message",
    "scheduling_start_time", "log_state", "log_note", "group__workflow_id", "group__released_at",
)  # fmt: skip
COMPUTE_DOMAIN = "ComputeDomain"

_SUBMITTERS = """
    WITH RECURSIVE users AS (
        (SELECT submitted_by FROM workflows_workflow ORDER BY submitted_by LIMIT 1)
        UNION ALL
        SELECT (SELECT w.submitted_by FROM workflows_workflow w WHERE w.submitted_by > u.submitted_by
                 ORDER BY w.submitted_by LIMIT 1)
          FROM users u WHERE u.submitted_by IS NOT NULL)
    SELECT u.submitted_by FROM users u
     WHERE u.submitted_by IS NOT NULL
       AND (%(all)s OR EXISTS (SELECT 1 FROM workflows_workflow w
                                WHERE w.submitted_by = u.submitted_by AND w.pool_name = ANY(%(pools)s)))
"""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class UnknownWorkflow(NotFound):
    """No workflow of this name or uuid."""

    code = "DATABASE"  # what OSMO's client knows it by

    def __init__(self, identifier: str) -> None:
        super().__init__(f"There is no workflow {identifier[:80]!a}.")
        self.workflow_id = identifier[:80]


class UnknownTask(NotFound):
    """The workflow has no such task, group or try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFilter:
    """The filter of a list; empty means all."""

    users: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    name: str = ""
    tags: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()

    labels: tuple[tuple[str, str | None], ...] = ()
    """(Key, value or None for any), as ``without_labels`` are."""

    without_labels: tuple[tuple[str, str | None], ...] = ()
    submitted_after: datetime | None = None
    submitted_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkflowPage:
    workflows: list[Workflow]
    more: bool


def workflow_page(
    filters: WorkflowFilter, *, user: Caller, limit: int, offset: int, order: Literal["ASC", "DESC"]
) -> WorkflowPage:
    """One page of the workflows that the user may list, by time of submission. One query."""
    sign = "" if order == "ASC" else "-"
    rows = (
        _listable(user)
        .filter(_condition(filters))
        .select_related("backend")
        .defer("spec", "template_spec", "reply", "warnings")
        .order_by(f"{sign}submit_time", f"{sign}uuid")
    )
    workflows = list(rows[offset : offset + limit + 1])
    return WorkflowPage(workflows[:limit], more=len(workflows) > limit)


def waiting_reasons(workflows: Sequence[Workflow]) -> dict[UUID, str]:
    """The reason of each workflow's first waiting group, by workflow. A query if any of them is live."""
    live = [workflow.pk for workflow in workflows if workflow.status not in WORKFLOW_TERMINAL]
    if not live:
        return {}
    rows = TaskGroup.objects.filter(workflow__in=live, status__in=LIVE_ORDER).exclude(waiting_reason="")
    first = rows.order_by("workflow_id", "position").distinct("workflow_id")
    return dict(first.values_list("workflow_id", "waiting_reason"))


def waiting_groups_by_pool(pools: Sequence[str]) -> dict[str, int]:
    """How many task groups wait in each of these pools; none for a pool without any. One query."""
    rows = TaskGroup.objects.filter(
        workflow__pool_name__in=pools, workflow__status__in=WORKFLOW_LIVE, waiting_since__isnull=False
    )
    counted = rows.order_by().values("workflow__pool_name").annotate(groups=Count("pk"))
    return dict(counted.values_list("workflow__pool_name", "groups"))


MOST_WITH_NODES = 100
"""Workflows of a list of which nodes are counted."""


def node_counts(workflows: Sequence[Workflow]) -> dict[UUID, int]:
    """The nodes that the tasks of running workflows hold, of the first ones. A query if any runs."""
    running = [row.pk for row in workflows[:MOST_WITH_NODES] if row.status == WorkflowStatus.RUNNING]
    if not running:
        return {}
    rows = Task.objects.filter(group__workflow__in=running, status__in=LIVE_ORDER).exclude(node_name="")
    counted = rows.order_by().values("group__workflow_id").annotate(nodes=Count("node_name", distinct=True))
    return dict(counted.values_list("group__workflow_id", "nodes"))


def _condition(filters: WorkflowFilter) -> Q:
    condition = Q()
    for lookup, values in (
        ("submitted_by__in", filters.users),
        ("status__in", filters.statuses),
        ("pool_name__in", filters.pools),
        ("priority__in", filters.priorities),
        ("submit_time__gte", filters.submitted_after),
        ("submit_time__lte", filters.submitted_before),
    ):
        if values:
            condition &= Q(**{lookup: values})
    if filters.name:
        condition &= name_contains(filters.name)
    for tag in filters.tags:
        condition &= Q(tags__contains=[tag])
    for key, value in filters.labels:
        condition &= _label(key, value)
    for key, value in filters.without_labels:
        condition &= ~_label(key, value)
    return condition


def _label(key: str, value: str | None) -> Q:
    return Q(labels__has_key=key) if value is None else Q(labels__contains={key: value})


def tags_in_use(user: Caller, *, limit: int, offset: int) -> list[str]:
    """A page of the tags of workflows that the user may list, in order. One query."""
    rows = _listable(user).exclude(tags=[])
    tag = Func("tags", function="jsonb_array_elements_text", output_field=TextField())
    tags = rows.annotate(tag=tag).values_list("tag", flat=True).distinct().order_by("tag")
    return list(tags[offset : offset + limit])


def submitters(user: Caller) -> list[str]:
    """Everybody who submitted a workflow that the user may list, in order. One query.

    It steps from user to user along an index, however many workflows each of them has.
    """
    pools = grants_of(user).names("pool", {Action.WORKFLOW_LIST})
    with connection.cursor() as cursor:
        cursor.execute(_SUBMITTERS, {"all": pools is None, "pools": sorted(pools or ())})
        return sorted(row[0] for row in cursor.fetchall())


def _listable(user: Caller) -> QuerySet[Workflow]:
    pools = grants_of(user).names("pool", {Action.WORKFLOW_LIST})
    return Workflow.objects.all() if pools is None else Workflow.objects.filter(pool_name__in=pools)


_WORKFLOW, _BACKEND = Columns(Workflow, without=("reply",)), Columns(Backend)
_WORKFLOW_BY = f"""
    SELECT {_WORKFLOW.sql("w")}, {_BACKEND.sql("b")}
      FROM workflows_workflow AS w JOIN pools_backend AS b ON b.id = w.backend_id WHERE w"""  # noqa: S608 -- names


def workflow_known_as(identifier: str, *, user: Caller, action: Action) -> Workflow:
    """The workflow of this name or uuid, with its backend, for an action.

    Raises UnknownWorkflow if there is none or the user may not see its pool, Forbidden if they may see it and
    not do this. As in OSMO its pool decides, not who submitted it.
    """
    workflow = _workflow(identifier)
    grants = grants_of(user)
    if workflow is None or not grants.sees_pool(workflow.pool_name):
        raise UnknownWorkflow(identifier)
    if not grants.allows(action, f"pool/{workflow.pool_name}"):
        raise refusal(action, f"pool/{workflow.pool_name}")
    return workflow


def _workflow(identifier: str) -> Workflow | None:
    if _UUID.fullmatch(identifier) and (workflow := _workflow_by("uuid", identifier)):
        return workflow
    return _workflow_by("name", identifier) if _NAME.fullmatch(identifier) else None


def _workflow_by(column: Literal["uuid", "name"], value: str) -> Workflow | None:
    with connection.cursor() as cursor:
        cursor.execute(f"{_WORKFLOW_BY}.{column} = %s", [value])
        row = cursor.fetchone()
    if row is None:
        return None
    workflow = _WORKFLOW.instance(row)
    workflow.backend = _BACKEND.instance(row[len(_WORKFLOW) :])
    return workflow


def names_known_to(user: Caller, names: Iterable[str]) -> frozenset[str]:
    """The names of those workflows that the user may list. No query for a user who may list all."""
    pools = grants_of(user).names("pool", {Action.WORKFLOW_LIST})
    if pools is None:
        return frozenset(names)
    rows = Workflow.objects.filter(name__in=set(names), pool_name__in=pools).order_by()
    return frozenset(rows.values_list("name", flat=True))


def variables_of(workflow: Workflow) -> dict[str, str]:
    """The variables given at submission; of a name that was given twice the last one holds."""
    pairs = (str(text).partition("=") for text in workflow.env_vars)
    return {name: value for name, _, value in pairs}


def compute_domains_of(groups: Iterable[TaskGroup]) -> dict[UUID, ObservedObject]:
    """The ComputeDomain of each group that has one in its cluster, as last seen. One query or none."""
    ids = [group.pk for group in groups if group.placement.get("nvlink")]
    if not ids:
        return {}
    rows = at_home(ObservedObject.objects.filter(kind=COMPUTE_DOMAIN, group_uuid__in=ids))
    return {row.group_uuid: row for row in rows}


def tries_of(workflow: Workflow, *, tasks: Sequence[str], retry_id: int | None) -> QuerySet[Task]:
    """Tries of a workflow's tasks, in order: the latest of each, or that try; only of tasks that are named.

    Only what their logs need: a thousand followers read these rows again and again.
    """
    rows = Task.objects.filter(group__workflow=workflow).select_related("group").only(*_LOG_COLUMNS)
    rows = rows.annotate(pod_namespace=F("group__placement__namespace"))
    rows = rows.filter(name__in=tasks) if tasks else rows
    rows = rows.filter(latest=True) if retry_id is None else rows.filter(retry_id=retry_id)
    return rows.order_by("group__position", "position")


def default_topologies(workflow: Workflow) -> dict[str, Mapping[str, Any]]:
    """The default topology that each task group of a workflow got when it was accepted, as it is frozen."""
    rows = TaskGroup.objects.filter(workflow=workflow).order_by("pk")
    frozen = rows.values_list("name", "placement__default_topology")
    return {name: default for name, default in frozen if default}


def named_tasks(workflow: Workflow, *, task: str, retry_id: int | None) -> tuple[str, ...]:
    """The tasks that a text names: one (``worker-3``), some (``worker[0-3,7]``), an entry's (``worker``).

    An empty text names none, which means all. Raises UnknownTask if one of them, or a try of any, does not
    exist.
    """
    rows = Task.objects.filter(group__workflow=workflow)
    try:
        names = names_in(task)
    except ValueError as error:
        raise UnknownTask(
            f"{task[:64]!a} does not name tasks of workflow {workflow.name}: {error}."
        ) from error
    if names:
        existing = set(rows.filter(name__in=names).values_list("name", flat=True))
        absent = [name for name in names if name not in existing]
    else:
        named = rows.filter(Q(name=task) | Q(spec__counted__entry=task)) if task else rows.none()
        names = tuple(dict.fromkeys(named.order_by("position").values_list("name", flat=True)))
        absent = [task] if task and not names else []
    if absent:
        raise UnknownTask(f"Workflow {workflow.name} has no task {absent[0][:64]!a}.")
    tries = rows.filter(name__in=names) if names else rows
    if retry_id is not None and not tries.filter(retry_id=retry_id).exists():
        raise UnknownTask(f"Workflow {workflow.name} has no try {retry_id} of {task or 'any task'}.")
    return names


def last_events(
    workflow: Workflow, *, tasks: Sequence[str], retry_id: int | None, limit: int
) -> tuple[list[Event], bool]:
    """The last events in order of time, and whether earlier ones were left out. One query.

    Those of tasks, if any are named, are their own and those of their groups.
    """
    rows = Event.objects.filter(workflow=workflow).select_related("group")
    if tasks:
        groups = TaskGroup.objects.filter(workflow=workflow, tasks__name__in=tasks)
        rows = rows.filter(Q(task_name__in=tasks) | Q(task_name="", group__in=groups))
    if retry_id is not None:
        rows = rows.filter(Q(retry_id=retry_id) | Q(retry_id=None))
    events = list(rows.order_by("-time", "-id")[: limit + 1])
    return events[:limit][::-1], len(events) > limit


_TRY_COLUMNS = ("task_uuid", "name", "retry_id", "generation", "first_retry")
_TRIES = f"""
    SELECT t.latest, %s, {", ".join(f"t.{column}" for column in _TRY_COLUMNS)} FROM workflows_task AS t
     WHERE t.group_id = %%(group)s
       AND (%%(is_first)s OR EXISTS (
            SELECT FROM workflows_task AS l WHERE l.group_id = %%(group)s AND l.latest
               AND l.task_uuid = t.task_uuid AND l.first_retry <= t.retry_id))
     ORDER BY t.position, t.retry_id
"""  # noqa: S608 -- names of columns
_WHOLE_TRIES = _TRIES % "t.spec"
_MEMBERS = _TRIES % "jsonb_build_object('gpu', t.spec -> 'gpu', 'requirements', t.spec -> 'requirements')"


def group_values(row: TaskGroup, placement: GroupPlacement) -> GroupValues:
    """A group's rows as rendering takes them: earlier tries of its attempt and nodes that it avoids, too."""
    values, nodes = values_on_any_node(row, placement), row.avoided_nodes
    if not nodes:
        return values
    cluster = placement.terms.cluster_uid or row.backend.cluster_id or ""
    return values.avoiding(host_names(nodes, cluster=cluster))


def values_on_any_node(row: TaskGroup, placement: GroupPlacement) -> GroupValues:
    """The same, without the nodes that its attempt avoids."""
    return _group_values(row, placement, _tries_of_attempt(row, _WHOLE_TRIES, read=TaskPlacement.from_json))


def _group_values(
    row: TaskGroup, placement: GroupPlacement, tries: Sequence[tuple[bool, TaskTry]]
) -> GroupValues:
    """The values of a group with these tries, each with whether it is the latest of its task."""
    return GroupValues(
        uuid=row.pk,
        name=row.name,
        generation=row.generation,
        placement=placement,
        tasks=tuple(task_try for is_latest, task_try in tries if is_latest),
        earlier=tuple(task_try for is_latest, task_try in tries if not is_latest),
        form=GangForm.from_json(row.form),
        attempt_number=row.attempt_number,
        last_end=_last_end(row),
    )


def gang_values(row: TaskGroup, placement: GroupPlacement) -> GroupValues:
    """A group's rows as far as its pod groups depend on them: of its tasks without what is their pods' own.

    A pod group is edited while its pods run, perhaps each time that one of a thousand ends.
    """
    return _group_values(row, placement, _tries_of_attempt(row, _MEMBERS, read=_member))


def _member(spec: Mapping[str, Any]) -> TaskPlacement:
    """The fields of a task that a gang has."""
    requirements = requirements_from_json(spec["requirements"])
    return TaskPlacement(image="", command=(), gpu=spec["gpu"] or 0, requirements=requirements)


def _tries_of_attempt(
    row: TaskGroup, statement: str, *, read: Callable[[Mapping[str, Any]], TaskPlacement]
) -> list[tuple[bool, TaskTry]]:
    """The tries of a group's present attempt, in order: of those before there may be any number.

    Each with whether it is the latest of its task. Django builds the statement for longer than it runs. Tasks
    of one entry share one placement, and only one spec at a time is a dict.
    """
    placement_of = cache(lambda spec: read(json.loads(spec)))
    with connection.cursor() as cursor:
        cursor.execute(statement, {"group": row.pk, "is_first": row.attempt_number == 1})
        return [
            (
                latest,
                TaskTry(placement=placement_of(spec), **dict(zip(_TRY_COLUMNS, entries, strict=True))),
            )
            for latest, spec, *entries in cursor.fetchall()
        ]


def _last_end(row: TaskGroup) -> str:
    """The loss that ended the attempt before; empty for the first attempt, without a query."""
    if row.attempt_number == 1:
        return ""
    before = Attempt.objects.filter(group=row, number=row.attempt_number - 1)
    return before.values_list("loss", flat=True).first() or ""
