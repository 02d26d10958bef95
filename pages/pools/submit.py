"""Writing a workflow for a pool in the browser: checked with line numbers and a verdict, then submitted.

It may be submitted to the best of several pools instead; a check shows the verdict of each.

The page uses the same service as REST. The form carries an idempotency key, so a form that is sent twice
submits once; each rendering carries a new key.
"""

from typing import Any
from uuid import uuid4

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from pages.base import PageView
from pages.forms import Form, check_form
from pages.pools.content import pool_snippet
from pools.models import Pool
from pools.selectors import pool_visible_to
from scheduling.errors import Busy, Fault, InvalidSpec, NotFound, TopologyError
from scheduling.fit.verdict import Answer
from web.access.permissions import Needs, caller
from web.limits.throttles import SubmitThrottle
from web.policy import Action
from web.rest import errors
from web.rest.queries import NoQuery, WordChoice
from workflows.models import Workflow
from workflows.submission.choice import read_pools
from workflows.submission.idempotency import checked_key
from workflows.submission.request import Mode, SubmissionRequest
from workflows.submission.submit import submit

CHECK, SUBMIT = "check", "submit"
NUL = "\0"


class SubmitForm(Form):
    file = serializers.CharField(default="", allow_blank=True, trim_whitespace=False)
    priority = WordChoice(choices=Workflow.Priority.choices, default=Workflow.Priority.NORMAL)
    force_infeasible = serializers.BooleanField(default=False)
    pools = serializers.CharField(default="", allow_blank=True, max_length=2000)
    key = serializers.CharField(default="", allow_blank=True, max_length=255)
    do = WordChoice(choices=(CHECK, SUBMIT), default=CHECK)


class SubmitPage(PageView):
    access = dict.fromkeys(("GET", "POST"), Needs(Action.WORKFLOW_CREATE, on=None))

    def get_throttles(self) -> list[BaseThrottle]:
        """The limits of REST on submissions and checks; requesting the form does not count."""
        return [SubmitThrottle()] if self.request.method == "POST" else []

    def get(self, request: Request, name: str) -> HttpResponse:
        """Show the form with a workflow that the pool accepts as it stands."""
        NoQuery.of(request)
        pool = _pool(request, name)
        return self._form(pool, {"file": pool_snippet(pool), "priority": Workflow.Priority.NORMAL})

    def post(self, request: Request, name: str) -> HttpResponse:
        """Check what was written, or submit it and go to its page."""
        check_form(request)
        pool = _pool(request, name)
        fields = SubmitForm(data=request.data)
        if not fields.is_valid():
            return self._refused(pool, _readable(fields), _unreadable(fields))
        form = dict(fields.validated_data)
        try:
            reply = submit(_submission_request(request, pool, form))
        except TopologyError as error:
            if isinstance(error, NotFound) and not form["pools"]:
                raise
            return self._refused(pool, form, error)
        if form["do"] == CHECK:
            return self._form(pool, form, reply=reply)
        return HttpResponseRedirect(reverse("pages:workflow", args=[reply["name"]]), status=303)

    def _refused(self, pool: Pool, form: dict[str, Any], error: TopologyError) -> HttpResponse:
        """The form again, with every fault and its place, and with the status that REST gives the error."""
        answer = self._form(pool, form, status=errors.status_of(error), error=error)
        if isinstance(error, Busy):
            answer["Retry-After"] = str(error.retry_after)
        return answer

    def _form(
        self,
        pool: Pool,
        form: dict[str, Any],
        *,
        status: int = 200,
        reply: dict[str, Any] | None = None,
        error: TopologyError | None = None,
    ) -> HttpResponse:
        faults = errors.details(error.faults) if error else []
        context = {
            "title": f"Submit to {pool.name}",
            "pool": pool,
            "form": form,
            "key": uuid4().hex,
            "priorities": Workflow.Priority.values,
            "reply": reply,
            "tone": _tone(reply["feasibility"]) if reply else "",
            "pools": reply.get("pools") if reply else None,
            "error": error,
            "faults": faults,
            "infeasible": form.get("force_infeasible")
            or any(fault["code"] == "infeasible" for fault in faults),
        }
        return self.page("pages/submit.html", context, status=status)


def _tone(feasibility: list[dict[str, Any]]) -> str:
    """The tone of a check without faults: bad for work that can never run, a warning for work that waits."""
    answers = {entry["verdict"] for entry in feasibility}
    return "bad" if Answer.NEVER in answers else "warn" if Answer.NOT_NOW in answers else "good"


def _readable(form: SubmitForm) -> dict[str, Any]:
    """The fields of a form that could not be read, for the form that is shown again: nobody's text is lost.

    A NUL is left out, because no form could be sent with it.
    """
    return {name: form.initial_data.get(name, "").replace(NUL, "") for name in ("file", "priority", "pools")}


def _unreadable(form: SubmitForm) -> InvalidSpec:
    """The error of a form whose fields are not accepted; a NUL in the workflow is found by its line."""
    faults = errors.faults_of(serializers.ValidationError(form.errors))
    text = form.initial_data.get("file", "").replace("\r\n", "\n")
    if NUL in text:
        before = text[: text.index(NUL)]
        nul = Fault(
            (),
            "nul",
            "A NUL character is not accepted. The text below is without it.",
            line=before.count("\n") + 1,
            column=len(before) - before.rfind("\n"),
        )
        faults = [nul, *(fault for fault in faults if fault.path != ("file",))]
    return InvalidSpec(errors.summary(faults), faults)


def _pool(request: Request, name: str) -> Pool:
    return pool_visible_to(caller(request), name, action=Action.WORKFLOW_CREATE)


def _submission_request(request: Request, pool: Pool, form: dict[str, Any]) -> SubmissionRequest:
    submits = form["do"] == SUBMIT
    pools = read_pools([form["pools"]]) if form["pools"] else ()
    return SubmissionRequest(
        pool_name="" if pools else pool.name,
        pools=pools,
        text=form["file"].replace("\r\n", "\n"),  # as browsers send what stands in a text area
        variables=(),
        string_variables=(),
        user=caller(request),
        priority=form["priority"],
        labels=(),
        env_vars=(),
        mode=Mode.SUBMIT if submits else Mode.FEASIBILITY,
        uploaded_template="",
        idempotency_key=checked_key(form["key"] or None) if submits else None,
        request_id=getattr(request._request, "request_id", ""),  # noqa: SLF001 -- DRF wraps it
        force_infeasible=form["force_infeasible"],
    )
