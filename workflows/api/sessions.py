"""Sessions in running tasks over REST: a POST gives a key, and a WebSocket below ``/api/router`` uses it.

Addresses, answers and refusals are OSMO's. All refusals come with the POST: of a handshake that is refused
its client shows nothing. So a socket whose key is not good is accepted, told so and closed.
"""

import shlex
from functools import partial
from typing import Any

import structlog
from django.contrib.auth.models import User
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools.clusters.connect import cluster_for
from pools.models import Backend
from scheduling.errors import Fault, Forbidden, InvalidSpec
from web.access.auth import caller_address, is_own_page
from web.access.permissions import Needs, caller
from web.access.rights import grants_of
from web.models import PersonalToken
from web.policy import Action
from web.rest.queries import NoQuery, Query, refuse_body
from web.server.sockets import UPGRADES, SessionAnswer
from workflows import selectors
from workflows.api import shapes
from workflows.api.views import base_address
from workflows.models import Workflow
from workflows.sessions import exec as exec_session
from workflows.sessions import refusals
from workflows.sessions.callers import CHANNELS
from workflows.sessions.losses import NEEDS
from workflows.sessions.open_session import SessionLogin
from workflows.sessions.open_sessions import PROCESS
from workflows.sessions.targets import check_allowed, group_targets, may_enter, task_target
from workflows.sessions.tickets import EXEC, PodTarget, Ticket

MOST_COMMAND = 8192
log = structlog.get_logger(__name__)
_ERROR = {"$ref": "#/components/schemas/Error"}
NOT_RUNNING = {(status, "application/json"): _ERROR for status in (410, 425)}
BY_TASK = {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/SessionShape"}}
BAD_KEY = "The session's key is not known: it was used, has expired or is somebody else's."


class ExecQuery(Query):
    entry_command = serializers.CharField(
        max_length=MOST_COMMAND, trim_whitespace=False, help_text="The command, split as a shell does."
    )


class TaskExecQuery(ExecQuery):
    tty = serializers.BooleanField(default=True, help_text="Whether it gets a terminal.")
    stdin = serializers.BooleanField(default=True, help_text="Whether it gets input.")


class ExecTaskView(APIView):
    access = {"POST": Needs(Action.WORKFLOW_EXEC, on=None)}

    @extend_schema(
        operation_id="run_task_command",
        parameters=[TaskExecQuery],
        request=None,
        responses={200: shapes.SessionShape, **NOT_RUNNING},
    )
    def post(self, request: Request, workflow_id: str, task: str) -> Response:
        """Give a key to a session that runs a command in a task."""
        workflow = session_workflow(request, workflow_id, TaskExecQuery, kind=EXEC)
        query = TaskExecQuery.of(request)
        target = task_target(workflow, task)
        ticket = _ticket(request, target, query, tty=query["tty"], stdin=query["stdin"])
        PROCESS.check([ticket])
        return Response(session_reply(request, workflow, ticket))


class ExecGroupView(APIView):
    access = {"POST": Needs(Action.WORKFLOW_EXEC, on=None)}

    @extend_schema(
        operation_id="run_group_command",
        parameters=[ExecQuery],
        request=None,
        responses={(200, "application/json"): BY_TASK, **NOT_RUNNING},
    )
    def post(self, request: Request, workflow_id: str, group: str) -> Response:
        """Give a key for each running task of a group, by its name; output comes in whole lines."""
        workflow = session_workflow(request, workflow_id, ExecQuery, kind=EXEC)
        query = ExecQuery.of(request)
        targets = group_targets(workflow, group)
        tickets = [_ticket(request, target, query, lines=True) for target in targets]
        PROCESS.check(tickets)
        return Response({ticket.target.task: session_reply(request, workflow, ticket) for ticket in tickets})


class ExecSocketView(APIView):
    access = {"GET": Needs(Action.WORKFLOW_EXEC, on=None)}

    @extend_schema(operation_id="get_command_session", responses={(101, "text/plain"): str})
    def get(self, request: Request, workflow_id: str, key: str) -> HttpResponse:
        """Open the session of a key, as a WebSocket."""
        NoQuery.of(request)
        check_upgrade(request)
        user = caller(request)
        ticket = Ticket.redeem(key, kind=EXEC, user=user.pk, workflow=workflow_id)
        if ticket is None:
            note_bad_key(user, workflow_id)
            run = partial(exec_session.refuse, BAD_KEY, user=user.pk)
            return SessionAnswer(run, subprotocols=[CHANNELS])
        run = partial(
            exec_session.run,
            ticket=ticket,
            login=login_of(request),
            cluster=cluster_for(Backend.objects.get(pk=ticket.target.backend)),
        )
        return SessionAnswer(run, subprotocols=[CHANNELS])


def note_bad_key(user: User, workflow_id: str) -> None:
    """Note a key that opens nothing. Raises Forbidden where too many callers are being told so already."""
    log.warning("session_key_refused", user=user.get_username(), workflow=workflow_id)
    if refusals.are_full(user.pk):
        raise Forbidden(BAD_KEY)


def check_upgrade(request: Request) -> None:
    """Refuse what is no WebSocket, or one of another site's page. Raises InvalidSpec, Forbidden."""
    if not request.META.get(UPGRADES):
        raise InvalidSpec("A WebSocket alone is spoken at this address.")
    if not is_own_page(request):
        raise Forbidden("A page of another site may not act for you.")


def login_of(request: Request) -> SessionLogin:
    """What a session of this request's caller stands on."""
    by_browser = isinstance(request.successful_authenticator, SessionAuthentication)
    return SessionLogin(
        external=getattr(request.user, "external", None),
        token=request.auth.digest if isinstance(request.auth, PersonalToken) else "",
        browser=(by_browser and request.session.session_key) or "",
        password=caller(request).get_session_auth_hash() if by_browser else "",
    )


def session_workflow(request: Request, identifier: str, query: type[Query], *, kind: str) -> Workflow:
    """The workflow, before the query is read: who may not see it learns nothing by a fault of the query.

    Raises NotFound, and Forbidden where the caller may not open such sessions in it.
    """
    refuse_body(request, parameters=tuple(query().fields))
    action, setting = NEEDS[kind]
    workflow = selectors.workflow_known_as(identifier, user=request.user, action=action)
    own = {"username": caller(request).get_username(), "submitted_by": workflow.submitted_by}
    if not may_enter(grants_of(request.user), pool=workflow.pool_name, **own):
        raise Forbidden(
            f"Workflow {workflow.name} is another user's: only that user, and who administers pool "
            f"{workflow.pool_name} (config:Update), may enter its tasks."
        )
    check_allowed(workflow, setting=setting)
    return workflow


def _ticket(
    request: Request,
    target: PodTarget,
    query: dict[str, Any],
    *,
    tty: bool = True,
    stdin: bool = True,
    lines: bool = False,
) -> Ticket:
    try:
        command = tuple(shlex.split(query["entry_command"]))
    except ValueError as error:
        raise _bad_command(f"Error splitting entry command: {error}") from error
    if not command:
        raise _bad_command("The entry command is empty.")
    user = caller(request)
    return Ticket(
        kind=EXEC,
        user=user.pk,
        username=user.get_username(),
        address=caller_address(request._request),  # noqa: SLF001 -- DRF has no public way to it
        target=target,
        command=command,
        tty=tty,
        stdin=stdin,
        lines=lines,
    )


def _bad_command(message: str) -> InvalidSpec:
    return InvalidSpec(message, [Fault(("entry_command",), "command", message)])


def session_reply(request: Request, workflow: Workflow, ticket: Ticket) -> shapes.SessionShape:
    """Where the ticket's session is opened, and by which key. Raises Unavailable."""
    own = base_address(request).replace("http", "ws", 1)
    address = workflow.backend.router_address.rstrip("/") or own
    return shapes.SessionShape(router_address=address, key=ticket.issue(), cookie="")
