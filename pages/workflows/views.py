"""The pages of workflows: a list, one workflow, and the confirmation of a cancel or a resubmission."""

from uuid import uuid4

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from pages.base import PageView, unless_known
from pages.forms import Form, check_form
from pages.workflows.content import workflow_content
from pages.workflows.listing import STATUSES, list_content
from pages.workflows.tasks import TaskSelection
from web.access.permissions import Needs, caller
from web.limits.throttles import SubmitThrottle
from web.policy import Action
from web.rest.queries import NoQuery, Query, WordChoice, valid_values
from workflows import selectors
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import Workflow
from workflows.services.stop import cancel_workflow
from workflows.submission.idempotency import checked_key
from workflows.submission.request import Mode
from workflows.submission.resubmit import resubmission
from workflows.submission.submit import submit

OWN, ALL = "mine", "all"


class WorkflowsPageQuery(Query):
    """The form above the list; a field left empty narrows nothing."""

    status = WordChoice(choices=["", *STATUSES], default="")
    pool = serializers.CharField(default="", allow_blank=True, max_length=63)
    whose = WordChoice(choices=[OWN, ALL], default=OWN)
    name = serializers.CharField(default="", allow_blank=True, max_length=80)
    offset = serializers.IntegerField(min_value=0, max_value=10_000_000, default=0)


class PageQuery(Query):
    groups_from = serializers.IntegerField(min_value=0, max_value=10_000_000, default=0)
    tasks_from = serializers.IntegerField(min_value=0, max_value=10_000_000, default=0)
    tasks_in = WordChoice(choices=["", *TaskStatus], default="")


class CancelForm(Form):
    message = serializers.CharField(default="", allow_blank=True, max_length=1000)
    force = serializers.BooleanField(default=False)


class AgainForm(Form):
    key = serializers.CharField(default="", allow_blank=True, max_length=255)


class WorkflowsPage(PageView):
    access = {"GET": Needs(Action.WORKFLOW_LIST, on=None)}

    def get(self, request: Request) -> HttpResponse:
        """List workflows, the newest first."""
        query = WorkflowsPageQuery.of(request)
        user = caller(request)
        workflow_filter = selectors.WorkflowFilter(
            users=(user.get_username(),) if query["whose"] == OWN else (),
            statuses=STATUSES.get(query["status"], ()),
            pools=(query["pool"],) if query["pool"] else (),
            name=query["name"],
        )
        view = list_content(workflow_filter, user=user, offset=query["offset"], now=timezone.now())
        same = urlencode({key: value for key, value in query.items() if key != "offset" and value})
        context = {"title": "Workflows", "view": view, "query": query, "same": same}
        return unless_known(self, "pages/workflows/list.html", context)


class WorkflowDetailPage(PageView):
    access = {"GET": Needs(Action.WORKFLOW_READ, on=None)}

    def get(self, request: Request, name: str) -> HttpResponse:
        """Show a workflow: its status, why it waits, its groups, tasks, ComputeDomains, events, spec."""
        query = PageQuery.of(request)
        workflow = selectors.workflow_known_as(name, user=caller(request), action=Action.WORKFLOW_READ)
        tasks = TaskSelection(offset=query["tasks_from"], status=query["tasks_in"])
        view = workflow_content(
            workflow,
            user=caller(request),
            groups_from=query["groups_from"],
            tasks=tasks,
            now=timezone.now(),
        )
        return unless_known(self, "pages/workflows/page.html", {"title": view.name, "view": view})


class CancelPage(PageView):
    access = dict.fromkeys(("GET", "POST"), Needs(Action.WORKFLOW_CANCEL, on=None))

    def get(self, request: Request, name: str) -> HttpResponse:
        """Ask whether a workflow is to be cancelled."""
        NoQuery.of(request)
        workflow = _visible_workflow(request, name, Action.WORKFLOW_CANCEL)
        context = {"title": f"Cancel {workflow.name}", "name": workflow.name, "pool": workflow.pool_name}
        return self.page("pages/workflows/cancel.html", context)

    def post(self, request: Request, name: str) -> HttpResponse:
        """Cancel it, as REST does."""
        check_form(request)
        workflow = _visible_workflow(request, name, Action.WORKFLOW_CANCEL)
        form = valid_values(CancelForm(data=request.data))
        by = caller(request).get_username()
        cancel_workflow(workflow, by=by, message=form["message"], force=form["force"])
        return _to(workflow.name)


class AgainPage(PageView):
    access = dict.fromkeys(("GET", "POST"), Needs(Action.WORKFLOW_CREATE, on=None))

    def get_throttles(self) -> list[BaseThrottle]:
        """A submission counts as one of REST's; asking for it does not."""
        return [SubmitThrottle()] if self.request.method == "POST" else []

    def get(self, request: Request, name: str) -> HttpResponse:
        """Ask whether a workflow is to be submitted once more."""
        NoQuery.of(request)
        workflow = _visible_workflow(request, name, Action.WORKFLOW_CREATE)
        context = {
            "title": f"Submit {workflow.name} again",
            "name": workflow.name,
            "pool": workflow.pool_name,
            "key": uuid4().hex,  # a form that is sent twice submits once
        }
        return self.page("pages/workflows/again.html", context)

    def post(self, request: Request, name: str) -> HttpResponse:
        """Submit its spec to its pool once more, as REST does."""
        check_form(request)
        workflow = _visible_workflow(request, name, Action.WORKFLOW_CREATE)
        form = valid_values(AgainForm(data=request.data))
        request_to_submit = resubmission(
            workflow,
            pool_name=workflow.pool_name,
            user=caller(request),
            priority=None,
            labels=(),
            env_vars=(),
            mode=Mode.SUBMIT,
            idempotency_key=checked_key(form["key"] or None),
            request_id=getattr(request._request, "request_id", ""),  # noqa: SLF001 -- DRF wraps it
        )
        return _to(submit(request_to_submit)["name"])


def _visible_workflow(request: Request, name: str, action: Action) -> Workflow:
    return selectors.workflow_known_as(name, user=caller(request), action=action)


def _to(name: str) -> HttpResponse:
    return HttpResponseRedirect(reverse("pages:workflow", args=[name]), status=303)
