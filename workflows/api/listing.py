"""Tasks of all workflows, tags and users, over REST, in OSMO's paths and shapes."""

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from web.access.permissions import Needs
from web.limits.turns import turn
from web.policy import Action
from web.rest.queries import Query, WordChoice, flag, texts
from web.rest.shapes import Instant, Shape, about, absent
from workflows import selectors
from workflows.api.representations import address_of, node_condition, overview
from workflows.api.shapes import TIME, NodeConditionShape, PriorityText, TaskStatusText
from workflows.api.task_page import ListedTask, TaskFilter, TaskSum, are_many, task_page, task_sums
from workflows.api.views import base_address, username
from workflows.lifecycle.statuses import TERMINAL, TaskStatus
from workflows.models import Workflow
from workflows.nodes.health import TaskNode, UnhealthyNode, unhealthy_nodes_of_tasks
from workflows.selectors import MAX_PAGE
from workflows.services.tags import change_tags

GIB = 2**30


class TaskListQuery(Query):
    limit = serializers.IntegerField(min_value=1, max_value=MAX_PAGE, default=20)
    offset = serializers.IntegerField(min_value=0, max_value=10_000_000, default=0)
    order = WordChoice(choices=("ASC", "DESC"), default="DESC", help_text="Order by time.")
    workflow_id = serializers.CharField(
        default="", max_length=80, help_text="Only tasks of the workflow with this name."
    )
    users = texts("Only those of these users. Default: the caller's, unless all_users is given.")
    all_users = flag("Of all users.")
    statuses = serializers.ListField(
        child=WordChoice(choices=TaskStatus.choices), max_length=100, default=list
    )
    pools = texts("Only those submitted to these pools. May be repeated.")
    all_pools = flag("From all pools, as if pools were left out.")
    nodes = texts("Only tasks on these nodes. May be repeated.")
    priority = serializers.ListField(
        child=WordChoice(choices=Workflow.Priority.choices), max_length=3, default=list
    )
    summary = flag("What tasks ask for, summed by user, pool and priority, in place of the tasks.")
    aggregate_by_workflow = flag("The same, summed by workflow.")
    started_after = serializers.DateTimeField(default=None, help_text="UTC.")
    started_before = serializers.DateTimeField(default=None, help_text="UTC.")


def _filter(query: dict[str, Any], *, user: str) -> TaskFilter:
    users = tuple(query["users"])
    return TaskFilter(
        users=users if users or query["all_users"] else (user,),
        statuses=tuple(query["statuses"]),
        workflow=query["workflow_id"],
        pools=() if query["all_pools"] else tuple(query["pools"]),
        nodes=tuple(query["nodes"]),
        priorities=tuple(query["priority"]),
        started_after=query["started_after"],
        started_before=query["started_before"],
    )


class ListedTaskShape(Shape):
    user: str
    workflow_id: str
    workflow_uuid: str
    task_name: str
    retry_id: int
    pool: str
    node: str | None
    node_condition: NodeConditionShape | None = about(
        "Where its node is not healthy; null for a healthy one, and for a task that has ended."
    )
    start_time: Instant | None = about(TIME)
    end_time: Instant | None = about(TIME)
    duration: float | None = about("Seconds.")
    status: TaskStatusText
    overview: str
    logs: str
    error_logs: str | None = about("For a try that failed.")
    grafana_url: str | None
    dashboard_url: str | None
    storage: float = about("GiB.")
    cpu: int
    memory: float = about("GiB.")
    gpu: int
    priority: PriorityText


class TaskListShape(Shape):
    tasks: list[ListedTaskShape]


class TaskSumShape(Shape):
    user: str
    workflow_id: str | None = absent("With aggregate_by_workflow.")
    pool: str
    priority: PriorityText
    storage: float = about("GiB.")
    cpu: int
    memory: float = about("GiB.")
    gpu: int


class TaskSumsShape(Shape):
    summaries: list[TaskSumShape]


_SHAPES: list[Any] = [TaskListShape, TaskSumsShape]  # drf-spectacular reads them through an extension
_TASKS_OR_SUMS = PolymorphicProxySerializer(
    component_name="TasksOrSums", serializers=_SHAPES, resource_type_field_name=None
)


class TaskListView(APIView):
    access = {"GET": Needs(Action.WORKFLOW_LIST, on=None)}

    @extend_schema(operation_id="list_tasks", parameters=[TaskListQuery], responses=_TASKS_OR_SUMS)
    def get(self, request: Request) -> Response:
        """List tries of tasks, the newest first, in pages; or what they ask for together."""
        query = TaskListQuery.of(request)
        criteria = _filter(query, user=username(request))
        page = {name: query[name] for name in ("limit", "offset", "order")}
        by_workflow = query["aggregate_by_workflow"] and not query["summary"]  # as OSMO decides
        if query["summary"] or by_workflow:
            is_long = are_many(criteria, user=request.user)
            with turn(username(request)) if is_long else nullcontext():
                sums = task_sums(criteria, user=request.user, by_workflow=by_workflow, **page)
            return Response(TaskSumsShape(summaries=[_sum(task_sum) for task_sum in sums]))
        tasks = task_page(criteria, user=request.user, **page)
        base, now = base_address(request), timezone.now()
        nodes = unhealthy_nodes_of_tasks({node for task in tasks if (node := _live_node(task))})
        return Response(
            TaskListShape(tasks=[_listed(task, nodes=nodes, base=base, now=now) for task in tasks])
        )


def _sum(task_sum: TaskSum) -> TaskSumShape:
    return TaskSumShape(
        user=task_sum.user,
        workflow_id=task_sum.workflow or None,
        pool=task_sum.pool,
        priority=task_sum.priority,
        storage=task_sum.asks.storage / GIB,
        cpu=int(task_sum.asks.cpu),
        memory=task_sum.asks.memory / GIB,
        gpu=task_sum.asks.gpu,
    )


def _live_node(task: ListedTask) -> TaskNode | None:
    """The node of a task that has not ended."""
    if not task.node or task.status in TERMINAL:
        return None
    return TaskNode(task.backend, task.pool, task.node)


def _listed(
    task: ListedTask, *, nodes: Mapping[TaskNode, UnhealthyNode], base: str, now: datetime
) -> ListedTaskShape:
    node = _live_node(task)
    fault = nodes.get(node) if node else None
    address = address_of(task.workflow, base=base)
    tail = urlencode({"task_name": task.name, "retry_id": task.retry_id})
    took = (task.end_time or now) - task.start_time if task.start_time else None
    return ListedTaskShape(
        user=task.user,
        workflow_id=task.workflow,
        workflow_uuid=task.workflow_uuid.hex,
        task_name=task.name,
        retry_id=task.retry_id,
        pool=task.pool,
        node=task.node or None,
        node_condition=node_condition(task.node, fault.health, fault.lost_after) if fault else None,
        start_time=task.start_time,
        end_time=task.end_time,
        duration=max(0.0, took.total_seconds()) if took else None,
        status=task.status,
        overview=overview(task.workflow, base=base),
        logs=f"{address}/logs?{tail}",
        error_logs=f"{address}/error_logs?{tail}" if task.status.startswith("FAILED") else None,
        grafana_url=task.grafana_url or None,
        dashboard_url=task.dashboard_url or None,
        storage=task.asks.storage / GIB,
        cpu=int(task.asks.cpu),
        memory=task.asks.memory / GIB,
        gpu=task.asks.gpu,
        priority=task.priority,
    )


class TagQuery(Query):
    add = texts("Tags to add.")
    remove = texts("Tags to remove.")


class UsedTagsShape(Shape):
    tags: list[str]


class WorkflowTagsShape(UsedTagsShape):
    name: str


class WorkflowTagView(APIView):
    access = {"POST": Needs(Action.WORKFLOW_UPDATE, on=None)}

    @extend_schema(
        operation_id="tag_workflow", parameters=[TagQuery], request=None, responses=WorkflowTagsShape
    )
    def post(self, request: Request, workflow_id: str) -> Response:
        """Add tags to a workflow and remove tags from it."""
        query = TagQuery.without_body(request)
        workflow = selectors.workflow_known_as(workflow_id, user=request.user, action=Action.WORKFLOW_UPDATE)
        tags = change_tags(workflow, add=query["add"], remove=query["remove"])
        return Response(WorkflowTagsShape(name=workflow.name, tags=tags))


class UsedTagsQuery(Query):
    limit = serializers.IntegerField(min_value=1, max_value=MAX_PAGE, default=MAX_PAGE)
    offset = serializers.IntegerField(min_value=0, max_value=10_000_000, default=0)


class TagsView(APIView):
    access = {"GET": Needs(Action.WORKFLOW_LIST, on=None)}

    @extend_schema(operation_id="list_tags", parameters=[UsedTagsQuery], responses=UsedTagsShape)
    def get(self, request: Request) -> Response:
        """List the tags in use, in order."""
        query = UsedTagsQuery.of(request)
        return Response(UsedTagsShape(tags=selectors.tags_in_use(request.user, **query)))


class UsersView(APIView):
    access = {"GET": Needs(Action.WORKFLOW_LIST, on=None)}

    @extend_schema(
        operation_id="list_users", responses={200: serializers.ListSerializer(child=serializers.CharField())}
    )
    def get(self, request: Request) -> Response:
        """List the submitters of the workflows that the caller may list."""
        return Response(selectors.submitters(request.user))
