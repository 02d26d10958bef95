"""Ports of running tasks over REST, as OSMO's client forwards them; see ``sessions``.

A POST gives a key for each port. The socket of such a key is the control socket, and those of the keys that
it announces come to the same address.
"""

from dataclasses import replace
from functools import partial
from uuid import uuid4

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduling.errors import TopologyError
from web.access.auth import caller_address
from web.access.permissions import Needs, caller
from web.policy import Action
from web.rest.queries import NoQuery, Query
from web.server.sockets import SessionAnswer
from workflows.api.sessions import (
    BAD_KEY,
    NOT_RUNNING,
    check_upgrade,
    login_of,
    note_bad_key,
    session_reply,
    session_workflow,
)
from workflows.sessions import forward
from workflows.sessions.open_sessions import PROCESS
from workflows.sessions.shared_counts import MOST_PORTS
from workflows.sessions.targets import task_target
from workflows.sessions.tickets import PORTFORWARD, Ticket, is_connection_key

BY_PORT = {"type": "array", "items": {"$ref": "#/components/schemas/SessionShape"}}


class ForwardQuery(Query):
    task_ports = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=65_535),
        default=list,
        help_text="Ports of the task; the answer has a key for each, in this order.",
    )
    use_udp = serializers.BooleanField(default=False, help_text="UDP, which is refused.")


class ForwardView(APIView):
    access = {"POST": Needs(Action.WORKFLOW_PORT_FORWARD, on=None)}

    @extend_schema(
        operation_id="request_forwards",
        parameters=[ForwardQuery],
        request=None,
        responses={(200, "application/json"): BY_PORT, **NOT_RUNNING},
    )
    def post(self, request: Request, workflow_id: str, task: str) -> Response:
        """Give a key to a session for each port of a task."""
        workflow = session_workflow(request, workflow_id, ForwardQuery, kind=PORTFORWARD)
        query = ForwardQuery.of(request)
        ports = query["task_ports"]
        if query["use_udp"]:
            raise TopologyError("Only TCP ports of tasks are forwarded, no UDP: Kubernetes has no way to.")
        if not ports:
            raise TopologyError("No port is provided!")
        if len(ports) > MOST_PORTS:
            raise TopologyError(
                f"Number of ports to portforward ({len(ports)}) exceeds the maximum number of ports per call"
                f"({MOST_PORTS})!"
            )
        target, user = task_target(workflow, task), caller(request)
        ticket = Ticket(
            kind=PORTFORWARD,
            user=user.pk,
            username=user.get_username(),
            address=caller_address(request._request),  # noqa: SLF001 -- DRF has no public way to it
            target=target,
        )
        tickets = [replace(ticket, port=port, session=uuid4().hex) for port in ports]
        PROCESS.check(tickets)
        return Response([session_reply(request, workflow, each) for each in tickets])


class ForwardSocketView(APIView):
    access = {"GET": Needs(Action.WORKFLOW_PORT_FORWARD, on=None)}

    @extend_schema(operation_id="get_forward_session", responses={(101, "text/plain"): str})
    def get(self, request: Request, workflow_id: str, key: str) -> HttpResponse:
        """Open the control socket of a forward, or one of its connections, as a WebSocket."""
        NoQuery.of(request)
        check_upgrade(request)
        user = caller(request)
        login = login_of(request)
        if is_connection_key(key):
            run = partial(forward.run_connection, key=key, user=user.pk, workflow=workflow_id, login=login)
            return SessionAnswer(run)
        ticket = Ticket.redeem(key, kind=PORTFORWARD, user=user.pk, workflow=workflow_id)
        if ticket is None:
            note_bad_key(user, workflow_id)
            return SessionAnswer(partial(forward.refuse, BAD_KEY, user=user.pk))
        return SessionAnswer(partial(forward.run, ticket=ticket, login=login))
