"""Workflows over REST: submit, list, show, read, cancel. Addresses and shapes are OSMO's.

Views read the request, ask a service or a selector, and shape the answer; they decide nothing. Rights are a
matter of the workflow's pool, and each view says which action it needs there.
"""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from pools.selectors import workflow_limits
from scheduling.errors import Fault, InvalidSpec
from scheduling.sentences import one_line
from web.access.permissions import Needs
from web.env import environment
from web.limits.pieces import json_answer
from web.limits.throttles import SubmitThrottle
from web.limits.turns import turn
from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import NoQuery, valid_values
from web.times import naive_utc
from workflows import selectors
from workflows.api import queries, representations, shapes
from workflows.explain.report import WaitRange
from workflows.group_reads import GroupRange
from workflows.models import Event, Workflow
from workflows.services.stop import cancel_workflow
from workflows.spec import default_comments, defaults_of, expanded
from workflows.submission.choice import read_pools
from workflows.submission.idempotency import checked_key
from workflows.submission.request import Mode, SubmissionRequest
from workflows.submission.restart import restart
from workflows.submission.resubmit import resubmission
from workflows.submission.submit import submit

READ = Needs(Action.WORKFLOW_READ, on=None)
TEXT = "text/plain; charset=utf-8"
_IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    location="header",
    description="A repeated request with the same key is accepted once.",
)
LINES = {(200, "text/plain"): OpenApiTypes.STR}


def base_address(request: Request) -> str:
    """Where the caller reaches the service: the public address if one is set."""
    django: HttpRequest = request._request  # noqa: SLF001 -- DRF has no public way to it
    return environment().service_url.rstrip("/") or django.build_absolute_uri("/").rstrip("/")


def authenticated(request: Request) -> AbstractBaseUser:
    """The caller; every view has let in users that are logged in only."""
    assert isinstance(request.user, AbstractBaseUser)
    return request.user


def username(request: Request) -> str:
    return request.user.get_username()


def _readable(request: Request, name: str) -> Workflow:
    return selectors.workflow_known_as(name, user=request.user, action=Action.WORKFLOW_READ)


class SubmitView(APIView):
    access = {"POST": Needs(Action.WORKFLOW_CREATE, on=None)}
    throttle_classes = [SubmitThrottle]

    @extend_schema(
        operation_id="submit_workflow",
        parameters=[
            queries.SubmitQuery,
            _IDEMPOTENCY_KEY,
        ],
        request=queries.SubmitBody,
        responses={
            200: shapes.SubmissionShape,
        },
    )
    def post(self, request: Request, pool: str) -> Response:
        """Check a workflow and accept it; ``dry_run`` shows the objects that would be created."""
        reply = submit(_submission(request, queries.SubmitQuery.of(request), pool=pool))
        return Response(representations.submitted(reply, base=base_address(request)))


def _submission(
    request: Request, query: dict[str, Any], *, pool: str = "", pools: tuple[str, ...] = ()
) -> SubmissionRequest:
    """The submission of the workflow in the body, or of the one that ``workflow_id`` names."""
    name = query["workflow_id"]
    if bool(name) != (request.data == {}):
        raise _not_one(name)
    common: dict[str, Any] = {
        "pool_name": pool,
        "pools": pools,
        "user": authenticated(request),
        "labels": tuple(query["label"]),
        "env_vars": tuple(query["env_vars"]),
        "mode": _mode(query),
        "expanded": query["expanded"],
        "force_infeasible": query["force_infeasible"],
        "idempotency_key": checked_key(request.headers.get("Idempotency-Key")),
        "request_id": getattr(request._request, "request_id", ""),  # noqa: SLF001 -- DRF wraps it
    }
    if name:
        return resubmission(_readable(request, name), priority=query["priority"], **common)
    body = valid_values(queries.SubmitBody.on(request.data))
    template = body.get("uploaded_templated_spec") or ""
    return SubmissionRequest(
        text=body["file"],
        variables=tuple(body.get("set_variables") or ()),
        string_variables=tuple(body.get("set_string_variables") or ()),
        priority=query["priority"] or Workflow.Priority.NORMAL,
        uploaded_template=template,
        rendered_before=bool(template),  # text that still looks like a template is the user's own
        **common,
    )


def _not_one(name: str) -> InvalidSpec:
    """The error of a request that names no workflow, or two."""
    sources = "both a body and workflow_id" if name else "neither"
    message = (
        "A submission has a workflow in its body (file) or names one to submit again (workflow_id); "
        f"this one has {sources}."
    )
    return InvalidSpec(message, [Fault(("workflow_id",), "one_workflow", message)])


class RestartView(APIView):
    access = {"POST": Needs(Action.WORKFLOW_CREATE, on=None)}
    throttle_classes = [SubmitThrottle]

    @extend_schema(
        operation_id="restart_workflow",
        parameters=[
            _IDEMPOTENCY_KEY,
        ],
        request=None,
        responses={200: shapes.SubmissionShape},
    )
    def post(self, request: Request, pool: str, workflow_id: str) -> Response:
        """Run a finished workflow again as a new one; COMPLETED groups are not run again."""
        NoQuery.without_body(request)
        reply = restart(
            _readable(request, workflow_id),
            pool_name=pool,
            user=authenticated(request),
            idempotency_key=checked_key(request.headers.get("Idempotency-Key")),
            request_id=getattr(request._request, "request_id", ""),  # noqa: SLF001 -- DRF wraps it
        )
        return Response(representations.submitted(reply, base=base_address(request)))


def _mode(query: dict[str, Any]) -> Mode:
    if query["dry_run"]:
        return Mode.DRY_RUN
    if query["feasibility"]:
        return Mode.FEASIBILITY
    return Mode.VALIDATE if query["validation_only"] else Mode.SUBMIT


class WorkflowListView(APIView):
    access = {
        "GET": Needs(Action.WORKFLOW_LIST, on=None),
        "POST": Needs(Action.WORKFLOW_CREATE, on=None),
    }

    def get_throttles(self) -> list[BaseThrottle]:
        """The limit on submissions; lists do not count."""
        return [SubmitThrottle()] if self.request.method == "POST" else super().get_throttles()

    @extend_schema(
        operation_id="list_workflows",
        parameters=[queries.WorkflowListQuery],
        responses={200: shapes.WorkflowListShape},
    )
    def get(self, request: Request) -> Response:
        """List workflows, the newest first, in pages."""
        query = queries.WorkflowListQuery.of(request)
        if query["app"]:  # apps are not kept, so none has one
            return Response(shapes.WorkflowListShape(workflows=[], more_entries=False))
        page = selectors.workflow_page(
            queries.workflow_filter(query, user=username(request)),
            user=request.user,
            limit=query["limit"],
            offset=query["offset"],
            order=query["order"],
        )
        base, now = base_address(request), timezone.now()
        waits, nodes = selectors.waiting_reasons(page.workflows), selectors.node_counts(page.workflows)
        rows = [
            representations.listed(
                workflow, waits=waits.get(workflow.pk), nodes=nodes.get(workflow.pk), base=base, now=now
            )
            for workflow in page.workflows
        ]
        return Response(shapes.WorkflowListShape(workflows=rows, more_entries=page.more))

    @extend_schema(
        operation_id="submit_workflow_to_best_pool",
        parameters=[queries.ChoiceQuery, _IDEMPOTENCY_KEY],
        request=queries.SubmitBody,
        responses={200: shapes.SubmissionShape},
    )
    def post(self, request: Request) -> Response:
        """Check a workflow in several pools and accept it into the best; or in the pool that it names."""
        query = queries.ChoiceQuery.of(request)
        pools = read_pools(query["pools"])
        reply = submit(_submission(request, query, pools=pools))
        return Response(representations.submitted(reply, base=base_address(request)))


class WorkflowDetailView(APIView):
    access = {"GET": READ}

    @extend_schema(
        operation_id="get_workflow",
        parameters=[queries.DetailQuery],
        responses={200: shapes.WorkflowShape},
    )
    def get(self, request: Request, workflow_id: str) -> HttpResponseBase:
        """Show a workflow, by name or uuid, with its groups and tasks and why a group waits."""
        query = queries.DetailQuery.of(request)
        workflow = _readable(request, workflow_id)
        base = base_address(request)
        if query["skip_groups"]:
            reply = representations.detailed(
                workflow, explanation=None, more_entries=False, base=base, now=timezone.now()
            )
            return Response(reply)
        groups = GroupRange(
            workflow=workflow, offset=query["offset"], limit=query["limit"], every_try=query["verbose"]
        )
        texts = representations.detailed_texts(groups, base=base)
        return json_answer(texts, is_long=groups.is_long, user=username(request))


class ExplainView(OwnView):
    access = {"GET": READ}

    @extend_schema(
        operation_id="explain_workflow",
        parameters=[queries.GroupsQuery],
        responses={200: shapes.ExplanationShape},
    )
    def get(self, request: Request, workflow_id: str) -> HttpResponseBase:
        """Explain why each waiting group waits, with the evidence and what would help."""
        query = queries.GroupsQuery.of(request)
        waits = WaitRange(workflow=_readable(request, workflow_id), **query)
        texts = representations.explained_texts(waits, user=authenticated(request))
        return json_answer(texts, is_long=waits.is_long, user=username(request))


class SpecView(APIView):
    access = {"GET": READ}

    @extend_schema(operation_id="get_workflow_spec", parameters=[queries.SpecQuery], responses=LINES)
    def get(self, request: Request, workflow_id: str) -> HttpResponse:
        """Give the spec as parsed, as it was before templating, or with each task that a count makes."""
        query = queries.SpecQuery.of(request)
        workflow = _readable(request, workflow_id)
        if query["use_template"] and not query["expanded"] and workflow.template_spec:
            return HttpResponse(workflow.template_spec, content_type=TEXT)
        defaults = selectors.default_topologies(workflow)
        if query["expanded"]:
            with turn(username(request)):
                return HttpResponse(expanded(workflow.spec, defaults_of(defaults)), content_type=TEXT)
        return HttpResponse([*default_comments(defaults), workflow.spec], content_type=TEXT)


class EventsView(APIView):
    access = {"GET": READ}

    @extend_schema(operation_id="get_workflow_events", parameters=[queries.LinesQuery], responses=LINES)
    def get(self, request: Request, workflow_id: str) -> HttpResponse:
        """Give the timeline, one event a line: the service's own steps and the cluster's events."""
        query = queries.LinesQuery.of(request)
        workflow = _readable(request, workflow_id)
        retry = query["retry_id"]
        tasks = selectors.named_tasks(workflow, task=query["task_name"], retry_id=retry)
        most = workflow_limits().max_event_log_lines
        limit = min(query["last_n_lines"] or most, most)
        events, more = selectors.last_events(workflow, tasks=tasks, retry_id=retry, limit=limit)
        first = [f"(only the last {limit} events are shown)\n"] if more else []
        lines = (_line(event, workflow=workflow.name) for event in events)
        return HttpResponse("".join([*first, *lines]), content_type=TEXT)


def _line(event: Event, *, workflow: str) -> str:
    about = event.task_name or (event.group.name if event.group else workflow)
    kind = "Warning" if event.warning else "Normal"
    words = one_line(f"{kind} {event.source} {event.reason}: {event.message}")
    return f"{naive_utc(event.time)} [{about}] {words}\n"


class CancelView(APIView):
    access = {"POST": Needs(Action.WORKFLOW_CANCEL, on=None)}

    @extend_schema(
        operation_id="cancel_workflow",
        parameters=[queries.CancelQuery],
        request=None,
        responses={
            200: shapes.CancelledShape,
        },
    )
    def post(self, request: Request, workflow_id: str) -> Response:
        """Cancel a workflow: its pods, pod groups and ComputeDomains are deleted."""
        query: dict[str, Any] = queries.CancelQuery.without_body(request)
        workflow = selectors.workflow_known_as(workflow_id, user=request.user, action=Action.WORKFLOW_CANCEL)
        cancel_workflow(workflow, by=username(request), message=query["message"], force=query["force"])
        return Response(shapes.CancelledShape(name=workflow.name))
